//! The fast path: plain reads and writes of memory namespaces, a batch at a time.
//!
//! Only commands without any oddity are served here; everything else, and everything wrong, takes the general way,
//! which decides and reports. A batch first touches what its commands will need (entries, then blocks), so that
//! the cache misses of many commands overlap.

use vm_memory::VolatileSlice;
use warpbell_hw::DmaAccess;
use warpbell_nvme::command::ReadWrite;
use warpbell_nvme::data::page_offset;
use warpbell_nvme::{NvmOpcode, Sqe, Status};

use crate::engine::{Command, Engine};
use crate::nvm::Outcome;
use crate::poll_group::{MAX_BURST, PollGroup};
use crate::queue::Sq;
use crate::store::{MemoryStore, Store};

/// CDW12 bits that need nothing done: the number of blocks, Force Unit Access and Limited Retry.
const PLAIN_CDW12: u32 = ReadWrite::new().with_nlb_z(u16::MAX).with_fua(true).with_lr(true).into_bits();
const READ: u16 = NvmOpcode::READ.0 as u16;
const WRITE: u16 = NvmOpcode::WRITE.0 as u16;
/// PSDT in the low half of dword 0.
const PSDT_SGL: u16 = 1 << 14;
/// Bytes of a command's blocks that are worth asking for early; the processor finds the rest by itself.
const PREFETCH: usize = 1024;
/// Commands executed before their completions are posted.
const GROUP: u32 = 8;

impl PollGroup {
    /// Serves `count` commands of a queue: they are pending and their completions have room.
    ///
    /// Commands go in groups. While one is executed, the blocks of the next are on their way into the cache; and the
    /// completions of a group are posted together, because the client polls their cache lines, which would otherwise
    /// travel to it and back for every command.
    pub(crate) fn serve_batch(&mut self, index: usize, count: u32) {
        let sq = &mut self.sqs[index];
        let cq = &mut self.cqs[sq.cq];
        let engine = &mut self.engine;
        (0..count).for_each(|ahead| sq.prefetch(ahead));
        // All but the entry that the client is polling.
        (1..count).step_by(4).for_each(|ahead| cq.prefetch(ahead + 3));
        (0..count.min(GROUP)).for_each(|ahead| engine.prefetch(sq, ahead));
        let mut identifiers = [0; MAX_BURST as usize];
        let mut statuses = [Status::SUCCESS; GROUP as usize];
        let mut done = 0;
        while done < count {
            let group = GROUP.min(count - done);
            let head = sq.head;
            let next = group..(group + GROUP).min(count - done);
            next.for_each(|ahead| engine.prefetch(sq, ahead));
            let identifiers = &mut identifiers[done as usize..][..group as usize];
            for (cid, status) in identifiers.iter_mut().zip(&mut statuses) {
                (*cid, *status) = serve(engine, sq);
            }
            for ((cid, status), ahead) in identifiers.iter().zip(statuses).zip(1..) {
                cq.post_status(sq.id, sq.position(head, ahead), *cid, status);
            }
            done += group;
        }
        // Nothing of a batch outlives it, but inside it an identifier used twice is found.
        identifiers[..count as usize].iter().for_each(|cid| sq.end(*cid));
    }
}

/// Fetches and executes one command; returns its identifier and status.
#[inline(always)]
fn serve(engine: &mut Engine, sq: &mut Sq) -> (u16, Status) {
    let words = sq.peek(0);
    sq.advance();
    let cid = (words[0] >> 16) as u16;
    if sq.begin(cid) && conflict(engine, sq, &words) {
        return (cid, Status::CID_CONFLICT.with_dnr(true));
    }
    let status = match engine.quick(&words) {
        Some(status) => status,
        None => match engine.execute(sq.id, &zerocopy::transmute!(words)) {
            Outcome::Done(status) => status,
            // A poll group with remote memory has no batches.
            Outcome::Copying(_) => Status::INTERNAL_ERROR,
        },
    };
    (cid, status)
}

#[cold]
fn conflict(engine: &Engine, sq: &mut Sq, words: &[u64; 8]) -> bool {
    let sqe: Sqe = zerocopy::transmute!(*words);
    let sqid = sq.id;
    engine.conflict(sq, Command { sqid, sqe: &sqe })
}

