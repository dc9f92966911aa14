//! PRP and SGL walking against a model that knows nothing of segments: it lists the address of each byte.

use std::sync::Arc;

use proptest::prelude::*;
use warpbell_hw::{DmaAccess, DmaSource, DmaSpace, Window};
use warpbell_nvme::data::{SglDescriptor, SglSubtype, SglType};
use warpbell_nvme::{Sqe, Status};
use zerocopy::IntoBytes;

use super::Direction;
use crate::checker::Rule;
use crate::config::SoftConfig;
use crate::core::Core;
use crate::engine::{Command, Engine, Refused};

const PAGES: usize = 64;
const PAGE: u64 = 4096;

/// A controller's engine and one mapped buffer whose bytes are all different from their neighbours.
struct Bench {
    core: Arc<Core>,
    window: Window,
    base: u64,
}

impl Bench {
    fn new() -> Bench {
        let core = Core::alone(SoftConfig::default(), true).unwrap();
        let window = Window::host(PAGES * PAGE as usize).unwrap();
        let base = core.space.map(DmaSource::Memory(&window), DmaAccess::READ_WRITE).unwrap().0;
        let bytes: Vec<u8> =
            (0..window.len()).map(|i| (i as u8) ^ (i >> 8) as u8 ^ (i >> 16) as u8).collect();
        window.write(0, &bytes).unwrap();
        Bench { core, window, base }
    }

    fn page(&self, index: usize) -> u64 {
        self.base + index as u64 * PAGE
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.window.write((at - self.base) as usize, bytes).unwrap();
    }

    fn at(&self, address: u64) -> u8 {
        self.window.to_vec((address - self.base) as usize, 1).unwrap()[0]
    }

    /// What the controller takes from the client with this command.
    fn take(&self, sqe: &Sqe, len: usize) -> Result<Vec<u8>, Refused> {
        let mut poll_group = self.core.poll_groups[0].lock();
        let engine: &mut Engine = &mut poll_group.engine;
        engine.view.refresh();
        engine.map_data(Command { sqid: 1, sqe }, len, Direction::FromClient)?;
        let mut bytes = vec![0; len];
        engine.receive(0, &mut bytes)?;
        Ok(bytes)
    }

    fn refused(&self, sqe: &Sqe, len: usize, status: Status, rule: Rule) {
        let before = self.core.checker.violations().len();
        let got = self.take(sqe, len).unwrap_err();
        assert!(got.same_code(status) && got.dnr(), "{got}, expected {status}");
        assert_eq!(self.core.checker.violations()[before].rule, rule);
    }

    fn accepted_with(&self, sqe: &Sqe, len: usize, rule: Rule) {
        self.take(sqe, len).unwrap();
        assert_eq!(self.core.checker.violations().last().unwrap().rule, rule);
    }

    fn clean(&self) {
        assert!(self.core.checker.violations().is_empty(), "{:?}", self.core.checker.violations());
    }
}

fn prp(prp1: u64, prp2: u64) -> Sqe {
    Sqe::new(1, 1).with_prp(prp1, prp2)
}

fn sgl(descriptor: SglDescriptor) -> Sqe {
    Sqe::new(1, 1).with_sgl(descriptor)
}

#[test]
fn prp_entries_that_break_rules() {
    let bench = Bench::new();
    let (offset, foreign) = (Status::INVALID_PRP_OFFSET, Status::DATA_TRANSFER_ERROR);
    let page = |index| bench.page(index);
    bench.refused(&prp(page(0) + 2, 0), 512, offset, Rule::PrpMisaligned);
    bench.refused(&prp(page(0), page(1) + 4), 8192, offset, Rule::PrpOffset);
    bench.refused(&prp(page(0), page(1) + 4), 16384, offset, Rule::PrpMisaligned);
    bench.put(page(8), &[page(1), page(2) + 8, page(3)].map(u64::to_le_bytes).concat());
    bench.refused(&prp(page(0), page(8)), 16384, offset, Rule::PrpOffset);
    bench.refused(&prp(8, 0), 512, foreign, Rule::ForeignAddress);
    bench.refused(&prp(0, 0), 512, foreign, Rule::ForeignAddress);
    bench.refused(&prp(page(0), 0), 8192, foreign, Rule::ForeignAddress);
    bench.refused(&prp(page(0), page(PAGES)), 8192, foreign, Rule::ForeignAddress);
    bench.refused(&prp(page(0), page(PAGES)), 16384, foreign, Rule::ForeignAddress);
    bench.refused(&prp(page(PAGES - 1) + 4092, page(PAGES)), 8, foreign, Rule::ForeignAddress);
    bench.accepted_with(&prp(page(0), page(1)), 4096, Rule::PrpUnneeded);
}

