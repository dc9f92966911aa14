//! I/O commands, in both ways to run a controller.

mod client;

use std::collections::BTreeSet;
use std::io::Write;

use client::{Client, Pair, memory};
use warpbell_hw::{Device, DmaBuffer, Lba, Nsid};
use warpbell_nvme::command::{self, DsmCdw11, DsmRange, ReadWrite};
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::{NvmOpcode, Sqe, Status};
use warpbell_softctl::{CompletionOrder, FaultKind, FaultPlan, NamespaceConfig, Rule, SoftConfig};
use zerocopy::IntoBytes;

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed) ^ (i >> 8) as u8).collect()
}

#[test]
fn what_is_written_is_read_compared_zeroed_and_deallocated() {
    for block in [512usize, 4096] {
        for mut client in Client::both(&memory(16 << 20, block as u32)) {
            let mut pair = client.pair(1, 8);
            let data = pattern(block, 3);
            client.fill(0, &data);
            assert!(client.io(&mut pair, command::write(1, 7, 0).with_fua(true), 0).is_ok());
            assert!(client.io(&mut pair, command::read(1, 7, 0), 8192).is_ok());
            assert_eq!(client.bytes(8192, block), data);
            assert!(client.io(&mut pair, command::compare(1, 7, 0), 0).is_ok());
            let status = client.io(&mut pair, command::compare(1, 8, 0), 0);
            assert!(status.same_code(Status::COMPARE_FAILURE), "{status}");
            assert!(client.io(&mut pair, command::verify(1, 7, 0), 0).is_ok());
            assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
            assert!(client.io(&mut pair, command::flush(command::NSID_ALL), 0).is_ok());
            let mut stored = vec![0; block];
            client.device.peek(Nsid(1), Lba(7), &mut stored).unwrap();
            assert_eq!(stored, data);
            assert!(client.io(&mut pair, command::write_zeroes(1, 7, 0, true), 0).is_ok());
            client.device.peek(Nsid(1), Lba(7), &mut stored).unwrap();
            assert!(stored.iter().all(|b| *b == 0));
            client.device.poke(Nsid(1), Lba(9), &data).unwrap();
            let range = [DsmRange { cattr: 0, nlb: 2, slba: 9 }];
            client.fill(0, range.as_bytes());
            let trim = command::dataset_management(1, 0, DsmCdw11::new().with_ad(true));
            assert!(client.io(&mut pair, trim, 0).is_ok());
            client.device.peek(Nsid(1), Lba(9), &mut stored).unwrap();
            assert!(stored.iter().all(|b| *b == 0));
            let statistics = client.device.statistics();
            assert_eq!(statistics.commands(NvmOpcode::COMPARE), 2);
            assert_eq!((statistics.bytes_read, statistics.bytes_written), (block as u64, block as u64));
            assert_eq!(statistics.errors, 1);
            client.assert_clean();
        }
    }
}

/// A PRP list for `len` bytes of the buffer from byte `at` on; the list is at byte `list`.
fn with_prps(client: &Client, sqe: Sqe, at: usize, len: usize, list: usize) -> Sqe {
    let base = client.buffer.iova().0;
    let first = 4096 - at % 4096;
    if len <= first {
        return sqe.with_prp(base + at as u64, 0);
    }
    let pages: Vec<u64> =
        (0..(len - first).div_ceil(4096)).map(|i| base + (at + first + i * 4096) as u64).collect();
    if let [page] = pages[..] {
        return sqe.with_prp(base + at as u64, page);
    }
    client.fill(list, pages.as_bytes());
    sqe.with_prp(base + at as u64, base + list as u64)
}

