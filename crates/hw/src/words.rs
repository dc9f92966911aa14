//! Copies to and from memory that takes aligned words only, such as a BAR of another function, or that others write
//! meanwhile: bytes up to the first
//! aligned word, words of 8 bytes, then bytes. Nothing is read or written twice.

use std::sync::atomic::Ordering::Relaxed;

use vm_memory::{AtomicAccess, Bytes as _, VolatileSlice};

/// Bytes of a word.
const WORD: usize = 8;

/// Bytes before the first aligned word of a slice, and bytes of whole words.
fn split(slice: &VolatileSlice<'_>) -> (usize, usize) {
    let lead = slice.ptr_guard().as_ptr().align_offset(WORD).min(slice.len());
    (lead, (slice.len() - lead) / WORD * WORD)
}

fn load<T: AtomicAccess>(source: &VolatileSlice<'_>, at: usize) -> T {
    source.load(at, Relaxed).expect("inside the slice, and aligned")
}

fn store<T: AtomicAccess>(target: &VolatileSlice<'_>, at: usize, value: T) {
    target.store(value, at, Relaxed).expect("inside the slice, and aligned");
}

/// Copies all of `source`; `into` has its length.
pub(crate) fn read(source: &VolatileSlice<'_>, into: &mut [u8]) {
    let (lead, words) = split(source);
    let (head, rest) = into.split_at_mut(lead);
    let (middle, tail) = rest.split_at_mut(words);
    head.iter_mut().enumerate().for_each(|(at, byte)| *byte = load(source, at));
    for (index, word) in middle.chunks_exact_mut(WORD).enumerate() {
        word.copy_from_slice(&load::<u64>(source, lead + index * WORD).to_ne_bytes());
    }
    tail.iter_mut().enumerate().for_each(|(at, byte)| *byte = load(source, lead + words + at));
}

/// Fills all of `target` with `from`, which has its length.
pub(crate) fn write(target: &VolatileSlice<'_>, from: &[u8]) {
    let (lead, words) = split(target);
    let (head, rest) = from.split_at(lead);
    let (middle, tail) = rest.split_at(words);
    head.iter().enumerate().for_each(|(at, byte)| store(target, at, *byte));
    for (index, word) in middle.chunks_exact(WORD).enumerate() {
        let mut bytes = [0; WORD];
        bytes.copy_from_slice(word);
        store(target, lead + index * WORD, u64::from_ne_bytes(bytes));
    }
    tail.iter().enumerate().for_each(|(at, byte)| store(target, lead + words + at, *byte));
}

/// Sets every byte of `target`.
pub(crate) fn fill(target: &VolatileSlice<'_>, value: u8) {
    let (lead, words) = split(target);
    let bytes = |range: std::ops::Range<usize>| range.for_each(|at| store(target, at, value));
    bytes(0..lead);
    let word = u64::from_ne_bytes([value; WORD]);
    (lead..lead + words).step_by(WORD).for_each(|at| store(target, at, word));
    bytes(lead + words..target.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Window, WordMemory};

    #[test]
    fn windows_of_word_memory_copy_by_words() {
        let window = Window::whole(WordMemory::new(Window::host(4096).unwrap().memory().clone()));
        window.fill(0, 64, 1).unwrap();
        window.write(3, b"foreign").unwrap();
        assert_eq!(window.to_vec(2, 9).unwrap(), b"\x01foreign\x01");
        assert!(window.memory().file().is_none());
    }

    #[test]
    fn any_offset_and_length_copies_exactly_its_bytes() {
        let window = Window::host(4096).unwrap();
        let pattern: Vec<u8> = (0..64).collect();
        for offset in 0..9 {
            for len in 0..40 {
                window.fill(0, 128, 0xee).unwrap();
                let part = window.slice(offset, len).unwrap();
                write(&part.volatile(), &pattern[..len]);
                let mut expected = vec![0xee; 128];
                expected[offset..offset + len].copy_from_slice(&pattern[..len]);
                assert_eq!(window.to_vec(0, 128).unwrap(), expected, "write of {len} at {offset}");
                let mut back = vec![0; len];
                read(&part.volatile(), &mut back);
                assert_eq!(back, &pattern[..len], "read of {len} at {offset}");
                fill(&part.volatile(), 7);
                expected[offset..offset + len].fill(7);
                assert_eq!(window.to_vec(0, 128).unwrap(), expected, "fill of {len} at {offset}");
            }
        }
    }
}
