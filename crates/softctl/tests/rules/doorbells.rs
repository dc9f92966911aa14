//! Doorbell values and registers.

use warpbell_hw::{Device, DoorbellKind, Qid};
use warpbell_nvme::command;
use warpbell_nvme::queue_command;
use warpbell_nvme::register::{Shn, Shst, offset};
use warpbell_softctl::{SoftConfig, SoftDevice};

use crate::client::{Client, Pair, configuration, wait_csts};
use crate::{cases, keep, start};

fn ring(client: &Client, at: usize, value: u32) {
    client.device.doorbells().sink().unwrap().ring(at, value);
}

cases! {
    a_queue_that_does_not_exist: DoorbellRegister, ["submission queue 5 does not exist", "set to 1"], || {
        let (client, pair) = start();
        client.device.doorbells().doorbell(Qid(5), DoorbellKind::SqTail).unwrap().ring(1);
        keep(client, pair)
    };
    a_queue_that_was_deleted: DoorbellRegister, ["submission queue 1 does not exist", "set to 1"], || {
        let (mut client, pair) = start();
        client.admin_ok(queue_command::delete_io_sq(1));
        pair.sq_doorbell.ring(1);
        keep(client, pair)
    };
    between_two_doorbells: DoorbellRegister, ["no doorbell at offset 0x2", "where 1 was written"], || {
        let (client, pair) = start();
        ring(&client, 2, 1);
        keep(client, pair)
    };
    past_the_last_doorbell: DoorbellRegister, ["no doorbell at offset 0x100000"], || {
        let (client, pair) = start();
        ring(&client, 1 << 20, 1);
        keep(client, pair)
    };
    a_tail_that_is_no_entry: DoorbellRange, ["submission queue 1: tail 8, but the queue has 8 entries"], || {
        let (client, pair) = start();
        pair.sq_doorbell.ring(8);
        keep(client, pair)
    };
    a_tail_with_high_bits: DoorbellRange, ["submission queue 1: tail 65537"], || {
        let (client, pair) = start();
        pair.sq_doorbell.ring(0x1_0001);
        keep(client, pair)
    };
    a_head_that_is_no_entry: DoorbellRange, ["completion queue 1: head 9, but the queue has 8 entries"], || {
        let (client, pair) = start();
        pair.cq_doorbell.ring(9);
        keep(client, pair)
    };
    a_tail_again: DoorbellRepeated, ["submission queue 1: tail 0 again"], || {
        let (client, pair) = start();
        pair.sq_doorbell.ring(0);
        keep(client, pair)
    };
    an_admin_head_again: DoorbellRepeated, ["completion queue 0: head"], || {
        let (mut client, pair) = start();
        client.admin_ok(queue_command::keep_alive());
        let head = (client.admin.head % u64::from(client.admin.entries)) as u32;
        client.admin.cq_doorbell.ring(head);
        keep(client, pair)
    };
    more_entries_than_are_free: DoorbellOverrun, ["tail 7 to 1 adds 2 entries, 0 are free"], || {
        let (client, mut pair) = start();
        (0..7).for_each(|cid| pair.push(&command::flush(1).with_cid(cid)));
        pair.ring();
        pair.sq_doorbell.ring(1);
        keep(client, pair)
    };
    a_head_past_what_was_posted: CqHeadBeyondTail, ["head 0 to 3, but 0 entries were posted"], || {
        let (client, pair) = start();
        pair.cq_doorbell.ring(3);
        keep(client, pair)
    };
    before_the_controller_is_ready: NotReady, ["submission queue 0 set to 1", "not ready"], || {
        let device = SoftDevice::stepped(SoftConfig::default()).unwrap();
        let admin = Pair::new(&device, 0, 16);
        admin.sq_doorbell.ring(1);
        (device, Box::new(admin))
    };
    after_a_shutdown: CommandAfterShutdown, ["tail moved after a shutdown"], || {
        let (client, mut pair) = start();
        let cc = configuration().with_en(true).with_shn(Shn::NORMAL);
        client.device.registers().write32(offset::CC, cc.into_bits());
        wait_csts(&client.device, |csts| csts.shst() == Shst::COMPLETE);
        pair.push(&command::flush(1));
        pair.ring();
        client.settle();
        assert!(pair.poll().is_none());
        keep(client, pair)
    };
    after_a_shutdown_of_the_admin_queue: CommandAfterShutdown, ["the admin queue's tail moved"], || {
        let (mut client, pair) = start();
        let cc = configuration().with_en(true).with_shn(Shn::NORMAL);
        client.device.registers().write32(offset::CC, cc.into_bits());
        client.admin.push(&queue_command::keep_alive());
        client.admin.ring();
        client.settle();
        keep(client, pair)
    };
}
