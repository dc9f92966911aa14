//! Reads that nobody asked for yet and that fail, or are never answered.

use warpbell::Sharing;
use warpbell_nvme::{NvmOpcode, Status, status::StatusCodeType};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};

use crate::fixture::Fixture;

const BROKEN: Status = Status::new(StatusCodeType::GENERIC, 0x06).with_dnr(true);

/// A scan whose reads number 6, 7 and 8 go wrong: of pages that are read ahead.
fn scan_with(action: FaultAction) -> Fixture {
    let selector = Selector::new().opcodes(vec![NvmOpcode::READ]).after(5).count(Some(3));
    let faults = FaultPlan::new().faults(vec![Fault::new(action, selector)]);
    Fixture { faults, ..Fixture::scan(Sharing::Exclusive, 60) }
}

#[test]
fn a_read_ahead_that_fails_is_nobodys_failure() {
    let ran = scan_with(FaultAction::Fail { status: BROKEN }).timed();
    ran.expect_right();
    println!("{:?}", ran.report);
    // Those three pages, the three that begin the sequence, and some while it is not trusted.
    assert!((6..=20).contains(&ran.report.misses), "{ran:?}");
    assert!(ran.report.prefetched_in_vain >= 3, "{ran:?}");
}

#[test]
fn a_read_ahead_without_an_answer_costs_its_line_and_no_page() {
    let ran = scan_with(FaultAction::Drop).timed();
    ran.expect_pages();
    println!("{:?}, {:?}", ran.report, ran.took);
    assert!((6..=20).contains(&ran.report.misses), "{ran:?}");
    // Of what it drops the controller does not count the commands.
    assert_eq!(ran.reads + 3, ran.report.prefetched + ran.report.misses, "{ran:?}");
}
