//! What every program takes on its command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpbell::{Named, Target};
use warpbell_workload::ByteSize;

/// Options of every program.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Where kernels run: cpu or cuda:N
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// The SSD, whose contents are overwritten; without it, an image in a temporary file behind the software controller.
    /// DEVICE#/path: a file on it, which has what --data has and is only read
    #[arg(long, value_name = "DEVICE[#/path]")]
    pub device: Option<Named>,
    /// Permit writes to the device with this path, serial number, PCI address or socket; may be given again
    #[arg(long, value_name = "PATH|SERIAL|BDF|SOCKET", require_equals = true)]
    pub allow_write: Vec<String>,
    /// Where the data goes on the SSD; a multiple of its block size
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub offset: ByteSize,
    /// A file that `warpbell gen` made, in place of data that is made now; its sizes count then
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// What synthetic data is made from
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
    #[arg(short, long, value_enum, default_value_t = Form::Normal)]
    pub output: Form,
}

/// Form of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people.
    #[value(alias = "text")]
    Normal,
    /// For programs.
    Json,
}

/// Warps that share a queue.
const WARPS_OF_A_QUEUE: u32 = 8;

impl Options {
    /// Bytes of the page cache: the whole pages in what was asked for.
    pub fn cache_bytes(&self) -> u64 {
        // `Stage::open` refuses pages of no bytes, and programs may ask before.
        self.cache.0 - self.cache.0 % self.page.0.max(1)
    }

    /// Queues for all warps.
    pub(crate) fn queues(&self) -> u32 {
        self.warps.div_ceil(WARPS_OF_A_QUEUE)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_result_has_the_forms_of_the_command() {
        let form = |word| Line::try_parse_from(["program", "-o", word]).map(|line| line.options.output).ok();
        let forms = ["normal", "text", "json", "yaml"].map(form);
        assert_eq!(forms, [Some(Form::Normal), Some(Form::Normal), Some(Form::Json), None]);
    }

    #[test]
    fn a_cache_has_whole_pages() {
        let bytes = |cache, page| {
            Line::parse_from(["program", "--cache", cache, "--page", page]).options.cache_bytes()
        };
        assert_eq!((bytes("100k", "64k"), bytes("128k", "64k"), bytes("63k", "64k")), (65_536, 131_072, 0));
        assert_eq!(bytes("100k", "0"), 102_400);
    }
}