#[test]
fn long_transfers_through_prp_lists_and_sgls() {
    let config = memory(16 << 20, 512).mdts(7);
    for mut client in Client::both(&config) {
        let mut pair = client.pair(1, 8);
        for (blocks, at) in [(1, 0), (8, 0), (9, 0), (16, 512), (17, 4092), (255, 4), (1024, 0), (1024, 100)]
        {
            let len = blocks * 512;
            let data = pattern(len, blocks as u8);
            client.device.poke(Nsid(1), Lba(100), &data).unwrap();
            let list = 640 << 10;
            let read = command::read(1, 100, (blocks - 1) as u16);
            let sqe = with_prps(&client, read, at, len, list).with_cid(1);
            assert!(pair.run(&client.device, &sqe).status().is_ok());
            assert_eq!(client.bytes(at, len), data, "{blocks} blocks at {at}");
            let write = command::write(1, 5000, (blocks - 1) as u16).with_cid(2);
            let sqe =
                write.with_sgl(SglDescriptor::data_block(client.buffer.iova().0 + at as u64, len as u32));
            assert!(pair.run(&client.device, &sqe).status().is_ok());
            let mut stored = vec![0; len];
            client.device.peek(Nsid(1), Lba(5000), &mut stored).unwrap();
            assert_eq!(stored, data);
        }
        client.assert_clean();
    }
}

#[test]
fn ranges_limits_and_namespaces_are_checked() {
    for mut client in Client::both(&memory(1 << 20, 512).mdts(1)) {
        let mut pair = client.pair(1, 8);
        let mut expect = |sqe, status: Status| {
            let got = client.io(&mut pair, sqe, 0);
            assert!(got.same_code(status) && got.dnr(), "{got}, expected {status}");
        };
        expect(command::read(1, 2048, 0), Status::LBA_OUT_OF_RANGE);
        expect(command::read(1, 2047, 1), Status::LBA_OUT_OF_RANGE);
        expect(command::read(1, u64::MAX, 0), Status::LBA_OUT_OF_RANGE);
        expect(command::write(1, u64::MAX - 1, 7), Status::LBA_OUT_OF_RANGE);
        expect(command::write_zeroes(1, 2047, 1, false), Status::LBA_OUT_OF_RANGE);
        expect(command::verify(1, 2048, 0), Status::LBA_OUT_OF_RANGE);
        expect(command::read(0, 0, 0), Status::INVALID_NAMESPACE_OR_FORMAT);
        expect(command::read(2, 0, 0), Status::INVALID_NAMESPACE_OR_FORMAT);
        expect(command::read(command::NSID_ALL, 0, 0), Status::INVALID_NAMESPACE_OR_FORMAT);
        expect(command::flush(3), Status::INVALID_NAMESPACE_OR_FORMAT);
        client.assert_clean();
        let status = client.io(&mut pair, command::read(1, 0, 16), 0);
        assert!(status.same_code(Status::INVALID_FIELD), "17 blocks are above MDTS: {status}");
        assert_eq!(client.broken(), [Rule::TransferSize]);
        assert!(client.io(&mut pair, command::read(1, 2047, 0), 0).is_ok());
        assert_eq!(client.device.statistics().errors, 11);
    }
}

#[test]
fn protection_and_fused_commands_are_refused_and_a_metadata_pointer_is_ignored() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    let mut pair = client.pair(1, 8);
    let mut mptr = command::read(1, 0, 0);
    mptr.mptr = 0x1000;
    assert!(client.io(&mut pair, mptr, 0).is_ok());
    let pi = command::read(1, 0, 0).with_read_write(ReadWrite::new().with_prinfo(8));
    let mut fused = command::compare(1, 0, 0);
    fused.cdw0.set_fuse(command::Fuse::FIRST);
    for sqe in [pi, fused] {
        assert!(client.io(&mut pair, sqe, 0).same_code(Status::INVALID_FIELD));
    }
    assert_eq!(client.broken(), [Rule::Metadata, Rule::Metadata, Rule::FusedOperation]);
}

