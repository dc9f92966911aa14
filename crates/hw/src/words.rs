//! Copies to and from memory that takes aligned words only, such as a BAR of another function, or that others write
//! meanwhile: bytes up to the first
//! aligned word, words of 8 bytes, then bytes. Nothing is read or written twice.

use std::sync::atomic::Ordering::Relaxed;

use crate::Window;

/// Bytes of a word.
const WORD: usize = 8;

/// Bytes before the first aligned word of a window, and bytes of whole words.
fn split(window: &Window) -> (usize, usize) {
    let lead = window.as_ptr().align_offset(WORD).min(window.len());
    (lead, (window.len() - lead) / WORD * WORD)
}

/// Copies all of `source`; `into` has its length.
pub(crate) fn read(source: &Window, into: &mut [u8]) {
    let (lead, words) = split(source);
    let (head, rest) = into.split_at_mut(lead);
    let (middle, tail) = rest.split_at_mut(words);
    head.iter_mut().enumerate().for_each(|(at, byte)| *byte = source.load_u8(at, Relaxed));
    for (index, word) in middle.chunks_exact_mut(WORD).enumerate() {
        word.copy_from_slice(&source.load_u64(lead + index * WORD, Relaxed).to_ne_bytes());
    }
    tail.iter_mut().enumerate().for_each(|(at, byte)| *byte = source.load_u8(lead + words + at, Relaxed));
}

/// Fills all of `target` with `from`, which has its length.
pub(crate) fn write(target: &Window, from: &[u8]) {
    let (lead, words) = split(target);
    let (head, rest) = from.split_at(lead);
    let (middle, tail) = rest.split_at(words);
    head.iter().enumerate().for_each(|(at, byte)| target.store_u8(at, *byte, Relaxed));
    for (index, word) in middle.chunks_exact(WORD).enumerate() {
        let mut bytes = [0; WORD];
        bytes.copy_from_slice(word);
        target.store_u64(lead + index * WORD, u64::from_ne_bytes(bytes), Relaxed);
    }
    tail.iter().enumerate().for_each(|(at, byte)| target.store_u8(lead + words + at, *byte, Relaxed));
}

/// Sets every byte of `target`.
pub(crate) fn fill(target: &Window, value: u8) {
    let (lead, words) = split(target);
    let bytes = |range: std::ops::Range<usize>| range.for_each(|at| target.store_u8(at, value, Relaxed));
    bytes(0..lead);
    let word = u64::from_ne_bytes([value; WORD]);
    (lead..lead + words).step_by(WORD).for_each(|at| target.store_u64(at, word, Relaxed));
    bytes(lead + words..target.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WordMemory;

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
                write(&part, &pattern[..len]);
                let mut expected = vec![0xee; 128];
                expected[offset..offset + len].copy_from_slice(&pattern[..len]);
                assert_eq!(window.to_vec(0, 128).unwrap(), expected, "write of {len} at {offset}");
                let mut back = vec![0; len];
                read(&part, &mut back);
                assert_eq!(back, &pattern[..len], "read of {len} at {offset}");
                fill(&part, 7);
                expected[offset..offset + len].fill(7);
                assert_eq!(window.to_vec(0, 128).unwrap(), expected, "fill of {len} at {offset}");
            }
        }
    }
}
