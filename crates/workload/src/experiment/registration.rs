//! `registration`: what it costs to make memory reachable for the SSD, for each I/O or ahead of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use warpbell::Buffer;
use warpbell_hw::Window;

use super::host_reads::{HostReads, Shape};
use super::{Figures, Lab, figures_of_ios};
use crate::cpu;
use crate::error::RunError;
use crate::latency::LatencyHistogram;
use crate::random::SplitMix64;
use crate::size::ByteSize;

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

/// Its ways: one read in flight, into 64 buffers of each size. Those of a size take turns of some reads.
pub(super) fn ways(lab: &Lab<'_>) -> Result<Vec<super::Way>, RunError> {
    lab.in_real_time()?;
    let of_size = |size: &ByteSize| {
        let size = *size;
        let way: super::Way = Box::new(move |lab| match Shape::of(lab, size)? {
            Ok(shape) => of_size(lab, size, shape),
            Err(reason) => {
                lab.skip(&format!("bs={size}"), reason);
                Ok(())
            }
        });
        way
    };
    Ok(lab.options.sizes.iter().map(of_size).collect())
}

fn of_size(lab: &mut Lab<'_>, size: ByteSize, shape: Shape) -> Result<(), RunError> {
    let ways = [("once", When::Once), ("per_io", When::PerIo), ("cached", When::Cached)];
    let alone = mapping_alone(lab, shape)?;
    let found = {
        let lab = &*lab;
        let mut found =
            ways.iter().map(|(_, way)| Found::new(lab, shape, *way)).collect::<Result<Vec<_>, _>>()?;
        let (mut reads, begin) = (HostReads::new(lab, shape, 1)?, Instant::now());
        while begin.elapsed() < lab.options.runtime * 3 && !lab.control.stopped() {
            found.iter_mut().try_for_each(|found| found.turn(&mut reads))?;
        }
        found.into_iter().map(Found::end).collect::<Vec<_>>()
    };
    if lab.control.stopped() {
        return Ok(());
    }
    let once = found[0].p50();
    for ((name, way), found) in ways.iter().zip(found) {
        let mut figures = found.figures(shape);
        if *way == When::PerIo {
            // The model: the read alone, and a mapping as it was measured without reads.
            figures = figures.with("expected_p50_ns", once + alone);
        }
        lab.row(format!("{name} bs={size}"), figures);
    }
    Ok(())
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
    buffers: Buffers<'a>,
    random: SplitMix64,
    measured: Measured,
}

/// What was measured.
struct Measured {
    shape: Shape,
    latencies: LatencyHistogram,
    mapping: LatencyHistogram,
    elapsed: Duration,
    cpu: Duration,
}

impl<'a> Found<'a> {
    fn new(lab: &'a Lab<'a>, shape: Shape, way: When) -> Result<Found<'a>, RunError> {
        let (elapsed, cpu) = (Duration::ZERO, Duration::ZERO);
        let (latencies, mapping) = (LatencyHistogram::new(), LatencyHistogram::new());
        Ok(Found {
            buffers: Buffers::new(lab, shape, way)?,
            random: SplitMix64::new(lab.options.seed, 0),
            measured: Measured { shape, latencies, mapping, elapsed, cpu },
        })
    }

    /// Some reads of this way.
    fn turn(&mut self, reads: &mut HostReads<'_>) -> Result<(), RunError> {
        let (begin, cpu) = (Instant::now(), cpu::thread_time());
        for _ in 0..TURN {
            let (start, buffer) = (Instant::now(), self.random.below(BUFFERS) as usize);
            let (mapped, made) = self.buffers.registered(buffer)?;
            let mapping = start.elapsed();
            reads.begin(0, self.measured.shape.draw(&mut self.random), &mapped, 0)?;
            reads.wait()?;
            let ended = Instant::now();
            self.buffers.release(buffer, mapped);
            if made {
                self.measured.mapping.record((mapping + ended.elapsed()).as_nanos() as u64, 1);
            }
            self.measured.latencies.record(start.elapsed().as_nanos() as u64, 1);
        }
        self.measured.elapsed += begin.elapsed();
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
        let maps = self.mapping.count() as f64 / self.latencies.count().max(1) as f64;
        let figures = figures.with("maps_per_io", maps);
        if maps > 0.0 { figures.with("map_p50_ns", self.map_p50()) } else { figures }
    }
}

/// Registrations of an application's buffers.
struct Buffers<'a> {
    lab: &'a Lab<'a>,
    windows: Vec<Window>,
    /// The newest last.
    kept: VecDeque<(usize, Buffer)>,
    most: usize,
}

impl<'a> Buffers<'a> {
    fn new(lab: &'a Lab<'a>, shape: Shape, way: When) -> Result<Buffers<'a>, RunError> {
        let bytes = (shape.bytes as usize).next_multiple_of(PAGE);
        let windows = (0..BUFFERS).map(|_| Window::host(bytes)).collect::<Result<Vec<_>, _>>()?;
        windows.iter().try_for_each(Window::populate)?;
        let most = match way {
            When::Once => windows.len(),
            When::PerIo => 0,
            When::Cached => KEPT,
        };
        let mut buffers = Buffers { lab, windows, kept: VecDeque::new(), most };
        if way == When::Once {
            for buffer in 0..buffers.windows.len() {
                let mapped = buffers.lab.ssd.register(buffers.windows[buffer].clone())?;
                buffers.kept.push_back((buffer, mapped));
            }
        }
        Ok(buffers)
    }

    /// The registration of a buffer, and whether it is a new one.
    fn registered(&mut self, buffer: usize) -> Result<(Buffer, bool), RunError> {
        if let Some(at) = self.kept.iter().position(|(known, _)| *known == buffer) {
            let found = self.kept.remove(at).expect("found just now");
            self.kept.push_back(found.clone());
            return Ok((found.1, false));
        }
        Ok((self.lab.ssd.register(self.windows[buffer].clone())?, true))
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
