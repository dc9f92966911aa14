//! Errors with a cause: what could not be had, and why, in one line that is the same with and without its chain.

use std::sync::atomic::Ordering;

use rustix::io::Errno;
use warpbell_driver::{Controller, ControllerOptions, DriverError, Notification, QueueSpec, Waiting};
use warpbell_hw::{AccessError, DmaError, DoorbellError, Iova, Qid, ResetError, ResetKind};

use crate::mock::{Mock, Reply};
use crate::{chain, open};

/// The only line of an error, however it is printed.
fn says(error: &DriverError, expected: &str) {
    assert_eq!(error.to_string(), expected);
    assert_eq!(chain(error), expected, "a chain of errors says it once");
}

#[test]
fn missing_dma_memory_is_told_with_what_it_was_for_and_the_limit() {
    for (limit, what) in
        [(0, "the admin submission queue"), (1, "the admin completion queue"), (2, "command data")]
    {
        let mock = Mock::new(|_| {});
        mock.dma.limit.store(limit, Ordering::Relaxed);
        let cause = format!("DMA mapping: the limit of {limit} mappings is reached");
        says(&open(&mock).unwrap_err(), &format!("mock: no DMA memory for {what}: {cause}"));
        assert_eq!(mock.dma.mapped(), 0, "what was mapped before is unmapped");
    }
}

#[test]
fn a_queue_without_dma_memory_is_told_with_the_limit_and_can_be_had_later() {
    for coalesces in [false, true] {
        let mock = Mock::new(|_| {});
        mock.dma.coalesces.store(coalesces, Ordering::Relaxed);
        let controller = open(&mock).unwrap();
        let limit = mock.dma.mapped() as u32;
        mock.dma.limit.store(limit, Ordering::Relaxed);
        // Longer than what is left of a mapping that is shared.
        let spec = || QueueSpec::new(65536);
        let error = controller.create_queue_pair(spec()).unwrap_err();
        let cause = format!("DMA mapping: the limit of {limit} mappings is reached");
        says(&error, &format!("mock: no DMA memory for an I/O queue: {cause}"));
        mock.dma.limit.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(controller.create_queue_pair(spec()).unwrap().qid(), Qid(1), "nothing was lost");
    }
}

#[test]
fn missing_interrupts_are_told_with_the_vector_and_what_the_system_said() {
    let mock = Mock::new(|b| b.no_vector = Some(Errno::MFILE));
    mock.clock.1.store(true, Ordering::Relaxed);
    let text = |vector| {
        let system = "Too many open files (os error 24)";
        format!("mock: no interrupts: cannot set up interrupt vector {vector}: {system}")
    };
    let by_interrupt = ControllerOptions::new().admin_waiting(Waiting::Interrupt);
    says(&Controller::open(mock.clone(), by_interrupt).unwrap_err(), &text(0));

    let controller = open(&mock).unwrap();
    assert_eq!(controller.admin_vector(), None, "admin commands are polled");
    let spec = || QueueSpec::new(8).notification(Notification::Interrupt);
    says(&controller.create_queue_pair(spec()).unwrap_err(), &text(1));
    mock.behave(|b| b.no_vector = None);
    assert_eq!(controller.create_queue_pair(spec()).unwrap().vector(), Some(1), "nothing was lost");
}

/// Every error with a cause. Deletions and creations of queues have one of the driver's own.
#[test]
fn no_error_has_its_cause_in_its_text_and_as_its_source() {
    let device = || "mock".into();
    let command = || DriverError::CommandLost {
        device: device(),
        command: warpbell_nvme::opcode::AdminOpcode::DELETE_IO_SQ,
    };
    let reset = || ResetError::Unavailable { kind: ResetKind::Function, reason: "none".to_owned() };
    let access = AccessError::NoPointer { iova: Iova(0x1000) };
    let doorbell = DoorbellError::Outside { qid: Qid(1), offset: 0x2000, len: 0x1000 };
    let errors = [
        DriverError::FunctionReset { device: device(), cause: reset() },
        DriverError::Reset { device: device(), stuck: Box::new(command()), cause: reset() },
        DriverError::Ring { device: device(), what: "a ring".to_owned(), cause: access },
        DriverError::Doorbell { device: device(), cause: doorbell },
        DriverError::Dma { device: device(), what: "data", cause: DmaError::TooMany { limit: 1 } },
    ];
    for error in errors {
        says(&error, &error.to_string());
    }
}

#[test]
fn a_queue_that_cannot_be_made_or_deleted_is_told_with_the_answer_to_its_command() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(2)).unwrap();
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Status(warpbell_nvme::status::Status::INTERNAL_ERROR)));
    let made = controller.create_queue_pair(QueueSpec::new(2)).unwrap_err();
    let deleted = controller.delete_queue_pair(pair).unwrap_err();
    for error in [made, deleted] {
        assert!(matches!(error.innermost(), DriverError::Command { .. }), "{error:?}");
        says(&error, &error.to_string());
        let (text, cause) = (error.to_string(), error.innermost().to_string());
        assert!(text.ends_with(&format!(": {cause}")) && text.matches(&cause).count() == 1, "{text}");
    }
}
