//! Which bytes of a store an engine is copying: whoever else wants them waits, so that no block is torn.
//!
//! Only controllers that have remote memory mapped ask. Copies of CPUs are over when they have been asked for; copies
//! of an engine hold their range until they have ended.

use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Debug)]
struct Held {
    id: u64,
    offset: u64,
    len: u64,
    write: bool,
}

#[derive(Debug, Default)]
struct Inner {
    held: Vec<Held>,
    next: u64,
}

/// The ranges of one store that are in use.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Mutex<Inner>);

/// A range in use, released when dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    ranges: Arc<Ranges>,
    id: u64,
}

impl Ranges {
    /// Takes a range, shared with other readers if not to `write`; `None` if somebody uses some of it.
    pub(crate) fn take(self: &Arc<Self>, offset: u64, len: u64, write: bool) -> Option<Taken> {
        let mut inner = self.0.lock();
        let in_the_way = |held: &Held| {
            (write || held.write) && held.offset < offset + len && offset < held.offset + held.len
        };
        if inner.held.iter().any(in_the_way) {
            return None;
        }
        inner.next += 1;
        let id = inner.next;
        inner.held.push(Held { id, offset, len, write });
        Some(Taken { ranges: self.clone(), id })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut inner = self.ranges.0.lock();
        if let Some(at) = inner.held.iter().position(|held| held.id == self.id) {
            inner.held.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_writers_do_not() {
        let ranges = Arc::new(Ranges::default());
        let first = ranges.take(0, 100, false).unwrap();
        let second = ranges.take(50, 100, false).unwrap();
        assert!(ranges.take(99, 1, true).is_none());
        drop(first);
        assert!(ranges.take(99, 1, true).is_none(), "the other still reads");
        drop(second);
        let writer = ranges.take(99, 1, true).unwrap();
        assert!(ranges.take(0, 100, false).is_none());
        assert!(ranges.take(0, 99, false).is_some(), "neighbours are free");
        drop(writer);
        assert!(ranges.take(0, 100, true).is_some());
    }
}