#[test]
fn files_are_served_and_protected() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&pattern(4097, 1)).unwrap();
    for (writable, mode) in [(false, 0), (true, 0), (false, 1), (true, 1)] {
        let namespaces = vec![NamespaceConfig::file(file.path(), 512, writable)];
        let config = SoftConfig::new().namespaces(namespaces);
        // One after the other: a file has one writer.
        let mut client = [Client::stepped, Client::threaded][mode](config);
        let mut pair = client.pair(1, 8);
        for lba in 0..9 {
            assert!(client.io(&mut pair, command::read(1, lba, 0), lba as usize * 512).is_ok());
        }
        let mut expected = pattern(4097, 1);
        expected.resize(9 * 512, 0);
        assert_eq!(client.bytes(0, 9 * 512), expected);
        let protected = |status: Status| status.same_code(Status::NAMESPACE_WRITE_PROTECTED);
        assert!(protected(client.io(&mut pair, command::write(1, 8, 0), 0)), "the unaligned tail");
        assert!(protected(client.io(&mut pair, command::write(1, 7, 1), 0)));
        assert!(protected(client.io(&mut pair, command::write_zeroes(1, 8, 0, false), 0)));
        let status = client.io(&mut pair, command::write(1, 0, 0), 0);
        assert!(if writable { status.is_ok() } else { protected(status) }, "{status}");
        client.assert_clean();
        assert_eq!(std::fs::read(file.path()).unwrap(), pattern(4097, 1));
    }
}

#[test]
fn a_truncated_file_is_an_unrecovered_read() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&[9; 8192]).unwrap();
    let namespaces = vec![NamespaceConfig::file(file.path(), 4096, false)];
    let mut client = Client::threaded(SoftConfig::new().namespaces(namespaces));
    let mut pair = client.pair(1, 8);
    assert!(client.io(&mut pair, command::read(1, 1, 0), 0).is_ok());
    file.as_file().set_len(5000).unwrap();
    assert!(client.io(&mut pair, command::read(1, 0, 0), 0).is_ok());
    assert!(client.io(&mut pair, command::read(1, 1, 0), 0).same_code(Status::UNRECOVERED_READ));
    assert!(client.io(&mut pair, command::verify(1, 1, 0), 0).same_code(Status::UNRECOVERED_READ));
    assert_eq!(client.device.statistics().media_errors, 2);
    client.assert_clean();
}

#[test]
fn a_full_completion_queue_is_never_overrun() {
    for mut client in Client::both(&memory(1 << 20, 512)) {
        // Four submission queues of 8 entries feed a completion queue of 4.
        let mut pairs: Vec<Pair> = (1..=4).map(|qid| Pair::new(&client.device, qid, 8)).collect();
        let cq = Pair::new(&client.device, 1, 4);
        client.admin_ok(queue_command::create_io_cq(1, 3, cq.cq_memory.iova().0, None));
        for pair in &mut pairs {
            let base = pair.sq_memory.iova().0;
            client.admin_ok(queue_command::create_io_sq(pair.qid, 7, base, 1, QueuePriority::URGENT));
            for cid in 0..7 {
                let iova = client.buffer.iova().0;
                pair.push(&command::read(1, u64::from(cid), 0).with_prp(iova, 0).with_cid(cid));
            }
            pair.ring();
        }
        let mut cq = cq;
        let mut seen = BTreeSet::new();
        while seen.len() < 28 {
            // Leave the queue full for a while.
            for _ in 0..50 {
                client.device.clock().pause(std::time::Duration::from_micros(20));
            }
            while let Some(entry) = cq.poll() {
                assert!(entry.status().is_ok());
                assert!(seen.insert((entry.sqid, entry.cid)), "a completion came twice or was overwritten");
            }
        }
        client.assert_clean();
    }
}

