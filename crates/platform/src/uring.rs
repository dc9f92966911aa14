// UNSAFETY: the kernel writes to memory that a submitted read names, until the read has completed.
#![expect(unsafe_code, reason = "reads by io_uring into memory of this module's own")]
//! Reads of a file by io_uring: the operating system's fastest way, for comparison.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use io_uring::{IoUring, opcode, types};

/// What O_DIRECT aligns memory to, on any device.
const ALIGNMENT: usize = 4096;

/// Reads in flight, each in a slot with memory of its own. What was read stays there: nobody looks at it.
pub struct RingReads {
    ring: IoUring,
    file: File,
    /// Held, and touched by `base` alone: no reference is made into memory that the kernel may be writing to.
    memory: Vec<u8>,
    /// The first slot's first byte.
    base: NonNull<u8>,
    bytes: usize,
    busy: Vec<bool>,
}

impl RingReads {
    /// A ring for `slots` reads of `bytes` bytes each. The error is the kernel's where io_uring is off.
    pub fn new(file: File, slots: u32, bytes: usize) -> io::Result<RingReads> {
        let ring = IoUring::new(slots.max(1).next_power_of_two())?;
        let all = bytes.checked_mul(slots as usize).and_then(|all| all.checked_add(ALIGNMENT));
        let all = all.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let mut memory = vec![0u8; all];
        let skip = memory.as_ptr().align_offset(ALIGNMENT);
        let base = NonNull::from(&mut memory[skip..]).cast();
        Ok(RingReads { ring, file, memory, base, bytes, busy: vec![false; slots as usize] })
    }

    /// The first byte of a slot.
    fn slot(&self, slot: usize) -> NonNull<u8> {
        assert!(slot < self.busy.len(), "slot {slot} of {}", self.busy.len());
        // SAFETY: `new` made room for all slots behind `base`.
        unsafe { self.base.add(slot * self.bytes) }
    }

    /// Queues a read at `offset` in a slot that has none; [`RingReads::wait`] submits it.
    pub fn begin(&mut self, slot: usize, offset: u64) -> io::Result<()> {
        if self.busy.get(slot) != Some(&false) {
            let text = format!("slot {slot} of {}: has a read in flight, or is none", self.busy.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let len = u32::try_from(self.bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let into = self.slot(slot).as_ptr();
        let read = opcode::Read::new(types::Fd(self.file.as_raw_fd()), into, len).offset(offset);
        let entry = read.build().user_data(slot as u64);
        // SAFETY: the slot's part of `memory` and the file outlive the read: both stay until `Drop` has waited for it.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        self.busy[slot] = true;
        Ok(())
    }

    /// Submits what is queued, waits until a read has ended, and tells of each that has: its slot, and its bytes.
    pub fn wait(&mut self, mut ended: impl FnMut(usize, io::Result<usize>)) -> io::Result<()> {
        match self.ring.submit_and_wait(1) {
            // A signal: whoever waits looks whether it is to end.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            submitted => drop(submitted?),
        }
        for entry in self.ring.completion() {
            let slot = entry.user_data() as usize;
            self.busy[slot] = false;
            let result = entry.result();
            ended(slot, usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result)));
        }
        Ok(())
    }

    /// What a slot's last read brought; nothing while a read is in flight there.
    pub fn data(&self, slot: usize) -> Option<&[u8]> {
        if self.busy.get(slot) != Some(&false) {
            return None;
        }
        // SAFETY: the slot's bytes were initialized by `new`; no read is in flight there, and none begins while the
        // slice borrows `self`.
        Some(unsafe { std::slice::from_raw_parts(self.slot(slot).as_ptr(), self.bytes) })
    }

    /// Reads in flight.
    pub fn in_flight(&self) -> usize {
        self.busy.iter().filter(|busy| **busy).count()
    }
}

impl Drop for RingReads {
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            if self.wait(|_, _| ()).is_err() {
                // The kernel may still write there.
                std::mem::forget(std::mem::take(&mut self.memory));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn reads_end_with_their_bytes_and_slots_are_used_once_at_a_time() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        let mut reads = match RingReads::new(file, 2, 4096) {
            Ok(reads) => reads,
            // Containers often forbid it: then the kernel says so, and nothing else went wrong.
            Err(error) => {
                let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported];
                assert!(kinds.contains(&error.kind()), "{error}");
                return;
            }
        };
        reads.begin(0, 4096).unwrap();
        assert!(reads.begin(0, 0).is_err() && reads.begin(2, 0).is_err());
        reads.begin(1, 8192).unwrap();
        let mut found = vec![None; 2];
        while reads.in_flight() > 0 {
            reads.wait(|slot, got| found[slot] = got.ok()).unwrap();
        }
        assert_eq!(found, [Some(4096), Some(0)], "the second lies behind the end");
        assert_eq!(reads.data(0), Some(&[7; 4096][..]));
        assert!(reads.data(2).is_none(), "no such slot");
    }
}
