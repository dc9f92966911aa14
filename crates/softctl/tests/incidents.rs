//! Faults of the whole controller: fatal status, resets by itself, removal, loss of power.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod client;

use std::sync::Arc;
use std::time::Duration;

use client::{Client, Pair, csts, memory, wait_csts};
use warpbell_hw::{Device, Lba, Nsid, ResetKind};
use warpbell_nvme::Status;
use warpbell_nvme::command::{self, NsAttachmentSelect, Sqe};
use warpbell_nvme::feature::FeatureId;
use warpbell_nvme::log::{ErrorLogEntry, LogPageId};
use warpbell_nvme::register::{Shn, offset};
use warpbell_softctl::{FaultKind, FaultPlan, SoftConfig, SoftDevice};

fn config(plan: &str) -> SoftConfig {
    let faults = FaultPlan::from_toml(&format!("[[fault]]\n{}", plan.replace(';', "\n"))).unwrap();
    memory(1 << 20, 512).faults(faults)
}

fn both(plan: &str) -> [Client; 2] {
    Client::both(&config(plan))
}

/// Submits a read of LBA 7, which sets the fault off, and one of LBA 8 behind it.
fn set_off(client: &mut Client) -> Pair {
    let mut pair = client.pair(1, 16);
    for (cid, lba) in [(1, 7), (2, 8)] {
        pair.push(&command::read(1, lba, 0).with_cid(cid).with_prp(client.buffer.iova().0, 0));
    }
    pair.ring();
    pair
}

fn expect_silence(client: &Client, pair: &mut Pair) {
    let device = &client.device;
    let end = device.clock().now() + Duration::from_millis(20);
    while device.clock().now() < end {
        assert!(pair.poll().is_none(), "a completion came although none may");
        device.clock().pause(Duration::from_micros(50));
    }
}

/// Disables the controller and enables it again.
fn start_again(client: &Client) -> Client {
    client.device.registers().write32(offset::CC, 0);
    wait_csts(&client.device, |csts| !csts.rdy());
    Client::start(client.device.clone())
}

#[test]
fn after_a_fatal_error_nothing_completes_until_a_reset() {
    for mut client in both("kind='fatal';lba=7;count=1") {
        let mut pair = set_off(&mut client);
        wait_csts(&client.device, |csts| csts.cfs());
        assert!(csts(&client.device).rdy());
        pair.ring();
        expect_silence(&client, &mut pair);
        client.admin.push(&command::abort(1, 1).with_cid(5));
        client.admin.ring();
        expect_silence(&client, &mut pair);
        assert!(client.admin.poll().is_none());
        client.assert_clean();
        let mut again = start_again(&client);
        let mut pair = again.pair(1, 16);
        assert!(again.io(&mut pair, command::read(1, 7, 0), 0).is_ok());
        let kinds: Vec<_> = again.device.faults().iter().map(|fault| fault.kind).collect();
        assert_eq!(kinds, [FaultKind::Fatal]);
        again.assert_clean();
    }
}

#[test]
fn a_reset_by_itself_shows_in_csts() {
    for mut client in both("kind='reset';lba=7;count=1") {
        let mut pair = set_off(&mut client);
        wait_csts(&client.device, |csts| !csts.rdy());
        assert!(csts(&client.device).nssro() && !csts(&client.device).cfs());
        assert_eq!(client.device.registers().read32(offset::CC), 0);
        pair.push(&command::flush(1).with_cid(9));
        pair.ring();
        client.admin.push(&command::abort(1, 1).with_cid(5));
        client.admin.ring();
        expect_silence(&client, &mut pair);
        client.assert_clean();
        let mut again = Client::start(client.device.clone());
        assert!(csts(&again.device).nssro(), "until the client clears it");
        let mut pair = again.pair(1, 16);
        assert!(again.io(&mut pair, command::read(1, 7, 0), 0).is_ok());
        again.assert_clean();
    }
}

