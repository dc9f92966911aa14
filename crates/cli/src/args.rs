//! The command line, in fio's and nvme-cli's words.

mod bench;
mod calibrate;
mod catalogue;
mod device;
mod experiment;
mod files;
mod generate;
mod manifest;
mod pci;
mod plan;
mod platform;
mod report;
mod results;
mod serve;
mod trace;

pub use bench::BenchArgs;
pub use calibrate::{BenchCommand, CalibrateArgs};
pub use catalogue::{ExportArgs, ImportArgs, RemoveArgs, VerifyArgs};
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{ArgMatches, Args, Parser, Subcommand};
pub use device::DeviceArgs;
pub use experiment::ExperimentArgs;
pub use files::{FilesArgs, FilesCommand, PartArgs};
pub use generate::{GenArgs, GenTo};
pub use manifest::{CaptureArgs, ManifestCheckArgs};
pub use pci::{BindArgs, UnbindArgs};
pub use plan::{PlanArgs, TraceTo, flag as plan_flag};
pub use platform::{CheckArgs, TopoArgs};
pub use report::{CostsReportArgs, GpuReportArgs, Rate, Report, ReportArgs, Roof};
pub use results::ResultArgs;
pub use serve::{Doorbells, ServeArgs};
pub use trace::TraceArgs;
use warpbell_hw::Nsid;
use warpbell_workload::ByteSize;

use crate::exit::Ending;

/// A namespace identifier.
fn nsid() -> impl TypedValueParser<Value = Nsid> {
    clap::value_parser!(u32).map(Nsid)
}

/// GPU kernels that read and write NVMe SSDs by themselves.
#[derive(Debug, Parser)]
#[command(name = "warpbell", version, propagate_version = true, max_term_width = 110)]
#[command(arg_required_else_help = true, args_override_self = true, after_help = EXAMPLES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options that every subcommand takes.
    #[command(flatten)]
    pub global: Global,
}

