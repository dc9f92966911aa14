//! Every wrong command line gives one line with the object, the value and the limit, and its exit code.

use crate::common::{ok, refused, run};

const SMALL: &str = "soft:size=1m";

#[test]
fn wrong_flags() {
    for (arguments, code, words) in [
        (&["frobnicate"][..], 2, &["frobnicate"][..]),
        (&["bench", SMALL, "--iodpth", "3"], 2, &["--iodpth", "--iodepth"]),
        (&["bench"], 2, &["no device", "soft:size=1g"]),
        (&["digest", SMALL, "--device", SMALL], 2, &["2 devices", "takes one"]),
        (&["bench", SMALL, "--rw", "trim"], 2, &["--rw", "trim", "randread"]),
        (&["bench", SMALL, "--api", "x"], 2, &["--api", "'x'", "host, raw, io"]),
        (&["bench", SMALL, "--sharing", "x"], 2, &["--sharing", "'x'", "exclusive, shared"]),
        (&["bench", SMALL, "--verify", "md5"], 2, &["--verify", "md5", "crc32c"]),
        (&["bench", SMALL, "--bs", "4x"], 2, &["--bs", "4x", "1024"]),
        (&["bench", SMALL, "--bs", "99999999999999999999"], 2, &["--bs", "18446744073709551615"]),
        (&["bench", SMALL, "--runtime", "3d"], 2, &["--runtime", "3d"]),
        (&["bench", SMALL, "--axis", "bs"], 2, &["--axis", "NAME=VALUE"]),
        (&["bench", SMALL, "--axis", "sizes=1,2"], 2, &["--axis sizes", "iodepth"]),
        (&["bench", SMALL, "--axis", "iodepth=1,x"], 2, &["--axis iodepth=x"]),
        (&["bench", SMALL, "-o", "xml"], 2, &["xml"]),
        (&["bench", SMALL, "--target", "gpu"], 2, &["--target", "gpu", "cuda:N"]),
        (&["report", "gpu", SMALL], 2, &[SMALL, "PCI address"]),
        (&["report", "gpu", "--iommu", "type1"], 2, &["PCI-ADDRESS"]),
        (
            &["bench", SMALL, "--target", "cuda:0"],
            4,
            &["target cuda:0: no CUDA driver", "target cpu runs without a GPU"],
        ),
        (
            &["digest", SMALL, "--target", "cuda:0"],
            4,
            &["target cuda:0: no CUDA driver", "target cpu runs without a GPU"],
        ),
        (&["identify", SMALL, "--iommu", "vfio"], 2, &["--iommu", "'vfio'", "auto, type1, iommufd, noiommu"]),
        (&["identify", SMALL, "--iommu", "iommufd"], 2, &["--iommu iommufd", SMALL, "PCI"]),
        (&["bind"], 2, &["DEVICE"]),
        (&["bind", "nvme0"], 2, &["'nvme0'", "PCI address"]),
        (&["bind", "41:00.0", "--root", "/tmp"], 2, &["--dry-run"]),
        (&["bind", "41:00.0", "--user", "no such user"], 2, &["--user no such user", "user ID"]),
        (&["bind", "ffff:ff:1f.7"], 1, &["ffff:ff:1f.7", "warpbell list"]),
        (&["unbind", "sn:none such"], 1, &["sn:none such"]),
        (&["read", SMALL], 2, &["--lba"]),
        (&["read", SMALL, "--lba", "x"], 2, &["--lba"]),
        (&["read", SMALL, "--lba", "0", "-o", "json"], 2, &["json"]),
    ] {
        check(arguments, code, words);
    }
}

#[test]
fn device_names() {
    for (name, code, words) in [
        ("nvme0", 2, &["nvme0", "soft:size=BYTES"][..]),
        ("/dev/nvme77", 1, &["/dev/nvme77", "PCI address"]),
        ("soft:", 2, &["soft:"]),
        ("soft:size=0", 2, &["size"]),
        ("soft:size=x", 2, &["size", "x"]),
        ("soft:colour=red", 2, &["colour"]),
        ("soft:size=1m,block=513", 2, &["block", "513"]),
        ("soft:file=/nonexistent/disk.img", 2, &["/nonexistent/disk.img", "No such file"]),
        ("soft:file=/", 2, &["/"]),
        ("vfio-user:/run/x.sock", 4, &["vfio-user:/run/x.sock"]),
        ("ffff:ff:1f.7", 1, &["ffff:ff:1f.7", "warpbell list"]),
        ("sn:none such", 1, &["sn:none such", "serial number"]),
        ("0000:41:20.0", 2, &["0000:41:20.0"]),
    ] {
        check(&["identify", name], code, words);
    }
}

