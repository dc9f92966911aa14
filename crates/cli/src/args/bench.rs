//! `bench`: fio's words for what to measure.

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use warpbell_driver::Coalescing;
use warpbell_workload::{
    Access, Api, Axis, BenchOptions, ByteSize, Completion, CpuRange, Distribution, Policy, Protocol, Sharing,
    Verify, parse_duration,
};

use crate::exit::Ending;

use super::{BenchCommand, DeviceArgs, PartArgs, ResultArgs, TraceArgs, calibrate, nsid};
use warpbell_hw::Nsid;

/// `bench`.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
#[command(mut_arg("positional", |device| device.value_parser(calibrate::device)))]
pub struct BenchArgs {
    /// What else is measured.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// The device.
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Pattern: read, write, randread, randwrite or randrw
    #[arg(short = 'w', long, value_name = "PATTERN", default_value = "randread")]
    pub rw: Access,
    /// Bytes per I/O; k, m, g are 1024, kB, MB, GB are 1000. Above MDTS it is split
    #[arg(long, value_name = "SIZE", default_value = "4k")]
    pub bs: ByteSize,
    /// Outstanding commands per queue, 1 to 65535; of kernels, 1024 for each of its --warps at most
    #[arg(short = 'q', long, visible_alias = "qd", value_name = "N", default_value_t = 32)]
    pub iodepth: u32,
    /// Queue pairs
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub queues: u16,
    /// How long to measure: 3, 500ms, 2m [default: 3s, or one pass over --size]
    #[arg(short = 't', long, value_name = "TIME", value_parser = parse_duration)]
    pub runtime: Option<Duration>,
    /// Who submits: io (kernels, blocking calls), raw (kernels, queue primitives), batch (blocks of threads together), agent (some warps for the others), array (words of an array over a page cache) or host (no kernels)
    #[arg(long, value_name = "API", default_value = "io")]
    pub api: Api,
    /// A protocol of the laboratory, over queue primitives: turns (ours), turns-alone (ours by single threads), marks (or bam), marks-own, lockstep (or xnvme) or service (or agile)
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub protocol: Option<Protocol>,
    /// Begin I/Os only when N of them can, in batches [default: each at once]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub gather: Option<u32>,
    /// How host queues learn of completions: poll, or interrupt (the thread sleeps)
    #[arg(long, value_name = "HOW", default_value = "poll")]
    pub completion: Completion,
    /// Have the controller gather interrupts, with --completion interrupt: one for N completions, or when the first of them has waited so long, as 8/100us; or off [default: as it does]
    #[arg(long, value_name = "N/TIME", hide_short_help = true)]
    pub coalescing: Option<Coalescing>,
    /// Warps over all queues [default: one per queue; shared: more]
    #[arg(long, value_name = "N")]
    pub warps: Option<u32>,
    /// Warps that do the I/O of the others, with --api agent [default: one per queue; shared: one per 128 of --iodepth]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub agents: Option<u32>,
    /// Threads of a block, with --api batch: 32 to 256, whole warps [default: 128]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub block: Option<u32>,
    /// Memory of the page cache, with --api array [default: 1m]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub cache: Option<ByteSize>,
    /// Which page leaves it for another: clock, fifo or lru [default: clock]
    #[arg(long, value_name = "POLICY", hide_short_help = true)]
    pub policy: Option<Policy>,
    /// How many lookups of a hundred find their page, with --api array [default: as it comes, over --size]
    #[arg(long, value_name = "PERCENT", hide_short_help = true)]
    pub hit_rate: Option<u8>,
    /// Pages that a warp wants at once, with --api array: 1, 2, 4, 8, 16 or 32 [default: 32]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub spread: Option<u32>,
    /// Whether warps own their queue (exclusive) or share it (shared)
    #[arg(long, value_name = "MODE", default_value = "exclusive")]
    pub sharing: Sharing,
    /// Check data: fill the range, then compare what is read (crc32c)
    #[arg(long, value_name = "CHECK")]
    pub verify: Option<Verify>,
    /// Sweep a flag: bs=512,4k or iodepth=1..64*4; several axes combine, iodepth=32*warps follows another flag, and dbbuf=on,off opens the device anew
    #[arg(short, long, value_name = "FLAG=VALUES")]
    pub axis: Vec<Axis>,
    /// Reads in percent, for randrw [default: 50]
    #[arg(long, value_name = "PERCENT", hide_short_help = true)]
    pub rwmixread: Option<u8>,
    /// How random addresses are drawn: random, or zipf:THETA (fio's zipf, THETA above 0, at most 10)
    #[arg(
        long,
        visible_alias = "random_distribution",
        value_name = "LAW",
        default_value = "random",
        hide_short_help = true
    )]
    pub random_distribution: Distribution,
    /// Bytes of the namespace to use [default: to its end]
    #[arg(long, value_name = "SIZE", hide_short_help = true)]
    pub size: Option<ByteSize>,
    /// First byte of the namespace to use
    #[arg(long, value_name = "SIZE", default_value = "0", hide_short_help = true)]
    pub offset: ByteSize,
    /// End after this many bytes of I/O
    #[arg(long, visible_alias = "io_limit", value_name = "SIZE", hide_short_help = true)]
    pub io_limit: Option<ByteSize>,
    /// Run this long before measuring
    #[arg(long, visible_alias = "warmup", value_name = "TIME", value_parser = parse_duration, default_value = "0", hide_short_help = true)]
    pub ramp: Duration,
    /// Seed of addresses, directions and contents
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    pub seed: u64,
    /// Namespace
    #[arg(long, value_name = "N", default_value = "1", value_parser = nsid(), hide_short_help = true)]
    pub nsid: Nsid,
    /// The longest that one command may take
    #[arg(long, alias = "deadline", value_name = "TIME", value_parser = parse_duration)]
    #[arg(default_value = "10s", hide_short_help = true)]
    pub timeout: Duration,
    /// How often a failed command may be submitted again
    #[arg(long, value_name = "N", default_value_t = 0, hide_short_help = true)]
    pub retries: u32,
    /// Recover queues and the controller while the run goes on: abort, replace, reset (the default)
    #[arg(long, overrides_with = "no_recover", hide_short_help = true)]
    pub recover: bool,
    /// Leave what does not answer as it is
    #[arg(long, overrides_with = "recover", hide_short_help = true)]
    pub no_recover: bool,
    /// Threads that drive host queues, or run kernels on the CPU target [default: processors - 1]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub threads: Option<usize>,
    /// Processors for these threads, used in turn: 1,3 or 0-3 [default: any]
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_short_help = true)]
    pub cpus: Vec<CpuRange>,
    /// Which part of the device is read
    #[command(flatten)]
    pub part: PartArgs,
    /// What is kept
    #[command(flatten)]
    pub results: ResultArgs,
    /// What to write down, or to run again
    #[command(flatten)]
    pub trace: TraceArgs,
}

