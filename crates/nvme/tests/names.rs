//! Names: of status codes and of open enums, known and unknown.

use std::collections::HashSet;

use proptest::prelude::*;
use warpbell_nvme::completion::StatusField;
use warpbell_nvme::identify::Cns;
use warpbell_nvme::opcode::DataTransfer;
use warpbell_nvme::status::StatusCodeType;
use warpbell_nvme::{AdminOpcode, NvmOpcode, Status};

#[test]
fn status_codes_and_names_are_unique() {
    let codes: HashSet<u16> = Status::KNOWN.iter().map(|status| status.into_bits()).collect();
    let names: HashSet<_> = Status::KNOWN.iter().filter_map(|status| status.name()).collect();
    let texts: HashSet<_> = Status::KNOWN.iter().map(|status| status.text()).collect();
    assert_eq!(codes.len(), Status::KNOWN.len());
    assert_eq!(names.len(), Status::KNOWN.len());
    assert!(texts.iter().all(|text| text.ends_with('.')));
}

#[test]
fn exactly_the_known_codes_have_names() {
    let named = (0..=0x7ff).map(Status::from_bits).filter(|status| status.name().is_some());
    assert!(named.eq(Status::KNOWN.iter().copied()));
}

#[test]
fn status_displays_name_code_and_flags() {
    let status = Status::LBA_OUT_OF_RANGE;
    assert_eq!(status.with_dnr(true).to_string(), "LBA Out of Range (SCT 0h, SC 80h, DNR)");
    assert_eq!(status.with_crd(2).with_more(true).to_string(), "LBA Out of Range (SCT 0h, SC 80h, CRD 2, M)");
    let vendor = Status::new(StatusCodeType::VENDOR_SPECIFIC, 0xc3);
    assert_eq!(vendor.to_string(), "Unknown Status (SCT 7h, SC C3h)");
    assert_eq!(format!("{vendor:?}"), "Status(0x07c3: Unknown Status (SCT 7h, SC C3h))");
    assert_eq!(vendor.text(), "Only the vendor's documentation explains this status.");
}

#[test]
fn retry_follows_do_not_retry() {
    assert!(Status::SUCCESS.is_ok() && !Status::SUCCESS.retryable());
    assert!(Status::COMMAND_INTERRUPTED.retryable());
    assert!(!Status::COMMAND_INTERRUPTED.with_dnr(true).retryable());
    assert_eq!(Status::COMPARE_FAILURE.into_bits(), 0x285);
    assert_eq!(Status::INVALID_QUEUE_DELETION.into_bits(), 0x10c);
    assert_eq!(Status::HOST_PATHING_ERROR.into_bits(), 0x370);
}

proptest! {
    #[test]
    fn status_parts_round_trip(bits in 0u16..0x8000, phase: bool) {
        let status = Status::from_bits(bits);
        let field = StatusField::from_status(status, phase);
        prop_assert_eq!((field.status(), field.phase()), (status, phase));
        prop_assert_eq!((field.sc(), field.sct()), (status.sc(), status.sct().into_bits()));
        prop_assert_eq!((field.crd(), field.m(), field.dnr()), (status.crd(), status.more(), status.dnr()));
        let rebuilt = Status::new(status.sct(), status.sc());
        prop_assert!(rebuilt.same_code(status));
        let rebuilt = rebuilt.with_crd(status.crd()).with_more(status.more()).with_dnr(status.dnr());
        prop_assert_eq!(rebuilt, status);
    }

    #[test]
    fn unknown_values_round_trip(bits: u8) {
        prop_assert_eq!(AdminOpcode::from(bits).into_bits(), bits);
        prop_assert_eq!(AdminOpcode::KNOWN.contains(&AdminOpcode(bits)), AdminOpcode(bits).name().is_some());
    }
}

#[test]
fn open_enums_print_names_or_hexadecimal() {
    assert_eq!(NvmOpcode::DATASET_MANAGEMENT.to_string(), "Dataset Management");
    assert_eq!(format!("{:?}", Cns::CONTROLLER), "Cns::CONTROLLER");
    assert_eq!(format!("{:>9}|{}", NvmOpcode::READ, NvmOpcode(0x9a)), "     Read|9Ah");
    assert_eq!(format!("{:?}", NvmOpcode(0x9a)), "NvmOpcode(0x9a)");
}

#[test]
fn opcodes_tell_the_direction_of_their_data() {
    assert_eq!(NvmOpcode::WRITE.data_transfer(), DataTransfer::HOST_TO_CONTROLLER);
    assert_eq!(NvmOpcode::READ.data_transfer(), DataTransfer::CONTROLLER_TO_HOST);
    assert_eq!(AdminOpcode::IDENTIFY.data_transfer(), DataTransfer::CONTROLLER_TO_HOST);
    assert_eq!(AdminOpcode::DELETE_IO_SQ.data_transfer(), DataTransfer::NONE);
}
