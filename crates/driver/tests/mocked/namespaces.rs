//! Namespaces: lists of any length, refusals.

use warpbell_hw::Nsid;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;

use crate::mock::{Mock, Reply, namespace};
use crate::open;

#[test]
fn more_than_one_page_of_namespaces() {
    for count in [0, 1, 1024, 1025, 2500] {
        let mock =
            Mock::new(|b| b.namespaces = (1..=count).map(|nsid| (nsid * 3, namespace(8, 12))).collect());
        let controller = open(&mock).unwrap();
        assert_eq!(controller.namespaces().len(), count as usize);
        assert!(controller.namespaces().iter().zip(1..).all(|(ns, index)| ns.nsid == Nsid(index * 3)));
    }
}

#[test]
fn version_1_0_has_no_list() {
    let mock = Mock::new(|b| {
        b.version = warpbell_nvme::register::Vs::from_parts(1, 0, 0);
        b.identify.nn = 3;
        b.namespaces.insert(3, namespace(10, 9));
    });
    let controller = open(&mock).unwrap();
    let nsids: Vec<u32> = controller.namespaces().iter().map(|ns| ns.nsid.0).collect();
    assert_eq!(nsids, [1, 3]);
    assert_eq!(controller.refused_namespaces()[0].nsid, Nsid(2));
}

#[test]
fn a_refused_namespace_does_not_refuse_the_controller() {
    let mock = Mock::new(|b| {
        let mut metadata = namespace(10, 9);
        metadata.lbaf[0].set_ms(8);
        b.namespaces.insert(2, metadata);
        b.namespaces.insert(5, namespace(0, 9));
    });
    let controller = open(&mock).unwrap();
    assert_eq!(controller.namespaces().len(), 1);
    let reasons: Vec<String> = controller.refused_namespaces().iter().map(|ns| ns.to_string()).collect();
    let metadata = "namespace 2: 8 bytes of metadata per block are not supported";
    assert_eq!(reasons, [metadata, "namespace 5: size 0 blocks: must be at least 1"]);
}

#[test]
fn a_namespace_that_cannot_be_identified_is_refused_with_the_status() {
    let mock = Mock::new(|b| {
        b.namespaces.insert(2, namespace(10, 9));
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::IDENTIFY if sqe.nsid == 2 => Reply::Status(Status::INTERNAL_ERROR),
            _ => Reply::Normal,
        });
    });
    let controller = open(&mock).unwrap();
    let refused = controller.refused_namespaces()[0].to_string();
    assert!(refused.starts_with("namespace 2: Identify failed: Internal Error"), "{refused}");
}

#[test]
fn the_exact_length_comes_from_the_vendor_bytes() {
    let mock = Mock::new(|b| {
        let data = b.namespaces.get_mut(&1).unwrap();
        data.vs[3712 - 384..][..8].copy_from_slice(b"WBLENGTH");
        data.vs[3720 - 384..][..8].copy_from_slice(&511_999u64.to_le_bytes());
    });
    assert_eq!(open(&mock).unwrap().namespaces()[0].exact_bytes, Some(511_999));
}

#[test]
fn namespaces_without_end_are_refused() {
    // A version that has no list: each number up to NN would have to be asked for.
    let mock = Mock::new(|b| {
        b.version = warpbell_nvme::register::Vs::from_parts(1, 0, 0);
        b.identify.nn = u32::MAX;
    });
    let error = open(&mock).err().unwrap().to_string();
    assert!(error.contains("the number of active namespaces is 4294967295"), "{error}");
    // Lists that go on and on.
    let mock = Mock::new(|b| b.namespaces = (1..=10_000).map(|nsid| (nsid, namespace(8, 12))).collect());
    let error = open(&mock).err().unwrap().to_string();
    assert!(
        error.contains("the number of active namespaces is 5120, this driver needs at most 4096"),
        "{error}"
    );
}
