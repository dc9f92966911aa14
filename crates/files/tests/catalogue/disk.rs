//! A store in memory that keeps what was written, and when it was flushed.

use std::cell::RefCell;

use warpbell_files::{Error, Source, Store};

pub const BLOCK: usize = 512;

/// What happened to a disk.
#[derive(Clone, Debug)]
pub enum Event {
    /// Bytes written at an offset.
    Write(u64, Vec<u8>),
    /// All that was written before is durable.
    Flush,
}

/// A disk that remembers its writes.
pub struct Disk {
    pub bytes: RefCell<Vec<u8>>,
    pub events: RefCell<Vec<Event>>,
}

impl Disk {
    pub fn new(bytes: usize) -> Disk {
        Disk::with(vec![0; bytes])
    }

    pub fn with(bytes: Vec<u8>) -> Disk {
        Disk { bytes: RefCell::new(bytes), events: RefCell::default() }
    }
}

impl Source for Disk {
    fn bytes(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }

    fn block_size(&self) -> u32 {
        BLOCK as u32
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let at = offset as usize;
        into.copy_from_slice(&self.bytes.borrow()[at..at + into.len()]);
        Ok(())
    }
}

impl Store for Disk {
    fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        assert!(offset.is_multiple_of(BLOCK as u64) && from.len().is_multiple_of(BLOCK), "whole blocks");
        let at = offset as usize;
        self.bytes.borrow_mut()[at..at + from.len()].copy_from_slice(from);
        self.events.borrow_mut().push(Event::Write(offset, from.to_vec()));
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        self.events.borrow_mut().push(Event::Flush);
        Ok(())
    }
}