const EXAMPLES: &str = "\
Examples:
  warpbell bench soft:size=1g --rw randread --bs 512 --iodepth 128 --runtime 3
  warpbell bench soft:size=1g --sharing shared --warps 8 --queues 2
  warpbell bench soft:size=1g --api host --axis iodepth=1..128*2
  warpbell bench soft:size=1g,dbbuf=on --axis dbbuf=on,off --axis iodepth=1,32
  warpbell bench soft:size=1g --random-distribution zipf:1.2
  warpbell bench soft:size=64m --api array --sharing shared --cache 1m --axis hit-rate=50,90,100
  warpbell bench soft:size=64m --rw randrw --verify crc32c --fault corrupt.toml
  warpbell bench soft:size=64m --sharing shared --warps 4 --io-limit 4m --trace trace.json
  warpbell bench soft:size=64m --replay trace.json
  warpbell bench soft:size=64m --axis iodepth=1..64*2 --repeat 7 --csv rows.csv -o json > result.json
  warpbell bench calibrate --out machine.json
  warpbell bench soft:file=disk.img#/data/a.bin --rw randread
  warpbell bench resident: --api raw --queues 4 --iodepth 64
--help shows all options, -h the essential ones.";

/// Options without a value.
const SWITCHES: [&str; 2] = ["recover", "wide-cids"];

