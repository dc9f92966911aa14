//! Every command, every way to describe data, every kind of store.

use warpbell_nvme::Status;
use warpbell_nvme::command::{self, DsmCdw11, DsmRange, Sqe};
use warpbell_nvme::data::SglDescriptor;
use warpbell_softctl::{NamespaceConfig, SoftConfig};
use zerocopy::IntoBytes;

use crate::client::remote::Double;
use crate::client::{Client, memory};
use crate::{REMOTE, Rig, both, both_of, pattern};
use warpbell_hw::{Lba, Nsid};

/// Writes, reads and compares 64 KiB in remote memory.
fn round_trip(rig: &mut Rig) {
    let data = pattern(1, 64 << 10);
    rig.remote.set(4096, &data);
    rig.run_ok(rig.sgl(command::write(1, 8, 127), 4096, data.len()));
    let mut stored = vec![0; data.len()];
    rig.device().peek(Nsid(1), Lba(8), &mut stored).unwrap();
    assert!(stored == data, "what was written");
    rig.run_ok(rig.sgl(command::compare(1, 8, 127), 4096, data.len()));
    rig.run_ok(rig.sgl(command::read(1, 8, 127), 1 << 20, data.len()));
    assert!(
        rig.remote.bytes(1 << 20, data.len()) == data,
        "it is there as soon as the command has completed"
    );
    rig.remote.set(4096 + 60_000, &[data[60_000] ^ 1]);
    let status = rig.run(rig.sgl(command::compare(1, 8, 127), 4096, data.len()));
    assert!(status.same_code(Status::COMPARE_FAILURE), "{status}");
    rig.client.assert_clean();
}

#[test]
fn data_goes_straight_between_a_pinned_store_and_remote_memory() {
    for mut rig in both() {
        round_trip(&mut rig);
        let statistics = rig.device().statistics();
        // Compare has to look at the data.
        assert_eq!(statistics.staged_bytes, 2 * (64 << 10));
        assert_eq!(statistics.remote_bytes, 4 * (64 << 10));
        assert_eq!((statistics.bytes_written, statistics.bytes_read), (64 << 10, 64 << 10));
        assert_eq!(statistics.remote_copies, 4, "a contiguous range is one copy");
    }
}

#[test]
fn data_is_staged_where_a_store_cannot_be_pinned() {
    for client in Client::both(&memory(1 << 20, 512)) {
        let remote = Double::for_device(client.device.is_stepped(), REMOTE, 3);
        remote.knobs().no_pins.store(true, std::sync::atomic::Ordering::SeqCst);
        let mut rig = Rig::with(client, remote);
        round_trip(&mut rig);
        assert_eq!(rig.device().statistics().staged_bytes, 4 * (64 << 10));
    }
}

#[test]
fn data_of_a_file_is_staged() {
    for pollers in [1, 2] {
        // A file has one writer.
        let files = [0, 1].map(|_| tempfile::NamedTempFile::new().unwrap());
        let configs = files.each_ref().map(|file| {
            file.as_file().set_len(1 << 20).unwrap();
            let namespaces = vec![NamespaceConfig::file(file.path(), 512, true)];
            SoftConfig::new().namespaces(namespaces).pollers(pollers)
        });
        for mut rig in both_of(configs) {
            round_trip(&mut rig);
            assert_eq!(rig.device().statistics().staged_bytes, 4 * (64 << 10));
        }
    }
}

/// Writes PRP entries into the client's own memory; returns where.
fn list(rig: &Rig, entries: &[u64]) -> u64 {
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    rig.client.fill(0x8000, &bytes);
    rig.client.buffer.iova().0 + 0x8000
}

#[test]
fn pages_of_a_prp_list_that_are_neighbours_are_one_copy() {
    for mut rig in both() {
        let data = pattern(2, 32 << 10);
        rig.remote.set(0x1800, &data);
        let pages: Vec<u64> = (1..9).map(|page| rig.at(0x1000 + page * 4096)).collect();
        let list = list(&rig, &pages);
        rig.run_ok(command::write(1, 0, 63).with_prp(rig.at(0x1800), list));
        assert_eq!(rig.device().statistics().remote_copies, 1);
        let mut stored = vec![0; data.len()];
        rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        assert!(stored == data);
        // Two pages apart from each other.
        rig.run_ok(command::read(1, 0, 15).with_prp(rig.at(0x40_0000), rig.at(0x50_0000)));
        assert!(rig.remote.bytes(0x40_0000, 4096) == data[..4096]);
        assert!(rig.remote.bytes(0x50_0000, 4096) == data[4096..8192]);
        rig.client.assert_clean();
    }
}

/// The command with its data described by a segment in the client's own memory.
fn scattered(rig: &Rig, sqe: Sqe, blocks: &[SglDescriptor]) -> Sqe {
    let words = blocks.iter().flat_map(|block| block.into_qwords()).flat_map(u64::to_le_bytes);
    let bytes: Vec<u8> = words.collect();
    rig.client.fill(0x8000, &bytes);
    sqe.with_sgl(SglDescriptor::last_segment(rig.client.buffer.iova().0 + 0x8000, bytes.len() as u32))
}