#[test]
fn a_removed_function_reads_all_ones_for_good() {
    for mut client in both("kind='remove';lba=7") {
        let mut pair = set_off(&mut client);
        wait_csts(&client.device, |csts| csts.into_bits() == u32::MAX);
        let registers = client.device.registers();
        registers.write32(offset::CC, 0);
        registers.write64(offset::ASQ, 0x1000);
        for at in [offset::CAP, offset::VS, offset::CC, offset::CSTS, 0x38, 0x1ffc] {
            assert_eq!(registers.read32(at), u32::MAX, "{at:#x}");
        }
        assert_eq!(registers.read64(offset::CAP), u64::MAX);
        assert!(client.device.reset().reset(ResetKind::Function).is_err());
        let before = pair.cq_memory.window().to_vec(0, 256).unwrap();
        pair.push(&command::flush(1).with_cid(9));
        pair.ring();
        client.admin.ring();
        expect_silence(&client, &mut pair);
        assert_eq!(pair.cq_memory.window().to_vec(0, 256).unwrap(), before, "no DMA");
        assert_eq!(client.device.next_event(), None);
        drop(pair);
        client.assert_clean();
    }
}

#[test]
fn incidents_from_outside() {
    let threaded = || SoftDevice::threaded(memory(1 << 20, 512)).unwrap();
    let stepped = || SoftDevice::stepped(memory(1 << 20, 512)).unwrap();
    for make in [&threaded as &dyn Fn() -> Arc<SoftDevice>, &stepped] {
        let client = Client::start(make());
        client.device.fail_fatally();
        assert!(csts(&client.device).cfs());
        let again = start_again(&client);
        again.device.remove();
        again.device.fail_fatally();
        assert_eq!(again.device.registers().read32(offset::CSTS), u32::MAX);
        again.assert_clean();
    }
}

/// The first byte of a block, all of whose bytes must be the same.
fn content(client: &Client, lba: u64) -> u8 {
    let mut block = [0; 512];
    client.device.peek(Nsid(1), Lba(lba), &mut block).unwrap();
    assert!(block.iter().all(|byte| *byte == block[0]), "block {lba} is torn");
    block[0]
}

fn write(client: &mut Client, pair: &mut Pair, lba: u64, byte: u8, change: impl Fn(Sqe) -> Sqe) {
    client.fill(0, &[byte; 512]);
    assert!(client.io(pair, change(command::write(1, lba, 0)), 0).is_ok());
}

fn fua(sqe: Sqe) -> Sqe {
    let fields = sqe.read_write().with_fua(true).into_bits();
    Sqe { cdw12: fields, ..sqe }
}

#[test]
fn power_takes_what_was_not_flushed() {
    for mut client in both("kind='power_loss';lba=7;opcode='read';count=1") {
        let mut pair = client.pair(1, 16);
        for lba in 0..3 {
            write(&mut client, &mut pair, lba, 1, |sqe| sqe);
        }
        assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
        write(&mut client, &mut pair, 0, 2, |sqe| sqe);
        write(&mut client, &mut pair, 1, 2, fua);
        write(&mut client, &mut pair, 2, 2, fua);
        write(&mut client, &mut pair, 2, 3, |sqe| sqe);
        assert!(client.io(&mut pair, command::write_zeroes(1, 3, 0, false), 0).is_ok());
        pair.push(&command::read(1, 7, 0).with_cid(99).with_prp(client.buffer.iova().0, 0));
        pair.ring();
        wait_csts(&client.device, |csts| !csts.rdy() && csts.nssro());
        assert_eq!([0, 1, 2, 3].map(|lba| content(&client, lba)), [1, 2, 2, 0]);
        client.assert_clean();
        let mut again = Client::start(client.device.clone());
        let mut pair = again.pair(1, 16);
        assert!(again.io(&mut pair, command::read(1, 7, 0), 0).is_ok());
    }
}

