//! The command line, in fio's and nvme-cli's words.

mod bench;
mod calibrate;
mod device;
mod experiment;
mod generate;
mod pci;
mod plan;
mod platform;
mod report;
mod serve;
mod trace;

pub use bench::BenchArgs;
pub use calibrate::{BenchCommand, CalibrateArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use device::{DATA, Dbbuf, DeviceArgs};
pub use experiment::ExperimentArgs;
pub use generate::{GenArgs, GenTo};
pub use pci::{BindArgs, UnbindArgs};
pub use plan::{PlanArgs, TraceTo, flag as plan_flag};
pub use platform::{CheckArgs, TopoArgs};
pub use report::{CostsReportArgs, GpuReportArgs, Report, ReportArgs};
pub use serve::{Doorbells, ServeArgs};
pub use trace::TraceArgs;
use warpbell_workload::ByteSize;

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

const EXAMPLES: &str = "\
Examples:
  warpbell bench soft:size=1g --rw randread --bs 512 --iodepth 128 --runtime 3
  warpbell bench soft:size=1g --axis bs=512,4k --axis iodepth=1,32 -o json
  warpbell digest soft:file=disk.img
  warpbell read soft:file=disk.img --lba 0 --count 8 | xxd | head
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
    /// Form of the result: `normal` for people, `json` for programs
    #[arg(short, long, global = true, value_enum, default_value_t = Output::Normal)]
    pub output: Output,
    /// Say more; twice for the log of the driver (on stderr)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Text.
    #[value(alias = "text")]
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
    /// Give SSDs back to the kernel's driver
    Unbind(UnbindArgs),
    /// Show what a controller and its namespaces say of themselves
    Identify(IdentifyArgs),
    /// Measure reads and writes, by kernels or by the host
    Bench(Box<BenchArgs>),
    /// Let a kernel read every block, and print the CRC-32C of the contents
    Digest(DigestArgs),
    /// Copy blocks from a device to standard output
    Read(ReadArgs),
    /// Copy standard input to blocks of a device
    Write(WriteArgs),
    /// Make a file of synthetic data for the programs in examples/, the same from the same seed
    #[command(subcommand)]
    Gen(GenArgs),
    /// Offer a software controller to other programs, over a vfio-user socket
    Serve(ServeArgs),
    /// Show what this machine, and this build, are like: GPUs, costs of the device library
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
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nsid: u32,
    /// Bytes of one read; a multiple of the block size
    #[arg(long, value_name = "SIZE", default_value = "128k")]
    pub bs: ByteSize,
}

/// `read`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct ReadArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nsid: u32,
    /// First block
    #[arg(long, value_name = "LBA")]
    pub lba: u64,
    /// Blocks
    #[arg(long, value_name = "BLOCKS", default_value_t = 1)]
    pub count: u64,
}

/// `write`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct WriteArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Namespace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub nsid: u32,
    /// First block
    #[arg(long, value_name = "LBA")]
    pub lba: u64,
    /// Blocks; without it, as many as standard input has
    #[arg(long, value_name = "BLOCKS")]
    pub count: Option<u64>,
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
            assert_eq!(cli.global.output, Output::Json);
        }
    }
}
