//! Arguments of `check` and `topo`.

use std::path::PathBuf;

use clap::Args;

/// `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Look at a captured machine: DIR/sys, DIR/proc, as --capture makes it
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
    /// Also move data both ways and compare it, on what can be had here without writing to anybody's SSD
    #[arg(long, conflicts_with_all = ["root", "capture"])]
    pub self_test: bool,
    /// Copy what is looked at into DIR, which must be new or empty, without serial numbers, and do nothing else
    #[arg(long, value_name = "DIR")]
    pub capture: Option<PathBuf>,
    /// With --capture: serial numbers too
    #[arg(long, requires = "capture")]
    pub with_serials: bool,
}

/// `topo`.
#[derive(Debug, Args)]
pub struct TopoArgs {
    /// Look at a captured machine: DIR/sys, DIR/proc, as `warpbell check --capture` makes it
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true)]
    pub root: PathBuf,
    /// Only this GPU's SSDs; GPUs are numbered by address
    #[arg(long, value_name = "N")]
    pub gpu: Option<usize>,
    /// Also draw the tree into FILE
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}
