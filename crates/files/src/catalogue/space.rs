//! Free space: the first run that is long enough, else several.

use std::collections::BTreeMap;

use super::record::Run;

/// What no durable generation names, and no file that comes in has taken.
#[derive(Debug)]
pub struct Space {
    /// Where each free run begins, and its length. No two touch.
    free: BTreeMap<u64, u64>,
    total: u64,
}

impl Space {
    /// All from `start` to `end`, without `used`.
    pub fn new((start, end): (u64, u64), used: impl Iterator<Item = Run>) -> Space {
        let mut used: Vec<Run> = used.collect();
        used.sort_unstable();
        let mut space = Space { free: BTreeMap::new(), total: 0 };
        let mut next = start;
        for run in used.into_iter().chain([Run { at: end, bytes: 0 }]) {
            if run.at > next {
                space.give(Run { at: next, bytes: run.at - next });
            }
            next = run.end();
        }
        space
    }

    /// Free bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Takes `bytes`, in one run where there is one as long; `None`: so much is not free.
    pub fn take(&mut self, bytes: u64) -> Option<Vec<Run>> {
        if bytes > self.total {
            return None;
        }
        let mut taken = Vec::new();
        if bytes == 0 {
            return Some(taken);
        }
        let fits = self.free.iter().find(|(_, length)| **length >= bytes).map(|(at, _)| *at);
        let mut left = bytes;
        while let Some((at, length)) = match fits {
            Some(at) => self.free.remove_entry(&at),
            None => self.free.pop_first(),
        } {
            let now = length.min(left);
            if now < length {
                self.free.insert(at + now, length - now);
            }
            taken.push(Run { at, bytes: now });
            left -= now;
            if left == 0 {
                break;
            }
        }
        self.total -= bytes;
        Some(taken)
    }

    /// Makes a run free.
    pub fn give(&mut self, run: Run) {
        self.total += run.bytes;
        let Run { mut at, mut bytes } = run;
        if let Some(after) = self.free.remove(&run.end()) {
            bytes += after;
        }
        if let Some((before, length)) = self.free.range(..at).next_back().map(|(at, length)| (*at, *length))
            && before + length == at
        {
            (at, bytes) = (before, bytes + length);
        }
        self.free.insert(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: u64, bytes: u64) -> Run {
        Run { at, bytes }
    }

    #[test]
    fn the_first_run_that_fits_is_taken_else_several() {
        let mut space = Space::new((10, 100), [run(20, 10), run(50, 10)].into_iter());
        assert_eq!(space.total(), 70);
        assert_eq!(space.take(15).unwrap(), [run(30, 15)]);
        assert_eq!(space.take(50).unwrap(), [run(10, 10), run(45, 5), run(60, 35)]);
        assert_eq!((space.total(), space.take(6)), (5, None));
        space.give(run(60, 35));
        space.give(run(50, 10));
        assert_eq!(space.take(50).unwrap(), [run(50, 50)]);
        assert_eq!(space.take(0).unwrap(), []);
    }
}
