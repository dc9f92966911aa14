//! Arguments of `report`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use warpbell::Bdf;
use warpbell_vfio::IommuChoice;

/// `report`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct ReportArgs {
    /// Of what else.
    #[command(subcommand)]
    pub report: Option<Report>,
    /// Results of `bench -o json`: one page for all, to the file of -o or to standard output
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// A limit for the roofline of hardware figures: ssd=6.8GB (bytes per second), ssd=1.5Miops; may be repeated
    #[arg(long, value_name = "NAME=RATE")]
    pub limit: Vec<Roof>,
    /// Write each picture to a file of this folder, as SVG, and print the names; the page only where -o names its file
    #[arg(long, value_name = "FOLDER")]
    pub pictures: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  warpbell bench soft:size=64m --axis iodepth=1..64*2 --repeat 7 -o json > a.json
  warpbell report a.json b.json -o report.html
  warpbell report a.json --pictures figures";

/// A limit, and its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Roof {
    /// What is limited so.
    pub name: String,
    /// How much of what.
    pub rate: Rate,
}

/// What can be done in a second at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Bytes.
    Bytes(f64),
    /// I/Os.
    Ios(f64),
}

impl std::str::FromStr for Roof {
    type Err = String;

    fn from_str(text: &str) -> Result<Roof, String> {
        let form = || format!("'{text}': expected NAME=RATE, such as ssd=6.8GB or ssd=1.5Miops");
        let (name, rate) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(form)?;
        let (number, ios) = rate.strip_suffix("iops").map_or((rate, false), |number| (number, true));
        let digits = number.trim_end_matches(|letter: char| letter.is_ascii_alphabetic() || letter == '/');
        let value: f64 = digits.parse().ok().filter(|value: &f64| *value > 0.0).ok_or_else(form)?;
        let unit = match number[digits.len()..].trim_end_matches("/s").trim_end_matches('B') {
            "" if ios || number.contains('B') => 1.0,
            "k" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            _ => return Err(form()),
        };
        let rate = if ios { Rate::Ios(value * unit) } else { Rate::Bytes(value * unit) };
        Ok(Roof { name: name.to_owned(), rate })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_bytes_or_ios() {
        for (text, rate) in [
            ("ssd=6.8GB", Rate::Bytes(6.8e9)),
            ("link=63GB/s", Rate::Bytes(63e9)),
            ("ssd=1.5Miops", Rate::Ios(1.5e6)),
            ("x=100B", Rate::Bytes(100.0)),
            ("x=100iops", Rate::Ios(100.0)),
        ] {
            assert_eq!(text.parse::<Roof>().unwrap().rate, rate, "{text}");
        }
        for text in ["ssd", "=1GB", "ssd=6.8", "ssd=6.8/s", "ssd=fast", "ssd=-1GB", "ssd=1GiB"] {
            assert!(text.parse::<Roof>().unwrap_err().contains("expected NAME=RATE"), "{text}");
        }
    }
}