impl Cli {
    /// Refuses options that others make pointless, by which of them were given.
    pub fn refuse_replaced(&self, given: &ArgMatches) -> Result<(), Ending> {
        match (&self.command, given.subcommand()) {
            (Command::Bench(args), Some((_, given))) => args.refuse_replaced(given),
            _ => Ok(()),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  warpbell bench soft:size=1g --rw randread --bs 512 --iodepth 128 --runtime 3
  warpbell bench soft:size=1g --axis bs=512,4k --axis iodepth=1,32 -o json
  warpbell digest soft:file=disk.img
  warpbell read soft:file=disk.img --lba 0 --count 8 | xxd | head
  warpbell files ls soft:file=disk.img#/data
  warpbell read soft:file=disk.img#/data/a.bin > a.bin
  warpbell write soft:file=disk.img --lba 8 --allow-write=disk.img < data
  warpbell gen vectors --count 1m --seed 1 vectors.bin
  warpbell check
  warpbell bind 0000:41:00.0 --dry-run
  warpbell serve --size 1g --socket /tmp/ssd.sock
  warpbell plan queues --bandwidth-gb-per-s 80 --io-bytes 4k

Devices: soft:size=1g (memory) and soft:file=PATH (a file) are served by the software controller in this process.
Exit codes: 0 ok, 1 failed, 2 usage, 3 refused for safety, 4 requirement missing, 130 interrupted.";

/// Options of every subcommand.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Form of the result: normal (text) or json; bench has fio-json+, too; report and files capture take a file
    #[arg(short = 'o', long = "output", global = true, value_name = "FORM", default_value = "normal")]
    pub form: Form,
    /// Say more; twice for the log of the driver (on stderr)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

impl Global {
    /// Whether people or programs read the result. What else there is has text beside it.
    pub fn output(&self) -> Output {
        if self.form == Form::Json { Output::Json } else { Output::Normal }
    }

    /// Refuses the forms of other subcommands.
    pub fn refuse(&self, command: &Command) -> Result<(), Ending> {
        let bench = matches!(command, Command::Bench(args) if args.command.is_none());
        let page = matches!(command, Command::Report(args) if args.report.is_none());
        let manifest = matches!(command, Command::Files(FilesCommand::Capture(_)));
        match &self.form {
            Form::FioJson if !bench => Err(Ending::usage(
                "--output fio-json+: only what bench measures has this form; expected normal or json",
            )),
            Form::File(path) if !page && !manifest => Err(Ending::usage(format!(
                "--output {}: only `warpbell report FILE...` writes a page, and `warpbell files capture` a manifest; expected \
                 normal, json or, of bench, fio-json+",
                path.display()
            ))),
            _ => Ok(()),
        }
    }
}

/// Form of the result, or where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text.
    Normal,
    /// JSON.
    Json,
    /// JSON as fio writes it.
    FioJson,
    /// A page in this file.
    File(PathBuf),
}

impl std::str::FromStr for Form {
    type Err = String;

    fn from_str(text: &str) -> Result<Form, String> {
        match text {
            "normal" | "text" => Ok(Form::Normal),
            "json" => Ok(Form::Json),
            "fio-json+" => Ok(Form::FioJson),
            path if path.contains(['.', '/']) => Ok(Form::File(path.into())),
            _ => Err("expected normal, json, fio-json+ or, of report, a file such as report.html".to_owned()),
        }
    }
}

/// Who reads the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Text.
    Normal,
    /// JSON.
    Json,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the devices of this machine, and those named
    List(ListArgs),
    /// Say what this machine lacks for GPUs and SSDs to reach each other, and the command that mends it
    Check(CheckArgs),
    /// Show the PCIe tree of GPUs and SSDs, and which SSD is nearest to a GPU
    Topo(TopoArgs),
    /// Hand SSDs to the vfio-pci driver, after making sure that nobody uses them
    Bind(BindArgs),
    /// Return SSDs to the kernel's driver
    Unbind(UnbindArgs),
    /// Show what a controller and its namespaces say of themselves
    Identify(IdentifyArgs),
    /// Measure reads and writes, by kernels or by the host
    Bench(Box<BenchArgs>),
    /// Let a kernel read every block, or every one of a file, and print the CRC-32C of the contents
    Digest(DigestArgs),
    /// Copy blocks of a device, or a file of the file system on it, to standard output
    Read(ReadArgs),
    /// Copy standard input to blocks of a device
    Write(WriteArgs),
    /// Show files of the file system on a device, without a mount
    #[command(subcommand)]
    Files(FilesCommand),
    /// Make a file of synthetic data for the programs in examples/, the same from the same seed
    #[command(subcommand)]
    Gen(GenArgs),
    /// Offer a software controller to other programs, over a vfio-user socket
    Serve(ServeArgs),
    /// Draw results of bench as a page; or show what this machine and this build are like: GPUs, costs
    Report(ReportArgs),
    /// Say what to expect before anything runs: models with inputs, formula, bound, and how sure they are
    Plan(PlanArgs),
}

/// `list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// More devices to show, such as soft:file=PATH
    #[arg(value_name = "DEVICE")]
    pub devices: Vec<warpbell::DeviceName>,
    /// Look at a captured machine: a file that `warpbell check --capture` made, or a folder with sys, proc and dev
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: std::path::PathBuf,
}

/// `identify`.
#[derive(Debug, Args)]
pub struct IdentifyArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// `digest`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct DigestArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// Bytes of one read; a multiple of the block size
    #[arg(long, value_name = "SIZE", default_value = "128k")]
    pub bs: ByteSize,
    /// Which part of it.
    #[command(flatten)]
    pub part: PartArgs,
}

/// `read`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct ReadArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// First block; of a namespace
    #[arg(long, value_name = "LBA")]
    pub lba: Option<u64>,
    /// Blocks [default: 1]
    #[arg(long, value_name = "BLOCKS")]
    pub count: Option<u64>,
    /// First byte; of a file or a partition [default: 0]
    #[arg(long, value_name = "SIZE")]
    pub offset: Option<ByteSize>,
    /// How many bytes; of a file or a partition [default: to its end]
    #[arg(long, value_name = "SIZE")]
    pub bytes: Option<ByteSize>,
    /// Which part of it.
    #[command(flatten)]
    pub part: PartArgs,
}

/// `write`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct WriteArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// First block; of a namespace
    #[arg(long, value_name = "LBA")]
    pub lba: Option<u64>,
    /// Blocks; without it, as many as standard input has
    #[arg(long, value_name = "BLOCKS")]
    pub count: Option<u64>,
    /// First byte; of a file, which --allow-write=NAME#/path must name [default: 0]
    #[arg(long, value_name = "SIZE")]
    pub offset: Option<ByteSize>,
    /// Which part of it has the file.
    #[command(flatten)]
    pub part: PartArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_go_anywhere() {
        for line in ["warpbell -o json list", "warpbell list -o json"] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(cli.global.output(), Output::Json);
        }
    }
}
