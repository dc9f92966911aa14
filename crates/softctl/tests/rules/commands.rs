//! Submission queue entries: opcodes, reserved fields, data pointers, metadata, ranges, namespaces.

use warpbell_nvme::command::{self, Cdw0, DsmCdw11, DsmRange, Fuse, Psdt, Sqe};
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::feature::{FeatureId, FeatureSelect, NumberOfQueues};
use warpbell_nvme::identify::Cns;
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::queue_command;
use warpbell_nvme::{AdminOpcode, Status};
use warpbell_softctl::{NamespaceConfig, OptionalCommands, SoftConfig};
use zerocopy::IntoBytes;

use crate::client::{Client, memory};
use crate::{Scene, admin, admin_on, cases, data, io, io_on, keep, start, with};

fn read(client: &Client) -> Sqe {
    command::read(1, 0, 0).with_prp(data(client), 0)
}

/// A good read with one field changed.
fn changed(change: fn(&mut Sqe), status: Status) -> Scene {
    io(
        |client| {
            let mut sqe = read(client);
            change(&mut sqe);
            sqe
        },
        status,
    )
}

/// A good admin command with one field changed.
fn admin_changed(sqe: Sqe, change: fn(&mut Sqe), status: Status) -> Scene {
    admin(
        |client| {
            let mut sqe =
                if sqe.opcode() == AdminOpcode::IDENTIFY.0 { sqe.with_prp(data(client), 0) } else { sqe };
            change(&mut sqe);
            sqe
        },
        status,
    )
}

