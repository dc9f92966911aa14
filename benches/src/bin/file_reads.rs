// UNSAFETY: kernels of this program's own.
#![expect(unsafe_code, reason = "launches of kernels that are no part of Warpbell")]
//! What a random read of 4 KiB by its offset in a file (`file.cuh`) costs beside the same read by block address (`io.cuh`),
//! on the CPU target. Both take turns in one run; ratios are of each pair of runs, their median with an interval of 95 %.
//!
//!   cargo run --release -p warpbell-benches --bin file_reads [-- [--extents N] [--pairs N] [--check]]
//!
//! `real`: the soft controller has a thread of its own, and time is that of a clock. `virtual`: one thread plays both, and
//! time is that of the processor; of the SSD's time, which is the same for both, there is nothing in it. `--check` fails where
//! an interval ends above 1.15.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use warpbell::{
    AttachOptions, Attachment, CompileOptions, FileTable, Launch, OpenOptions, Program, Ssd, Target,
};
use warpbell_base::SplitMix64;
use warpbell_files::{Extent, FileMap};
use warpbell_kernels::abi::{BufferRef, FileRef, NamespaceRef};
use warpbell_kernels::cpu::State;
use warpbell_softctl::SoftDevice;
use warpbell_workload::{median, median_interval};
use zerocopy::{Immutable, IntoBytes};

/// Each lane reads 4 KiB again and again: at its offsets of the list, or at its blocks.
const KERNELS: &str = r"
#include <warpbell/warpbell.cuh>
using namespace warpbell;

struct reads_args {
    warpbell_namespace_ref ns; warpbell_file_ref file; warpbell_buffer_ref data; warpbell_buffer_ref list;
    uint64_t rounds;
};

template <class Read> WARPBELL_D void read_all(const reads_args& args, Read read) {
    session<sharing::exclusive> ssd(this_warp(), args.ns, 0);
    const dma_span mine = dma_span(args.data).subspan(port::lane() * 4096u, 4096);
    u64* next = dma_span(args.list).data<u64>() + port::lane();
    u32 failed = 0;
    for (u64 round = 0; round < args.rounds; ++round, next += 32) {
        failed |= read(ssd, *next, mine).bits;
    }
    *(dma_span(args.list).data<u64>() + args.rounds * 32u + port::lane()) = failed;
    ssd.detach(this_warp());
}

WARPBELL_KERNEL(by_block, reads_args) {
    read_all(args, [&](session<sharing::exclusive>& ssd, u64 block, const dma_span& to) {
        return read_each(this_warp(), ssd, optional<extent>(extent{lba(block), 8}), to);
    });
}

WARPBELL_KERNEL(by_offset, reads_args) {
    const file f(args.file);
    read_all(args, [&](session<sharing::exclusive>& ssd, u64 offset, const dma_span& to) {
        return read_each(this_warp(), ssd, f, optional<u64>(offset), to);
    });
}
";

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ReadsArgs {
    ns: NamespaceRef,
    file: FileRef,
    data: BufferRef,
    list: BufferRef,
    rounds: u64,
}

const READ: u64 = 4096;
const BLOCK: u64 = 512;
const LANES: u64 = 32;
/// Reads that lie in each extent: more than one, so that a file by 4 KiB has no place that is no extent's beginning.
const READS_PER_EXTENT: u64 = 4;
/// What each lane reads in one run.
const ROUNDS: u64 = 1000;
const LIMIT: f64 = 1.15;

/// Turns of the warp between two looks at whether it has ended, in virtual time.
const TURNS: u32 = 1 << 14;

struct Options {
    extents: u64,
    pairs: usize,
    check: bool,
}

fn main() -> anyhow::Result<()> {
    let options = options()?;
    println!("4 KiB random reads of a file of {} extents, {} pairs of runs", options.extents, options.pairs);
    println!("{:<8} {:>13} {:>13}   ratio", "time", "by block, ns", "by offset, ns");
    let mut above = Vec::new();
    for (name, device) in [("real", ""), ("virtual", ",time=virtual")] {
        let high = measure(name, device, &options)?;
        above.extend((high > LIMIT).then_some(name));
    }
    ensure!(!options.check || above.is_empty(), "above {LIMIT} in {} time", above.join(" and "));
    Ok(())
}

fn options() -> anyhow::Result<Options> {
    let mut options = Options { extents: 10_000, pairs: 31, check: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().context("expected a number")?.parse().context("expected a number");
        match word.as_str() {
            "--extents" => options.extents = number()?,
            "--pairs" => options.pairs = number()? as usize,
            "--check" => options.check = true,
            _ => bail!("unknown option {word}"),
        }
    }
    ensure!(options.extents > 0 && options.pairs > 0, "at least one of each");
    Ok(options)
}

