//! Copies in flight when their queue, their memory or their controller goes away.

use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell_hw::{Device, DmaError, Lba, Nsid, ResetKind};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::register::{Shn, offset};
use warpbell_nvme::{Status, queue_command};

use crate::client::{Client, configuration, memory, shut_down, wait_csts};
use crate::{REMOTE, Rig, both, pattern};

fn reads(rig: &Rig, count: usize) -> Vec<Sqe> {
    (0..count).map(|i| rig.sgl(command::read(1, i as u64, 0), i * 512, 512)).collect()
}

/// Copies that are in flight, and end a little later.
fn begin(rig: &mut Rig, count: usize) {
    rig.remote.hold(true);
    let commands = reads(rig, count);
    rig.submit(1, &commands);
    rig.expect_in_flight(count);
    rig.end_soon();
}

#[test]
fn nothing_is_copied_after_unmap() {
    for mut rig in both() {
        begin(&mut rig, 8);
        rig.device().dma().unmap(rig.mapped.iova(), REMOTE as u64).unwrap();
        rig.close();
        assert_eq!(rig.remote.in_flight(), 0);
        for _ in 0..8 {
            assert!(rig.wait().status().is_ok(), "its copies had ended");
        }
        let status = rig.run(rig.sgl(command::read(1, 0, 0), 0, 512));
        assert!(status.same_code(Status::DATA_TRANSFER_ERROR), "{status}");
    }
}

#[test]
fn a_command_with_more_to_copy_fails_when_its_memory_goes() {
    let config = memory(8 << 20, 512).mdts(0);
    for client in Client::both(&config) {
        let remote = crate::client::remote::Double::for_device(client.device.is_stepped(), 32 << 20, 1);
        remote.knobs().no_pins.store(true, Ordering::SeqCst);
        let mut rig = Rig::with(client, remote);
        rig.remote.hold(true);
        // More than there is staging memory for.
        let commands: Vec<Sqe> =
            (0..3).map(|i| rig.sgl(command::read(1, 0, 16383), i * (8 << 20), 8 << 20)).collect();
        rig.submit(1, &commands);
        rig.expect_in_flight(16);
        rig.remote.hold(false);
        rig.device().dma().unmap(rig.mapped.iova(), 32 << 20).unwrap();
        rig.close();
        let statuses: Vec<Status> = (0..3).map(|_| rig.wait().status()).collect();
        assert!(statuses.iter().any(|one| one.same_code(Status::DATA_TRANSFER_ERROR)), "{statuses:?}");
    }
}

#[test]
fn a_reset_waits_for_copies_and_the_next_life_begins_clean() {
    for mut rig in both() {
        begin(&mut rig, 16);
        rig.device().reset().reset(ResetKind::Function).unwrap();
        assert_eq!(rig.remote.in_flight(), 0);
        let Rig { remote, mapped, .. } = &rig;
        let (remote, iova) = (remote.clone(), mapped.iova());
        remote.set(0, &[0; 4096]);
        rig.expect_silence(Duration::from_millis(1));
        assert_eq!(remote.bytes(0, 4096), [0; 4096]);
        crate::client::set_admin_queue(rig.device(), &rig.client.admin);
        (rig.client.admin.tail, rig.client.admin.head) = (0, 0);
        let completions = rig.client.admin.cq_memory.window();
        completions.fill(0, completions.len(), 0).unwrap();
        rig.device().registers().write32(offset::CC, configuration().with_en(true).into_bits());
        wait_csts(rig.device(), |csts| csts.rdy());
        let mut pair = rig.client.pair(2, 16);
        rig.device().poke(Nsid(1), Lba(0), &[4; 512]).unwrap();
        let block = warpbell_nvme::data::SglDescriptor::data_block(iova.0, 512);
        let entry = pair.run(&rig.client.device, &command::read(1, 0, 0).with_sgl(block).with_cid(3));
        assert!(entry.status().is_ok());
        assert_eq!(remote.bytes(0, 512), [4; 512]);
    }
}

#[test]
fn a_queue_is_deleted_when_its_copies_have_ended() {
    for mut rig in both() {
        begin(&mut rig, 12);
        let status = rig.client.admin(queue_command::delete_io_sq(1)).status();
        assert!(status.is_ok(), "{status}");
        assert_eq!(rig.remote.in_flight(), 0);
        for _ in 0..12 {
            let status = rig.wait().status();
            assert!(status.is_ok() || status.same_code(Status::ABORTED_SQ_DELETION), "{status}");
        }
        rig.client.assert_clean();
    }
}

#[test]
fn an_abort_leaves_a_command_alone_whose_data_is_being_copied() {
    for mut rig in both() {
        begin(&mut rig, 1);
        let result = rig.client.admin(command::abort(1, 1));
        assert!(result.status().is_ok());
        assert_eq!(result.dw0 & 1, 1, "not aborted");
        assert!(rig.wait().status().is_ok());
    }
}

#[test]
fn a_shutdown_completes_what_is_being_copied() {
    for mut rig in both() {
        begin(&mut rig, 8);
        shut_down(rig.device(), Shn::NORMAL);
        for _ in 0..8 {
            assert!(rig.pair.poll().unwrap().status().is_ok(), "before the shutdown is complete");
        }
    }
}

#[test]
fn namespaces_change_when_copies_have_ended() {
    for mut rig in both() {
        rig.remote.hold(true);
        rig.remote.set(0, &pattern(9, 4096));
        let sqe = rig.sgl(command::write(1, 0, 7), 0, 4096);
        rig.submit(1, &[sqe]);
        rig.expect_in_flight(1);
        rig.end_soon();
        let format = warpbell_nvme::command::format_nvm(1, warpbell_nvme::command::FormatNvmCdw10::new());
        assert!(rig.client.admin(format).status().is_ok());
        rig.wait();
        let mut stored = [1; 4096];
        rig.device().peek(Nsid(1), Lba(0), &mut stored).unwrap();
        assert_eq!(stored, [0; 4096], "a format leaves nothing, and nothing comes after it");
    }
}

#[test]
fn unmap_says_so_when_copies_do_not_end() {
    let mut rig = Rig::new(Client::stepped(memory(1 << 20, 512)));
    rig.remote.hold(true);
    let commands = reads(&rig, 2);
    rig.submit(1, &commands);
    rig.expect_in_flight(2);
    let error = rig.device().dma().unmap(rig.mapped.iova(), REMOTE as u64).unwrap_err();
    assert!(
        matches!(&error, DmaError::Unsupported { reason } if reason.contains("do not free it")),
        "{error}"
    );
    for _ in 0..2 {
        assert!(rig.wait().status().same_code(Status::DATA_TRANSFER_ERROR));
    }
    rig.remote.hold(false);
    rig.remote.drop_quietly();
}