cases! {
    an_opcode_that_is_reserved: UnsupportedOpcode, ["opcode 7Fh"], || io(|_| Sqe::new(0x7f, 1), Status::INVALID_OPCODE);
    an_admin_opcode_that_is_reserved: UnsupportedOpcode, ["opcode 03h"], || {
        admin(|_| Sqe::new(0x03, 0), Status::INVALID_OPCODE)
    };
    half_of_a_fused_operation: FusedOperation, ["FUSE Fused operation, first command"], || {
        changed(|sqe| sqe.cdw0.set_fuse(Fuse::FIRST), Status::INVALID_FIELD)
    };
    a_reserved_fused_operation: FusedOperation, ["FUSE 3h"], || {
        changed(|sqe| sqe.cdw0.set_fuse(Fuse(3)), Status::INVALID_FIELD)
    };
    reserved_bits_of_dword_0: ReservedField, ["dword 0 bits 13:10 are 0x1"], || {
        changed(|sqe| sqe.cdw0 = Cdw0::from_bits(sqe.cdw0.into_bits() | 1 << 10), Status::SUCCESS)
    };
    reserved_dword_2: ReservedField, ["dword 2 is 0x1"], || changed(|sqe| sqe.cdw2 = 1, Status::SUCCESS);
    reserved_dword_3: ReservedField, ["dword 3 is 0x80"], || changed(|sqe| sqe.cdw3 = 0x80, Status::SUCCESS);
    reserved_bits_of_dword_12: ReservedField, ["dword 12 bits 0x10000"], || {
        changed(|sqe| sqe.cdw12 |= 1 << 16, Status::SUCCESS)
    };
    reserved_dwords_of_a_flush: ReservedField, ["dword 6 is 0x1000", "dword 13 is 0x5"], || {
        io(
            |_| {
                let mut sqe = command::flush(1);
                (sqe.dptr[0], sqe.cdw13) = (0x1000, 5);
                sqe
            },
            Status::SUCCESS,
        )
    };
    reserved_dwords_of_an_admin_command: ReservedField, ["opcode 18h: dword 11 is 0x9"], || {
        admin_changed(queue_command::keep_alive(), |sqe| sqe.cdw11 = 9, Status::SUCCESS)
    };
    a_namespace_that_a_command_has_no_use_for: ReservedField, ["opcode 08h: dword 1 is 0x1"], || {
        admin_changed(queue_command::abort(1, 3), |sqe| sqe.nsid = 1, Status::SUCCESS)
    };
    a_metadata_pointer_of_an_admin_command: ReservedField, ["opcode 06h: dword 4 is 0x1000"], || {
        admin_changed(command::identify(Cns::CONTROLLER, 0), |sqe| sqe.mptr = 0x1000, Status::SUCCESS)
    };
    a_priority_without_weights: ReservedField, ["QPRIO is 0x2"], || {
        let (mut client, pair) = start();
        let other = crate::client::Pair::new(&client.device, 2, 8);
        client.admin_ok(queue_command::create_io_cq(2, 7, other.cq_memory.iova().0, None));
        let base = other.sq_memory.iova().0;
        client.admin_ok(queue_command::create_io_sq(2, 7, base, 2, queue_command::QueuePriority::MEDIUM));
        keep(client, (pair, other))
    };
    a_reserved_data_pointer: DataPointer, ["PSDT 3 is not supported here"], || {
        changed(|sqe| sqe.cdw0.set_psdt(Psdt(3)), Status::INVALID_FIELD)
    };
    an_sgl_in_an_admin_command: DataPointer, ["PSDT 1 is not supported here"], || {
        admin(
            |client| {
                let sqe = command::identify(Cns::CONTROLLER, 0);
                sqe.with_sgl(SglDescriptor::data_block(data(client), 4096))
            },
            Status::INVALID_FIELD,
        )
    };
    an_sgl_where_there_are_none: DataPointer, ["PSDT 1"], || {
        let (mut client, mut pair) = with(memory(1 << 20, 512).sgl(false));
        let block = SglDescriptor::data_block(data(&client), 512);
        io_on(&mut client, &mut pair, |_| command::read(1, 0, 0).with_sgl(block), Status::INVALID_FIELD);
        keep(client, pair)
    };
    a_metadata_pointer: Metadata, ["MPTR 0x1000"], || changed(|sqe| sqe.mptr = 0x1000, Status::SUCCESS);
    protection_information: Metadata, ["PRINFO 0x8"], || {
        changed(|sqe| *sqe = sqe.with_read_write(sqe.read_write().with_prinfo(8)), Status::INVALID_FIELD)
    };
    a_transfer_beyond_mdts: TransferSize, ["32768 bytes, the limit is 8192"], || {
        let (mut client, mut pair) = with(memory(1 << 20, 512).mdts(1));
        io_on(&mut client, &mut pair, |client| command::read(1, 0, 63).with_prp(data(client), 0), Status::INVALID_FIELD);
        keep(client, pair)
    };
    a_command_that_is_missing: UnsupportedOpcode, ["Write Zeroes is not supported"], || {
        let optional = OptionalCommands::new().no_write_zeroes(true);
        let (mut client, mut pair) = with(memory(1 << 20, 512).optional(optional));
        io_on(&mut client, &mut pair, |_| command::write_zeroes(1, 0, 0, false), Status::INVALID_OPCODE);
        keep(client, pair)
    };
    zeroes_beyond_wzsl: CommandSize, ["16384 bytes of zeroes, WZSL is 8192"], || {
        let (mut client, mut pair) = with(memory(1 << 20, 512).optional(OptionalCommands::new().wzsl(1)));
        io_on(&mut client, &mut pair, |_| command::write_zeroes(1, 0, 31, false), Status::INVALID_FIELD);
        keep(client, pair)
    };
    more_ranges_than_dmrl: CommandSize, ["2 ranges, DMRL is 1"], || {
        ranges(OptionalCommands::new().dmrl(1), &[1, 1])
    };
    a_range_beyond_dmrsl: CommandSize, ["9 blocks of a range, DMRSL is 8"], || {
        ranges(OptionalCommands::new().dmrsl(8), &[8, 9])
    };
    ranges_beyond_dmsl: CommandSize, ["17 blocks of all ranges, DMSL is 16"], || {
        ranges(OptionalCommands::new().dmsl(16), &[8, 9])
    };
    a_namespace_that_is_not_there: NamespaceIdentifier, ["namespace 0x9 is not active"], || {
        changed(|sqe| sqe.nsid = 9, Status::INVALID_NAMESPACE_OR_FORMAT)
    };
    all_namespaces_at_once: NamespaceIdentifier, ["namespace 0xffffffff"], || {
        changed(|sqe| sqe.nsid = command::NSID_ALL, Status::INVALID_NAMESPACE_OR_FORMAT)
    };
    blocks_past_the_end: LbaRange, ["2 blocks from 2047 on, namespace 1 has 2048"], || {
        io(|client| command::read(1, 2047, 1).with_prp(data(client), 0), Status::LBA_OUT_OF_RANGE)
    };
    blocks_around_the_end_of_all_addresses: LbaRange, ["16 blocks from 18446744073709551608"], || {
        io(|client| command::write(1, u64::MAX - 7, 15).with_prp(data(client), 0), Status::LBA_OUT_OF_RANGE)
    };
    a_write_where_none_is_allowed: WriteProtected, ["queue 1 command 0x004d opcode 01h", "NSID 0x1"], || {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let namespaces = vec![NamespaceConfig::file(file.path(), 512, false)];
        let (mut client, mut pair) = with(SoftConfig::new().namespaces(namespaces));
        let write = |client: &Client| command::write(1, 0, 0).with_prp(data(client), 0);
        io_on(&mut client, &mut pair, write, Status::NAMESPACE_WRITE_PROTECTED);
        keep(client, (pair, file))
    };
    number_of_queues_too_late: CommandSequence, ["dword 10 0x7", "dword 11 0x30003"], || {
        let value = NumberOfQueues::new().with_nsqr_z(3).with_ncqr_z(3).into_bits();
        admin(|_| command::set_features(FeatureId::NUMBER_OF_QUEUES, value, 0), Status::COMMAND_SEQUENCE_ERROR)
    };
    number_of_queues_that_is_illegal: FieldValue, ["dword 11 0xffff"], || {
        admin(|_| command::set_features(FeatureId::NUMBER_OF_QUEUES, 0xffff, 0), Status::INVALID_FIELD)
    };
    a_feature_that_there_is_not: FieldValue, ["dword 10 0x55"], || {
        admin(|_| command::set_features(FeatureId(0x55), 1, 0), Status::INVALID_FIELD)
    };
    a_reserved_select: FieldValue, ["dword 10 0x704"], || {
        let get = command::get_features(FeatureId::TEMPERATURE_THRESHOLD, FeatureSelect(7), 0);
        admin(|_| get, Status::INVALID_FIELD)
    };
    a_feature_that_cannot_be_saved: FeatureAttribute, ["Feature Identifier Not Saveable"], || {
        let mut sqe = command::set_features(FeatureId::NUMBER_OF_QUEUES, 0x3_0003, 0);
        sqe.cdw10 |= 1 << 31;
        admin_on_new(sqe, Status::FEATURE_NOT_SAVEABLE)
    };
    a_feature_of_no_namespace: FeatureAttribute, ["NSID 0x1, dword 10 0x4"], || {
        let set = command::set_features(FeatureId::TEMPERATURE_THRESHOLD, 300, 1);
        admin(|_| set, Status::FEATURE_NOT_NAMESPACE_SPECIFIC)
    };
    a_log_page_that_there_is_not: LogPage, ["dword 10 0x7f00c5"], || {
        admin(
            |client| command::get_log_page(LogPageId(0xc5), command::NSID_ALL, 127, 0, false).with_prp(data(client), 0),
            Status::INVALID_LOG_PAGE,
        )
    };
    a_log_page_past_its_end: FieldValue, ["dword 10 0x30003"], || {
        admin(
            |client| {
                command::get_log_page(LogPageId::FIRMWARE_SLOT, 0, 3, 4096, false).with_prp(data(client), 0)
            },
            Status::INVALID_FIELD,
        )
    };
    an_identify_structure_that_there_is_not: FieldValue, ["dword 10 0x77"], || {
        admin(|client| command::identify(Cns(0x77), 1).with_prp(data(client), 0), Status::INVALID_FIELD)
    };
}

/// Runs an admin command before there are queues.
fn admin_on_new(sqe: Sqe, status: Status) -> Scene {
    let mut client = Client::stepped(memory(1 << 20, 512));
    admin_on(&mut client, |_| sqe, status);
    keep(client, ())
}

/// Deallocates ranges of so many blocks, beyond a limit.
fn ranges(optional: OptionalCommands, blocks: &[u32]) -> Scene {
    let (mut client, mut pair) = with(memory(1 << 20, 512).optional(optional));
    let ranges: Vec<_> = blocks.iter().map(|nlb| DsmRange { cattr: 0, nlb: *nlb, slba: 0 }).collect();
    client.fill(0, ranges.as_bytes());
    let last = (ranges.len() - 1) as u8;
    let make = |client: &Client| {
        command::dataset_management(1, last, DsmCdw11::new().with_ad(true)).with_prp(data(client), 0)
    };
    io_on(&mut client, &mut pair, make, Status::COMMAND_SIZE_LIMIT_EXCEEDED);
    keep(client, pair)
}
