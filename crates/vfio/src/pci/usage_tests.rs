use std::os::unix::fs::FileExt;

use super::*;
use crate::pci::fake::Fake;

const BDF: &str = "0000:41:00.0";

/// A machine with one unused SSD.
fn machine() -> Fake {
    let fake = Fake::new();
    fake.ssd(BDF, 0, "S64X");
    fake
}

fn found(fake: &Fake) -> Vec<String> {
    let sysfs = fake.sysfs();
    let (uses, _claims) = uses(&sysfs, &fake.function(BDF), &Snapshot::take(&sysfs), Look::Claim);
    uses.iter().map(ToString::to_string).collect()
}

#[test]
fn an_unused_ssd_has_no_uses_and_is_claimed() {
    let fake = machine();
    fake.mount("259:7", "/home", "ext4", "/dev/nvme7n1");
    fake.open(100, "smartd", "/dev/nvme7");
    let sysfs = fake.sysfs();
    let (uses, claims) = uses(&sysfs, &fake.function(BDF), &Snapshot::take(&sysfs), Look::Claim);
    assert_eq!((uses, claims.len()), (vec![], 1));
}

#[test]
fn mounts_are_found_on_the_disk_and_on_its_partitions() {
    let fake = machine();
    fake.mount("259:0", "/mnt/with\\040space", "ext4", "/dev/nvme0n1");
    assert_eq!(found(&fake), ["mounted at /mnt/with space (nvme0n1)"]);
    let fake = machine();
    fake.partition("nvme0n1", "nvme0n1p2", "259:9");
    fake.mount("259:9", "/", "ext4", "/dev/root");
    assert_eq!(found(&fake), ["mounted at / (nvme0n1p2); it is the only path to the root file system"]);
}

#[test]
fn a_btrfs_is_found_by_each_of_its_devices() {
    let fake = machine();
    fake.block("sda", "8:0");
    fake.dir("/sys/fs/btrfs/6d4a/devices/nvme0n1");
    fake.dir("/sys/fs/btrfs/6d4a/devices/sda");
    fake.mount("0:44", "/data", "btrfs", "/dev/sda");
    assert_eq!(found(&fake), ["mounted at /data (nvme0n1)"]);
}

#[test]
fn holders_are_climbed_to_what_is_mounted() {
    let fake = machine();
    fake.partition("nvme0n1", "nvme0n1p1", "259:9");
    fake.holder("nvme0n1p1", "md0", "9:0");
    fake.holder("md0", "dm-3", "253:3");
    fake.write("/sys/class/block/dm-3/dm/name", "vg-home\n");
    fake.mount("253:3", "/home", "xfs", "/dev/mapper/vg-home");
    assert_eq!(
        found(&fake),
        [
            "held by md0 (nvme0n1p1)",
            "held by dm-3 (vg-home) (md0)",
            "mounted at /home (nvme0n1p1, md0, dm-3 (vg-home))",
        ]
    );
}

#[test]
fn swap_is_found_also_through_device_mapper() {
    let fake = machine();
    fake.holder("nvme0n1", "dm-1", "253:1");
    fake.link("/dev/mapper/swap", "../dm-1");
    fake.write("/proc/swaps", "Filename Type Size Used Priority\n/dev/mapper/swap partition 8 0 -2\n");
    assert_eq!(found(&fake), ["held by dm-1 (nvme0n1)", "swap space in use (nvme0n1, dm-1)"]);
}

#[test]
fn loop_devices_are_found() {
    let fake = machine();
    fake.write("/sys/class/block/loop4/loop/backing_file", "/dev/nvme0n1\n");
    assert_eq!(found(&fake), ["behind loop device loop4 (nvme0n1)"]);
}

#[test]
fn exports_of_the_nvme_target_are_found() {
    for (folder, path, device) in [
        ("namespaces/1", "/dev/disk/by-id/ssd", "nvme0n1"),
        ("namespaces/7", "/dev/nvme0n1", "nvme0n1"),
        ("passthru", "/dev/nvme0", "nvme0"),
    ] {
        let fake = machine();
        fake.link("/dev/disk/by-id/ssd", "../../nvme0n1");
        let folder = format!("/sys/kernel/config/nvmet/subsystems/nqn.share/{folder}");
        fake.write(&format!("{folder}/device_path"), &format!("{path}\n"));
        fake.write(&format!("{folder}/enable"), "0\n");
        assert_eq!(found(&fake), [""; 0], "not exported yet");
        fake.write(&format!("{folder}/enable"), "1\n");
        assert_eq!(found(&fake), [format!("exported by the NVMe target as subsystem nqn.share ({device})")]);
    }
}

#[test]
fn processes_are_named_for_block_generic_and_controller_nodes() {
    for node in ["/dev/nvme0n1", "/dev/ng0n1", "/dev/nvme0"] {
        let fake = machine();
        fake.open(4321, "fio", node);
        assert_eq!(found(&fake), [format!("{node} is open in process 4321 (fio)")]);
    }
}

#[test]
fn signatures_are_found_and_may_be_lifted() {
    let fake = machine();
    let disk = OpenOptions::new().write(true).open(fake.sysfs().path("/dev/nvme0n1")).unwrap();
    disk.write_all_at(b"EFI PART", 512).unwrap();
    assert_eq!(found(&fake), ["/dev/nvme0n1 carries a GUID partition table"]);
}

#[test]
fn a_disk_that_cannot_be_read_is_refused_with_the_reason() {
    let fake = machine();
    std::fs::remove_file(fake.sysfs().path("/dev/nvme0n1")).unwrap();
    let found = found(&fake);
    assert!(
        found[0].starts_with("/dev/nvme0n1 cannot be read to see what is on it: No such file"),
        "{found:?}"
    );
}

#[test]
fn a_multipath_head_is_found_by_each_path_and_names_the_others() {
    let fake = machine();
    let nvme = format!("/sys/bus/pci/devices/{BDF}/nvme/nvme0");
    std::fs::remove_dir(fake.sysfs().path(format!("{nvme}/nvme0n1"))).unwrap();
    fake.dir(&format!("{nvme}/nvme0c0n1"));
    fake.dir("/sys/class/nvme/nvme0/nvme0c0n1");
    fake.mount("259:0", "/", "ext4", "/dev/nvme0n1");
    assert_eq!(found(&fake), ["mounted at / (nvme0n1); it is the only path to the root file system"]);
    fake.dir("/sys/class/nvme/nvme1/nvme0c1n1");
    assert_eq!(found(&fake), ["mounted at / (nvme0n1); also through nvme1"]);
}

#[test]
fn a_busy_disk_is_told_from_an_unreadable_one() {
    assert!(is_busy(&io::Error::from_raw_os_error(16)), "EBUSY");
    assert!(!is_busy(&io::Error::from_raw_os_error(13)), "EACCES");
}

#[test]
fn programs_that_drive_it_through_uio_are_named() {
    let fake = machine();
    fake.set_driver(BDF, Some("uio_pci_generic"));
    fake.dir(&format!("/sys/bus/pci/devices/{BDF}/uio/uio3"));
    fake.open(55, "perf", "/dev/uio3");
    assert_eq!(found(&fake), ["/dev/uio3 is open in process 55 (perf)"]);
}
