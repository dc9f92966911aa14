//! What every program takes on its command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpbell::{DeviceName, Target};
use warpbell_workload::ByteSize;

/// Options of every program.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where kernels run: cpu or cuda:N
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// The SSD, whose contents are overwritten; without it, an image in a temporary file behind the software controller
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<DeviceName>,
    /// Permit writes to the device with this path, serial number, PCI address or socket; may be given again
    #[arg(long, value_name = "PATH|SERIAL|BDF|SOCKET", require_equals = true)]
    pub allow_write: Vec<String>,
    /// Where the data goes on the SSD; a multiple of its block size
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: ByteSize,
    /// A file that `warpbell gen` made, in place of data that is made now; its sizes count then
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// What made-up data is made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Bytes of the page cache
    #[arg(long, value_name = "SIZE", default_value = "1m")]
    pub cache: ByteSize,
    /// Bytes of a page: a power of two, and at least a block
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub page: ByteSize,
    /// Warps that the program runs on
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub warps: u32,
    /// Change a byte of the data on the SSD, so that the result is wrong: the program must notice
    #[arg(long)]
    pub corrupt: bool,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    pub output: Form,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Warps that share a queue.
const WARPS_OF_A_QUEUE: u32 = 8;

impl Options {
    /// Queues for all warps.
    pub(crate) fn queues(&self) -> u32 {
        self.warps.div_ceil(WARPS_OF_A_QUEUE)
    }
}
