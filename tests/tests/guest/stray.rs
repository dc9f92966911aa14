//! A command whose data pointer leads nowhere. The IOMMU stops the transfer, QEMU reports success all the same, and our
//! own check of the data finds out. The scene announces the DMA fault.

use warpbell_driver::{IoQueue, IoQueueOptions, QueueSpec};
use warpbell_hw::{DmaBuffer, Iova};
use warpbell_nvme::command;
use warpbell_sim::threaded::run_with;
use warpbell_sim::{Case, Finding, Rig};
use warpbell_tests::suite;

use crate::fixture;

const CANARY: u8 = 0xc5;

/// An address that nothing is mapped at, in the middle of the space.
fn nowhere(ssd: &warpbell::Ssd) -> Iova {
    let limits = ssd.controller().device().dma().limits();
    let last = limits.ranges.iter().map(|range| *range.end()).max().expect("a range");
    Iova((last / 2) & !0xffff_ffff)
}

#[test]
fn a_stray_address_changes_no_memory_and_fails_the_data_check() {
    if !fixture::is("stray") {
        return;
    }
    let ssd = fixture::plain(0);
    let canaries: Vec<DmaBuffer> = (0..4)
        .map(|_| DmaBuffer::host(ssd.controller().device().dma(), 1 << 16).expect("a buffer"))
        .collect();
    for canary in &canaries {
        canary.window().fill(0, canary.len(), CANARY).expect("filled");
    }
    let stray = nowhere(&ssd);
    let pair = ssd.controller().create_queue_pair(QueueSpec::new(4)).expect("a pair");
    let mut queue = IoQueue::new(pair, IoQueueOptions::default()).expect("a queue");
    let ended = queue.execute(&command::read(1, 0, 7).with_prp(stray.get(), 0)).expect("an answer");
    println!("a read to {stray}: {:?}", ended.outcome);
    ssd.controller().delete_queue_pair(queue.into_pair()).expect("deleted");

    let case = Case { entries: 64, ..Case::new("stray") };
    let rig = Rig::new(&case, ssd.clone(), ssd.clone()).expect("a rig");
    let mut args = rig.args();
    args.buffer.iova = stray.get();
    let outcome = run_with(&rig, &args).expect("a run");
    let findings: Vec<Finding> =
        rig.check_success().expect("records").into_iter().chain(outcome.findings).collect();
    let payloads =
        findings.iter().filter(|finding| matches!(finding, Finding::Payload { .. })).count() as u64;
    let statuses = findings.iter().filter(|finding| matches!(finding, Finding::Status { .. })).count() as u64;
    assert_eq!(payloads + statuses, case.total(), "each command is found out: {findings:?}");
    for canary in &canaries {
        let mut bytes = vec![0; canary.len()];
        canary.window().read(0, &mut bytes).expect("read");
        assert!(bytes.iter().all(|byte| *byte == CANARY), "canaries are unchanged");
    }
    drop(rig);
    suite::works(&ssd);
}
