//! Random I/O, in remote memory, in the client's own and partly in each, against a model.

use std::collections::HashMap;

use proptest::prelude::*;
use warpbell_nvme::Status;
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::data::SglDescriptor;
use warpbell_softctl::{CompletionOrder, NamespaceConfig, SoftConfig};

use crate::client::remote::Double;
use crate::client::{Client, Pair};
use crate::{REMOTE, Rig, pattern};
use warpbell_hw::{Lba, Nsid};

const BLOCKS: u64 = 256;
/// Bytes of memory that belong to one command in flight.
const SLOT: usize = 64 << 10;
const SLOTS: usize = 16;

/// What a command is about.
#[derive(Clone, Debug)]
struct Step {
    kind: u8,
    lba: u64,
    count: u64,
    /// Where its data is cut, and which of the two parts lie in remote memory.
    cut: usize,
    remote: [bool; 2],
    seed: u64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0u8..4, 0..BLOCKS, 1u64..100, 0..SLOT, any::<[bool; 2]>(), any::<u64>());
    let step = step.prop_map(|(kind, lba, count, cut, remote, seed)| {
        let count = count.min(BLOCKS - lba);
        Step { kind, lba, count, cut: cut % (count as usize * 512), remote, seed }
    });
    prop::collection::vec(step, 1..60)
}

/// A client that keeps many commands in flight, none of which touch the same blocks.
struct Player {
    rig: Rig,
    blocks: Vec<u8>,
    flying: HashMap<u16, Step>,
}

impl Player {
    fn slot(&self, cid: u16) -> usize {
        usize::from(cid) * SLOT
    }

    /// The two parts of a command's data: where in the slot, length, and whether remote.
    fn parts(step: &Step) -> [(usize, usize, bool); 2] {
        let bytes = step.count as usize * 512;
        [(0, step.cut, step.remote[0]), (step.cut, bytes - step.cut, step.remote[1])]
    }

    fn put(&self, cid: u16, step: &Step, data: &[u8]) {
        for (at, len, remote) in Player::parts(step) {
            let place = self.slot(cid) + at;
            match remote {
                true => self.rig.remote.set(place, &data[at..at + len]),
                false => {
                    self.rig.client.buffer.window().write(place % (1 << 20), &data[at..at + len]).unwrap()
                }
            }
        }
    }

    fn get(&self, cid: u16, step: &Step) -> Vec<u8> {
        let parts = Player::parts(step).map(|(at, len, remote)| match remote {
            true => self.rig.remote.bytes(self.slot(cid) + at, len),
            false => self.rig.client.bytes(self.slot(cid) + at, len),
        });
        parts.concat()
    }

    fn sqe(&self, cid: u16, step: &Step, lists: &Pair) -> Sqe {
        let (lba, nlb) = (step.lba, step.count as u16 - 1);
        let sqe = match step.kind {
            0 => command::read(1, lba, nlb),
            1 => command::write(1, lba, nlb),
            2 => command::compare(1, lba, nlb),
            _ => return command::write_zeroes(1, lba, nlb, false),
        };
        let blocks = Player::parts(step).map(|(at, len, remote)| {
            let base = if remote { self.rig.at(0) } else { self.rig.client.buffer.iova().0 };
            SglDescriptor::data_block(base + (self.slot(cid) + at) as u64, len as u32)
        });
        let bytes: Vec<u8> =
            blocks.iter().flat_map(|block| block.into_qwords()).flat_map(u64::to_le_bytes).collect();
        let at = usize::from(cid) * 64;
        lists.sq_memory.window().write(at, &bytes).unwrap();
        sqe.with_sgl(SglDescriptor::last_segment(lists.sq_memory.iova().0 + at as u64, 32))
    }

    fn overlaps(&self, step: &Step) -> bool {
        self.flying
            .values()
            .any(|other| other.lba < step.lba + step.count && step.lba < other.lba + other.count)
    }

    /// Checks one completion against the model.
    fn settle(&mut self) {
        let entry = self.rig.wait();
        let step = self.flying.remove(&entry.cid).expect("a command that is in flight");
        let status = entry.status();
        let range = step.lba as usize * 512..(step.lba + step.count) as usize * 512;
        match step.kind {
            2 => {
                let equal = self.get(entry.cid, &step) == self.blocks[range];
                assert_eq!(status.is_ok(), equal, "{status}");
                assert!(equal || status.same_code(Status::COMPARE_FAILURE), "{status}");
            }
            kind => {
                assert!(status.is_ok(), "{status}: {step:?}");
                let data = self.get(entry.cid, &step);
                match kind {
                    0 => assert!(data == self.blocks[range], "{step:?}"),
                    1 => self.blocks[range].copy_from_slice(&data),
                    _ => self.blocks[range].fill(0),
                }
            }
        }
    }

    fn play(&mut self, steps: &[Step], lists: &Pair) {
        for (at, step) in steps.iter().enumerate() {
            let cid = (at % SLOTS) as u16;
            while self.flying.contains_key(&cid) || self.overlaps(step) {
                self.settle();
            }
            let range = step.lba as usize * 512..(step.lba + step.count) as usize * 512;
            let right = step.kind == 2 && step.seed.is_multiple_of(2);
            let data = if right { self.blocks[range].to_vec() } else { pattern(step.seed, range.len()) };
            self.put(cid, step, &data);
            let sqe = self.sqe(cid, step, lists);
            self.flying.insert(cid, step.clone());
            self.rig.submit(cid, &[sqe]);
        }
        while !self.flying.is_empty() {
            self.settle();
        }
        let mut stored = vec![0; self.blocks.len()];
        self.rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        assert!(stored == self.blocks, "the store is as the model");
        self.rig.client.assert_clean();
    }
}

fn play(client: Client, no_pins: bool, seed: u64, steps: &[Step]) {
    let remote = Double::for_device(client.device.is_stepped(), REMOTE, seed);
    remote.knobs().no_pins.store(no_pins, std::sync::atomic::Ordering::SeqCst);
    let lists = Pair::new(&client.device, 9, SLOTS as u32);
    let rig = Rig::with(client, remote);
    let mut player = Player { rig, blocks: vec![0; BLOCKS as usize * 512], flying: HashMap::new() };
    player.play(steps, &lists);
}

fn config(seed: u64) -> SoftConfig {
    let order = match seed % 3 {
        0 => CompletionOrder::Immediate,
        1 => CompletionOrder::Shuffled { window: 5 },
        _ => CompletionOrder::Submission { window: 3 },
    };
    SoftConfig::new()
        .namespaces(vec![NamespaceConfig::memory(BLOCKS * 512, 512)])
        .order(order)
        .seed(seed)
        .pollers(1 + (seed % 2) as usize)
        .volatile_cache(seed.is_multiple_of(5))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn stepped_io_is_as_a_model_says(steps in steps(), no_pins: bool, seed: u64) {
        play(Client::stepped(config(seed)), no_pins, seed, &steps);
    }

    #[test]
    fn threaded_io_is_as_a_model_says(steps in steps(), no_pins: bool, seed: u64) {
        play(Client::threaded(config(seed)), no_pins, seed, &steps);
    }
}