#[test]
fn a_chain_with_an_offset_and_one_that_is_not_needed() {
    let bench = Bench::new();
    // The list starts 16 bytes before the end of its page: two slots.
    let list = bench.page(9) - 16;
    bench.put(list, &[bench.page(1), bench.page(10) + 8].map(u64::to_le_bytes).concat());
    bench.refused(&prp(bench.page(0), list), 4 * 4096, Status::INVALID_PRP_OFFSET, Rule::PrpOffset);
    bench.put(list, &[bench.page(1), bench.page(10)].map(u64::to_le_bytes).concat());
    bench.put(bench.page(10), &[bench.page(2), bench.page(3)].map(u64::to_le_bytes).concat());
    assert_eq!(bench.take(&prp(bench.page(0), list), 4 * 4096).unwrap().len(), 4 * 4096);
    // Two entries fill the two slots exactly, so the second is data, and must not be a list.
    bench.accepted_with(&prp(bench.page(0), list), 3 * 4096, Rule::PrpChainUnneeded);
}

#[test]
fn sgl_descriptors_that_break_rules() {
    let bench = Bench::new();
    let page = |index| bench.page(index);
    let block = SglDescriptor::data_block;
    let length = Status::INVALID_SGL_DATA_LENGTH;
    let segment = Status::INVALID_SGL_SEGMENT_DESCRIPTOR;
    bench.refused(&sgl(block(page(0), 511)), 512, length, Rule::SglLength);
    bench.refused(&sgl(block(page(0), 513)), 512, length, Rule::SglLength);
    bench.refused(&sgl(block(page(PAGES), 512)), 512, Status::DATA_TRANSFER_ERROR, Rule::ForeignAddress);
    bench.refused(&sgl(SglDescriptor::last_segment(page(1), 0)), 512, segment, Rule::SglDescriptor);
    bench.refused(&sgl(SglDescriptor::last_segment(page(1), 24)), 512, segment, Rule::SglDescriptor);
    bench.refused(&sgl(SglDescriptor::segment(page(1) + 4, 16)), 512, segment, Rule::SglDescriptor);
    for kind in [SglType::KEYED_DATA_BLOCK, SglType::TRANSPORT_DATA_BLOCK, SglType(9)] {
        let mut descriptor = block(page(0), 512);
        descriptor.id.set_sgl_type(kind);
        bench.refused(&sgl(descriptor), 512, Status::INVALID_SGL_DESCRIPTOR_TYPE, Rule::SglDescriptor);
    }
    let mut offset = block(page(0), 512);
    offset.id.set_subtype(SglSubtype::OFFSET);
    bench.refused(&sgl(offset), 512, Status::INVALID_SGL_DESCRIPTOR_TYPE, Rule::SglDescriptor);
    let mut reserved = block(page(0), 512);
    reserved.rsvd[1] = 1;
    bench.accepted_with(&sgl(reserved), 512, Rule::ReservedField);
}

#[test]
fn sgl_segments_that_break_rules() {
    let bench = Bench::new();
    let (data, list, more) = (bench.page(0), bench.page(1), bench.page(2));
    let block = SglDescriptor::data_block(data, 256);
    let (segment, last) = (SglDescriptor::segment, SglDescriptor::last_segment);
    let bad = Status::INVALID_SGL_SEGMENT_DESCRIPTOR;
    bench.put(more, [block].as_bytes());
    bench.put(list, [block, last(more, 16)].as_bytes());
    bench.refused(&sgl(last(list, 32)), 512, bad, Rule::SglDescriptor);
    assert_eq!(bench.take(&sgl(segment(list, 32)), 512).unwrap().len(), 512);
    bench.refused(&sgl(segment(list, 16)), 512, bad, Rule::SglDescriptor);
    bench.put(list, [last(more, 16), block].as_bytes());
    let count = Status::INVALID_SGL_DESCRIPTOR_COUNT;
    bench.refused(&sgl(segment(list, 32)), 512, count, Rule::SglDescriptor);
    // A list that leads to itself ends all the same.
    bench.put(list, [SglDescriptor::data_block(data, 0), segment(list, 32)].as_bytes());
    bench.refused(&sgl(segment(list, 32)), 512, count, Rule::SglDescriptor);
    bench.refused(
        &sgl(segment(bench.page(PAGES), 32)),
        512,
        Status::DATA_TRANSFER_ERROR,
        Rule::ForeignAddress,
    );
}

