//! Arguments of `check` and `topo`.

use std::path::PathBuf;

use clap::Args;
use warpbell::{DeviceName, Target};
use warpbell_workload::ByteSize;

use crate::exit::Ending;

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Look at a captured machine: a file that --capture made, or a folder with sys and proc
    #[arg(long, value_name = "PATH", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
    /// Also move data both ways and compare it: in software, through a GPU's memory where there is a GPU, and over the
    /// SSD that --device names
    #[arg(long, conflicts_with_all = ["root", "capture"])]
    pub self_test: bool,
    /// Also open this SSD and ask it what it offers: a PCI address, sn:SERIAL or vfio-user:SOCKET. With --self-test: test
    /// it too; 4 MiB of namespace 1 from --offset on are overwritten, which --allow-write has to permit
    #[arg(short, long, value_name = "DEVICE", conflicts_with_all = ["root", "capture"])]
    pub device: Vec<DeviceName>,
    /// With --self-test and --device: where what may be overwritten begins, in bytes: 1g, 512m
    #[arg(long, value_name = "SIZE", requires_all = ["self_test", "device"])]
    pub offset: Option<ByteSize>,
    /// Permit writes to the device with this path, serial number, PCI address or socket; may be given again
    #[arg(long, value_name = "PATH|SERIAL|BDF|SOCKET", require_equals = true, requires = "device")]
    pub allow_write: Vec<String>,
    /// With --self-test or --device: the GPU to test, or to ask [default: cuda:0]
    #[arg(long, value_name = "cuda:N")]
    pub target: Option<Target>,
    /// Copy what is looked at into FILE, which must be new, without serial numbers, and do nothing else
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// With --capture: serial numbers too
    #[arg(long, requires = "capture")]
    pub with_serials: bool,
}

impl CheckArgs {
    /// The SSD, if one is named. Of two, none is what the other line of a report would be about.
    pub fn device(&self) -> Result<Option<&DeviceName>, Ending> {
        match &self.device[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            [first, second, ..] => {
                Err(Ending::usage(format!("--device {first}, --device {second}: this command takes one")))
            }
        }
    }

    /// The GPU to test, or to ask.
    pub fn target(&self) -> Result<Target, Ending> {
        match self.target.unwrap_or(Target::Cuda(0)) {
            target if target.is_ptx() => {
                Err(Ending::usage("--target ptx: check asks and tests a GPU, and there is none"))
            }
            target => Ok(target),
        }
    }
}

/// `topo`.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// Look at a captured machine: a file that `warpbell check --capture` made, or a folder with sys and proc
    #[arg(long, value_name = "PATH", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
    /// Only this GPU's SSDs; GPUs are numbered by address
    #[arg(long, value_name = "N")]
    pub gpu: Option<usize>,
    /// Also draw the tree into FILE
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
