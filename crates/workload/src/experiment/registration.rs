//! `registration`: what it costs to make memory reachable for the SSD, for each I/O or ahead of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpbell::{Buffer, DataPlacement, DeviceMemory, Gpu};
use warpbell_base::SplitMix64;
use warpbell_hw::Window;

use super::host_reads::{HostReads, Shape};
use super::{Figures, Lab, Way, figures_of_ios};
use crate::cpu;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::size::ByteSize;
use crate::stopwatch::Stopwatch;

/// Buffers that an application reads into, in turn at random.
const BUFFERS: u64 = 64;
/// Registrations that a cache keeps of them.
const KEPT: usize = 48;
/// Mappings of which the model takes the median.
const MAPPINGS: usize = 1000;
/// Memory is registered in pages.
const PAGE: usize = 4096;

/// Reads of one way before it is the next one's turn: what disturbs the machine disturbs all.
const TURN: u32 = 64;

/// When memory is registered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Once,
    PerIo,
    Cached,
}

impl When {
    /// Mappings of a read, once as many buffers are mapped as will be.
    fn maps(self) -> f64 {
        match self {
            When::Once => 0.0,
            When::PerIo => 1.0,
            When::Cached => 1.0 - KEPT as f64 / BUFFERS as f64,
        }
    }
}

/// Its ways: one read in flight, into 64 buffers of each size, of the host's memory or, where the SSD's data lies there, of
/// a GPU's. Those of a size take turns of some reads. In virtual time mappings take none: they are counted, and the reads
/// are the profile's.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let of_size = |size: &ByteSize| {
        let size = *size;
        let way: Way = Box::new(move |lab| match Shape::of(lab, size)? {
            Ok(shape) => of_size(lab, size, shape),
            Err(reason) => {
                lab.skip(&format!("bs={size}"), reason);
                Ok(())
            }
        });
        way
    };
    lab.options.sizes.iter().map(of_size).collect()
}

fn of_size(lab: &mut Lab<'_>, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let ways = [("once", When::Once), ("per_io", When::PerIo), ("cached", When::Cached)];
    let alone = mapping_alone(lab, shape)?;
    let found = {
        let lab = &*lab;
        let mut found =
            ways.iter().map(|(_, way)| Found::new(lab, shape, *way)).collect::<Result<Vec<_>, _>>()?;
        let (mut reads, clock) = (HostReads::new(lab, shape, 1)?, Stopwatch::start(lab.ssd));
        while clock.elapsed() < lab.options.runtime * 3 && !lab.control.stopped() {
            found.iter_mut().try_for_each(|found| found.turn(&mut reads))?;
        }
        found.into_iter().map(Found::end).collect::<Vec<_>>()
    };
    if lab.control.stopped() {
        return Ok(());
    }
    let place = if gpu_of(lab).is_some() { " memory=hbm" } else { "" };
    let (once, setup) = (found[0].p50(), found[0].setup.as_nanos() as f64);
    for ((name, way), found) in ways.iter().zip(found) {
        let figures = lab.of_clients(found.figures(shape)).with("expected_maps_per_io", way.maps());
        let figures = match way {
            _ if lab.in_virtual_time() => figures.merged(lab.reads_expected(size, 1)),
            When::Once => figures.with("setup_ns", setup),
            // The model: the read alone, and a mapping as it was measured without reads.
            When::PerIo => {
                found.costs(figures, setup).with("map_alone_ns", alone).with("expected_p50_ns", once + alone)
            }
            When::Cached => found.costs(figures, setup),
        };
        lab.row(format!("{name}{place} bs={size}"), figures);
    }
    Ok(())
}

/// The GPU whose memory the SSD's data lies in.
fn gpu_of<'a>(lab: &Lab<'a>) -> Option<&'a Arc<Gpu>> {
    match lab.ssd.data_placement() {
        DataPlacement::Hbm(gpu) => Some(gpu),
        _ => None,
    }
}

/// The median of registering a buffer and letting go of it, without reads.
fn mapping_alone(lab: &Lab<'_>, shape: Shape) -> Result<f64, RunError> {
    let mut buffers = Buffers::new(lab, shape, When::PerIo)?;
    let mut mapping = LatencyHistogram::new();
    for index in 0..MAPPINGS {
        let begin = Instant::now();
        let (mapped, _) = buffers.registered(index % BUFFERS as usize)?;
        drop(mapped);
        mapping.record(begin.elapsed().as_nanos() as u64, 1);
    }
    Ok(mapping.summary().map_or(0.0, |latency| latency.p50 as f64))
}

/// What is being measured of one way.
struct Found<'a> {
    clock: Stopwatch<'a>,
    buffers: Buffers<'a>,
    random: SplitMix64,
    measured: Measured,
}

/// What was measured.
struct Measured {
    shape: Shape,
    /// Of registering all buffers, where that is done before the first read.
    setup: Duration,
    latencies: LatencyHistogram,
    mapping: LatencyHistogram,
    elapsed: Duration,
    cpu: Duration,
}

