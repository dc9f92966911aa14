//! Client memory: mapped or not, for which direction, and whose.

use warpbell_hw::{Device, DmaAccess, DmaBuffer};
use warpbell_nvme::Status;
use warpbell_nvme::command;
use warpbell_nvme::data::SglDescriptor;
use warpbell_softctl::CompletionOrder;

use crate::client::{memory, private};
use crate::{cases, data, io, io_on, keep, start, with};

cases! {
    memory_that_was_never_mapped: ForeignAddress, ["512 bytes at 0x10000000000 are not mapped for writing"], || {
        io(|_| command::read(1, 0, 0).with_prp(1 << 40, 0), Status::DATA_TRANSFER_ERROR)
    };
    memory_past_the_end_of_a_mapping: ForeignAddress, ["not mapped for writing"], || {
        io(
            |client| {
                let end = data(client) + client.buffer.len() as u64;
                command::read(1, 0, 0).with_sgl(SglDescriptor::data_block(end - 256, 512))
            },
            Status::DATA_TRANSFER_ERROR,
        )
    };
    memory_mapped_for_reading: ForeignAddress, ["not mapped for writing"], || {
        let (mut client, mut pair) = start();
        let buffer = DmaBuffer::map(client.device.dma(), private(4096), DmaAccess::READ).unwrap();
        let at = buffer.iova().0;
        io_on(&mut client, &mut pair, |_| command::read(1, 0, 0).with_prp(at, 0), Status::DATA_TRANSFER_ERROR);
        keep(client, (pair, buffer))
    };
    memory_mapped_for_writing: ForeignAddress, ["not mapped for reading"], || {
        let (mut client, mut pair) = start();
        let buffer = DmaBuffer::map(client.device.dma(), private(4096), DmaAccess::WRITE).unwrap();
        let at = buffer.iova().0;
        io_on(&mut client, &mut pair, |_| command::write(1, 0, 0).with_prp(at, 0), Status::DATA_TRANSFER_ERROR);
        keep(client, (pair, buffer))
    };
    memory_unmapped_under_a_command: ForeignAddress, ["unmapped under a command or before it"], || {
        let order = CompletionOrder::Shuffled { window: 64 };
        let (client, mut pair) = with(memory(1 << 20, 512).order(order));
        let buffer = DmaBuffer::host(client.device.dma(), 4096).unwrap();
        pair.push(&command::read(1, 0, 0).with_prp(buffer.iova().0, 0).with_cid(5));
        pair.ring();
        // It is fetched, and held.
        assert!(client.device.step());
        assert!(pair.poll().is_none());
        drop(buffer);
        assert!(pair.wait(&client.device).status().same_code(Status::DATA_TRANSFER_ERROR));
        keep(client, pair)
    };
    the_memory_of_a_queue_unmapped: QueueMemoryUnmapped, ["submission queue 1 lies at", "completion queue 1 lies at"], || {
        let (client, pair) = start();
        drop(pair);
        keep(client, ())
    };
    data_in_a_completion_queue: DataInQueue, ["512 bytes at", "for writing, where completion queue 1 lies at"], || {
        let (mut client, mut pair) = start();
        let at = pair.cq_memory.iova().0;
        io_on(&mut client, &mut pair, |_| command::read(1, 0, 0).with_prp(at, 0), Status::DATA_TRANSFER_ERROR);
        keep(client, pair)
    };
    data_in_the_admin_queue: DataInQueue, ["where admin submission queue lies at"], || {
        let (mut client, mut pair) = start();
        let at = client.admin.sq_memory.iova().0;
        io_on(&mut client, &mut pair, |_| command::write(1, 0, 0).with_prp(at, 0), Status::DATA_TRANSFER_ERROR);
        keep(client, pair)
    };
}

#[test]
fn a_queue_without_memory_reaches_none() {
    let (client, pair) = start();
    let [sq, cq] = [pair.sq_memory.window().clone(), pair.cq_memory.window().clone()];
    let (doorbell, head) = (pair.sq_doorbell.clone(), pair.cq_doorbell.clone());
    drop(pair);
    for window in [&sq, &cq] {
        window.fill(0, window.len(), 0xc5).unwrap();
    }
    doorbell.ring(3);
    head.ring(0);
    client.settle();
    for window in [&sq, &cq] {
        let bytes = window.to_vec(0, window.len()).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0xc5), "the controller wrote memory that was unmapped");
    }
}