/// Prints a row, and returns the upper end of its interval.
fn measure(name: &str, device: &str, options: &Options) -> anyhow::Result<f64> {
    let case = Case::new(device, options.extents)?;
    // Once each for what only the first runs meet.
    let (mut blocks, mut offsets, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for pair in 0..=options.pairs {
        let block = case.run("by_block")?;
        let offset = case.run("by_offset")?;
        if pair != 0 {
            blocks.push(block);
            offsets.push(offset);
            ratios.push(offset / block);
        }
    }
    let middle = |values: &[f64]| median(values).context("no run");
    let interval = median_interval(&ratios).context("no run")?;
    println!(
        "{name:<8} {:>13.1} {:>13.1}   {:.3} ({:.3} to {:.3})",
        middle(&blocks)?,
        middle(&offsets)?,
        middle(&ratios)?,
        interval.low,
        interval.high
    );
    Ok(interval.high)
}

/// An SSD with a file, and the offsets and blocks that are read.
struct Case {
    ssd: Ssd,
    queues: Attachment,
    program: Program,
    map: FileMap,
    offsets: Vec<u64>,
}

impl Case {
    fn new(device: &str, extents: u64) -> anyhow::Result<Case> {
        let bytes = READ * READS_PER_EXTENT;
        // A prime number of places: each step but its multiples meets all of them.
        let places = (extents * 2..).find(|count| is_prime(*count)).context("too many extents")?;
        let size = places * bytes;
        let ssd = Ssd::open(&format!("soft:size={size}{device}").parse()?, &OpenOptions::default())?;
        let queues = ssd.attach(&AttachOptions::default())?;
        let place = |index| index * (places * 2 / 5) % places * bytes;
        let list = (0..extents).map(|index| Extent { offset: index * bytes, at: place(index), bytes });
        let map = FileMap::new(extents * bytes, list.collect())?;
        ensure!(map.extents().len() as u64 == extents, "extents lie together");
        let target = Target::Cpu.open()?;
        let options = CompileOptions::default();
        // SAFETY: the source has no initialisers of its own.
        let program = unsafe { Program::compile(&target, "file_reads.cu", KERNELS, &options) }?;
        let mut random = SplitMix64::new(1, 0);
        let offset = |_| random.below(extents * READS_PER_EXTENT) * READ;
        let offsets = (0..ROUNDS * LANES).map(offset).collect();
        Ok(Case { ssd, queues, program, map, offsets })
    }

    /// Nanoseconds of a read.
    fn run(&self, kernel: &str) -> anyhow::Result<f64> {
        let places = match kernel {
            "by_block" => self.offsets.iter().map(|offset| self.block(*offset)).collect(),
            _ => self.offsets.clone(),
        };
        let data = self.queues.buffer((LANES * READ) as usize)?;
        let list = self.queues.buffer(((ROUNDS + 1) * LANES * 8) as usize)?;
        list.write(0, places.as_bytes())?;
        let table = FileTable::new(&self.queues, &self.map)?;
        let args = ReadsArgs {
            ns: self.queues.namespace(),
            file: table.reference(&self.queues)?,
            data: data.as_ref(),
            list: list.as_ref(),
            rounds: ROUNDS,
        };
        // SAFETY: the kernel touches the attachment's queues and buffers, and the table, which the launch keeps.
        let launch = unsafe { self.program.launch(&self.queues, kernel, &args) }?.keep(table.memory());
        let time = match self.ssd.soft().filter(|soft| soft.is_stepped()) {
            Some(soft) => stepped(&launch, soft)?,
            None => {
                let begin = Instant::now();
                launch.start()?.join()?;
                begin.elapsed()
            }
        };
        let mut failed = [0u64; LANES as usize];
        list.read((ROUNDS * LANES * 8) as usize, failed.as_mut_bytes())?;
        ensure!(failed.iter().all(|status| *status == 0), "a read failed: {failed:x?}");
        Ok(time.as_nanos() as f64 / (ROUNDS * LANES) as f64)
    }

    /// Where that byte of the file lies.
    fn block(&self, offset: u64) -> u64 {
        let extent = &self.map.extents()[(offset / (READ * READS_PER_EXTENT)) as usize];
        (extent.at + (offset - extent.offset)) / BLOCK
    }
}

fn is_prime(number: u64) -> bool {
    (2..).take_while(|factor| factor * factor <= number).all(|factor| !number.is_multiple_of(factor))
}

/// Runs it on this thread, with the controller, and returns the thread's time.
fn stepped(launch: &Launch, soft: &SoftDevice) -> anyhow::Result<Duration> {
    let mut worker = launch.worker()?.context("it needs the CPU target")?;
    let begin = thread_time();
    while !worker.finished()? {
        if *worker.step(TURNS) == State::Idle {
            soft.wait();
        }
    }
    Ok(thread_time() - begin)
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