impl<'a> Found<'a> {
    fn new(lab: &'a Lab<'a>, shape: Shape, way: When) -> Result<Found<'a>, RunError> {
        let (elapsed, cpu) = (Duration::ZERO, Duration::ZERO);
        let (latencies, mapping) = (LatencyHistogram::new(), LatencyHistogram::new());
        let buffers = Buffers::new(lab, shape, way)?;
        let setup = buffers.setup;
        Ok(Found {
            clock: Stopwatch::start(lab.ssd),
            buffers,
            random: SplitMix64::new(lab.options.seed, 0),
            measured: Measured { shape, setup, latencies, mapping, elapsed, cpu },
        })
    }

    /// Some reads of this way.
    fn turn(&mut self, reads: &mut HostReads<'_>) -> Result<(), RunError> {
        let (begin, cpu) = (self.clock.elapsed(), cpu::thread_time());
        for _ in 0..TURN {
            let (start, buffer) = (self.clock.elapsed(), self.random.below(BUFFERS) as usize);
            let (mapped, made) = self.buffers.registered(buffer)?;
            let mapping = self.clock.elapsed() - start;
            reads.begin(0, self.measured.shape.draw(&mut self.random), &mapped, 0)?;
            reads.wait()?;
            let ended = self.clock.elapsed();
            self.buffers.release(buffer, mapped);
            let now = self.clock.elapsed();
            if made {
                self.measured.mapping.record((mapping + now - ended).as_nanos() as u64, 1);
            }
            self.measured.latencies.record((now - start).as_nanos() as u64, 1);
        }
        self.measured.elapsed += self.clock.elapsed() - begin;
        self.measured.cpu += cpu::thread_time() - cpu;
        Ok(())
    }

    fn end(self) -> Measured {
        self.measured
    }
}

impl Measured {
    fn p50(&self) -> f64 {
        self.latencies.summary().map_or(0.0, |latency| latency.p50 as f64)
    }

    fn map_p50(&self) -> f64 {
        self.mapping.summary().map_or(0.0, |latency| latency.p50 as f64)
    }

    fn figures(&self, shape: Shape) -> Figures {
        let figures = figures_of_ios(&self.latencies, shape.bytes, self.elapsed, self.cpu);
        figures.with("maps_per_io", self.maps())
    }

    fn maps(&self) -> f64 {
        self.mapping.count() as f64 / self.latencies.count().max(1) as f64
    }

    /// What a mapping costs, and after how many reads it would have paid to register all buffers once.
    fn costs(&self, figures: Figures, setup: f64) -> Figures {
        let (maps, map) = (self.maps(), self.map_p50());
        if maps == 0.0 || map == 0.0 {
            return figures;
        }
        figures.with("map_p50_ns", map).with("crossover_ios", setup / (maps * map))
    }
}

/// Memory of an application's.
enum Memory {
    Host(Window),
    Gpu(DeviceMemory),
}

impl Memory {
    /// Of the kind that the SSD's data lies in, there before anybody counts.
    fn new(lab: &Lab<'_>, bytes: usize) -> Result<Memory, RunError> {
        if let Some(gpu) = gpu_of(lab) {
            return Ok(Memory::Gpu(gpu.allocate(bytes).map_err(warpbell::Error::from)?));
        }
        let window = Window::host(bytes)?;
        window.populate()?;
        Ok(Memory::Host(window))
    }

    fn registered(&self, lab: &Lab<'_>) -> Result<Buffer, RunError> {
        Ok(match self {
            Memory::Host(window) => lab.ssd.register(window.clone())?,
            Memory::Gpu(memory) => lab.ssd.register_device(memory)?,
        })
    }
}

/// Registrations of an application's buffers.
struct Buffers<'a> {
    lab: &'a Lab<'a>,
    memory: Vec<Memory>,
    /// How long it took to register those that are before the first read.
    setup: Duration,
    /// The newest last.
    kept: VecDeque<(usize, Buffer)>,
    most: usize,
}

impl<'a> Buffers<'a> {
    fn new(lab: &'a Lab<'a>, shape: Shape, way: When) -> Result<Buffers<'a>, RunError> {
        let bytes = (shape.bytes as usize).next_multiple_of(PAGE);
        let memory = (0..BUFFERS).map(|_| Memory::new(lab, bytes)).collect::<Result<Vec<_>, _>>()?;
        let most = match way {
            When::Once => memory.len(),
            When::PerIo => 0,
            When::Cached => KEPT,
        };
        let (mut kept, begin) = (VecDeque::new(), Instant::now());
        if way == When::Once {
            for (buffer, memory) in memory.iter().enumerate() {
                kept.push_back((buffer, memory.registered(lab)?));
            }
        }
        Ok(Buffers { lab, memory, setup: begin.elapsed(), kept, most })
    }

    /// The registration of a buffer, and whether it is a new one.
    fn registered(&mut self, buffer: usize) -> Result<(Buffer, bool), RunError> {
        if let Some(at) = self.kept.iter().position(|(known, _)| *known == buffer) {
            let found = self.kept.remove(at).expect("found just now");
            self.kept.push_back(found.clone());
            return Ok((found.1, false));
        }
        Ok((self.memory[buffer].registered(self.lab)?, true))
    }

    /// Keeps it for later, in place of the one used longest ago.
    fn release(&mut self, buffer: usize, mapped: Buffer) {
        if self.most == 0 || self.kept.back().is_some_and(|(known, _)| *known == buffer) {
            return;
        }
        if self.kept.len() >= self.most {
            self.kept.pop_front();
        }
        self.kept.push_back((buffer, mapped));
    }
}
