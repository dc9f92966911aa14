//! Memory that only one lane or one block has, and which of its bytes were written.

/// Little-endian values, at addresses from 0.
#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: Vec<u8>,
    /// Not zero where a byte was written.
    written: Vec<u8>,
}

impl Room {
    /// So many bytes, of which none was written.
    pub(super) fn new(bytes: usize) -> Room {
        Room { bytes: vec![0; bytes], written: vec![0; bytes] }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// More bytes, which were not written, or fewer.
    pub(super) fn resize(&mut self, bytes: usize) {
        self.bytes.resize(bytes, 0);
        self.written.resize(bytes, 0);
    }

    pub(super) fn read(&self, at: u64, count: u8) -> Option<u64> {
        read(&self.bytes, at, count)
    }

    pub(super) fn write(&mut self, at: u64, count: u8, value: u64) -> Option<()> {
        let (at, count) = (usize::try_from(at).ok()?, usize::from(count));
        let end = at.checked_add(count)?;
        self.written.get_mut(at..end)?.fill(u8::MAX);
        self.bytes.get_mut(at..end)?.copy_from_slice(&value.to_le_bytes()[..count]);
        Some(())
    }

    /// Whether any of these bytes was written.
    pub(super) fn is_written(&self, at: u64, count: u8) -> bool {
        read(&self.written, at, count).is_some_and(|written| written != 0)
    }
}

/// `count` bytes at `at`; nothing where there are not so many.
pub(super) fn read(memory: &[u8], at: u64, count: u8) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = memory.get(at..at.checked_add(usize::from(count))?)?;
    let mut value = [0; 8];
    value[..bytes.len()].copy_from_slice(bytes);
    Some(u64::from_le_bytes(value))
}

pub(super) fn write(memory: &mut [u8], at: u64, count: u8, value: u64) -> Option<()> {
    let at = usize::try_from(at).ok()?;
    let bytes = memory.get_mut(at..at.checked_add(usize::from(count))?)?;
    bytes.copy_from_slice(&value.to_le_bytes()[..usize::from(count)]);
    Some(())
}
