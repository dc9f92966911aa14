//! Data through the host's queue: what is written comes back, and errors have their status.

use std::sync::Arc;

use warpbell_driver::{Controller, IoQueue, Outcome};
use warpbell_hw::DmaBuffer;
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::status::Status;
use warpbell_softctl::{FaultPlan, SoftDevice};

use crate::fixture::*;

struct Fixture {
    controller: Controller,
    queue: IoQueue,
    memory: DmaBuffer,
}

impl Fixture {
    fn new(device: &Arc<SoftDevice>) -> Fixture {
        let controller = open(device);
        let queue = io_queue(&controller, 64);
        Fixture { controller, queue, memory: buffer(device, 256 << 10) }
    }

    /// Where slot `slot` has its 512 bytes.
    fn slot(&self, slot: u16) -> u64 {
        self.memory.iova().0 + u64::from(slot) * 512
    }

    fn status(&mut self, sqe: Sqe) -> Status {
        match self.queue.execute(&sqe).unwrap().outcome {
            Outcome::Completed(status) => status,
            Outcome::TimedOut => panic!("execute reports timeouts as errors"),
        }
    }

    fn finish(self) {
        self.controller.delete_queue_pair(self.queue.into_pair()).unwrap();
        self.controller.shutdown().unwrap();
    }
}

fn pattern(lba: u64) -> [u8; 512] {
    std::array::from_fn(|index| (lba as usize * 31 + index * 7) as u8)
}

#[test]
fn blocks_come_back_as_written_in_any_order() {
    on_both(&shuffled(11), |device| {
        let mut fixture = Fixture::new(device);
        let iova = fixture.memory.iova().0;
        for lba in 0..200u64 {
            fixture.memory.window().write(0, &pattern(lba)).unwrap();
            assert!(fixture.status(command::write(1, lba, 0).with_prp(iova, 0)).is_ok());
        }
        let mut lba_of = [0u64; 64];
        let (mut pushed, mut done) = (0u64, 0);
        while done < 200 {
            while pushed < 200 {
                let base = fixture.memory.iova().0;
                let token = fixture.queue.push_with(|token| {
                    let at = base + u64::from(token.slot) * 512;
                    command::read(1, pushed, 0).with_prp(at, 0)
                });
                let Some(token) = token else { break };
                lba_of[usize::from(token.slot)] = pushed;
                pushed += 1;
            }
            fixture.queue.ring();
            let completion = next(device, &mut fixture.queue);
            assert!(completion.is_ok());
            let slot = completion.token.slot;
            let data = fixture.memory.window().to_vec(usize::from(slot) * 512, 512).unwrap();
            assert_eq!(data, pattern(lba_of[usize::from(slot)]));
            done += 1;
        }
        fixture.finish();
    });
}

#[test]
fn one_sgl_descriptor_describes_a_whole_transfer() {
    on_both(&config(), |device| {
        let mut fixture = Fixture::new(device);
        let len = 128 << 10;
        let data: Vec<u8> = (0..len).map(|index| (index % 251) as u8).collect();
        fixture.memory.window().write(0, &data).unwrap();
        let sgl = SglDescriptor::data_block(fixture.memory.iova().0, len as u32);
        assert!(fixture.status(command::write(1, 0, 255).with_sgl(sgl)).is_ok());
        fixture.memory.window().fill(0, len, 0).unwrap();
        assert!(fixture.status(command::read(1, 0, 255).with_sgl(sgl)).is_ok());
        assert_eq!(fixture.memory.window().to_vec(0, len).unwrap(), data);
        fixture.finish();
    });
}

#[test]
fn ranges_past_the_end_have_their_status() {
    on_both(&config(), |device| {
        let mut fixture = Fixture::new(device);
        let at = fixture.slot(0);
        let read = |lba, nlb_z| command::read(1, lba, nlb_z).with_prp(at, 0);
        assert!(fixture.status(read(2047, 0)).is_ok());
        for sqe in [read(2048, 0), read(2047, 1), read(u64::MAX, 0)] {
            let status = fixture.status(sqe);
            assert!(status.same_code(Status::LBA_OUT_OF_RANGE), "{status}");
        }
        let status = fixture.status(command::read(9, 0, 0).with_prp(at, 0));
        assert!(status.same_code(Status::INVALID_NAMESPACE_OR_FORMAT), "{status}");
        fixture.finish();
    });
}

#[test]
fn a_transfer_above_mdts_is_refused_by_the_controller() {
    let device = SoftDevice::stepped(config().mdts(1)).unwrap();
    let mut fixture = Fixture::new(&device);
    assert_eq!(fixture.controller.max_transfer_bytes(), Some(8192));
    let sgl = SglDescriptor::data_block(fixture.memory.iova().0, 8192);
    assert!(fixture.status(command::read(1, 0, 15).with_sgl(sgl)).is_ok());
    let sgl = SglDescriptor::data_block(fixture.memory.iova().0, 8704);
    let status = fixture.status(command::read(1, 0, 16).with_sgl(sgl));
    assert!(status.same_code(Status::INVALID_FIELD), "{status}");
    assert_eq!(device.violations().len(), 1);
    fixture.finish();
}

#[test]
fn injected_failures_arrive_with_dnr() {
    let plan = FaultPlan::from_toml(
        "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\ndnr = true\nopcode = \"read\"\nlba = 7\n",
    );
    on_both(&config().faults(plan.unwrap()), |device| {
        let mut fixture = Fixture::new(device);
        let at = fixture.slot(0);
        let status = fixture.status(command::read(1, 7, 0).with_prp(at, 0));
        assert!(status.same_code(Status::UNRECOVERED_READ) && status.dnr(), "{status}");
        assert!(fixture.status(command::read(1, 8, 0).with_prp(at, 0)).is_ok());
        assert_eq!(fixture.queue.counters().spurious, 0);
        fixture.finish();
    });
}