#[test]
fn shuffled_completions_come_once_each_and_out_of_order() {
    let config = memory(1 << 20, 512).order(CompletionOrder::Shuffled { window: 16 });
    for mut client in Client::both(&config) {
        let mut pair = client.pair(1, 64);
        let mut order = Vec::new();
        for round in 0..20u16 {
            for cid in 0..63 {
                let iova = client.buffer.iova().0 + u64::from(cid) * 512;
                pair.push(&command::read(1, u64::from(cid), 0).with_prp(iova, 0).with_cid(cid));
            }
            pair.ring();
            let got: Vec<u16> = (0..63).map(|_| pair.wait(&client.device).cid).collect();
            assert_eq!(got.iter().collect::<BTreeSet<_>>().len(), 63, "round {round}");
            order.push(got);
        }
        assert!(order.iter().any(|got| !got.is_sorted()));
        assert!(pair.poll().is_none());
        client.assert_clean();
    }
}

#[test]
fn a_corruption_is_recorded_with_block_and_byte() {
    let plan = "[[fault]]\nkind = \"corrupt\"\nlba = 5\ncount = 1";
    let config = memory(1 << 20, 512).faults(FaultPlan::from_toml(plan).unwrap());
    for mut client in Client::both(&config) {
        let mut pair = client.pair(1, 8);
        let data = pattern(8 * 512, 9);
        client.device.poke(Nsid(1), Lba(0), &data).unwrap();
        assert!(client.io(&mut pair, command::read(1, 0, 7), 0).is_ok());
        let got = client.bytes(0, 8 * 512);
        let wrong: Vec<usize> = (0..got.len()).filter(|i| got[*i] != data[*i]).collect();
        let [fault] = &client.device.faults()[..] else { panic!("one fault") };
        assert_eq!((fault.kind, fault.nsid, fault.lba), (FaultKind::Corrupt, Nsid(1), Lba(5)));
        let at = 5 * 512 + fault.offset.unwrap() as usize;
        assert_eq!(wrong, [at]);
        assert_eq!((fault.expected, fault.actual), (Some(data[at]), Some(got[at])));
        assert!(client.io(&mut pair, command::read(1, 0, 7), 0).is_ok());
        assert_eq!(client.bytes(0, 8 * 512), data, "the store itself is good");
        assert_eq!(client.device.statistics().faults, 1);
    }
}

#[test]
fn failures_are_injected_exactly() {
    let plan = r#"[[fault]]
        kind = "fail"
        status = "Internal Error"
        dnr = true
        opcode = ["read", "flush"]
        every = 3"#;
    let config = memory(1 << 20, 512).faults(FaultPlan::from_toml(plan).unwrap());
    for mut client in Client::both(&config) {
        let mut pair = client.pair(1, 8);
        let mut failed = Vec::new();
        for i in 0..9 {
            let sqe = if i % 2 == 0 { command::read(1, i, 0) } else { command::flush(1) };
            let status = client.io(&mut pair, sqe, 0);
            if !status.is_ok() {
                assert_eq!(status, Status::INTERNAL_ERROR.with_dnr(true));
                failed.push(i);
            }
            assert!(client.io(&mut pair, command::write(1, i, 0), 0).is_ok());
        }
        assert_eq!(failed, [2, 5, 8]);
        assert_eq!(client.device.faults().len(), 3);
    }
}

#[test]
fn many_queues_over_several_pollers() {
    let config = memory(4 << 20, 4096).pollers(3).stride(2);
    let mut client = Client::threaded(config);
    client.number_of_queues(16);
    let mut pairs: Vec<Pair> = (1..=16).map(|qid| client.pair(qid, 16)).collect();
    let base = client.buffer.iova().0;
    for round in 0..200u16 {
        for pair in &mut pairs {
            for cid in 0..15u16 {
                let slot = u64::from(pair.qid - 1) * 15 + u64::from(cid);
                let sqe = if round % 2 == 0 { command::write(1, slot, 0) } else { command::read(1, slot, 0) };
                pair.push(&sqe.with_prp(base + slot * 4096, 0).with_cid(cid));
            }
            pair.ring();
        }
        for pair in &mut pairs {
            for _ in 0..15 {
                assert!(pair.wait(&client.device).status().is_ok());
            }
        }
    }
    assert_eq!(client.device.statistics().total_commands(), 200 * 16 * 15);
    client.assert_clean();
}

