//! Doorbell Buffer Config by hand: what is refused, what existing queues make of it, and what a reset does to it.

mod client;

use std::sync::atomic::Ordering;

use client::pages::Pages;
use client::{Client, Pair, configuration, memory, set_admin_queue, wait_csts};
use warpbell_hw::Device;
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::queue_command::dbbuf_config;
use warpbell_nvme::register::offset;
use warpbell_nvme::{Status, command};
use warpbell_softctl::{DoorbellBufferMode, Rule, SoftConfig};

const STRIDE: u8 = 2;

fn config() -> SoftConfig {
    memory(1 << 20, 512).doorbell_buffer(DoorbellBufferMode::On).stride(STRIDE).queue_pairs(127)
}

/// A client's word in either page.
impl Pages {
    fn tell(&self, client: &mut Client) -> Status {
        client.admin(self.config()).status()
    }

    fn tail_at(qid: u16) -> usize {
        2 * usize::from(qid) * (4 << STRIDE)
    }

    fn tail(&self, qid: u16) -> u32 {
        self.shadows.window().load_u32(Pages::tail_at(qid), Ordering::Acquire)
    }

    fn set_tail(&self, qid: u16, value: u32) {
        self.shadows.window().store_u32(Pages::tail_at(qid), value, Ordering::Release);
    }

    fn event(&self, qid: u16) -> u32 {
        self.events.window().load_u32(Pages::tail_at(qid), Ordering::Acquire)
    }
}

/// Pushes a Flush and writes only the shadow.
fn flush_by_shadow(client: &mut Client, pages: &Pages, pair: &mut Pair) {
    let cid = client.cid();
    pair.push(&command::flush(1).with_cid(cid));
    pages.set_tail(pair.qid, pair.tail % pair.entries);
}

#[test]
fn pages_that_cannot_be_are_refused() {
    for mut client in Client::both(&config()) {
        let pages = Pages::new(&client);
        let (one, two) = (pages.shadows.iova().0, pages.events.iova().0);
        let never = |status: Status| status.with_dnr(true);
        assert_eq!(client.admin(dbbuf_config(one + 8, two)).status(), never(Status::INVALID_FIELD));
        assert_eq!(client.admin(dbbuf_config(one, two + 8)).status(), never(Status::INVALID_FIELD));
        assert_eq!(client.admin(dbbuf_config(one, 0)).status(), never(Status::DATA_TRANSFER_ERROR));
        assert_eq!(client.broken(), [Rule::PrpOffset, Rule::PrpOffset, Rule::ForeignAddress]);
        assert_eq!(pages.tell(&mut client), Status::SUCCESS);
    }
    // One queue more than the page has room for.
    let mut client = Client::stepped(config().queue_pairs(128));
    let pages = Pages::new(&client);
    assert_eq!(pages.tell(&mut client), Status::INVALID_FIELD.with_dnr(true));
    client.number_of_queues(127);
    assert_eq!(pages.tell(&mut client), Status::SUCCESS);
    client.assert_clean();
}

#[test]
fn queues_that_exist_already_go_on_where_they_are() {
    for mut client in Client::both(&config()) {
        let mut pair = client.pair(3, 8);
        for _ in 0..5 {
            let cid = client.cid();
            assert!(pair.run(&client.device.clone(), &command::flush(1).with_cid(cid)).status().is_ok());
        }
        let pages = Pages::new(&client);
        assert_eq!(pages.tell(&mut client), Status::SUCCESS);
        assert_eq!((pages.tail(3), pages.event(3)), (5, 5), "the controller writes the present values");
        flush_by_shadow(&mut client, &pages, &mut pair);
        // It may have gone to sleep on EventIdx 5, which this passes.
        pair.ring();
        assert!(pair.wait(&client.device.clone()).status().is_ok());
        client.assert_clean();
    }
}

#[test]
fn a_stepped_controller_polls_the_shadow_and_arms_eventidx_before_it_sleeps() {
    let mut client = Client::stepped(config());
    let pages = Pages::new(&client);
    assert_eq!(pages.tell(&mut client), Status::SUCCESS);
    let mut pair = client.pair(1, 8);
    flush_by_shadow(&mut client, &pages, &mut pair);
    let before = client.device.statistics();
    assert!(pair.wait(&client.device.clone()).status().is_ok(), "no register was written");
    let after = client.device.statistics();
    assert_eq!((after.sq_doorbells, after.shadow_updates), (before.sq_doorbells, before.shadow_updates + 1));
    client.settle();
    assert_eq!(pages.event(1), 1, "asleep: write the register when you pass 1");
    flush_by_shadow(&mut client, &pages, &mut pair);
    client.settle();
    assert!(pair.poll().is_none(), "asleep");
    pair.ring();
    assert!(pair.wait(&client.device.clone()).status().is_ok());
    client.assert_clean();
}

#[test]
fn a_bad_value_in_a_shadow_is_a_bad_doorbell() {
    let mut client = Client::stepped(config());
    let pages = Pages::new(&client);
    assert_eq!(pages.tell(&mut client), Status::SUCCESS);
    let _pair = client.pair(1, 8);
    pages.set_tail(1, 8);
    client.settle();
    assert_eq!(client.broken(), [Rule::DoorbellRange]);
}

#[test]
fn a_reset_drops_the_pages() {
    for mut client in Client::both(&config()) {
        let pages = Pages::new(&client);
        assert_eq!(pages.tell(&mut client), Status::SUCCESS);
        client.device.registers().write32(offset::CC, configuration().into_bits());
        wait_csts(&client.device, |csts| !csts.rdy());
        client.admin = Pair::new(&client.device, 0, client::ADMIN_ENTRIES);
        set_admin_queue(&client.device, &client.admin);
        client.device.registers().write32(offset::CC, configuration().with_en(true).into_bits());
        wait_csts(&client.device, |csts| csts.rdy());
        let mut pair = client.pair(1, 8);
        pages.set_tail(1, 1);
        let cid = client.cid();
        assert!(pair.run(&client.device.clone(), &command::flush(1).with_cid(cid)).status().is_ok());
        // Their memory is the client's again.
        drop(pages);
        client.assert_clean();
    }
}

#[test]
fn the_command_is_told_where_it_is_offered() {
    for offered in [false, true] {
        let mode = if offered { DoorbellBufferMode::On } else { DoorbellBufferMode::Off };
        let mut client = Client::stepped(config().doorbell_buffer(mode));
        let sqe = command::get_log_page(LogPageId::COMMAND_EFFECTS, 0, 1023, 0, false);
        let effects = client.admin_data(sqe);
        assert_eq!(effects[0x7c * 4] & 1, u8::from(offered));
        let pages = Pages::new(&client);
        assert_eq!(pages.tell(&mut client).is_ok(), offered);
    }
}