impl BenchArgs {
    /// Refuses an option that an axis sets at each point: the value that was given would be ignored.
    pub fn refuse_replaced(&self, given: &ArgMatches) -> Result<(), Ending> {
        let typed = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
        for axis in self.axis.iter().map(Axis::name) {
            let off = axis == "recover" && typed("no_recover");
            let id = axis.replace('-', "_");
            if off || typed(&id) {
                let values = given.get_raw(&id).into_iter().flatten().map(|value| value.to_string_lossy());
                let values: Vec<_> = values.filter(|_| !SWITCHES.contains(&axis)).collect();
                let name = if off { "no-recover" } else { axis };
                let option = format!("--{name} {}", values.join(","));
                return Err(Ending::usage(format!(
                    "{}: --axis {axis} sets it at each point; leave one of them out",
                    option.trim_end()
                )));
            }
        }
        Ok(())
    }

    /// The options of one run, before any axis.
    pub fn options(&self) -> BenchOptions {
        BenchOptions {
            rw: self.rw,
            rwmixread: self.rwmixread,
            random_distribution: self.random_distribution,
            bs: self.bs,
            iodepth: self.iodepth,
            queues: self.queues,
            warps: self.warps,
            agents: self.agents,
            block: self.block,
            cache: self.cache,
            policy: self.policy,
            hit_rate: self.hit_rate,
            spread: self.spread,
            sharing: self.sharing,
            api: self.api,
            protocol: self.protocol,
            gather: self.gather,
            completion: self.completion,
            coalescing: self.coalescing,
            runtime: self.runtime,
            io_limit: self.io_limit,
            size: self.size,
            offset: self.offset,
            ramp: self.ramp,
            interval: self.results.interval,
            seed: self.seed,
            verify: self.verify,
            nsid: self.nsid,
            timeout: self.timeout,
            retries: self.retries,
            recover: !self.no_recover,
            threads: self.threads,
            cpus: self.cpus.iter().copied().flat_map(CpuRange::all).collect(),
            trace_events: self.trace.trace.as_ref().map(|_| self.trace.trace_events),
            replay: None,
            file: None,
            opening: self.device.opening(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};
    use warpbell_workload::{NOT_SWEPT, swept};

    use crate::args::{Cli, Command};

    #[test]
    fn every_option_can_be_swept_or_says_why_not() {
        let mut cli = Cli::command();
        cli.build();
        let bench = cli.find_subcommand("bench").unwrap();
        let options: BTreeSet<&str> = bench.get_arguments().filter_map(clap::Arg::get_long).collect();
        let options: BTreeSet<&str> = &options - &BTreeSet::from(["help", "version"]);
        let swept: BTreeSet<&str> = swept().collect();
        let not: BTreeSet<&str> = NOT_SWEPT.iter().map(|(name, _)| *name).collect();
        assert_eq!(&options - &(&swept | &not), BTreeSet::new(), "neither an axis nor refused with a reason");
        assert_eq!(&(&swept | &not) - &options, BTreeSet::new(), "no option of bench");
        assert_eq!(&swept & &not, BTreeSet::new(), "both");
    }

    #[test]
    fn defaults_agree_with_the_library() {
        let cli = Cli::try_parse_from(["warpbell", "bench", "soft:size=1m"]).unwrap();
        let Command::Bench(bench) = cli.command else { panic!("not bench") };
        assert_eq!(bench.options(), warpbell_workload::BenchOptions::default());
    }
}
