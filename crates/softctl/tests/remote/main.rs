//! Data and rings in memory without a CPU pointer, which an engine copies, stepped and threaded.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

#[path = "../client/mod.rs"]
mod client;

mod engine;
mod faults;
mod model;
mod paths;
mod resets;
mod rings;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::remote::Double;
use client::{Client, Pair, memory};
use warpbell_hw::{Device, DmaAccess, RemoteBuffer};
use warpbell_nvme::command::Sqe;
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::{Cqe, Status};
use warpbell_softctl::{SoftConfig, SoftDevice};

/// Bytes of the remote memory.
const REMOTE: usize = 8 << 20;

/// A client with a queue pair and remote memory.
struct Rig {
    client: Client,
    pair: Pair,
    remote: Double,
    mapped: RemoteBuffer,
}

impl Rig {
    fn new(client: Client) -> Rig {
        let remote = Double::for_device(client.device.is_stepped(), REMOTE, 7);
        Rig::with(client, remote)
    }

    fn with(mut client: Client, remote: Double) -> Rig {
        let pair = client.pair(1, 64);
        let mapped =
            RemoteBuffer::map(client.device.dma(), Arc::new(remote.clone()), DmaAccess::READ_WRITE).unwrap();
        Rig { client, pair, remote, mapped }
    }

    fn device(&self) -> &SoftDevice {
        &self.client.device
    }

    /// Where the controller sees byte `at` of the remote memory.
    fn at(&self, at: usize) -> u64 {
        self.mapped.iova().0 + at as u64
    }

    /// The command with its data in remote memory, as one SGL data block.
    fn sgl(&self, sqe: Sqe, at: usize, len: usize) -> Sqe {
        sqe.with_sgl(SglDescriptor::data_block(self.at(at), len as u32))
    }

    fn run(&mut self, sqe: Sqe) -> Status {
        let cid = self.client.cid();
        let entry = self.pair.run(&self.client.device, &sqe.with_cid(cid));
        assert_eq!(entry.cid, cid);
        entry.status()
    }

    fn run_ok(&mut self, sqe: Sqe) {
        let status = self.run(sqe);
        assert!(status.is_ok(), "opcode {:#x}: {status}", sqe.opcode());
    }

    /// Submits commands with identifiers from `first` on, and rings once.
    fn submit(&mut self, first: u16, commands: &[Sqe]) {
        for (cid, sqe) in (first..).zip(commands) {
            self.pair.push(&sqe.with_cid(cid));
        }
        self.pair.ring();
    }

    fn wait(&mut self) -> Cqe {
        self.pair.wait(&self.client.device)
    }

    /// Lets the controller work, without a completion.
    fn expect_silence(&mut self, time: Duration) {
        let clock = self.client.device.clock();
        let end = clock.now() + time;
        while clock.now() < end {
            assert!(self.pair.poll().is_none(), "a completion came although none may");
            clock.pause(Duration::from_micros(50));
        }
    }

    /// Ends the copies that are held, a little later.
    fn end_soon(&self) {
        let remote = self.remote.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            remote.hold(false);
        });
    }

    /// From now on, whatever is copied is an offence.
    fn close(&self) {
        self.remote.knobs().closed.store(true, Ordering::SeqCst);
    }

    /// Lets the controller work until so many copies are in flight, and no other.
    fn expect_in_flight(&mut self, copies: usize) {
        let clock = self.client.device.clock();
        let end = clock.now() + Duration::from_secs(20);
        while self.remote.in_flight() != copies {
            assert!(clock.now() < end, "{} copies are in flight, not {copies}", self.remote.in_flight());
            clock.pause(Duration::from_micros(5));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.remote.stop();
        if !std::thread::panicking() {
            self.remote.assert_clean();
        }
    }
}

/// A stepped and a threaded controller with a namespace of 1 MiB in blocks of 512 bytes.
fn both() -> [Rig; 2] {
    both_with(&memory(1 << 20, 512))
}

fn both_with(config: &SoftConfig) -> [Rig; 2] {
    both_of([config.clone(), config.clone()])
}

/// The same, each with its own configuration.
fn both_of([stepped, threaded]: [SoftConfig; 2]) -> [Rig; 2] {
    [Client::stepped(stepped), Client::threaded(threaded)].map(Rig::new)
}

/// Bytes that tell blocks and places apart.
fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}
