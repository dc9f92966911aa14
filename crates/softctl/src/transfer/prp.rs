//! Physical Region Pages (Base 2.0, 4.1.1).

use warpbell_hw::DmaAccess;
use warpbell_nvme::Status;
use warpbell_nvme::data::{PRP_ENTRY_SIZE, page_offset, prp_last_slot_chains, prp_list_slots};

use super::Walk;
use crate::checker::Rule;
use crate::engine::{Refused, never};

/// Entries read from a list at a time.
const CHUNK: u64 = 64;

impl Walk<'_> {
    /// Walks PRP1, PRP2 and lists for `len` bytes.
    pub(super) fn prp(&mut self, len: usize) -> Result<(), Refused> {
        let (prp1, prp2) = (self.command.sqe.prp1(), self.command.sqe.prp2());
        let page = self.engine.limits.page;
        if prp1 & 3 != 0 {
            self.violation(Rule::PrpMisaligned, format_args!("PRP1 {prp1:#x} is not dword aligned"));
            return Err(never(Status::INVALID_PRP_OFFSET));
        }
        let first = len.min((page - page_offset(prp1, page)) as usize);
        if first > 0 {
            self.push(prp1, first)?;
        }
        let rest = len - first;
        if rest == 0 {
            if prp2 != 0 {
                self.violation(
                    Rule::PrpUnneeded,
                    format_args!("PRP2 is {prp2:#x} for {len} bytes at {prp1:#x}"),
                );
            }
            Ok(())
        } else if rest as u64 <= page {
            self.page(prp2, rest, "PRP2")
        } else {
            self.list(prp2, rest)
        }
    }

    /// Adds up to a page of data at the start of a page.
    fn page(&mut self, entry: u64, len: usize, name: &str) -> Result<(), Refused> {
        if page_offset(entry, self.engine.limits.page) != 0 {
            return Err(self.offset(entry, name));
        }
        self.push(entry, len)
    }

    #[cold]
    fn offset(&self, entry: u64, name: &str) -> Refused {
        self.violation(Rule::PrpOffset, format_args!("{name} {entry:#x} has a page offset"));
        never(Status::INVALID_PRP_OFFSET)
    }

    /// Adds the pages of a list, and of the lists that it chains to.
    fn list(&mut self, mut at: u64, mut rest: usize) -> Result<(), Refused> {
        let page = self.engine.limits.page;
        if at & 7 != 0 {
            self.violation(
                Rule::PrpMisaligned,
                format_args!("PRP list pointer {at:#x} is not qword aligned"),
            );
            return Err(never(Status::INVALID_PRP_OFFSET));
        }
        let mut seen = Vec::new();
        loop {
            let slots = prp_list_slots(page_offset(at, page), page);
            let needed = (rest as u64).div_ceil(page);
            if needed <= slots {
                self.entries(at, needed, &mut rest)?;
                if needed == slots {
                    self.suspect_chain(at + (slots - 1) * PRP_ENTRY_SIZE)?;
                }
                return Ok(());
            }
            debug_assert!(prp_last_slot_chains(needed - (slots - 1)));
            self.entries(at, slots - 1, &mut rest)?;
            let next = self.entry(at + (slots - 1) * PRP_ENTRY_SIZE)?;
            if page_offset(next, page) != 0 {
                return Err(self.offset(next, "pointer to the next PRP list"));
            }
            seen.push(at);
            if seen.contains(&next) {
                let what =
                    format_args!("PRP list {at:#x} leads back to {next:#x}, with {rest} bytes to describe");
                self.violation(Rule::PrpLoop, what);
                return Err(never(Status::DATA_TRANSFER_ERROR));
            }
            at = next;
        }
    }

    fn entry(&self, at: u64) -> Result<u64, Refused> {
        let mut bytes = [0; 8];
        self.fetch(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Adds the pages that `count` entries from `at` on point at.
    fn entries(&mut self, at: u64, count: u64, rest: &mut usize) -> Result<(), Refused> {
        let mut bytes = [0; (CHUNK * PRP_ENTRY_SIZE) as usize];
        let mut done = 0;
        while done < count {
            let piece = CHUNK.min(count - done);
            let bytes = &mut bytes[..(piece * PRP_ENTRY_SIZE) as usize];
            self.fetch(at + done * PRP_ENTRY_SIZE, bytes)?;
            for entry in bytes.as_chunks().0 {
                let len = (*rest).min(self.engine.limits.page as usize);
                self.page(u64::from_le_bytes(*entry), len, "PRP list entry")?;
                *rest -= len;
            }
            done += piece;
        }
        Ok(())
    }

    /// The last slot of a full list page holds the last entry, so it points at data. A client that chains there all
    /// the same is caught by what it points at: a page that begins with the address of a mapped page.
    fn suspect_chain(&self, slot: u64) -> Result<(), Refused> {
        let target = self.entry(slot)?;
        let mut bytes = [0; 8];
        if !self.engine.view.read(target, &mut bytes) {
            return Ok(());
        }
        let pointed = u64::from_le_bytes(bytes);
        let page = self.engine.limits.page;
        let looks_like_entry = pointed != 0
            && page_offset(pointed, page) == 0
            && self.engine.view.resolve(pointed, 1, DmaAccess::READ).is_some();
        if looks_like_entry {
            let what = format_args!("last slot {slot:#x} holds {target:#x}, which looks like another list");
            self.violation(Rule::PrpChainUnneeded, what);
        }
        Ok(())
    }
}
