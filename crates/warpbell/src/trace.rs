//! Memory that kernels write traces to: a ring of events for each lane, which alone writes there.

use warpbell_kernels::abi::{TraceEvent, TraceLane};
use zerocopy::IntoBytes;

use crate::queues::layout::{CidLayout, LANES};
use crate::{Error, KernelMemory, OpenTarget};

warpbell_base::options! {
    /// How much of a trace to keep.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TraceSpec {
        /// Events of each warp, the latest ones; rounded up so that each lane keeps a power of two.
        pub events_per_warp: u32,
        /// Lanes of each warp that have a part of them; what others do is counted and not kept.
        pub lanes: u32,
    } no new
}

impl TraceSpec {
    /// So many events of each warp, of all its lanes.
    pub fn new(events_per_warp: u32) -> TraceSpec {
        TraceSpec { events_per_warp, lanes: LANES }
    }

    /// Events that each lane keeps.
    pub fn events_per_lane(&self) -> u32 {
        let lanes = self.lanes.clamp(1, LANES);
        self.events_per_warp.div_ceil(lanes).max(1).checked_next_power_of_two().unwrap_or(1 << 31)
    }

    /// Bytes of memory for so many warps.
    pub fn bytes(&self, warps: u32) -> u64 {
        let lanes = u64::from(warps) * u64::from(self.lanes.clamp(1, LANES));
        lanes * u64::from(self.events_per_lane()) * size_of::<TraceEvent>() as u64
    }
}

/// What one lane wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneTrace {
    /// The warp of the launch.
    pub warp: u32,
    /// The lane.
    pub lane: u32,
    /// Events so far, kept or not.
    pub written: u64,
    /// The latest of them, in their order.
    pub events: Vec<TraceEvent>,
}

/// The rings of all lanes of an attachment. A clone is the same memory.
#[derive(Clone, Debug)]
pub struct TraceMemory {
    spec: TraceSpec,
    layout: CidLayout,
    rings: KernelMemory,
    events: KernelMemory,
}

impl TraceMemory {
    /// Empty rings for the warps of `layout`.
    pub(crate) fn new(target: &OpenTarget, layout: CidLayout, spec: TraceSpec) -> Result<TraceMemory, Error> {
        let spec = TraceSpec { lanes: spec.lanes.clamp(1, LANES), ..spec };
        let memory = TraceMemory {
            spec,
            layout,
            rings: target.memory(layout.queues as usize * rings_of_queue(&layout))?,
            events: target.memory(usize::try_from(spec.bytes(layout.warps)).unwrap_or(usize::MAX))?,
        };
        for warp in 0..layout.warps {
            let of_lane = |lane| {
                let events =
                    if lane < spec.lanes { memory.events.address() + memory.at(warp, lane) } else { 0 };
                let shift = if events == 0 { 0 } else { spec.events_per_lane().trailing_zeros() };
                TraceLane { events, shift, ..TraceLane::new() }
            };
            let lanes: Vec<u8> = (0..LANES).flat_map(|lane| of_lane(lane).as_bytes().to_vec()).collect();
            memory.rings.write(memory.rings_of(warp), &lanes)?;
        }
        Ok(memory)
    }

    /// Where queue `index` finds the rings of its warps.
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.rings.address() + (index * rings_of_queue(&self.layout)) as u64
    }

    /// What was asked for.
    pub fn spec(&self) -> TraceSpec {
        self.spec
    }

    /// What all lanes wrote so far; those that wrote nothing are left out. Complete once no kernel runs.
    pub fn read(&self) -> Result<Vec<LaneTrace>, Error> {
        let mut traces = Vec::new();
        for warp in 0..self.layout.warps {
            for lane in 0..LANES {
                let mut ring = TraceLane::new();
                let at = self.rings_of(warp) + lane as usize * size_of::<TraceLane>();
                self.rings.read(at, ring.as_mut_bytes())?;
                if ring.written > 0 {
                    traces.push(self.of_lane(warp, lane, &ring)?);
                }
            }
        }
        Ok(traces)
    }

    fn of_lane(&self, warp: u32, lane: u32, ring: &TraceLane) -> Result<LaneTrace, Error> {
        let written = ring.written;
        let room = if ring.events == 0 { 0 } else { 1u64 << ring.shift };
        let kept = written.min(room) as usize;
        let mut events = vec![TraceEvent::new(); kept];
        if kept > 0 {
            self.events.read(self.at(warp, lane) as usize, events.as_mut_slice().as_mut_bytes())?;
            // Where the ring was full, the next slot to be written has the oldest.
            if written > room {
                events.rotate_left((written % room) as usize);
            }
        }
        Ok(LaneTrace { warp, lane, written, events })
    }

    /// Bytes to the first event of a lane.
    fn at(&self, warp: u32, lane: u32) -> u64 {
        let lanes = u64::from(warp) * u64::from(self.spec.lanes) + u64::from(lane);
        lanes * u64::from(self.spec.events_per_lane()) * size_of::<TraceEvent>() as u64
    }

    /// Bytes to the ring of a warp's first lane.
    fn rings_of(&self, warp: u32) -> usize {
        let (queue, slot) = (warp % self.layout.queues, warp / self.layout.queues);
        queue as usize * rings_of_queue(&self.layout)
            + slot as usize * LANES as usize * size_of::<TraceLane>()
    }
}

fn rings_of_queue(layout: &CidLayout) -> usize {
    (layout.warp_slots * LANES) as usize * size_of::<TraceLane>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn a_ring_that_was_full_comes_back_oldest_first() {
        let layout = CidLayout::new(2, 3, 1).unwrap();
        let spec = TraceSpec { events_per_warp: 10, lanes: 3 };
        assert_eq!((spec.events_per_lane(), spec.bytes(3)), (4, 3 * 3 * 4 * 32));
        let memory = TraceMemory::new(&Target::Cpu.open().unwrap(), layout, spec).unwrap();
        assert_eq!(memory.read().unwrap(), []);
        assert!(TraceSpec { events_per_warp: u32::MAX, lanes: 32 }.bytes(2) > 1 << 36);
        // As lane 2 of warp 1 would, which has slot 0 of queue 1; and lane 5, which has no events of its own.
        let rings = (memory.address(1) - memory.rings.address()) as usize;
        let mut ring = TraceLane::new();
        let lane = |lane: usize| rings + lane * size_of::<TraceLane>();
        memory.rings.read(lane(2), ring.as_mut_bytes()).unwrap();
        assert_eq!(ring.shift, 2);
        for number in 0..6u64 {
            let event = TraceEvent { clock_ns: number, ..TraceEvent::new() };
            let at = (ring.events - memory.events.address()) as usize + (number as usize % 4) * 32;
            memory.events.write(at, event.as_bytes()).unwrap();
        }
        memory.rings.write(lane(2), TraceLane { written: 6, ..ring }.as_bytes()).unwrap();
        memory.rings.write(lane(5), TraceLane { written: 7, ..TraceLane::new() }.as_bytes()).unwrap();
        let traces = memory.read().unwrap();
        let clocks: Vec<u64> = traces[0].events.iter().map(|event| event.clock_ns).collect();
        assert_eq!((traces[0].warp, traces[0].lane, traces[0].written), (1, 2, 6));
        assert_eq!(clocks, [2, 3, 4, 5]);
        assert_eq!((traces[1].lane, traces[1].written, traces[1].events.len()), (5, 7, 0));
    }
}
