//! Client memory: one arena, of which parts are mapped for the controller and the rest are canaries.

use std::sync::Arc;

use rand::RngExt;
use warpbell_hw::{Device, DmaAccess, DmaSource, DmaSpace, Iova, Window};
use warpbell_softctl::SoftDevice;

use super::random::Random;

pub const PAGE: usize = 4096;
/// Pages of the arena.
const PAGES: usize = 192;
/// What canaries hold, as pairs of words that no other data has.
pub const SECRET: u64 = 0x5ec4_e7c0_ffee_d00d;

/// A mapped part of the arena.
pub struct Mapping {
    pub iova: u64,
    /// First page in the arena.
    pub page: usize,
    pub pages: usize,
    /// Whether the controller may read and write it.
    pub both_ways: bool,
    /// What it held when it was mapped, if the controller may not write it.
    before: Option<Vec<u8>>,
}

impl Mapping {
    pub fn bytes(&self) -> usize {
        self.pages * PAGE
    }
}

/// The client's memory.
pub struct Memory {
    space: Arc<dyn DmaSpace>,
    arena: Window,
    pub mappings: Vec<Mapping>,
    /// The controller memory buffer, and the address that it was given.
    pub buffer: Option<(u64, Window)>,
}

impl Memory {
    pub fn new(device: &SoftDevice) -> Memory {
        let arena = Window::host(PAGES * PAGE).expect("memory for the arena");
        let memory = Memory { space: device.dma(), arena, mappings: Vec::new(), buffer: None };
        memory.guard(0, PAGES);
        memory
    }

    /// Makes pages canaries.
    fn guard(&self, page: usize, pages: usize) {
        let bytes = SECRET.to_le_bytes().repeat(pages * PAGE / 8);
        self.arena.write(page * PAGE, &bytes).expect("pages inside the arena");
    }

    /// Maps `pages` pages somewhere, with a canary on either side; `None` if there is no room.
    pub fn map(&mut self, random: &mut Random, pages: usize, access: DmaAccess) -> Option<u64> {
        let start = random.random_range(1..PAGES);
        let page = (start..PAGES - pages).chain(1..start.min(PAGES - pages)).find(|page| {
            self.mappings.iter().all(|other| *page > other.page + other.pages || page + pages < other.page)
        })?;
        let window = self.arena.slice(page * PAGE, pages * PAGE).expect("pages inside the arena");
        let mut bytes = vec![0; pages * PAGE];
        random.fill(&mut bytes[..]);
        window.write(0, &bytes).expect("a write of its length");
        let iova = self.space.map(DmaSource::Memory(&window), access).expect("room for a mapping").0;
        let both_ways = access.read && access.write;
        let before = (!access.write).then_some(bytes);
        self.mappings.push(Mapping { iova, page, pages, both_ways, before });
        Some(iova)
    }

    /// Unmaps the mapping with this index; what it held becomes a canary.
    pub fn unmap(&mut self, index: usize) {
        let mapping = self.mappings.swap_remove(index);
        self.space.unmap(Iova(mapping.iova), mapping.bytes() as u64).expect("a mapping that exists");
        self.check_unwritten(&mapping);
        self.guard(mapping.page, mapping.pages);
    }

    fn find(&self, iova: u64, len: usize) -> Option<&Mapping> {
        let inside = |mapping: &&Mapping| {
            iova.checked_sub(mapping.iova)
                .is_some_and(|offset| offset.saturating_add(len as u64) <= mapping.bytes() as u64)
        };
        self.mappings.iter().find(inside)
    }

    /// The arena's bytes behind an IOVA range that is mapped in one piece.
    pub fn window(&self, iova: u64, len: usize) -> Option<Window> {
        if let Some((base, buffer)) = self.buffer.as_ref().filter(|(base, _)| iova >= *base) {
            return buffer.slice((iova - base) as usize, len).ok();
        }
        let mapping = self.find(iova, len)?;
        let offset = mapping.page * PAGE + (iova - mapping.iova) as usize;
        self.arena.slice(offset, len).ok()
    }

    /// Writes what the client wants to mapped memory. Memory that the controller cannot write is written only here.
    pub fn write(&mut self, iova: u64, bytes: &[u8]) {
        let Some(window) = self.window(iova, bytes.len()) else { return };
        window.write(0, bytes).expect("a write of its length");
        let inside = |mapping: &&mut Mapping| {
            mapping.iova <= iova && iova + bytes.len() as u64 <= mapping.iova + mapping.bytes() as u64
        };
        if let Some(mapping) = self.mappings.iter_mut().find(inside)
            && let Some(before) = &mut mapping.before
        {
            before[(iova - mapping.iova) as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// A mapping that the controller writes after all: its rings are poisoned.
    pub fn poisoned(&mut self, iova: u64) {
        let inside =
            |mapping: &&mut Mapping| (mapping.iova..mapping.iova + mapping.bytes() as u64).contains(&iova);
        if let Some(mapping) = self.mappings.iter_mut().find(inside) {
            mapping.before = None;
        }
    }

    /// Any mapping may have become a ring that is poisoned.
    pub fn poisoned_anywhere(&mut self) {
        self.mappings.iter_mut().for_each(|mapping| mapping.before = None);
    }

    fn check_unwritten(&self, mapping: &Mapping) {
        let Some(before) = &mapping.before else { return };
        let now = self.arena.to_vec(mapping.page * PAGE, mapping.bytes()).expect("pages inside the arena");
        assert!(now == *before, "memory mapped for reading at {:#x} was written", mapping.iova);
    }

    /// Nothing but memory that is mapped for writing changed.
    pub fn check(&self) {
        self.mappings.iter().for_each(|mapping| self.check_unwritten(mapping));
        let bytes = self.arena.to_vec(0, PAGES * PAGE).expect("the whole arena");
        let canary = SECRET.to_le_bytes().repeat(PAGE / 8);
        for page in 0..PAGES {
            if self.mappings.iter().any(|m| (m.page..m.page + m.pages).contains(&page)) {
                continue;
            }
            let found = &bytes[page * PAGE..][..PAGE];
            if found != canary {
                let bad = found.iter().zip(&canary).position(|(one, other)| one != other);
                panic!("the canary in page {page} of the arena was written at {bad:?}");
            }
        }
    }
}

/// Whether bytes hold a piece of a canary, wherever it begins.
pub fn leaks(bytes: &[u8]) -> bool {
    // Data moves by dwords, so a piece of a canary has a whole word of it at one of two alignments. Without branches:
    // there are many words.
    let holds = |bytes: &[u8]| {
        let words = bytes.as_chunks::<8>().0.iter();
        words.fold(false, |found, word| found | (u64::from_le_bytes(*word) == SECRET))
    };
    holds(bytes) || holds(bytes.get(4..).unwrap_or_default())
}
