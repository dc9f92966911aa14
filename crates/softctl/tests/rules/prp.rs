//! Physical region pages.

use warpbell_nvme::Status;
use warpbell_nvme::command;

use crate::client::{Client, memory};
use crate::{cases, data, io, io_on, keep, start, with};

/// Writes PRP list entries at byte `at` of the client's buffer.
fn list(client: &Client, at: usize, entries: &[u64]) -> u64 {
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    client.fill(at, &bytes);
    data(client) + at as u64
}

/// Pages of the buffer, from byte 0x20000 on.
fn page(client: &Client, index: u64) -> u64 {
    data(client) + 0x2_0000 + index * 4096
}

cases! {
    an_odd_address: PrpMisaligned, ["PRP1", "not dword aligned"], || {
        io(|client| command::read(1, 0, 0).with_prp(data(client) + 1, 0), Status::INVALID_PRP_OFFSET)
    };
    an_odd_list: PrpMisaligned, ["PRP list pointer", "not qword aligned"], || {
        io(
            |client| command::read(1, 0, 23).with_prp(page(client, 0), list(client, 0, &[page(client, 1)]) + 4),
            Status::INVALID_PRP_OFFSET,
        )
    };
    a_second_page_with_an_offset: PrpOffset, ["PRP2", "page offset"], || {
        io(|client| command::read(1, 0, 8).with_prp(data(client), data(client) + 4100), Status::INVALID_PRP_OFFSET)
    };
    a_list_entry_with_an_offset: PrpOffset, ["PRP list entry", "page offset"], || {
        io(
            |client| {
                let at = list(client, 0, &[page(client, 1), page(client, 2) + 8]);
                command::read(1, 0, 23).with_prp(page(client, 0), at)
            },
            Status::INVALID_PRP_OFFSET,
        )
    };
    a_second_pointer_without_need: PrpUnneeded, ["PRP2 is", "for 512 bytes"], || {
        io(|client| command::read(1, 0, 0).with_prp(data(client), data(client)), Status::SUCCESS)
    };
    a_list_that_ends_early: ForeignAddress, ["4096 bytes at 0x0"], || {
        io(
            |client| command::read(1, 0, 31).with_prp(page(client, 0), list(client, 0, &[page(client, 1), page(client, 2)])),
            Status::DATA_TRANSFER_ERROR,
        )
    };
    a_list_in_unmapped_memory: ForeignAddress, ["16 bytes at 0x1000 are not mapped for reading"], || {
        io(|client| command::read(1, 0, 23).with_prp(data(client), 0x1000), Status::DATA_TRANSFER_ERROR)
    };
    a_chain_without_need: PrpChainUnneeded, ["last slot", "looks like another list"], || {
        let (mut client, mut pair) = start();
        // Two entries remain, and two slots: the second holds the last entry, but the client put a chain there.
        list(&client, 0x1000, &[page(&client, 2)]);
        let second = data(&client) + 0x1000;
        let at = list(&client, 0x1000 - 16, &[page(&client, 1), second]);
        io_on(&mut client, &mut pair, |client| command::write(1, 0, 23).with_prp(page(client, 0), at), Status::SUCCESS);
        keep(client, pair)
    };
    a_list_that_leads_back: PrpLoop, ["leads back to", "bytes to describe"], || {
        let (mut client, mut pair) = with(memory(8 << 20, 4096).mdts(0));
        let mut entries: Vec<u64> = (0..511).map(|index| page(&client, index % 64)).collect();
        entries.push(data(&client));
        let at = list(&client, 0, &entries);
        io_on(
            &mut client,
            &mut pair,
            |client| command::write(1, 0, 1499).with_prp(page(client, 0), at),
            Status::DATA_TRANSFER_ERROR,
        );
        keep(client, pair)
    };
}
