//! All memory that kernels and controller share in a check, as one piece that is copied away and back.

use warpbell_hw::Window;

use crate::memory::{copy_in, copy_out};

/// A named part of it.
#[derive(Clone, Debug)]
struct Part {
    name: &'static str,
    offset: usize,
    bytes: usize,
    /// Bytes of one element, where it is an array.
    element: usize,
}

/// The memory. Parts are added first, then it is [mapped](Arena::map).
#[derive(Debug, Default)]
pub struct Arena {
    parts: Vec<Part>,
    bytes: usize,
    window: Option<Window>,
    /// Runs of words that change: first and number. What is not here stays as it was filled.
    kept: Vec<(usize, usize)>,
}

impl Arena {
    /// Adds an array of `count` elements of `element` bytes, aligned to 64; returns its offset.
    pub fn part(&mut self, name: &'static str, count: usize, element: usize) -> usize {
        assert!(self.window.is_none(), "{name} comes after the memory was mapped");
        let offset = self.bytes;
        self.parts.push(Part { name, offset, bytes: count * element, element });
        self.bytes = (offset + count * element).next_multiple_of(64);
        offset
    }

    /// Names `bytes` bytes at `offset`, inside a part, for messages.
    pub fn field(&mut self, name: &'static str, offset: usize, bytes: usize) {
        self.parts.push(Part { name, offset, bytes, element: bytes });
    }

    /// Says that the words of `bytes` bytes from `offset` on change, and are part of a state.
    pub fn keep(&mut self, offset: usize, bytes: usize) {
        let (first, end) = (offset / 8, (offset + bytes).div_ceil(8));
        match self.kept.last_mut() {
            Some((last, count)) if *last + *count >= first => *count = (*count).max(end - *last),
            _ => self.kept.push((first, end - first)),
        }
    }

    /// Offsets of the words that are part of a state, in their order there.
    pub(super) fn kept_offsets(&self) -> Vec<usize> {
        self.kept.iter().flat_map(|&(first, count)| first..first + count).map(|word| word * 8).collect()
    }

    /// Whether changes of `bytes` bytes at `address` are part of a state.
    pub fn keeps(&self, address: u64, bytes: u32) -> bool {
        let offset = address.wrapping_sub(self.base()) as usize;
        let (first, end) = (offset / 8, (offset + bytes as usize).div_ceil(8));
        self.kept.iter().any(|&(at, count)| at <= first && end <= at + count)
    }

    /// Maps it, zeroed.
    pub fn map(mut self) -> anyhow::Result<Arena> {
        self.window = Some(Window::host(self.bytes)?);
        Ok(self)
    }

    /// Where kernels see it.
    pub fn base(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.as_ptr() as u64)
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no parts.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Whether `address` lies in it.
    pub fn holds(&self, address: u64) -> bool {
        (self.base()..self.base() + self.bytes as u64).contains(&address)
    }

    /// The word at `offset`, a multiple of 8.
    pub fn word(&self, offset: usize) -> u64 {
        let mut word = [0];
        self.read(offset, &mut word);
        word[0]
    }

    /// The 32 bits at `offset`, a multiple of 4.
    pub fn half(&self, offset: usize) -> u32 {
        (self.word(offset & !7) >> (offset % 8 * 8)) as u32
    }

    /// Words from `offset` on.
    pub fn read(&self, offset: usize, to: &mut [u64]) {
        assert!(offset + to.len() * 8 <= self.bytes, "offset {offset} of {} bytes", self.bytes);
        copy_out(self.base() + offset as u64, to);
    }

    /// Writes words from `offset` on.
    pub fn write(&self, offset: usize, from: &[u64]) {
        assert!(offset + from.len() * 8 <= self.bytes, "offset {offset} of {} bytes", self.bytes);
        copy_in(self.base() + offset as u64, from);
    }

    /// Words that [`save`](Arena::save) appends.
    pub(super) fn kept_words(&self) -> usize {
        self.kept.iter().map(|(_, count)| count).sum()
    }

    /// Appends all that changes.
    pub fn save(&self, to: &mut Vec<u64>) {
        for &(first, count) in &self.kept {
            let at = to.len();
            to.resize(at + count, 0);
            self.read(first * 8, &mut to[at..]);
        }
    }

    /// Puts back what [`save`](Arena::save) appended; returns the rest.
    pub fn restore<'a>(&self, mut from: &'a [u64]) -> &'a [u64] {
        for &(first, count) in &self.kept {
            let (own, rest) = from.split_at(count);
            self.write(first * 8, own);
            from = rest;
        }
        from
    }

    /// What lies at `address`, for messages.
    pub fn name(&self, address: u64) -> String {
        let offset = address.wrapping_sub(self.base()) as usize;
        let part =
            self.parts.iter().rev().find(|part| (part.offset..part.offset + part.bytes).contains(&offset));
        let Some(Part { name, offset: start, bytes, element }) = part else { return format!("{address:#x}") };
        let (index, rest) = ((offset - start) / element, (offset - start) % element);
        let index = if bytes > element { format!("[{index}]") } else { String::new() };
        let rest = if rest > 0 { format!("+{rest}") } else { String::new() };
        format!("{name}{index}{rest}")
    }
}