#[test]
fn data_may_lie_partly_in_remote_memory() {
    for no_pins in [false, true] {
        for client in Client::both(&memory(1 << 20, 512)) {
            let remote = Double::for_device(client.device.is_stepped(), REMOTE, 5);
            remote.knobs().no_pins.store(no_pins, std::sync::atomic::Ordering::SeqCst);
            let mut rig = Rig::with(client, remote);
            let data = pattern(3, 4096);
            let host = rig.client.buffer.iova().0;
            let blocks = [
                SglDescriptor::data_block(rig.at(77), 1000),
                SglDescriptor::data_block(host + 0x1003, 96),
                SglDescriptor::data_block(rig.at(9001), 3000),
            ];
            rig.remote.set(77, &data[..1000]);
            rig.client.fill(0x1003, &data[1000..1096]);
            rig.remote.set(9001, &data[1096..]);
            rig.run_ok(scattered(&rig, command::write(1, 16, 7), &blocks));
            let mut stored = vec![0; 4096];
            rig.device().peek(Nsid(1), Lba(16), &mut stored).unwrap();
            assert!(stored == data);
            let blocks = [
                SglDescriptor::data_block(host + 0x4000, 512),
                SglDescriptor::bit_bucket(300),
                SglDescriptor::data_block(rig.at(5), 3284),
            ];
            rig.run_ok(scattered(&rig, command::read(1, 16, 7), &blocks));
            assert!(rig.client.bytes(0x4000, 512) == data[..512]);
            assert!(rig.remote.bytes(5, 3284) == data[812..]);
            assert_eq!(rig.remote.bytes(0, 5), [0; 5], "and nothing around it");
            assert_eq!(rig.remote.bytes(3289, 5), [0; 5]);
            rig.client.assert_clean();
        }
    }
}

fn range(slba: u64, nlb: u32) -> DsmRange {
    DsmRange { cattr: 0, nlb, slba }
}

fn deallocate(ranges: u8) -> Sqe {
    command::dataset_management(1, ranges - 1, DsmCdw11::new().with_ad(true))
}

#[test]
fn ranges_to_deallocate_may_lie_there() {
    for mut rig in both() {
        rig.device().poke(Nsid(1), Lba(0), &[7; 8192]).unwrap();
        let ranges = [range(2, 3), range(8, 1)];
        rig.remote.set(512, ranges.as_bytes());
        rig.run_ok(rig.sgl(deallocate(2), 512, 32));
        let mut stored = vec![0; 8192];
        rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        let cleared: Vec<usize> = (0..16).filter(|lba| stored[lba * 512] == 0).collect();
        assert_eq!(cleared, [2, 3, 4, 8]);
        rig.remote.set(512, range(2000, 100).as_bytes());
        let status = rig.run(rig.sgl(deallocate(1), 512, 16));
        assert!(status.same_code(Status::LBA_OUT_OF_RANGE), "{status}");
    }
}

#[test]
fn a_command_without_a_size_limit_goes_in_pieces() {
    let config = memory(8 << 20, 4096).mdts(0);
    for no_pins in [false, true] {
        for client in Client::both(&config) {
            let remote = Double::for_device(client.device.is_stepped(), REMOTE, 11);
            remote.knobs().no_pins.store(no_pins, std::sync::atomic::Ordering::SeqCst);
            let mut rig = Rig::with(client, remote);
            let data = pattern(4, 5 << 20);
            rig.remote.set(4096, &data);
            rig.run_ok(rig.sgl(command::write(1, 0, 1279), 4096, data.len()));
            rig.remote.set(0, &vec![0; REMOTE]);
            rig.run_ok(rig.sgl(command::read(1, 0, 1279), 0, data.len()));
            assert!(rig.remote.bytes(0, data.len()) == data);
            assert_eq!(rig.device().statistics().remote_copies, 10);
        }
    }
}

#[test]
fn no_block_is_torn_by_what_an_engine_copies() {
    for mut rig in both() {
        rig.device().poke(Nsid(1), Lba(0), &[1; 4096]).unwrap();
        rig.remote.set(0, &[2; 4096]);
        rig.remote.hold(true);
        let host = rig.client.buffer.iova().0;
        let write = rig.sgl(command::write(1, 0, 7), 0, 4096);
        rig.submit(1, &[write]);
        rig.expect_in_flight(1);
        // The first lies in what the engine is writing; the second does not.
        let reads =
            [command::read(1, 0, 0).with_prp(host, 0), command::read(1, 8, 0).with_prp(host + 4096, 0)];
        rig.submit(2, &reads);
        assert_eq!(rig.wait().cid, 3);
        rig.submit(4, &[command::write_zeroes(1, 7, 0, false)]);
        rig.expect_silence(std::time::Duration::from_millis(1));
        rig.remote.hold(false);
        let mut cids: Vec<u16> = (0..3).map(|_| rig.wait()).map(|entry| entry.cid).collect();
        cids.sort_unstable();
        assert_eq!(cids, [1, 2, 4]);
        assert_eq!(rig.client.bytes(0, 512), [2; 512]);
        let mut stored = [0; 4096];
        rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        assert_eq!((stored[..3584].to_vec(), stored[3584..].to_vec()), (vec![2; 3584], vec![0; 512]));
    }
}

#[test]
fn host_data_and_remote_data_go_side_by_side() {
    for mut rig in both() {
        rig.remote.hold(true);
        let read = rig.sgl(command::read(1, 0, 0), 0, 512);
        rig.submit(1, &[read]);
        rig.expect_in_flight(1);
        rig.client.fill(0, &[9; 512]);
        let host = rig.client.buffer.iova().0;
        rig.submit(2, &[command::write(1, 5, 0).with_prp(host, 0), command::flush(1)]);
        let cids = [rig.wait().cid, rig.wait().cid];
        assert!(cids == [2, 3] || cids == [3, 2], "{cids:?}: they do not wait for the engine");
        rig.remote.hold(false);
        assert_eq!(rig.wait().cid, 1);
    }
}
