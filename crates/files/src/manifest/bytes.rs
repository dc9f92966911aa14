//! Reads of structures on disks.

use std::cell::RefCell;

use crate::{Error, NamespaceId, Source};

/// `N` bytes of a source.
pub fn read<const N: usize>(source: &dyn Source, at: u64) -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    source.read_at(at, &mut bytes)?;
    Ok(bytes)
}

/// A UUID as people write it.
pub fn uuid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, byte) in bytes.iter().take(16).enumerate() {
        let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
        text += &format!("{dash}{byte:02x}");
    }
    text
}

/// Text that ends with NUL, or with its field.
pub fn label(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Bytes of a window.
const WINDOW: u64 = 4096;
/// Windows that are kept: inodes and the descriptors of their groups are read in turns.
const KEPT: usize = 4;

/// A source whose last reads are kept, for small reads beside each other.
pub struct Windows<'a> {
    source: &'a dyn Source,
    /// The last one that was used is first.
    kept: RefCell<Vec<(u64, Vec<u8>)>>,
}

impl<'a> Windows<'a> {
    pub fn new(source: &'a dyn Source) -> Windows<'a> {
        Windows { source, kept: RefCell::new(Vec::new()) }
    }

    fn window(&self, kept: &mut Vec<(u64, Vec<u8>)>, start: u64) -> Result<(), Error> {
        if let Some(index) = kept.iter().position(|(at, _)| *at == start) {
            kept[..=index].rotate_right(1);
            return Ok(());
        }
        let bytes = WINDOW.min(self.source.bytes().saturating_sub(start));
        let mut window = vec![0; bytes as usize];
        self.source.read_at(start, &mut window)?;
        kept.truncate(KEPT - 1);
        kept.insert(0, (start, window));
        Ok(())
    }
}

impl Source for Windows<'_> {
    fn bytes(&self) -> u64 {
        self.source.bytes()
    }

    fn block_size(&self) -> u32 {
        self.source.block_size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let end = offset.checked_add(into.len() as u64).filter(|end| *end <= self.bytes());
        if end.is_none() || into.len() as u64 > WINDOW {
            return self.source.read_at(offset, into);
        }
        let (mut next, mut rest) = (offset, into);
        let mut kept = self.kept.borrow_mut();
        while !rest.is_empty() {
            let start = next / WINDOW * WINDOW;
            self.window(&mut kept, start)?;
            let window = &kept[0].1[(next - start) as usize..];
            let (now, later) = rest.split_at_mut(window.len().min(rest.len()));
            now.copy_from_slice(&window[..now.len()]);
            (next, rest) = (next + now.len() as u64, later);
        }
        Ok(())
    }

    fn namespace(&self) -> Option<NamespaceId> {
        self.source.namespace()
    }
}
