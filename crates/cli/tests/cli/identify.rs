//! What devices say of themselves.

use crate::common::{json, ok, soft_file};

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
    assert!(ok(&["identify", "soft:size=1g", "-v"]).contains("131072 bytes"), "-v says what values mean");
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
    for (len, blocks) in [(0u64, 1u64), (1, 1), (512, 1), (513, 2)] {
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
