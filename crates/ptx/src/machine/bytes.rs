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
        write(&mut self.written, at, count, u64::MAX)?;
        write(&mut self.bytes, at, count, value)
    }

    /// Whether any of these bytes was written.
    pub(super) fn is_written(&self, at: u64, count: u8) -> bool {
        read(&self.written, at, count).is_some_and(|written| written != 0)
    }
}

/// `count` bytes (1, 2, 4 or 8) at `at`; nothing where there are not so many.
pub(super) fn read(memory: &[u8], at: u64, count: u8) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    // An arm for each size: copies of a size that the compiler does not know are calls.
    Some(match *memory.get(at..at.checked_add(usize::from(count))?)? {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => return None,
    })
}

pub(super) fn write(memory: &mut [u8], at: u64, count: u8, value: u64) -> Option<()> {
    let at = usize::try_from(at).ok()?;
    let value = value.to_le_bytes();
    match memory.get_mut(at..at.checked_add(usize::from(count))?)? {
        [one] => *one = value[0],
        two @ [_, _] => two.copy_from_slice(&value[..2]),
        four @ [_, _, _, _] => four.copy_from_slice(&value[..4]),
        eight @ [_, _, _, _, _, _, _, _] => eight.copy_from_slice(&value),
        _ => return None,
    }
    Some(())
}

/// Whether an address is a multiple of a size that is a power of two.
pub(super) fn is_aligned(address: u64, size: u64) -> bool {
    address & (size - 1) == 0
}
