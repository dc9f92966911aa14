//! Commands that kernels gave up: what their masks and words say of them.

use std::collections::HashSet;

use warpbell_driver::QueuePair;
use warpbell_kernels::abi;

use super::ladder::Command;
use super::table::QueueTable;
use crate::{Error, Sharing};

impl QueueTable {
    /// Commands that are quarantined, and those of them whose completion is not there.
    pub(super) fn quarantined(
        &self,
        slot: usize,
        pair: Option<&QueuePair>,
    ) -> Result<(HashSet<Command>, Vec<Command>), Error> {
        let (queues, layout) = (&self.parts.queues, self.parts.queues.layout());
        let (mut all, mut missing) = (HashSet::new(), Vec::new());
        for (lane, mask) in queues.pages().quarantined(slot) {
            for k in (0..layout.commands_per_lane()).filter(|k| mask >> k & 1 != 0) {
                let word = queues.word(slot, ((lane << layout.token_shift) | k) as usize)?;
                let generation = (word >> abi::SLOT_GENERATION_SHIFT) as u16;
                let command = Command { lane, k, generation };
                all.insert(command);
                if word & abi::SLOT_PENDING != 0 {
                    missing.push(command);
                }
            }
        }
        if let (Some(pair), false) = (pair, missing.is_empty()) {
            let posted = self.posted(slot, pair)?;
            missing.retain(|command| !posted.contains(&(self.cid(*command) as u16)));
        }
        Ok((all, missing))
    }

    /// Identifiers of commands whose completions are in the ring, and that no lane has taken. The warp of an exclusive
    /// queue tells nobody how far it is, and wide identifiers lie elsewhere.
    fn posted(&self, slot: usize, pair: &QueuePair) -> Result<Vec<u16>, Error> {
        if self.parts.queues.sharing() == Sharing::Exclusive || self.parts.controller.wide_cids() {
            return Ok(Vec::new());
        }
        let head = self.parts.queues.counters(slot)?.head;
        Ok(pair.posted(head)?.into_iter().map(|cqe| cqe.cid).collect())
    }

    /// The identifier of a command on the wire.
    pub(crate) fn cid(&self, command: Command) -> u32 {
        let layout = self.parts.queues.layout();
        let (warp_slot, local) = self.split(command);
        warp_slot << layout.local_bits | local
    }

    /// What its kernel calls it.
    pub(crate) fn tag(&self, command: Command) -> u32 {
        let (warp_slot, local) = self.split(command);
        warp_slot << 16 | local
    }

    fn split(&self, command: Command) -> (u32, u32) {
        let (layout, Command { lane, k, .. }) = (self.parts.queues.layout(), command);
        (lane / 32, (lane % 32) << (layout.local_bits - 5) | k)
    }
}
