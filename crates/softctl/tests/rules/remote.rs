//! Memory without a CPU pointer: I/O queues and data of I/O commands may lie there, and nothing else.

use std::sync::Arc;

use warpbell_hw::{Device, DmaAccess, RemoteBuffer};
use warpbell_nvme::command;
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::identify::Cns;
use warpbell_nvme::register::offset;
use warpbell_nvme::{Status, queue_command};
use warpbell_softctl::SoftDevice;

use crate::client::remote::Double;
use crate::client::{Client, configuration, csts, memory, wait_csts};
use crate::{Scene, admin_on, cases, io_on, keep, start};

fn remote(device: &SoftDevice) -> RemoteBuffer {
    RemoteBuffer::map(device.dma(), Arc::new(Double::polled(1 << 20, 1)), DmaAccess::READ_WRITE).unwrap()
}

/// Runs an I/O command that is told where remote memory is.
fn io(sqe: impl FnOnce(&Client, u64) -> warpbell_nvme::Sqe) -> Scene {
    let (mut client, mut pair) = start();
    let remote = remote(&client.device);
    let at = remote.iova().0;
    io_on(&mut client, &mut pair, |client| sqe(client, at), Status::DATA_TRANSFER_ERROR);
    keep(client, (pair, remote))
}

fn admin(sqe: impl FnOnce(u64) -> warpbell_nvme::Sqe) -> Scene {
    let (mut client, pair) = start();
    let remote = remote(&client.device);
    let at = remote.iova().0;
    admin_on(&mut client, |_| sqe(at), Status::DATA_TRANSFER_ERROR);
    keep(client, (pair, remote))
}

cases! {
    a_list_in_remote_memory: NoPointer, ["for reading, in memory without a CPU pointer"], || {
        io(|client, at| command::read(1, 0, 31).with_prp(client.buffer.iova().0, at))
    };
    a_segment_in_remote_memory: NoPointer, ["for reading, in memory without a CPU pointer"], || {
        io(|_, at| command::read(1, 0, 0).with_sgl(SglDescriptor::last_segment(at, 16)))
    };
    admin_data_in_remote_memory: NoPointer, ["4096 bytes", "for writing, in memory without a CPU pointer"], || {
        admin(|at| command::identify(Cns::CONTROLLER, 0).with_prp(at, 0))
    };
    a_queue_that_leaves_remote_memory: ForeignAddress, ["queue memory", "not mapped"], || {
        admin(|at| queue_command::create_io_cq(2, 511, at + (1 << 20) - 4096, None))
    };
    data_where_a_queue_lies_in_remote_memory: DataInQueue, ["for writing, where completion queue 2 lies"], || {
        let (mut client, mut pair) = start();
        let remote = remote(&client.device);
        let at = remote.iova().0;
        client.admin_ok(queue_command::create_io_cq(2, 15, at + 4096, None));
        io_on(&mut client, &mut pair, |_| command::read(1, 0, 15).with_prp(at, at + 4096), Status::DATA_TRANSFER_ERROR);
        keep(client, (pair, remote))
    };
    a_queue_where_another_lies_in_remote_memory: QueueOverlap, ["completion queue 2 lies"], || {
        let (mut client, pair) = start();
        let remote = remote(&client.device);
        let at = remote.iova().0;
        client.admin_ok(queue_command::create_io_cq(2, 15, at, None));
        admin_on(&mut client, |_| queue_command::create_io_cq(3, 15, at, None), Status::INVALID_FIELD);
        keep(client, (pair, remote))
    };
    an_admin_queue_in_remote_memory: NoPointer, ["admin queue", "has no CPU pointer"], || {
        let device = SoftDevice::stepped(memory(1 << 20, 512)).unwrap();
        let remote = remote(&device);
        device.registers().write32(offset::AQA, 15 << 16 | 15);
        device.registers().write64(offset::ASQ, remote.iova().0);
        device.registers().write64(offset::ACQ, remote.iova().0 + 4096);
        device.registers().write32(offset::CC, configuration().with_en(true).into_bits());
        wait_csts(&device, |csts| csts.rdy() || csts.cfs());
        assert!(csts(&device).cfs());
        (device, Box::new(remote))
    };
}

#[test]
fn the_direction_of_a_remote_mapping_is_kept() {
    let (mut client, mut pair) = start();
    let memory = Arc::new(Double::polled(1 << 20, 1));
    let mapped = RemoteBuffer::map(client.device.dma(), memory, DmaAccess::READ).unwrap();
    let at = mapped.iova().0;
    io_on(&mut client, &mut pair, |_| command::read(1, 0, 0).with_prp(at, 0), Status::DATA_TRANSFER_ERROR);
    assert_eq!(client.broken(), [warpbell_softctl::Rule::ForeignAddress]);
    client.device.dma().unmap(mapped.iova(), 1 << 20).unwrap();
}
