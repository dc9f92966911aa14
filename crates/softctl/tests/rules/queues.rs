//! Creation and deletion of queues.

use warpbell_nvme::Status;
use warpbell_nvme::queue_command::{self, QueuePriority};

use crate::client::{Client, Pair, memory};
use crate::{Scene, admin_on, cases, keep};

/// Asks for something with a pair that is not created yet, where queues have at most 64 entries.
fn ask(sqe: impl FnOnce(&mut Client, &Pair) -> warpbell_nvme::Sqe, status: Status) -> Scene {
    let mut client = Client::stepped(memory(1 << 20, 512).max_entries(64));
    let pair = Pair::new(&client.device, 1, 64);
    let sqe = sqe(&mut client, &pair);
    admin_on(&mut client, |_| sqe, status);
    keep(client, pair)
}

fn cq(pair: &Pair, qid: u16, size_z: u16) -> warpbell_nvme::Sqe {
    queue_command::create_io_cq(qid, size_z, pair.cq_memory.iova().0, None)
}

fn sq(pair: &Pair, qid: u16, size_z: u16, cqid: u16) -> warpbell_nvme::Sqe {
    queue_command::create_io_sq(qid, size_z, pair.sq_memory.iova().0, cqid, QueuePriority::URGENT)
}

cases! {
    a_queue_with_identifier_zero: QueueIdentifier, ["queue 0, identifiers go from 1 to 64"], || {
        ask(|_, pair| cq(pair, 0, 3), Status::INVALID_QUEUE_IDENTIFIER)
    };
    a_queue_beyond_the_granted: QueueIdentifier, ["queue 65"], || {
        ask(|_, pair| cq(pair, 65, 3), Status::INVALID_QUEUE_IDENTIFIER)
    };
    a_queue_that_exists: QueueIdentifier, ["queue 1"], || {
        ask(|client, pair| { client.admin_ok(cq(pair, 1, 3)); cq(pair, 1, 3) }, Status::INVALID_QUEUE_IDENTIFIER)
    };
    deletion_of_no_queue: QueueIdentifier, ["opcode 00h: queue 3"], || {
        ask(|_, _| queue_command::delete_io_sq(3), Status::INVALID_QUEUE_IDENTIFIER)
    };
    a_queue_of_one_entry: QueueSize, ["1 entries, the limit is 64"], || {
        ask(|_, pair| cq(pair, 1, 0), Status::INVALID_QUEUE_SIZE)
    };
    a_queue_that_is_too_large: QueueSize, ["65 entries, the limit is 64"], || {
        ask(|_, pair| cq(pair, 1, 64), Status::INVALID_QUEUE_SIZE)
    };
    a_vector_that_there_is_not: InterruptVector, ["vector 65, the function has 65"], || {
        ask(
            |_, pair| queue_command::create_io_cq(1, 3, pair.cq_memory.iova().0, Some(65)),
            Status::INVALID_INTERRUPT_VECTOR,
        )
    };
    a_queue_that_is_scattered: FieldValue, ["opcode 05h", "dword 11 0x0"], || {
        ask(|_, pair| { let mut sqe = cq(pair, 1, 3); sqe.cdw11 &= !1; sqe }, Status::INVALID_FIELD)
    };
    a_submission_queue_before_its_completion_queue: CompletionQueue, ["completion queue 2, which does not exist"], || {
        ask(|_, pair| sq(pair, 1, 3, 2), Status::INVALID_CQ)
    };
    a_submission_queue_into_the_admin_completion_queue: QueueIdentifier, ["completion queue 0, identifiers go from 1"], || {
        ask(
            |client, pair| { client.admin_ok(cq(pair, 1, 3)); sq(pair, 1, 3, 0) },
            Status::INVALID_QUEUE_IDENTIFIER,
        )
    };
    a_submission_queue_into_a_completion_queue_beyond_the_granted: QueueIdentifier, ["completion queue 65"], || {
        ask(
            |client, pair| { client.admin_ok(cq(pair, 1, 3)); sq(pair, 1, 3, 65) },
            Status::INVALID_QUEUE_IDENTIFIER,
        )
    };
    a_completion_queue_deleted_too_early: QueueDeletion, ["completion queue 1, which 1 submission queues use"], || {
        ask(
            |client, pair| {
                client.admin_ok(cq(pair, 1, 3));
                client.admin_ok(sq(pair, 1, 3, 1));
                queue_command::delete_io_cq(1)
            },
            Status::INVALID_QUEUE_DELETION,
        )
    };
    a_queue_inside_a_page: PrpOffset, ["queue base", "page offset"], || {
        ask(
            |_, pair| queue_command::create_io_cq(1, 3, pair.cq_memory.iova().0 + 64, None),
            Status::INVALID_PRP_OFFSET,
        )
    };
    a_queue_in_unmapped_memory: ForeignAddress, ["queue memory", "0x1000"], || {
        ask(|_, _| queue_command::create_io_cq(1, 3, 0x1000, None), Status::DATA_TRANSFER_ERROR)
    };
    a_queue_in_another: QueueOverlap, ["1024 bytes at", "where completion queue 1 lies at"], || {
        ask(
            |client, pair| {
                client.admin_ok(cq(pair, 1, 63));
                queue_command::create_io_cq(2, 63, pair.cq_memory.iova().0, None)
            },
            Status::INVALID_FIELD,
        )
    };
}
