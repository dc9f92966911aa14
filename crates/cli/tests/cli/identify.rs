//! What devices say of themselves.

use crate::common::{json, ok, refused, soft_file};

#[test]
fn controllers_and_namespaces_in_the_words_of_nvme_cli() {
    let text = ok(&["identify", "soft:size=1g,size=1m,block=4096"]);
    for line in [
        "sn        : WARPBELL0001",
        "mdts      : 5",
        "nn        : 2",
        "nsze      : 0x200000",
        "NVME Identify Namespace 2:",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("131072 bytes"));
    let more = ok(&["identify", "soft:size=1g", "-v"]);
    assert!(more.contains("131072 bytes"), "-v says what values mean");
    assert!(more.contains("path      : rings host, data host, doorbells mapped"), "{more}");
}

#[test]
fn what_can_be_managed_is_told() {
    let text = ok(&["identify", "soft:size=1m,capacity=1g,max_namespaces=9,firmware=F1", "-v"]);
    for line in [
        "fr        : F1",
        "tnvmcap   : 1074790400",
        "unvmcap   : 1073741824",
        "nn        : 9",
        "fwug      : 1",
        "ns_management: true",
        "format_nvm: true",
        "activation_without_reset: true",
        "bes: true",
        "crypto_erase: true",
        "lbaf  0 : ms:0   lbads:9  rp:0x0 (in use)",
        "lbaf  1 : ms:0   lbads:12 rp:0x0",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn json_has_numbers() {
    let document = json(&["identify", "soft:size=1m", "-o", "json"]);
    assert_eq!(document["schema"], "warpbell.identify/1");
    assert_eq!(
        (document["controller"]["mdts"].as_u64(), document["controller"]["nn"].as_u64()),
        (Some(5), Some(1))
    );
    let namespace = &document["namespaces"][0];
    assert_eq!((namespace["nsze"].as_u64(), namespace["block_size_bytes"].as_u64()), (Some(2048), Some(512)));
}

#[test]
fn files_have_an_exact_length() {
    let directory = tempfile::tempdir().unwrap();
    for (len, blocks) in [(1u64, 1u64), (512, 1), (513, 2)] {
        let path = directory.path().join(len.to_string());
        std::fs::write(&path, vec![1; len as usize]).unwrap();
        let document = json(&["identify", &soft_file(&path), "-o", "json"]);
        let namespace = &document["namespaces"][0];
        assert_eq!(
            (namespace["nsze"].as_u64(), namespace["contents_bytes"].as_u64()),
            (Some(blocks), Some(len))
        );
    }
}

#[test]
fn lists_show_named_devices() {
    let text = ok(&["list", "soft:size=1g"]);
    assert!(
        text.contains("soft:size=1g") && text.contains("WARPBELL0001") && text.contains("Usable now"),
        "{text}"
    );
    let document = json(&["list", "soft:size=1m", "-o", "json"]);
    let devices = document["devices"].as_array().unwrap();
    assert!(
        devices.iter().any(|device| device["size_bytes"] == 1 << 20 && device["usable"] == true),
        "{document:#}"
    );
}

#[test]
fn a_list_of_nothing_says_so() {
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(empty.path().join("sys/bus/pci/devices")).unwrap();
    let text = ok(&["list", "--root", empty.path().to_str().unwrap()]);
    assert!(text.starts_with("No NVMe SSD on the PCIe tree.\nUsable now: soft:size=1g"), "{text}");
}

#[test]
fn several_devices_are_identified_together() {
    let devices = ["soft:size=1m,serial=ONE", "soft:size=2m,serial=TWO"];
    let report = json(&["identify", devices[0], "--device", devices[1], "-o", "json"]);
    assert_eq!(report["schema"], "warpbell.identify-group/1");
    let serials: Vec<_> =
        (0..2).map(|at| report["devices"][at]["controller"]["sn"].as_str().unwrap()).collect();
    assert_eq!(serials.iter().map(|sn| sn.trim()).collect::<Vec<_>>(), ["ONE", "TWO"]);
    let text = ok(&["identify", devices[0], devices[1]]);
    assert_eq!(text.matches("NVME Identify Controller:").count(), 2, "{text}");
    let (code, message) = refused(&["read", devices[0], devices[1], "--lba", "0"]);
    assert_eq!(
        (code, message.as_str()),
        (2, "2 devices: this command takes one; bench and identify take several")
    );
    let (code, message) = refused(&["identify", "41:00.0", "0000:41:00.0"]);
    assert!(code == 2 && message.contains("'0000:41:00.0' is named twice"), "{message}");
}
