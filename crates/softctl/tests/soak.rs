//! Two pollers under load, with each feature that adds work to the way of a command in turn: every command is answered,
//! every block holds what was written last, and the checker has nothing to say.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod client;

use std::time::{Duration, Instant};

use client::{Client, Pair, memory};
use warpbell_hw::{Device, DmaBuffer, DoorbellKind, Qid, Shadow};
use warpbell_nvme::{Status, command};
use warpbell_softctl::{CompletionOrder, DoorbellBufferMode, FaultPlan, Profile, SoftConfig};

/// Time spent on each configuration.
const TIME: Duration = Duration::from_millis(400);
/// Queue pairs; with two pollers some share a poll group.
const QUEUES: u16 = 4;
/// Commands of a queue that are in flight together.
const DEPTH: u16 = 15;

/// Faults that change when, and not whether, a command completes well; some fail it, which the client sees.
const FAULTS: &str = "
    [[fault]]
    kind = 'delay'
    by = '300us'
    every = 7
    [[fault]]
    kind = 'reorder'
    by = 3
    every = 11
    [[fault]]
    kind = 'stuck_doorbell'
    by = '200us'
    every = 97
    [[fault]]
    kind = 'slow'
    by = '50us'
    lasting = '1ms'
    every = 301
    [[fault]]
    kind = 'fail'
    status = 'Internal Error'
    every = 31
";

/// A queue pair, its own blocks, and what they must hold.
struct Worker {
    pair: Pair,
    written: Vec<u8>,
}

impl Worker {
    fn block(&self, slot: u16) -> u64 {
        u64::from((self.pair.qid - 1) * DEPTH + slot)
    }

    fn place(&self, slot: u16) -> usize {
        4096 * self.block(slot) as usize
    }

    /// Submits one command for each block, `byte` telling rounds apart; reads if there is none.
    fn submit(&mut self, client: &Client, byte: Option<u8>) {
        for slot in 0..DEPTH {
            let (lba, at) = (self.block(slot), self.place(slot));
            client.fill(at, &[byte.unwrap_or(0xee); 512]);
            let sqe = if byte.is_some() { command::write(1, lba, 0) } else { command::read(1, lba, 0) };
            self.pair.push(&sqe.with_cid(slot).with_prp(client.buffer.iova().0 + at as u64, 0));
        }
        self.pair.ring();
    }

    /// Takes one completion for each block; which commands did well.
    fn finish(&mut self, client: &Client) -> Vec<bool> {
        let mut good = vec![None; usize::from(DEPTH)];
        for _ in 0..DEPTH {
            let entry = self.pair.wait(&client.device);
            let status = entry.status();
            assert!(status.is_ok() || status == Status::INTERNAL_ERROR, "{status}");
            let before = good[usize::from(entry.cid)].replace(status.is_ok());
            assert_eq!(before, None, "queue {}: command {} completed twice", self.pair.qid, entry.cid);
        }
        good.into_iter().map(|good| good.unwrap()).collect()
    }

    fn note_written(&mut self, good: &[bool], byte: u8) {
        self.written.iter_mut().zip(good).filter(|(_, good)| **good).for_each(|(old, _)| *old = byte);
    }

    fn verify(&self, client: &Client, good: &[bool], name: &str) {
        for slot in (0..DEPTH).filter(|slot| good[usize::from(*slot)]) {
            let (qid, wanted) = (self.pair.qid, self.written[usize::from(slot)]);
            assert_eq!(
                client.bytes(self.place(slot), 512),
                [wanted; 512],
                "{name}: queue {qid}, block {slot}"
            );
        }
    }
}

/// Lets all pairs keep their doorbells in memory.
fn share_doorbells(client: &mut Client, workers: &mut [Worker]) -> [DmaBuffer; 2] {
    let pages = [0, 1].map(|_| DmaBuffer::host(client.device.dma(), 4096).unwrap());
    let [shadows, events] = &pages;
    client.admin_ok(command::dbbuf_config(shadows.iova().0, events.iova().0));
    for pair in workers.iter_mut().map(|worker| &mut worker.pair) {
        let shadowed = |kind, at| {
            let word = |page: &DmaBuffer| page.window().slice(at, 4).unwrap();
            let shadow = Shadow { entry: word(shadows), event: word(events) };
            client.device.doorbells().doorbell(Qid(pair.qid), kind).unwrap().with_shadow(shadow)
        };
        let at = 8 * usize::from(pair.qid);
        (pair.sq_doorbell, pair.cq_doorbell) =
            (shadowed(DoorbellKind::SqTail, at), shadowed(DoorbellKind::CqHead, at + 4));
    }
    pages
}

fn soak(name: &str, config: SoftConfig) {
    let shared = config.doorbell_buffer == DoorbellBufferMode::On;
    let mut client = Client::threaded(config.pollers(2));
    let worker = |qid| Worker { pair: client.pair(qid, 16), written: vec![0; usize::from(DEPTH)] };
    let mut workers: Vec<Worker> = (1..=QUEUES).map(worker).collect();
    let mut round = 0u8;
    let mut pages = None;
    let end = Instant::now() + TIME;
    while Instant::now() < end {
        if shared && round == 3 && pages.is_none() {
            // Queues that were used by now.
            pages = Some(share_doorbells(&mut client, &mut workers));
        }
        round = round.wrapping_add(1);
        for byte in [Some(round), None] {
            workers.iter_mut().for_each(|worker| worker.submit(&client, byte));
            for worker in &mut workers {
                let good = worker.finish(&client);
                match byte {
                    Some(byte) => worker.note_written(&good, byte),
                    None => worker.verify(&client, &good, name),
                }
            }
        }
        let flushed = client.io(&mut workers[0].pair, command::flush(1), 0);
        assert!(flushed.is_ok() || flushed == Status::INTERNAL_ERROR, "{name}: {flushed}");
    }
    assert_eq!(pages.is_some(), shared, "{name}: {round} rounds");
    client.assert_clean();
}

#[test]
fn two_pollers_with_everything_in_turn() {
    let plain = || memory(1 << 20, 512);
    let faults = || FaultPlan::from_toml(FAULTS).unwrap();
    let on = DoorbellBufferMode::On;
    let order = CompletionOrder::Submission { window: 8 };
    soak("plain", plain());
    soak("doorbell buffer", plain().doorbell_buffer(on));
    soak("faults", plain().faults(faults()));
    soak("profile", plain().profile(Some(Profile::optane())));
    soak("volatile cache", plain().volatile_cache(true));
    soak("order", plain().order(order));
    let all = plain().doorbell_buffer(on).faults(faults()).volatile_cache(true).order(order);
    soak("all of it", all.profile(Some(Profile::optane())));
}
