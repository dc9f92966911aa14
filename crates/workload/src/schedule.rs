//! Which unit comes next, and whether it is read or written.

use std::sync::Arc;

use crate::job::Job;
use warpbell_base::SplitMix64;

/// What one pass over the range does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The job's I/Os for its ramp time, however many.
    Ramp,
    /// The job itself.
    Measure,
    /// Every unit is written once.
    Fill,
    /// Every unit is read once.
    Check,
}

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// Which unit of the range.
    pub unit: u64,
    /// Whether it is written.
    pub write: bool,
}

/// The I/Os of one worker. Sequential passes deal units to workers in turn, and so do those of a list.
#[derive(Clone, Debug)]
pub struct Schedule {
    random: SplitMix64,
    /// Units that were drawn before, in their order; [`None`]: each is drawn as it comes, or they follow each other.
    drawn: Option<Arc<Vec<u64>>>,
    /// Of the range, or of the list.
    units: u64,
    scattered: bool,
    read_percent: u64,
    next: u64,
    stride: u64,
    left: u64,
}

impl Schedule {
    /// The I/Os of `worker`, one of `workers`, in a pass of `job`; those of a measurement from `drawn`, where that is.
    pub fn new(
        job: &Job,
        pass: Pass,
        (worker, workers): (u64, u64),
        drawn: Option<Arc<Vec<u64>>>,
    ) -> Schedule {
        let drawn = drawn.filter(|_| matches!(pass, Pass::Ramp | Pass::Measure));
        let units = drawn.as_ref().map_or(job.io_slots(), |drawn| drawn.len() as u64);
        let share = |ios: u64| (ios + workers - 1 - worker) / workers;
        let (scattered, read_percent, left) = match pass {
            Pass::Ramp | Pass::Measure => {
                let limit = job.io_limit().filter(|_| pass == Pass::Measure);
                (job.rw.random() && drawn.is_none(), job.rwmixread, limit.map_or(u64::MAX, share))
            }
            Pass::Fill => (false, 0, share(units)),
            Pass::Check => (false, 100, share(units)),
        };
        Schedule {
            random: SplitMix64::new(job.seed, worker),
            drawn,
            units,
            scattered,
            read_percent: read_percent.into(),
            next: worker % units,
            stride: workers,
            left,
        }
    }

    /// The next I/O; `None` when the amount is done.
    #[inline]
    pub fn next(&mut self) -> Option<Io> {
        self.left = self.left.checked_sub(1)?;
        let unit = if self.scattered { self.random.below(self.units) } else { self.advance() };
        let unit = self.drawn.as_ref().map_or(unit, |drawn| drawn[unit as usize]);
        let write = match self.read_percent {
            100 => false,
            0 => true,
            percent => self.random.below(100) >= percent,
        };
        Some(Io { unit, write })
    }

    fn advance(&mut self) -> u64 {
        let unit = self.next;
        self.next = (unit + self.stride) % self.units;
        unit
    }

    /// Whether the amount is done.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Limits;
    use crate::options::{Access, BenchOptions};
    use crate::size::ByteSize;

    fn job(rw: Access) -> Job {
        let options = BenchOptions { rw, bs: ByteSize(4096), ..Default::default() };
        Job::resolve(&options, &Limits::of_blocks(80)).unwrap()
    }

    #[test]
    fn a_pass_meets_every_unit_once() {
        for workers in [1, 3, 10, 16] {
            let mut seen = [0; 10];
            for worker in 0..workers {
                let mut schedule = Schedule::new(&job(Access::RandRw), Pass::Fill, (worker, workers), None);
                while let Some(io) = schedule.next() {
                    assert!(io.write);
                    seen[io.unit as usize] += 1;
                }
                assert!(schedule.is_done());
            }
            assert_eq!(seen, [1; 10], "{workers} workers");
        }
    }

    #[test]
    fn mixes_keep_their_share() {
        let mut schedule = Schedule::new(&job(Access::RandRw), Pass::Measure, (0, 1), None);
        let ios: Vec<Io> = (0..1000).map_while(|_| schedule.next()).collect();
        let writes = ios.iter().filter(|io| io.write).count();
        assert!((400..600).contains(&writes), "{writes}");
        assert!(ios.iter().all(|io| io.unit < 10));
        let mut reads = Schedule::new(&job(Access::RandRead), Pass::Measure, (0, 1), None);
        assert!((0..100).all(|_| reads.next().is_some_and(|io| !io.write)));
    }

    #[test]
    fn sequences_wrap() {
        let mut schedule = Schedule::new(&job(Access::Read), Pass::Measure, (1, 4), None);
        let units: Vec<u64> = (0..4).map_while(|_| schedule.next()).map(|io| io.unit).collect();
        assert_eq!(units, [1, 5, 9, 3]);
    }

    #[test]
    fn workers_take_what_was_drawn_in_turn() {
        let drawn = Some(Arc::new(vec![7, 7, 2]));
        let of = |pass, worker| {
            let mut schedule = Schedule::new(&job(Access::RandRead), pass, (worker, 2), drawn.clone());
            (0..3).map_while(|_| schedule.next()).map(|io| io.unit).collect::<Vec<_>>()
        };
        assert_eq!((of(Pass::Measure, 0), of(Pass::Measure, 1)), (vec![7, 2, 7], vec![7, 7, 2]));
        assert_eq!(of(Pass::Check, 0), [0, 2, 4], "all of the range is checked");
    }
}