#[test]
fn sizes_ranges_and_counts() {
    for (flags, words) in [
        (&["--bs", "0"][..], &["--bs 0", "512"][..]),
        (&["--bs", "513"], &["--bs 513", "512"]),
        (&["--bs", "2m"], &["--bs 2m", "1048576"]),
        (&["--size", "0"], &["--size 0"]),
        (&["--size", "2m"], &["--size 2m", "1048576"]),
        (&["--size", "1000"], &["--size 1000", "512"]),
        (&["--offset", "1m"], &["--offset 1m", "1048064"]),
        (&["--offset", "3"], &["--offset 3", "512"]),
        (&["--io-limit", "0"], &["--io-limit 0"]),
        (&["--runtime", "0"], &["--runtime 0"]),
        (&["--timeout", "0"], &["--timeout 0"]),
        (&["--deadline", "0"], &["--timeout 0"]),
        (&["--iodepth", "0"], &["--iodepth 0", "1"]),
        (&["--iodepth", "65536"], &["--iodepth 65536", "65535"]),
        (&["--iodepth", "4000000000000"], &["--iodepth"]),
        (&["--queues", "0"], &["--queues 0"]),
        (&["--queues", "65000"], &["--queues 65000", "granted"]),
        (&["--warps", "0"], &["--warps 0"]),
        (&["--warps", "2"], &["--warps 2", "exclusive"]),
        (&["--warps", "2049", "--sharing", "shared"], &["--warps 2049", "2048"]),
        (&["--warps", "1", "--api", "host"], &["--warps 1", "host"]),
        (&["--rwmixread", "70"], &["--rwmixread 70", "randrw"]),
        (&["--rw", "randrw", "--rwmixread", "101"], &["--rwmixread 101", "100"]),
        (&["--nsid", "0"], &["namespace 0"]),
        (&["--nsid", "9"], &["namespace 9", "1"]),
        (&["--seed", "-1"], &["--seed"]),
    ] {
        let arguments: Vec<&str> = ["bench", SMALL].iter().chain(flags).copied().collect();
        check(&arguments, 2, words);
    }
}

#[test]
fn block_addresses() {
    check(&["read", SMALL, "--lba", "2048"], 2, &["--lba 2048", "2047"]);
    check(&["read", SMALL, "--lba", "2047", "--count", "2"], 2, &["--count 2", "1"]);
    check(&["read", SMALL, "--lba", "0", "--count", "0"], 2, &["--count 0", "1"]);
    check(&["write", SMALL, "--lba", "18446744073709551615"], 2, &["--lba 18446744073709551615", "2047"]);
    check(&["digest", SMALL, "--bs", "1000"], 2, &["--bs 1000", "512"]);
    check(&["digest", SMALL, "--nsid", "2"], 2, &["namespace 2"]);
}

#[test]
fn fault_plans() {
    let directory = tempfile::tempdir().unwrap();
    let absent = directory.path().join("absent.toml");
    check(&["bench", SMALL, "--fault", absent.to_str().unwrap()], 2, &["absent.toml"]);
    let wrong = directory.path().join("wrong.toml");
    std::fs::write(&wrong, "[[fault]]\nkind = \"sing\"\n").unwrap();
    check(&["bench", SMALL, "--fault", wrong.to_str().unwrap()], 2, &["wrong.toml"]);
}

#[test]
fn help_and_version_are_no_errors() {
    assert!(
        ok(&["--help"]).contains("Exit codes: 0 ok, 1 failed, 2 usage, 3 refused for safety, 4 requirement")
    );
    assert!(ok(&["bench", "-h"]).contains("--iodepth"));
    assert!(!ok(&["bench", "-h"]).contains("--timeout"), "the short help has the essential options only");
    assert!(ok(&["bench", "--help"]).contains("--timeout"));
    assert!(ok(&["--version"]).starts_with("warpbell "));
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(ok(&["help", "bench"]), ok(&["bench", "--help"]));
    assert!(ok(&["help"]).contains("Commands:"));
}

fn check(arguments: &[&str], code: i32, words: &[&str]) {
    let (found, line) = refused(arguments);
    assert_eq!(found, code, "{arguments:?}: {line}");
    for word in words {
        assert!(line.contains(word), "{arguments:?} must name {word}: {line}");
    }
}
