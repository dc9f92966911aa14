//! Commands: valid ones, valid ones with a mutation, and noise.

use rand::RngExt;
use rand::seq::IndexedRandom;
use warpbell_hw::DmaAccess;
use warpbell_nvme::command::{self, DsmCdw11, NSID_ALL, Sqe};
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::feature::{FeatureId, FeatureSelect};
use warpbell_nvme::identify::Cns;
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::queue_command::{self, QueuePriority};

use super::memory::PAGE;
use super::random::Random;
use super::world::World;

/// Blocks of each namespace.
pub const BLOCKS: u64 = 256;
/// Entry counts that queues are created with.
const ENTRIES: [u16; 6] = [2, 3, 4, 8, 16, 64];

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    *from.choose(random).expect("something to choose from")
}

/// Mostly small, sometimes at an edge, sometimes anything.
fn number(random: &mut Random, small: u32) -> u32 {
    match random.random_range(0..8) {
        0 => random.random(),
        1 => pick(random, &[0, 1, u32::MAX, u32::MAX - 1, 0xffff, 0x1_0000, 0x8000_0000]),
        _ => random.random_range(0..small),
    }
}

impl World {
    /// An address in memory that is mapped and no queue's, with `len` bytes after it where possible.
    fn data_address(&mut self, len: usize) -> u64 {
        for attempt in 0..8 {
            let Some(mapping) = self.memory.mappings.choose(&mut self.random) else { break };
            // At first something that suits every command, then anything.
            if attempt < 6 && (mapping.bytes() < len || !mapping.both_ways) {
                continue;
            }
            let room = mapping.bytes().saturating_sub(len).max(1) as u64;
            let iova = mapping.iova + (self.random.random_range(0..room) & !3);
            if !self.queues.touches(iova, len) {
                return iova;
            }
        }
        self.random.random()
    }

    /// Points a command at `len` bytes, well formed.
    fn with_data(&mut self, sqe: Sqe, len: usize) -> Sqe {
        // Admin commands take PRPs only; a mutation may say otherwise.
        let kinds = if self.sgl { 0..6 } else { 3..6 };
        let kind = self.random.random_range(kinds);
        self.with_pointer(sqe, len, kind)
    }

    fn with_prps(&mut self, sqe: Sqe, len: usize) -> Sqe {
        self.with_pointer(sqe, len, 3)
    }

    fn with_pointer(&mut self, mut sqe: Sqe, len: usize, kind: u32) -> Sqe {
        let at = self.data_address(len);
        match kind {
            0 | 1 => sqe.set_sgl(SglDescriptor::data_block(at, len as u32)),
            2 => {
                let segment = self.sgl_segment(at, len as u32);
                sqe.set_sgl(segment);
            }
            _ => {
                let first = PAGE - at as usize % PAGE;
                let next = (at & !(PAGE as u64 - 1)).wrapping_add(PAGE as u64);
                let second = match len.saturating_sub(first) {
                    0 => 0,
                    rest if rest <= PAGE => next,
                    rest => self.prp_list(next, rest.div_ceil(PAGE)),
                };
                sqe.set_prp(at, second);
            }
        }
        sqe
    }

    /// A PRP list in client memory for `pages` pages from `first` on, with a mutation now and then.
    fn prp_list(&mut self, first: u64, pages: usize) -> u64 {
        let at = self.data_address(pages * 8) & !7;
        let mut entries: Vec<u64> =
            (0..pages as u64).map(|page| first.wrapping_add(page * PAGE as u64)).collect();
        if self.random.random_range(0..4) == 0 {
            let index = self.random.random_range(0..pages);
            entries[index] ^= 1 << self.random.random_range(0..64);
        }
        let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        self.write(at, &bytes);
        at
    }

