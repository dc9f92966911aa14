//! Log pages.

mod client;

use std::time::Duration;

use client::{Client, Pair, expect, memory, parsed};
use warpbell_hw::Device;
use warpbell_nvme::command::{self, NSID_ALL};
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::feature::FeatureId;
use warpbell_nvme::identify::Cns;
use warpbell_nvme::log::{ErrorLogEntry, LogPageId, SmartLog};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Health, Rule, Selector, SoftConfig};

fn log(page: LogPageId, bytes: u32, offset: u64) -> Sqe {
    command::get_log_page(page, NSID_ALL, bytes / 4 - 1, offset, true)
}

fn smart(client: &mut Client) -> SmartLog {
    parsed(&client.admin_data(log(LogPageId::SMART, 512, 0)))
}

fn last_error(client: &mut Client) -> ErrorLogEntry {
    parsed(&client.admin_data(log(LogPageId::ERROR_INFORMATION, 64, 0)))
}

const PAGES: [(LogPageId, u32); 7] = [
    (LogPageId::SUPPORTED_LOG_PAGES, 1024),
    (LogPageId::ERROR_INFORMATION, 4096),
    (LogPageId::SMART, 512),
    (LogPageId::FIRMWARE_SLOT, 512),
    (LogPageId::CHANGED_NAMESPACE_LIST, 4096),
    (LogPageId::COMMAND_EFFECTS, 4096),
    (LogPageId::SANITIZE_STATUS, 512),
];

#[test]
fn pages_can_be_read_in_parts_up_to_their_end() {
    let mut client = Client::stepped(SoftConfig::default());
    let supported = client.admin_data(log(LogPageId::SUPPORTED_LOG_PAGES, 1024, 0));
    let listed = (0..=255u8).filter(|id| supported[usize::from(*id) * 4] & 1 != 0).collect::<Vec<_>>();
    assert_eq!(listed, PAGES.map(|(page, _)| page.0));
    expect(&mut client, log(LogPageId(0x06), 512, 0), Status::INVALID_LOG_PAGE);
    for (page, len) in PAGES {
        let whole = client.admin_data(log(page, len, 0));
        let middle = client.admin_data(log(page, 64, 32));
        assert_eq!(middle[..64], whole[32..96], "{page}");
        // Across the end: the rest, and zeros.
        let end = client.admin_data(log(page, 64, u64::from(len) - 32));
        assert_eq!(end[..32], whole[len as usize - 32..len as usize], "{page}");
        assert_eq!(end[32..64], [0; 32], "{page}");
        assert_eq!(end[64], 0xee, "{page}: no more than asked for");
        let buffer = client.buffer.iova().0;
        let at = |offset| log(page, 64, offset).with_prp(buffer, 0);
        client.admin_ok(at(len.into()));
        for beyond in [u64::from(len) + 4, 1 << 40, 2] {
            expect(&mut client, at(beyond), Status::INVALID_FIELD);
        }
        let mut indexed = at(0);
        indexed.cdw14 = 1 << 23;
        expect(&mut client, indexed, Status::INVALID_FIELD);
    }
    client.assert_clean();
    let mut specific = log(LogPageId::SMART, 512, 0);
    specific.cdw10 |= 1 << 8;
    specific.cdw11 |= 1 << 16;
    client.admin_data(specific);
    assert_eq!(client.broken(), [Rule::ReservedField; 2]);
}

/// Runs a command with as much data as its blocks have, beside what the log pages overwrite.
fn transfer(client: &mut Client, pair: &mut Pair, sqe: Sqe, block: u32) {
    let at = client.buffer.iova().0 + 8192;
    let sqe = sqe.with_sgl(SglDescriptor::data_block(at, sqe.blocks() * block)).with_cid(client.cid());
    let status = pair.run(&client.device, &sqe).status();
    assert!(status.is_ok(), "{status}");
}

#[test]
fn data_units_are_begun_thousands_of_512_bytes_whatever_the_block_size() {
    for block in [512u32, 4096] {
        let mut client = Client::stepped(memory(4 << 20, block).mdts(0));
        let mut pair = client.pair(1, 8);
        let blocks = |bytes: u32| (bytes / block - 1) as u16;
        let read = |client: &mut Client| {
            let log = smart(client);
            (log.data_units_read.get(), log.host_reads.get())
        };
        transfer(&mut client, &mut pair, command::write(1, 0, blocks(4096)), block);
        transfer(&mut client, &mut pair, command::read(1, 0, blocks(4096)), block);
        let log = smart(&mut client);
        assert_eq!((log.data_units_written.get(), log.host_writes.get()), (1, 1));
        assert_eq!(read(&mut client), (1, 1));
        // 4096 + 507904 bytes are 1000 units of 512: still the first thousand.
        transfer(&mut client, &mut pair, command::read(1, 0, blocks(507_904)), block);
        assert_eq!(read(&mut client), (1, 2));
        // Compare and Verify count as data read; of the two only Compare is a read command.
        transfer(&mut client, &mut pair, command::compare(1, 0, 0), block);
        assert_eq!(read(&mut client), (2, 3));
        let verify = command::verify(1, 0, blocks(512_000)).with_cid(9);
        assert!(pair.run(&client.device, &verify).status().is_ok());
        assert_eq!(read(&mut client), (3, 3));
        client.assert_clean();
    }
}

