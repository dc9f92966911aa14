//! Arguments of `report`.

use clap::{Args, Subcommand};
use warpbell::Bdf;
use warpbell_vfio::IommuChoice;

/// `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Of what.
    #[command(subcommand)]
    pub report: Report,
}

/// The reports.
#[derive(Debug, Subcommand)]
pub enum Report {
    /// Registers, instructions, atomics and fences of each call of the device library, beside their budgets
    Costs(CostsReportArgs),
    /// GPUs, and by which ways an SSD and a GPU reach each other, each with its reason
    Gpu(GpuReportArgs),
}

/// `report costs`.
#[derive(Debug, Args)]
pub struct CostsReportArgs {
    /// Compile and count now, with nvcc, in place of the figures that came with the program
    #[arg(long)]
    pub measure: bool,
    /// Architectures to show, such as 90 for sm_90; `-o json` has all unless told
    #[arg(long, value_name = "SM", value_delimiter = ',')]
    pub arch: Vec<u32>,
}

/// `report gpu`.
#[derive(Debug, Args)]
pub struct GpuReportArgs {
    /// Also try each way between the GPUs and this SSD, which must be bound to vfio-pci; its controller is not touched
    #[arg(value_name = "PCI-ADDRESS", value_parser = function)]
    pub device: Option<Bdf>,
    /// Which way to the SSD: auto, type1, iommufd, noiommu
    #[arg(long, value_name = "WAY", default_value = "auto", requires = "device")]
    pub iommu: IommuChoice,
}

/// The address of a PCI function: no other device has ways to a GPU.
fn function(text: &str) -> Result<Bdf, String> {
    let expected = |()| format!("'{text}': expected the PCI address of an SSD, such as 0000:41:00.0");
    text.parse().map_err(expected)
}
