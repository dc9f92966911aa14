//! `serve`: which controller, on which socket, for whom.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpbell::DeviceName;
use warpbell_vfio::user::DoorbellMode;
use warpbell_workload::ByteSize;

/// `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The controller: soft:size=1g, soft:file=PATH; all that soft: takes
    #[arg(value_name = "DEVICE", conflicts_with = "size")]
    pub device: Option<DeviceName>,
    /// One namespace of so many bytes of memory; short for soft:size=SIZE
    #[arg(long, value_name = "SIZE")]
    pub size: Option<ByteSize>,
    /// The Unix socket to listen on
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// How doorbells come: mapped (clients store to a page), or message (there is no such page)
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Doorbells::Mapped)]
    pub doorbells: Doorbells,
    /// End after so many clients
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub clients: Option<u64>,
    /// End with exit code 1 if a client broke a rule of the specification
    #[arg(long)]
    pub strict: bool,
    /// Let clients write to the file with this path; again for another file
    #[arg(long, value_name = "PATH", require_equals = true)]
    pub allow_write: Vec<PathBuf>,
    /// Faults to inject, as TOML
    #[arg(long, value_name = "PLAN")]
    pub fault: Option<PathBuf>,
}

/// How doorbells come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Doorbells {
    /// Clients map the page.
    Mapped,
    /// Each is a message.
    Message,
}

impl From<Doorbells> for DoorbellMode {
    fn from(doorbells: Doorbells) -> DoorbellMode {
        match doorbells {
            Doorbells::Mapped => DoorbellMode::Mapped,
            Doorbells::Message => DoorbellMode::Message,
        }
    }
}
