//! Command identifiers, stale entries and limits of outstanding commands.

use warpbell_nvme::command;
use warpbell_nvme::queue_command;
use warpbell_nvme::{Cqe, Status};
use warpbell_softctl::CompletionOrder;

use crate::client::{Client, Pair, memory};
use crate::{Scene, cases, keep, start, with};

/// Submits two commands with one identifier until both are fetched before the first completes.
fn twice(seed: u64) -> (Client, Pair, [Cqe; 2]) {
    let order = CompletionOrder::Shuffled { window: 64 };
    let (client, mut pair) = with(memory(1 << 20, 512).order(order).seed(seed));
    pair.push(&command::flush(1).with_cid(7));
    pair.push(&command::flush(1).with_cid(7));
    pair.ring();
    let entries = [pair.wait(&client.device), pair.wait(&client.device)];
    (client, pair, entries)
}

fn reserved_identifier() -> Scene {
    let (client, mut pair) = start();
    for _ in 0..2 {
        assert!(pair.run(&client.device, &command::flush(1).with_cid(u16::MAX)).status().is_ok());
    }
    assert_eq!(client.device.violations().len(), 1, "told once");
    keep(client, pair)
}

cases! {
    an_identifier_in_flight: CidInFlight, ["queue 1 command 0x0007", "in flight"], || {
        let (client, pair, entries) = (0..100)
            .map(twice)
            .find(|(client, ..)| !client.device.violations().is_empty())
            .expect("some seed fetches the second while the first is held");
        let conflicts = entries.iter().filter(|entry| entry.status().same_code(Status::CID_CONFLICT));
        assert_eq!(conflicts.count(), 1);
        keep(client, pair)
    };
    an_identifier_of_a_waiting_event_request: CidInFlight, ["queue 0 command 0x0063"], || {
        let (mut client, pair) = start();
        client.admin.push(&command::async_event_request().with_cid(99));
        client.admin.ring();
        client.settle();
        let answer = client.admin.run(&client.device, &queue_command::keep_alive().with_cid(99));
        assert!(answer.status().same_code(Status::CID_CONFLICT));
        keep(client, pair)
    };
    the_identifier_that_means_no_command: CidReserved, ["command 0xffff", "highest is 0xfffe"], reserved_identifier;
    too_many_event_requests: CommandLimit, ["8 event requests are outstanding"], || {
        let (mut client, pair) = start();
        for cid in 100..109 {
            client.admin.push(&command::async_event_request().with_cid(cid));
        }
        client.admin.ring();
        let last = client.admin.wait(&client.device);
        assert_eq!((last.cid, last.status().same_code(Status::AER_LIMIT_EXCEEDED)), (108, true));
        keep(client, pair)
    };
    too_many_aborts: CommandLimit, ["5 Aborts are outstanding, the limit is 4"], || {
        let (mut client, pair) = start();
        for cid in 100..105 {
            client.admin.push(&queue_command::abort(1, cid).with_cid(cid));
        }
        client.admin.ring();
        let statuses: Vec<Status> = (0..5).map(|_| client.admin.wait(&client.device).status()).collect();
        assert!(statuses[0].same_code(Status::ABORT_LIMIT_EXCEEDED), "{statuses:?}");
        assert!(statuses[1..].iter().all(|status| status.is_ok()), "{statuses:?}");
        keep(client, pair)
    };
    an_entry_that_was_not_written: StaleEntry, ["entry that was not written"], || {
        let (client, mut pair) = start();
        for cid in 0..7 {
            pair.push(&command::flush(1).with_cid(cid));
        }
        pair.ring();
        (0..7).for_each(|_| _ = pair.wait(&client.device));
        pair.push(&command::flush(1).with_cid(9));
        pair.tail += 1;
        pair.ring();
        pair.wait(&client.device);
        assert!(pair.wait(&client.device).status().same_code(Status::INVALID_OPCODE));
        keep(client, pair)
    };
}