#[test]
fn without_a_volatile_cache_power_takes_nothing() {
    for volatile_cache in [false, true] {
        for mut client in Client::both(&memory(1 << 20, 512).volatile_cache(volatile_cache)) {
            let mut pair = client.pair(1, 16);
            write(&mut client, &mut pair, 0, 1, |sqe| sqe);
            client.device.power_loss(0.0);
            assert!(!csts(&client.device).rdy() && csts(&client.device).nssro());
            assert_eq!(content(&client, 0), u8::from(!volatile_cache));
        }
    }
}

#[test]
fn a_cache_that_is_switched_off_keeps_every_write() {
    for mut client in Client::both(&memory(1 << 20, 512).volatile_cache(true)) {
        let mut pair = client.pair(1, 16);
        write(&mut client, &mut pair, 0, 1, |sqe| sqe);
        client.admin_ok(command::set_features(FeatureId::VOLATILE_WRITE_CACHE, 0, 0));
        write(&mut client, &mut pair, 1, 1, |sqe| sqe);
        client.device.power_loss(0.0);
        assert_eq!([content(&client, 0), content(&client, 1)], [1, 1]);
        let mut again = Client::start(client.device.clone());
        let mut pair = again.pair(1, 16);
        write(&mut again, &mut pair, 2, 1, |sqe| sqe);
        again.device.power_loss(0.0);
        assert_eq!(content(&again, 2), 0, "a reset switched it on again");
    }
}

#[test]
fn a_client_that_shut_down_need_not_stay_alive() {
    for mut client in Client::both(&memory(1 << 20, 512)) {
        client.admin_ok(command::set_features(FeatureId::KEEP_ALIVE_TIMER, 100, 0));
        client::shut_down(&client.device, Shn::NORMAL);
        let end = client.device.clock().now() + Duration::from_millis(250);
        while client.device.clock().now() < end {
            client.device.clock().pause(Duration::from_millis(1));
        }
        assert!(!csts(&client.device).cfs());
        client.assert_clean();
    }
}

#[test]
fn a_keep_alive_that_expires_is_in_the_error_log() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    client.admin_ok(command::set_features(FeatureId::KEEP_ALIVE_TIMER, 100, 0));
    client.device.advance(Duration::from_secs(1));
    client.settle();
    assert!(csts(&client.device).cfs());
    let mut again = start_again(&client);
    let log = command::get_log_page(LogPageId::ERROR_INFORMATION, u32::MAX, 15, 0, false);
    let entry: ErrorLogEntry = client::parsed(&again.admin_data(log));
    assert_eq!((entry.sqid, entry.cid), (u16::MAX, u16::MAX), "no command is to blame");
    assert_eq!(entry.status.status(), Status::KEEP_ALIVE_EXPIRED);
}

#[test]
fn a_shutdown_makes_detached_namespaces_durable_too() {
    for mut client in Client::both(&memory(1 << 20, 512).volatile_cache(true)) {
        let mut pair = client.pair(1, 16);
        write(&mut client, &mut pair, 0, 1, |sqe| sqe);
        let detach = client::namespaces::attachment(&client, 1, NsAttachmentSelect::DETACH, &[1]);
        client.admin_ok(detach);
        client::shut_down(&client.device, Shn::NORMAL);
        client.device.power_loss(0.0);
        assert_eq!(content(&client, 0), 1);
    }
}

#[test]
fn a_reset_outruns_an_incident() {
    for _ in 0..40 {
        let mut client = Client::threaded(config("kind='fatal';lba=7;count=1"));
        drop(set_off(&mut client));
        client.device.reset().reset(ResetKind::Function).unwrap();
        let mut again = Client::start(client.device.clone());
        let mut pair = again.pair(1, 16);
        for _ in 0..3 {
            assert!(again.io(&mut pair, command::read(1, 9, 0), 0).is_ok());
        }
        assert!(!csts(&again.device).cfs(), "what ended its last life does not reach the new one");
    }
}