/// The memory store of a namespace, with its geometry.
#[inline(always)]
fn memory_of<'e>(engine: &'e Engine, words: &[u64; 8]) -> Option<(&'e MemoryStore, u8, u64)> {
    let nsid = (words[0] >> 32) as usize;
    let namespace = engine.namespaces.get(nsid.wrapping_sub(1))?;
    match &namespace.store {
        Store::Memory(memory) => Some((memory, namespace.shift, namespace.blocks)),
        Store::File(_) => None,
    }
}

impl Engine {
    /// Asks for the memory of the command `ahead` entries after the head, whatever it will turn out to be.
    #[inline(always)]
    fn prefetch(&self, sq: &Sq, ahead: u32) {
        let words = sq.peek(ahead);
        let Some((memory, shift, _)) = memory_of(self, &words) else { return };
        let bytes = (((words[6] as u16 as usize) + 1) << shift).min(PREFETCH);
        let write = words[0] as u8 == WRITE as u8;
        memory.prefetch(words[5].wrapping_shl(shift.into()), bytes, write);
        self.view.prefetch(words[3], bytes, !write);
    }

    /// Executes a plain read or write; `None` leaves the command, untouched, to the general way.
    #[inline(always)]
    fn quick(&mut self, words: &[u64; 8]) -> Option<Status> {
        let kind = words[0] as u16;
        let cdw12 = words[6] as u32;
        let odd = words[1] | words[2] | words[7] | words[6] >> 32 | u64::from(cdw12 & !PLAIN_CDW12);
        let write = match kind & !PSDT_SGL {
            READ => false,
            WRITE => true,
            _ => return None,
        };
        let (memory, shift, blocks) = memory_of(self, words)?;
        let (lba, count) = (words[5], u64::from(cdw12 as u16) + 1);
        let bytes = count << shift;
        if odd != 0 || lba >= blocks || count > blocks - lba || bytes > self.limits.bytes {
            return None;
        }
        let access = if write { DmaAccess::READ } else { DmaAccess::WRITE };
        let (first, second) = if kind & PSDT_SGL == 0 {
            self.plain_prp(words[3], words[4], bytes, access)?
        } else {
            self.plain_sgl(words[3], words[4], bytes, access)?
        };
        let offset = lba << shift;
        copy(memory, offset, first, write);
        if let Some(second) = second {
            copy(memory, offset + first.len() as u64, second, write);
        }
        let statistics = &mut self.statistics;
        statistics.io_commands[usize::from(kind as u8)] += 1;
        *(if write { &mut statistics.bytes_written } else { &mut statistics.bytes_read }) += bytes;
        Some(Status::SUCCESS)
    }

    /// One or two pages without a list.
    #[inline(always)]
    fn plain_prp(
        &self,
        prp1: u64,
        prp2: u64,
        bytes: u64,
        access: DmaAccess,
    ) -> Option<(VolatileSlice<'_>, Option<VolatileSlice<'_>>)> {
        let page = self.limits.page;
        let first = bytes.min(page - page_offset(prp1, page));
        let rest = bytes - first;
        let plain =
            prp1 & 3 == 0 && if rest == 0 { prp2 == 0 } else { page_offset(prp2, page) == 0 && rest <= page };
        if !plain {
            return None;
        }
        let one = self.view.resolve(prp1, first as usize, access)?;
        if rest == 0 {
            return Some((one, None));
        }
        Some((one, Some(self.view.resolve(prp2, rest as usize, access)?)))
    }

    /// One data block in the command, of exactly the data's length: the second quadword has nothing else.
    #[inline(always)]
    fn plain_sgl(
        &self,
        at: u64,
        second: u64,
        bytes: u64,
        access: DmaAccess,
    ) -> Option<(VolatileSlice<'_>, Option<VolatileSlice<'_>>)> {
        if second != bytes || !self.limits.sgl {
            return None;
        }
        Some((self.view.resolve(at, bytes as usize, access)?, None))
    }
}

#[inline(always)]
fn copy(memory: &MemoryStore, offset: u64, client: VolatileSlice<'_>, write: bool) {
    if write { memory.write(offset, client) } else { memory.read(offset, client) }
}
