//! Limits of Write Zeroes and Dataset Management: whom the driver asks for them, and what no answer means.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpbell_driver::{CommandLimits, DriverError};
use warpbell_nvme::command::{IdentifyCdw10, Sqe};
use warpbell_nvme::identify::Cns;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::register::Vs;
use warpbell_nvme::status::Status;

use crate::mock::{Mock, Reply};
use crate::open;

/// Opens a controller of a version whose Identify of the limits gets `reply`. What came of it, and how often it was asked.
fn asked(
    (mjr, mnr): (u16, u8),
    write_zeroes: bool,
    reply: Reply,
) -> (Result<CommandLimits, DriverError>, u32) {
    let count = Arc::new(AtomicU32::new(0));
    let seen = count.clone();
    let mock = Mock::new(|b| {
        b.version = Vs::from_parts(mjr, mnr, 0);
        b.identify.oncs.set_write_zeroes(write_zeroes);
        b.script = Box::new(move |qid, sqe| match asks(qid, sqe) {
            true => {
                seen.fetch_add(1, Ordering::Relaxed);
                reply
            }
            false => Reply::Normal,
        });
    });
    let limits = open(&mock).map(|controller| controller.command_limits());
    (limits, count.load(Ordering::Relaxed))
}

fn asks(qid: u16, sqe: &Sqe) -> bool {
    qid == 0
        && sqe.opcode() == AdminOpcode::IDENTIFY.0
        && IdentifyCdw10::from_bits(sqe.cdw10).cns() == Cns::CSI_CONTROLLER
}

#[test]
fn asked_is_each_version_whose_cns_has_all_its_bits() {
    for (version, times) in [((1, 0), 0), ((1, 1), 0), ((1, 2), 1), ((1, 3), 1), ((1, 4), 1), ((2, 0), 1)] {
        let (limits, asked) = asked(version, true, Reply::Normal);
        assert_eq!((limits.unwrap(), asked), (CommandLimits::default(), times), "{version:?}");
    }
}

#[test]
fn a_controller_without_such_commands_is_not_asked() {
    assert_eq!(asked((2, 0), false, Reply::Normal).1, 0);
}

#[test]
fn a_refusal_is_no_limit_and_not_repeated() {
    for status in [Status::INVALID_FIELD, Status::INVALID_NAMESPACE_OR_FORMAT, Status::INVALID_OPCODE] {
        let (limits, asked) = asked((1, 4), true, Reply::Status(status));
        assert_eq!((limits.unwrap(), asked), (CommandLimits::default(), 1), "{status:?}");
    }
}

#[test]
fn no_answer_ends_the_bring_up() {
    let (limits, asked) = asked((1, 4), true, Reply::Swallow);
    assert!(matches!(limits, Err(DriverError::CommandTimeout { .. })), "{limits:?}");
    assert_eq!(asked, 1);
}