#[test]
fn bit_buckets_count_nothing_in_a_write() {
    let bench = Bench::new();
    let list = [SglDescriptor::bit_bucket(1000), SglDescriptor::data_block(bench.page(0), 512)];
    bench.put(bench.page(1), list.as_bytes());
    assert_eq!(bench.take(&sgl(SglDescriptor::last_segment(bench.page(1), 32)), 512).unwrap().len(), 512);
    bench.clean();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Pages in any order, lists that begin anywhere in a page and chain as they must.
    #[test]
    fn prps_name_the_bytes_that_the_model_names(
        offset in (0..1024u64).prop_map(|dwords| dwords * 4),
        len in 1usize..40 * 4096,
        order in Just((0..48usize).collect::<Vec<_>>()).prop_shuffle(),
        list_slots in 1usize..20,
    ) {
        let bench = Bench::new();
        let first = len.min(PAGE as usize - offset as usize);
        let data = (len - first).div_ceil(PAGE as usize);
        prop_assume!(data < order.len());
        let pages: Vec<u64> = order.iter().map(|index| bench.page(*index)).collect();
        let mut expected = Vec::new();
        let mut addresses = (pages[0] + offset..pages[0] + PAGE)
            .chain(pages[1..].iter().flat_map(|page| *page..*page + PAGE));
        let prp2 = match data {
            0 => 0,
            1 => pages[1],
            _ => build_list(&bench, &pages[1..=data], list_slots),
        };
        for _ in 0..len {
            expected.push(bench.at(addresses.next().unwrap()));
        }
        let got = bench.take(&prp(pages[0] + offset, prp2), len);
        prop_assert_eq!(got.unwrap(), expected);
    }

    /// Data blocks anywhere, spread over segments.
    #[test]
    fn sgls_name_the_bytes_that_the_model_names(
        blocks in prop::collection::vec((0..48 * PAGE, 0u32..5000), 1..40),
        per_segment in 1usize..8,
    ) {
        let bench = Bench::new();
        let mut expected = Vec::new();
        let mut list: Vec<SglDescriptor> = Vec::new();
        for (at, len) in blocks {
            list.push(SglDescriptor::data_block(bench.base + at, len));
            expected.extend((0..u64::from(len)).map(|i| bench.at(bench.base + at + i)));
        }
        let mut rest = &list[..];
        let mut at = bench.page(56);
        let mut lead = None;
        let mut writes = Vec::new();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(per_segment.min(rest.len()));
            let mut now = now.to_vec();
            let len = 16 * (now.len() + usize::from(!later.is_empty()));
            let here = at;
            at += 16 * 9;
            if !later.is_empty() {
                let len = 16 * (per_segment.min(later.len()) + usize::from(later.len() > per_segment));
                let next = if later.len() > per_segment { SglDescriptor::segment } else { SglDescriptor::last_segment };
                now.push(next(at, len as u32));
            }
            let first = if later.is_empty() { SglDescriptor::last_segment } else { SglDescriptor::segment };
            lead.get_or_insert(first(here, len as u32));
            writes.push((here, now));
            rest = later;
        }
        for (here, descriptors) in writes {
            bench.put(here, descriptors.as_bytes());
        }
        let got = bench.take(&sgl(lead.unwrap()), expected.len());
        prop_assert_eq!(got.unwrap(), expected);
        bench.clean();
    }

    /// Whatever a data pointer says, there is an answer, and nothing outside the mapping is touched.
    #[test]
    fn no_data_pointer_does_harm(
        words in prop::array::uniform2(any::<u64>()),
        near in prop::array::uniform2(0..80 * PAGE),
        use_near in any::<[bool; 2]>(),
        psdt in any::<bool>(),
        len in 0usize..300_000,
        noise in prop::collection::vec(any::<u64>(), 64),
    ) {
        let bench = Bench::new();
        bench.put(bench.page(3), noise.as_bytes());
        let pick = |i: usize| if use_near[i] { bench.base + near[i] } else { words[i] };
        let mut sqe = prp(pick(0), pick(1));
        if psdt {
            sqe = sgl(SglDescriptor::from_qwords([pick(0), words[1] & 0xf000_0000_0000_ffff]));
        }
        let _ = bench.take(&sqe, len);
    }
}

/// Puts a PRP list into memory that begins `slots` before the end of a page; returns its address.
fn build_list(bench: &Bench, pages: &[u64], slots: usize) -> u64 {
    let mut at = bench.page(51) - 8 * slots as u64;
    let start = at;
    let mut next_page = 52;
    for (index, page) in pages.iter().enumerate() {
        let last_slot = (at + 8).is_multiple_of(PAGE);
        if last_slot && index + 1 < pages.len() {
            bench.put(at, &bench.page(next_page).to_le_bytes());
            at = bench.page(next_page);
            next_page += 1;
        }
        bench.put(at, &page.to_le_bytes());
        at += 8;
    }
    start
}

#[test]
fn engines_are_sent_to_threads() {
    fn sendable<T: Send>() {}
    sendable::<Engine>();
    sendable::<Arc<Core>>();
}
