//! Controllers with a fault plan, and what their tests do with them.

use std::time::Duration;

use warpbell_hw::Device;
use warpbell_nvme::command::{self, Sqe};
use warpbell_softctl::{FaultKind, FaultPlan, SoftConfig};

use super::{Client, Pair, memory};

/// Longer than anything that is not delayed takes, on a busy machine.
pub const LONG: Duration = Duration::from_millis(20);

/// A plan on few lines: `;` ends one.
pub fn config(plan: &str) -> SoftConfig {
    let faults = FaultPlan::from_toml(&plan.replace(';', "\n")).unwrap();
    memory(1 << 20, 512).faults(faults)
}

pub fn both(plan: &str) -> [Client; 2] {
    Client::both(&config(&format!("[[fault]];{plan}")))
}

pub fn now(client: &Client) -> Duration {
    client.device.clock().now()
}

/// Writes commands with identifiers from `first` on, and rings once.
pub fn submit(client: &Client, pair: &mut Pair, first: u16, commands: &[Sqe]) {
    for (cid, sqe) in (first..).zip(commands) {
        let at = client.buffer.iova().0 + 4096 * u64::from(cid);
        pair.push(&sqe.with_cid(cid).with_prp(at, 0));
    }
    pair.ring();
}

pub fn read(lba: u64) -> Sqe {
    command::read(1, lba, 0)
}

pub fn identifiers(client: &Client, pair: &mut Pair, count: usize) -> Vec<u16> {
    (0..count)
        .map(|_| pair.wait(&client.device))
        .inspect(|entry| assert!(entry.status().is_ok()))
        .map(|e| e.cid)
        .collect()
}

/// Lets `time` pass and expects no completion.
pub fn expect_silence(client: &Client, pair: &mut Pair, time: Duration) {
    let end = now(client) + time;
    while now(client) < end {
        assert!(pair.poll().is_none(), "a completion came although none may");
        client.device.clock().pause(Duration::from_micros(50));
    }
}

pub fn injected(client: &Client) -> Vec<(FaultKind, u16, u16)> {
    client.device.faults().iter().map(|fault| (fault.kind, fault.queue, fault.cid)).collect()
}
