//! Arguments of `bind` and `unbind`.

use std::path::PathBuf;

use clap::Args;
use warpbell_vfio::pci::Name;

/// `bind`.
#[derive(Debug, Args)]
pub struct BindArgs {
    /// SSDs: a PCI address, sn:SERIAL or /dev/nvmeN
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<Name>,
    /// Print the writes and what stands against them, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The driver that takes them
    #[arg(long, value_name = "DRIVER", default_value = "vfio-pci")]
    pub driver: String,
    /// Let this user open them, without being root
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Bind them again after each boot, by a udev rule
    #[arg(long)]
    pub persist: bool,
    /// Bind the device with this serial number or PCI address although it carries a partition table or file system
    #[arg(long, value_name = "SERIAL|BDF", require_equals = true)]
    pub allow_signed: Vec<String>,
    /// Look at a captured machine: a file that `warpbell check --capture` made, or a folder with sys, proc and dev
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true, requires = "dry_run")]
    pub root: PathBuf,
}

/// `unbind`.
#[derive(Debug, Args)]
pub struct UnbindArgs {
    /// SSDs: a PCI address, or sn:SERIAL for those that `warpbell bind` bound
    #[arg(value_name = "DEVICE", required = true)]
    pub devices: Vec<Name>,
    /// Give them to the driver that they had when they were bound, instead of the kernel's choice
    #[arg(long)]
    pub restore: bool,
    /// Print the writes and what stands against them, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Look at a captured machine: a file that `warpbell check --capture` made, or a folder with sys, proc and dev
    #[arg(long, value_name = "DIR", default_value = "/", hide_default_value = true, requires = "dry_run")]
    pub root: PathBuf,
}