#[test]
fn smart_tells_health_time_and_power() {
    let mut client = Client::stepped(SoftConfig::default());
    let well = smart(&mut client);
    assert_eq!(
        (well.composite_temperature.get(), well.temperature_sensors[..3].to_vec()),
        (303, vec![303, 303, 0])
    );
    assert_eq!((well.available_spare, well.available_spare_threshold, well.percentage_used), (100, 10, 0));
    assert_eq!((well.power_cycles.get(), well.power_on_hours.get(), well.unsafe_shutdowns.get()), (1, 0, 0));
    client.device.set_health(Health::new().temperature(345).sensors([340, 350]).used(101));
    client.device.advance(Duration::from_secs(2 * 3600));
    client.device.set_health(Health::new().temperature(360).used(101));
    client.device.advance(Duration::from_secs(120));
    let warm = smart(&mut client);
    assert_eq!(
        (warm.composite_temperature.get(), warm.percentage_used, warm.power_on_hours.get()),
        (360, 101, 2)
    );
    assert_eq!((warm.warning_temperature_minutes, warm.critical_temperature_minutes), (120, 2));
    // Power goes under a controller in use, then under one that was shut down.
    let device = client.device.clone();
    device.power_loss(1.0);
    let mut client = Client::start(device.clone());
    let log = smart(&mut client);
    assert_eq!((log.power_cycles.get(), log.unsafe_shutdowns.get()), (2, 1));
    client::shut_down(&device, warpbell_nvme::register::Shn::NORMAL);
    device.power_loss(1.0);
    let mut client = Client::start(device);
    let log = smart(&mut client);
    assert_eq!((log.power_cycles.get(), log.unsafe_shutdowns.get()), (3, 1));
    client.assert_clean();
}

#[test]
fn busy_time_is_that_of_outstanding_commands() {
    let slow =
        Fault::new(FaultAction::Delay { by: Duration::from_secs(150) }, Selector::new().count(Some(1)));
    let faults = FaultPlan::new().seed(1).faults(vec![slow]);
    let mut client = Client::stepped(memory(1 << 20, 512).faults(faults));
    let mut pair = client.pair(1, 8);
    client.device.advance(Duration::from_secs(600));
    assert_eq!(smart(&mut client).busy_minutes.get(), 0, "nothing was outstanding");
    pair.push(&command::flush(1).with_cid(1));
    pair.ring();
    client.settle();
    assert!(pair.poll().is_none());
    client.device.advance(Duration::from_secs(150));
    assert!(pair.wait(&client.device).status().is_ok());
    client.device.advance(Duration::from_secs(600));
    assert_eq!(smart(&mut client).busy_minutes.get(), 2);
    client.assert_clean();
}

#[test]
fn error_entries_say_which_parameter_is_wrong() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    let mut pair = client.pair(1, 8);
    let buffer = client.buffer.iova().0;
    let wrong: [(Sqe, u16); 7] = [
        (Sqe::new(0x81, 0), 0),
        (command::identify(Cns(0x77), 1), 40),
        (command::identify(Cns::NAMESPACE, 9), 4),
        (log(LogPageId(0xc5), 512, 0), 40),
        (log(LogPageId::SMART, 512, 1024), 48),
        (command::set_features(FeatureId(0x55), 0, 0), 40),
        (command::format_nvm(1, command::FormatNvmCdw10::new().with_ses(command::SecureErase(7))), 41),
    ];
    let mut count = 0;
    for (sqe, byte) in wrong {
        assert!(!client.admin(sqe.with_prp(buffer, 0)).status().is_ok());
        let entry = last_error(&mut client);
        count += 1;
        assert_eq!((entry.error_count, entry.sqid), (count, 0));
        let location = entry.parameter_error_location;
        assert_eq!((u16::from(location.byte()), location.bit()), (byte, 0), "opcode {:#x}", sqe.opcode());
    }
    assert!(client.io(&mut pair, command::read(1, 1 << 30, 0), 0).same_code(Status::LBA_OUT_OF_RANGE));
    let entry = last_error(&mut client);
    assert_eq!((entry.sqid, entry.lba, entry.nsid), (1, 1 << 30, 1));
    assert_eq!(entry.parameter_error_location.byte(), 40);
    // Nothing in particular: the data that a compare found.
    client.fill(0, &[1; 512]);
    assert!(client.io(&mut pair, command::compare(1, 0, 0), 0).same_code(Status::COMPARE_FAILURE));
    assert_eq!(last_error(&mut client).parameter_error_location.into_bits(), u16::MAX);
    // The page holds the last 64, newest first.
    for _ in 0..70 {
        client.admin(Sqe::new(0x81, 0));
    }
    let data = client.admin_data(log(LogPageId::ERROR_INFORMATION, 4096, 0));
    let counts: Vec<u64> = data.chunks(64).map(|entry| parsed::<ErrorLogEntry>(entry).error_count).collect();
    assert_eq!(counts, (0..64).map(|age| 79 - age).collect::<Vec<_>>());
    assert!(client.device.clock().now() > Duration::ZERO);
}

#[test]
fn behind_the_end_of_a_page_there_are_zeros() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    client.fill(0, &[0xee; 12288]);
    let at = client.buffer.iova().0;
    let dwords = 8192 / 4;
    let sqe = command::get_log_page(LogPageId::FIRMWARE_SLOT, 0, dwords - 1, 0, false);
    client.admin_ok(sqe.with_prp(at, at + 4096));
    let bytes = client.bytes(0, 12288);
    assert_ne!(bytes[..512], [0; 512]);
    assert!(bytes[512..8192].iter().all(|byte| *byte == 0));
    assert!(bytes[8192..].iter().all(|byte| *byte == 0xee));
}
