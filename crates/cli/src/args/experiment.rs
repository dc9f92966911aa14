//! `bench path` and the other experiments by name.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use warpbell_driver::Coalescing;
use warpbell_hw::Nsid;
use warpbell_workload::{
    ByteSize, ExperimentOptions, StripeOptions, VolumeApi, VolumePolicy, parse_duration,
};

use super::{DeviceArgs, nsid};

/// An experiment.
#[derive(Clone, Debug, Args)]
#[command(
    allow_negative_numbers = true,
    after_help = "docs/experiments.md says what each row is, and what the model expects."
)]
pub struct ExperimentArgs {
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Bytes per I/O; several, as 4k,128k, have rows of their own
    #[arg(long, value_name = "SIZE", value_delimiter = ',', default_value = "4k")]
    pub bs: Vec<ByteSize>,
    /// I/Os in flight: with stripe on each SSD, of workloads on each queue [default: 16; arbitration 64; order has 256, batching 32, tiles 8, registration and cold 1]
    #[arg(short = 'q', long, visible_alias = "qd", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1023))]
    pub iodepth: Option<u32>,
    /// How long each row is measured: 3, 500ms [default: 1; of workloads, --ops ends a row]
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_duration)]
    pub runtime: Option<Duration>,
    /// Operations of each row of a workload [default: 20000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub ops: Option<u64>,
    /// Measure all of it N times, 1 to 50, and report medians
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=50))]
    pub repeat: u32,
    /// Also write a row for each way and repeat
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// What the operating system reads, with path: a file or block device as long as the namespace [default: the file behind soft:file=]
    #[arg(long, value_name = "PATH")]
    pub os_path: Option<PathBuf>,
    /// Busy threads beside the I/O, with tail; several have rows of their own [default: 0,1,2,4]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub load: Option<Vec<u32>>,
    /// How the controller gathers interrupts, with notice: one for N completions, or when the first of them has waited so long; several have rows of their own [default: 8/100us]
    #[arg(long, value_name = "N/TIME", value_delimiter = ',')]
    pub coalescing: Option<Vec<Coalescing>>,
    /// Who reads the volumes of stripe: host, or volume: kernels [default: host]
    #[arg(long, value_name = "API")]
    pub api: Option<VolumeApi>,
    /// Bytes of a chunk, with stripe; several have rows of their own [default: 64k,256k]
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub chunk: Option<Vec<ByteSize>>,
    /// How warps find queues and replicas, with stripe --api volume: copies are read in each of these ways, stripes in the first [default: round-robin,hashed,by-cta,nearest]
    #[arg(long, value_name = "POLICY", value_delimiter = ',')]
    pub policy: Option<Vec<VolumePolicy>>,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid())]
    pub nsid: Nsid,
    /// Seed of addresses
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// Completions that share an interrupt, where nobody says how many.
fn gathered() -> Coalescing {
    Coalescing::new(8, Duration::from_micros(100)).expect("a value that there is")
}

impl ExperimentArgs {
    /// What is asked for.
    pub fn options(&self) -> ExperimentOptions {
        ExperimentOptions {
            sizes: self.bs.clone(),
            iodepth: self.iodepth,
            runtime: self.runtime.unwrap_or(Duration::from_secs(1)),
            ops: self.ops.unwrap_or(20_000),
            os_path: self.os_path.clone(),
            load: self.load.clone().unwrap_or_else(|| vec![0, 1, 2, 4]),
            coalescing: self.coalescing.clone().unwrap_or_else(|| vec![gathered()]),
            stripe: self.stripe(),
            nsid: self.nsid,
            seed: self.seed,
        }
    }

    fn stripe(&self) -> StripeOptions {
        let own = StripeOptions::default();
        StripeOptions {
            api: self.api.unwrap_or(own.api),
            chunks: self.chunk.clone().unwrap_or(own.chunks),
            policies: self.policy.clone().unwrap_or(own.policies),
        }
    }
}
