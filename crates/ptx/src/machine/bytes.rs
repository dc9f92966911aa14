//! Little-endian values in memory that only one lane or one block has.

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