#[test]
fn odd_queue_sizes_and_the_longest() {
    for mut client in Client::both(&memory(1 << 20, 512)) {
        for entries in [2u32, 4, 65536] {
            let mut pair = client.pair(1, entries);
            for i in 0..3 * entries.min(4096) {
                let iova = client.buffer.iova().0;
                let sqe = command::read(1, u64::from(i % 7), 0).with_prp(iova, 0).with_cid(i as u16);
                assert_eq!(pair.run(&client.device, &sqe).cid, i as u16);
            }
            client.admin_ok(queue_command::delete_io_sq(1));
            client.admin_ok(queue_command::delete_io_cq(1));
        }
        client.assert_clean();
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| {
        let order = CompletionOrder::Shuffled { window: 8 };
        let mut client = Client::stepped(memory(1 << 20, 512).order(order).seed(seed));
        let mut pair = client.pair(1, 32);
        for cid in 0..31 {
            pair.push(&command::flush(1).with_cid(cid));
        }
        pair.ring();
        let cids: Vec<u16> = (0..31).map(|_| pair.wait(&client.device).cid).collect();
        (cids, client.device.clock().now())
    };
    assert_eq!(history(5), history(5));
    assert_ne!(history(5), history(6));
}

#[test]
fn interrupts_count_completions() {
    for mut client in Client::both(&memory(1 << 20, 512)) {
        let event = client.device.interrupts().subscribe(3).unwrap();
        let mut pair = Pair::new(&client.device, 1, 8);
        client.admin_ok(queue_command::create_io_cq(1, 7, pair.cq_memory.iova().0, Some(3)));
        client.admin_ok(queue_command::create_io_sq(1, 7, pair.sq_memory.iova().0, 1, QueuePriority::URGENT));
        assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
        let mut count = [0; 8];
        // The interrupt comes after the completion that the client has already seen.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while rustix::io::read(&event, &mut count).is_err() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert_eq!(u64::from_ne_bytes(count), 1);
    }
}

#[test]
fn bit_buckets_take_what_the_client_does_not_want() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    let mut pair = client.pair(1, 8);
    let data = pattern(1024, 4);
    client.device.poke(Nsid(1), Lba(0), &data).unwrap();
    let base = client.buffer.iova().0;
    let list = [
        SglDescriptor::data_block(base, 100),
        SglDescriptor::bit_bucket(500),
        SglDescriptor::data_block(base + 1000, 424),
    ];
    client.fill(4096, list.as_bytes());
    let sqe = command::read(1, 0, 1).with_sgl(SglDescriptor::last_segment(base + 4096, 48)).with_cid(1);
    assert!(pair.run(&client.device, &sqe).status().is_ok());
    assert_eq!(client.bytes(0, 100), data[..100]);
    assert_eq!(client.bytes(1000, 424), data[600..]);
    client.assert_clean();
}

#[test]
fn buffers_in_several_mappings() {
    let mut client = Client::threaded(memory(1 << 20, 512));
    let mut pair = client.pair(1, 8);
    let buffers: Vec<_> = (0..8).map(|_| DmaBuffer::host(client.device.dma(), 8192).unwrap()).collect();
    for (i, buffer) in buffers.iter().cycle().take(64).enumerate() {
        client.device.poke(Nsid(1), Lba(i as u64), &pattern(512, i as u8)).unwrap();
        let sqe = command::read(1, i as u64, 0).with_prp(buffer.iova().0 + 4096, 0).with_cid(i as u16);
        assert!(pair.run(&client.device, &sqe).status().is_ok());
        assert_eq!(buffer.window().to_vec(4096, 512).unwrap(), pattern(512, i as u8));
    }
    client.assert_clean();
}
