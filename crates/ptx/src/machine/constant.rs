//! Memory that `.nc` loads: nothing of the grid may write it, before or after.

use parking_lot::Mutex;

use super::real::Span;
use super::words::Words;

/// Which bytes of a word were written by the grid, and which were loaded by `.nc`.
#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    written: u8,
    loaded: u8,
}

/// What a grid did so far, by word.
#[derive(Debug, Default)]
pub(super) struct Constant(Mutex<Words<Bytes>>);

impl Constant {
    /// What is wrong with an access, if something is.
    pub(super) fn sees(&self, at: Span, read_only: bool, stores: bool) -> Option<String> {
        if !read_only && !stores {
            return None;
        }
        let mut words = self.0.lock();
        let bytes = words.entry(at.word()).or_default();
        let (own, others) =
            if stores { (&mut bytes.written, bytes.loaded) } else { (&mut bytes.loaded, bytes.written) };
        *own |= at.mask();
        let how = if stores {
            "is written, and the grid loaded it by .nc"
        } else {
            "is loaded by .nc, and the grid wrote it"
        };
        (others & at.mask() != 0).then(|| format!("memory at {:#x} {how}", at.address()))
    }
}
