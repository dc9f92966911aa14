//! Processes that are killed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpbell::{AttachOptions, Error};
use warpbell_driver::IoQueueOptions;
use warpbell_hw::ClientMemory;
use warpbell_sim::{Blocks, Case, Rig};
use warpbell_tests::suite;
use warpbell_vfio::user::{ServerOptions, UserOptions};

use crate::processes::{Process, server};
use crate::served::{LIMIT, Served, open, until};
use warpbell_hw::{Lba, Nsid};

#[test]
fn a_client_that_is_killed_with_commands_in_flight_leaves_nothing() {
    let served = Served::slow(ServerOptions::default());
    for round in 1..3 {
        let (client, _) = Process::start("client", &served.socket());
        client.kill();
        served.wait_for(&format!("{round} gone: "));
        let lowest = warpbell_hw::Iova(1 << 20);
        assert!(
            served.soft.client_memory().slice(lowest, 1, warpbell_hw::DmaAccess::READ).is_err(),
            "its memory is let go"
        );
    }
    suite::works(&served.open());
    assert_eq!(served.soft.violations(), []);
}

#[test]
fn a_server_that_is_killed_ends_everything_by_its_deadline_with_a_reason() {
    let (process, socket) = server();
    let ssd = Arc::new(open(&socket, &UserOptions::default()).unwrap());
    suite::works(&ssd);
    // None of the first commands may be late, or none would have an answer.
    let timeout = Duration::from_secs(10);
    let case = Case {
        entries: 64,
        async_depth: 4,
        commands: 16_000,
        read_range: 1024,
        timeout,
        ..Case::new("death")
    };
    let rig = Rig::new(&case, ssd.clone(), ssd.clone()).unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let kernels = scope.spawn(|| warpbell_sim::threaded::run_on(&rig));
        until("an answer", || rig.record(100).unwrap().answers == 1);
        process.kill();
        rig.attachment.declare_lost(0);
        kernels.join().unwrap().unwrap();
    });
    let records = rig.records().unwrap();
    let answered = records.iter().filter(|record| record.answers == 1 && record.status == 0).count();
    assert!(answered > 0 && answered < records.len(), "{answered} of {}", records.len());

    let registers = ssd.controller().device().registers();
    assert_eq!((registers.read32(0x1c), registers.read64(0)), (u32::MAX, u64::MAX));
    let text =
        format!("{:#}", Blocks::load(&*ssd, Nsid(1), Lba(0), &mut [0; 512]).expect_err("nobody answers"));
    assert!(text.contains("vfio-user:"), "{text}");
    let text = ssd.attach(&AttachOptions::default()).err().expect("nobody answers").to_string();
    assert!(text.contains("vfio-user:"), "{text}");
    drop(rig);
    drop(ssd);
    assert!(begin.elapsed() < LIMIT, "no wait is longer than its deadline");
    let error = open(&socket, &UserOptions::default()).err().expect("nobody listens");
    assert!(matches!(error, Error::User(_)) && error.exit_code() == 4, "{error}");
    assert!(error.to_string().contains("start a server first"), "{error}");
}

#[test]
fn a_buffer_of_a_queue_that_a_dead_server_did_not_delete_keeps_its_place_while_the_ssd_is_open() {
    let (process, socket) = server();
    let ssd = open(&socket, &UserOptions::default()).unwrap();
    let buffer = ssd.buffer(8192).unwrap();
    let place = buffer.as_ref().iova;
    let queue = ssd.host_queue(16, IoQueueOptions::default(), buffer).unwrap();
    let kept = ssd.buffer(1).unwrap();
    process.kill();
    until("the loss", || ssd.controller().check_health().is_err());
    drop(queue);
    // Whoever has the server's memory may still write there.
    assert_ne!(ssd.buffer(8192).unwrap().as_ref().iova, place);
    drop(kept);
}