    /// An SGL segment that describes `len` bytes at `at`, with a mutation now and then.
    fn sgl_segment(&mut self, at: u64, len: u32) -> SglDescriptor {
        let half = len / 2;
        let mut descriptors = vec![
            SglDescriptor::data_block(at, half),
            SglDescriptor::data_block(at.wrapping_add(half.into()), len - half),
        ];
        if self.random.random_range(0..3) == 0 {
            descriptors.insert(1, SglDescriptor::bit_bucket(self.random.random_range(0..512)));
        }
        let where_to = self.data_address(64) & !7;
        if self.random.random_range(0..4) == 0 {
            let length = descriptors.len() as u32 * 16;
            descriptors.push(SglDescriptor::segment(where_to, length));
        }
        let mut bytes: Vec<u8> = Vec::new();
        for descriptor in &descriptors {
            descriptor.into_qwords().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        if self.random.random_range(0..4) == 0 {
            let bit = self.random.random_range(0..bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.write(where_to, &bytes);
        let last = self.random.random_range(0..4) > 0;
        let length = bytes.len() as u32;
        if last {
            SglDescriptor::last_segment(where_to, length)
        } else {
            SglDescriptor::segment(where_to, length)
        }
    }

    fn valid_io(&mut self) -> Sqe {
        let nsid = self.random.random_range(1..=self.block_sizes.len() as u32);
        let block = self.block_sizes[nsid as usize - 1] as usize;
        let count = self.random.random_range(1..=if block == 512 { 64 } else { 10 });
        let lba = self.random.random_range(0..=BLOCKS - count);
        let (len, nlb_z) = (count as usize * block, (count - 1) as u16);
        match self.random.random_range(0..10) {
            0..3 => self.with_data(command::read(nsid, lba, nlb_z), len),
            3..6 => self.with_data(command::write(nsid, lba, nlb_z), len),
            6 => self.with_data(command::compare(nsid, lba, nlb_z), len),
            7 => command::write_zeroes(nsid, lba, nlb_z, self.random.random()),
            8 => command::flush(if self.random.random() { nsid } else { NSID_ALL }),
            _ => {
                let ranges = self.random.random_range(0..4u8);
                let sqe = command::dataset_management(nsid, ranges, DsmCdw11::new().with_ad(true));
                self.with_data(sqe, (usize::from(ranges) + 1) * 16)
            }
        }
    }

    /// A queue identifier, most often one that may exist.
    fn qid(&mut self) -> u16 {
        self.random.random_range(0..=self.queue_pairs + 1)
    }

    fn queue_command(&mut self) -> Sqe {
        let (qid, entries) = (self.qid(), pick(&mut self.random, &ENTRIES));
        match self.random.random_range(0..8) {
            0..3 => {
                let base = self.data_address(PAGE) & !(PAGE as u64 - 1);
                let vector = self.random.random::<bool>().then(|| self.random.random_range(0..5));
                queue_command::create_io_cq(qid, entries - 1, base, vector)
            }
            3..6 => {
                let base = self.data_address(PAGE) & !(PAGE as u64 - 1);
                let cqid = if self.random.random() { qid } else { self.qid() };
                queue_command::create_io_sq(qid, entries - 1, base, cqid, QueuePriority::URGENT)
            }
            6 => queue_command::delete_io_sq(qid),
            _ => queue_command::delete_io_cq(qid),
        }
    }

    /// Asks for a queue pair in memory of its own.
    pub fn ask_for_pair(&mut self) {
        let qid = self.random.random_range(1..=self.queue_pairs);
        let entries_z = self.random.random_range(1..63u16).min((self.max_entries - 1) as u16);
        let [mut sq, cq] = [DmaAccess::READ, DmaAccess::WRITE]
            .map(|access| self.memory.map(&mut self.random, 1, access).unwrap_or_default());
        if let Some((base, _)) = self.memory.buffer
            && self.random.random()
        {
            sq = base + u64::from(qid - 1) * PAGE as u64;
        }
        let vector = self.random.random::<bool>().then_some(qid);
        let create_cq = queue_command::create_io_cq(qid, entries_z, cq, vector);
        let create_sq = queue_command::create_io_sq(qid, entries_z, sq, qid, QueuePriority::URGENT);
        for sqe in [create_cq, create_sq] {
            let cid = self.cid();
            self.push(0, &sqe.with_cid(cid));
        }
        self.submit(0);
    }

    fn valid_admin(&mut self) -> Sqe {
        let nsid = number(&mut self.random, 4);
        match self.random.random_range(0..16) {
            0..7 => self.queue_command(),
            7 => {
                let cns = Cns(number(&mut self.random, 0x20) as u8);
                self.with_prps(command::identify(cns, nsid), PAGE)
            }
            8 => {
                let numd = self.random.random_range(0..2048);
                let lid = LogPageId(number(&mut self.random, 0x16) as u8);
                let offset = u64::from(number(&mut self.random, 64)) * 4;
                let sqe = command::get_log_page(lid, nsid, numd, offset, self.random.random());
                self.with_prps(sqe, (numd as usize + 1) * 4)
            }
            9 => command::get_features(
                FeatureId(number(&mut self.random, 0x20) as u8),
                FeatureSelect(self.random.random_range(0..5)),
                nsid,
            ),
            10 => {
                let (value, id) = (number(&mut self.random, 512), number(&mut self.random, 0x20) as u8);
                let sqe = command::set_features(FeatureId(id), value, nsid);
                self.with_prps(sqe, 512)
            }
            11 => queue_command::abort(self.qid(), number(&mut self.random, 32) as u16),
            12 if self.random.random() => queue_command::async_event_request(),
            13 => queue_command::keep_alive(),
            14 if self.random.random_range(0..4) == 0 => {
                let [shadow, event] = [0, 1].map(|_| self.data_address(PAGE) & !(PAGE as u64 - 1));
                queue_command::dbbuf_config(shadow, event)
            }
            _ => {
                let mut sqe = Sqe::new(self.random.random(), nsid);
                sqe.cdw10 = number(&mut self.random, 64);
                sqe.cdw11 = number(&mut self.random, 64);
                self.with_prps(sqe, PAGE)
            }
        }
    }

    fn noise(&mut self) -> Sqe {
        let mut words = [0u32; 16];
        for word in &mut words {
            *word = number(&mut self.random, 16);
        }
        let mut sqe: Sqe = zerocopy::transmute!(words);
        if self.random.random() {
            sqe = self.with_data(sqe, PAGE);
        }
        sqe
    }

    /// Changes one field or one bit.
    fn mutated(&mut self, sqe: Sqe) -> Sqe {
        let mut words: [u32; 16] = zerocopy::transmute!(sqe);
        let index = self.random.random_range(0..16);
        match self.random.random_range(0..3) {
            0 => words[index] ^= 1 << self.random.random_range(0..32),
            1 => words[index] = number(&mut self.random, 256),
            _ => words[index] = words[index].wrapping_add(self.random.random_range(0..8)).wrapping_sub(4),
        }
        zerocopy::transmute!(words)
    }

    /// The next command for a queue.
    pub fn command(&mut self, admin: bool) -> Sqe {
        let kind = self.random.random_range(0..10);
        let sqe = match (kind, admin) {
            (0, _) => self.noise(),
            (_, true) => self.valid_admin(),
            (_, false) => self.valid_io(),
        };
        let sqe = if (1..4).contains(&kind) { self.mutated(sqe) } else { sqe };
        let cid = match self.random.random_range(0..64) {
            0 => u16::MAX,
            1..4 => self.random.random_range(0..16),
            _ => self.cid(),
        };
        sqe.with_cid(cid)
    }
}
