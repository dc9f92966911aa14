//! Scatter gather lists.

use warpbell_nvme::Status;
use warpbell_nvme::command;
use warpbell_nvme::data::{SglDescriptor, SglSubtype, SglType};

use crate::client::Client;
use crate::{Scene, cases, data, io};

/// A read of one block through this descriptor.
fn read(descriptor: impl FnOnce(&Client) -> SglDescriptor, status: Status) -> Scene {
    io(|client| command::read(1, 0, 0).with_sgl(descriptor(client)), status)
}

/// Writes descriptors at byte 0x8000 of the buffer; returns where.
fn segment(client: &Client, descriptors: &[SglDescriptor]) -> (u64, u32) {
    let bytes: Vec<u8> = descriptors
        .iter()
        .flat_map(|descriptor| descriptor.into_qwords())
        .flat_map(|word| word.to_le_bytes())
        .collect();
    client.fill(0x8000, &bytes);
    (data(client) + 0x8000, bytes.len() as u32)
}

fn block(client: &Client, len: u32) -> SglDescriptor {
    SglDescriptor::data_block(data(client), len)
}

cases! {
    a_type_that_there_is_not: SglDescriptor, ["Keyed SGL Data Block is not supported"], || {
        read(
            |client| {
                let mut descriptor = block(client, 512);
                descriptor.id.set_sgl_type(SglType::KEYED_DATA_BLOCK);
                descriptor
            },
            Status::INVALID_SGL_DESCRIPTOR_TYPE,
        )
    };
    a_subtype_that_there_is_not: SglDescriptor, ["subtype Offset is not supported"], || {
        read(
            |client| {
                let mut descriptor = block(client, 512);
                descriptor.id.set_subtype(SglSubtype::OFFSET);
                descriptor
            },
            Status::INVALID_SGL_DESCRIPTOR_TYPE,
        )
    };
    a_segment_of_half_a_descriptor: SglDescriptor, ["segment length 8 is not a positive multiple of 16"], || {
        read(|client| SglDescriptor::last_segment(data(client), 8), Status::INVALID_SGL_SEGMENT_DESCRIPTOR)
    };
    a_segment_of_nothing: SglDescriptor, ["segment length 0"], || {
        read(|client| SglDescriptor::last_segment(data(client), 0), Status::INVALID_SGL_SEGMENT_DESCRIPTOR)
    };
    a_segment_at_an_odd_address: SglDescriptor, ["not qword aligned"], || {
        read(|client| SglDescriptor::last_segment(data(client) + 4, 16), Status::INVALID_SGL_SEGMENT_DESCRIPTOR)
    };
    a_segment_in_the_middle_of_another: SglDescriptor, ["not the last of its segment"], || {
        read(
            |client| {
                let inner = SglDescriptor::last_segment(data(client), 16);
                let (at, len) = segment(client, &[inner, block(client, 512)]);
                SglDescriptor::segment(at, len)
            },
            Status::INVALID_SGL_DESCRIPTOR_COUNT,
        )
    };
    a_last_segment_that_goes_on: SglDescriptor, ["a last segment leads to another"], || {
        read(
            |client| {
                let (at, len) = segment(client, &[SglDescriptor::segment(data(client), 16)]);
                SglDescriptor::last_segment(at, len)
            },
            Status::INVALID_SGL_SEGMENT_DESCRIPTOR,
        )
    };
    a_segment_that_leads_nowhere: SglDescriptor, ["leads nowhere"], || {
        read(
            |client| {
                let (at, len) = segment(client, &[block(client, 512)]);
                SglDescriptor::segment(at, len)
            },
            Status::INVALID_SGL_SEGMENT_DESCRIPTOR,
        )
    };
    segments_that_loop: SglDescriptor, ["more than 131072 descriptors"], || {
        read(
            |client| {
                let at = data(client) + 0x8000;
                segment(client, &[SglDescriptor::segment(at, 16)]);
                SglDescriptor::segment(at, 16)
            },
            Status::INVALID_SGL_DESCRIPTOR_COUNT,
        )
    };
    an_sgl_that_is_too_short: SglLength, ["412 bytes shorter than the data of 512"], || {
        read(|client| block(client, 100), Status::INVALID_SGL_DATA_LENGTH)
    };
    an_sgl_that_is_too_long: SglLength, ["a data block of 513 bytes where 512 are left"], || {
        read(|client| block(client, 513), Status::INVALID_SGL_DATA_LENGTH)
    };
    a_bit_bucket_that_is_too_long: SglLength, ["a bit bucket of 600 bytes where 512 are left"], || {
        read(|_| SglDescriptor::bit_bucket(600), Status::INVALID_SGL_DATA_LENGTH)
    };
    a_bucket_for_a_write: SglLength, ["512 bytes shorter"], || {
        io(|_| command::write(1, 0, 0).with_sgl(SglDescriptor::bit_bucket(512)), Status::INVALID_SGL_DATA_LENGTH)
    };
    reserved_bytes_of_a_descriptor: ReservedField, ["SGL descriptor bytes 14:12 [1, 0, 0]"], || {
        read(
            |client| {
                let mut descriptor = block(client, 512);
                descriptor.rsvd = [1, 0, 0];
                descriptor
            },
            Status::SUCCESS,
        )
    };
    an_address_in_a_bit_bucket: ReservedField, ["bit bucket bytes 7:0 0x10"], || {
        read(
            |_| {
                let mut descriptor = SglDescriptor::bit_bucket(512);
                descriptor.address = 0x10;
                descriptor
            },
            Status::SUCCESS,
        )
    };
    a_segment_in_unmapped_memory: ForeignAddress, ["16 bytes at 0x40 are not mapped for reading"], || {
        read(|_| SglDescriptor::last_segment(0x40, 16), Status::DATA_TRANSFER_ERROR)
    };
}
