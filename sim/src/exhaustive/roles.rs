//! Who reads and who writes which memory, learnt while schedules are tried.
//!
//! A load of what no other actor ever writes need not be a point where others may come in between. Whether that is
//! so is not known beforehand: it is assumed until somebody is seen to write, and then the search starts again.

/// Bytes of a cell: the smallest access.
const CELL: u64 = 4;

/// Sets of actors, a bit each, for every cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    base: u64,
    readers: Vec<u8>,
    writers: Vec<u8>,
}

/// An earlier assumption was wrong: what was found under it is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong;

impl Roles {
    /// Nobody was seen yet, in `bytes` bytes from `base` on.
    pub fn new(base: u64, bytes: usize) -> Roles {
        let cells = bytes.div_ceil(CELL as usize);
        Roles { base, readers: vec![0; cells], writers: vec![0; cells] }
    }

    fn cells(&self, address: u64, bytes: u32) -> std::ops::Range<usize> {
        let first = address.wrapping_sub(self.base) / CELL;
        let end = (address.wrapping_sub(self.base) + u64::from(bytes)).div_ceil(CELL);
        assert!(end as usize <= self.readers.len(), "{address:#x} is outside the memory of this check");
        first as usize..end as usize
    }

    /// `actor` reads. Returns whether nobody else is known to write there.
    pub fn reads(&mut self, actor: usize, address: u64, bytes: u32) -> bool {
        let cells = self.cells(address, bytes);
        self.readers[cells.clone()].iter_mut().for_each(|readers| *readers |= 1 << actor);
        self.writers[cells].iter().all(|writers| writers & !(1 << actor) == 0)
    }

    /// `actor` writes. Wrong, if others have read there on the assumption that it does not.
    pub fn writes(&mut self, actor: usize, address: u64, bytes: u32) -> Result<(), Wrong> {
        let mut known = true;
        for cell in self.cells(address, bytes) {
            let new = self.writers[cell] & 1 << actor == 0;
            self.writers[cell] |= 1 << actor;
            known &= !(new && self.readers[cell] & !(1 << actor) != 0);
        }
        if known { Ok(()) } else { Err(Wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_that_comes_after_another_reader_proves_the_search_wrong_once() {
        let mut roles = Roles::new(0x1000, 64);
        assert!(roles.reads(0, 0x1008, 8));
        assert_eq!(roles.writes(0, 0x1008, 8), Ok(()));
        assert_eq!(roles.writes(1, 0x100c, 4), Err(Wrong));
        assert_eq!(roles.writes(1, 0x100c, 4), Ok(()));
        assert!(!roles.reads(0, 0x1008, 8), "half of it has another writer");
        assert!(roles.reads(0, 0x1008, 4));
    }
}
