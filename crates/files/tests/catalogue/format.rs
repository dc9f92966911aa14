//! Formatting, what it refuses, and damage.

use warpbell_files::catalogue::{FormatOptions, Writer};
use warpbell_files::{Catalogue, OpenOptions, open};

use crate::disk::Disk;
use crate::writes::{add, contents};

/// Signatures, where they lie, and their names.
const OTHERS: [(usize, &[u8], &str); 7] = [
    (1024 + 56, &[0x53, 0xef], "ext4"),
    (0, b"XFSB", "XFS"),
    (512, b"EFI PART", "partition table"),
    (510, &[0x55, 0xaa], "partition table"),
    (512, b"LABELONE", "LVM physical volume"),
    (0, b"LUKS\xba\xbe", "LUKS container"),
    ((4 << 20) - 1, b"x", "data of an unknown kind at byte 4194303"),
];
/// Where something may be that the first and last MiB do not show, on 1 GiB: partitions without a table, data of files to come,
/// and data in the middle that a sample meets.
const FAR: [(usize, &[u8], usize, &str); 6] = [
    ((1 << 20) + 1024 + 56, &[0x53, 0xef], 1, "ext4 at byte 1048576"),
    (63 * 512 + 1024 + 56, &[0x53, 0xef], 1, "ext4 at byte 32256"),
    (1 << 20, b"XFSB", 1, "XFS at byte 1048576"),
    (8 << 20, b"LUKS\xba\xbe", 1, "LUKS container at byte 8388608"),
    ((20 << 20) + 12_345, b"x", 1, "data of an unknown kind at byte 20983865"),
    (777 << 20, b"data", 1 << 19, "data of an unknown kind at byte 8"),
];

#[test]
fn other_data_is_overwritten_only_on_request() {
    for (at, bytes, name) in OTHERS {
        let disk = Disk::new(4 << 20);
        disk.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        let before = disk.bytes.borrow().clone();
        let error = Writer::format(&disk, &FormatOptions::default()).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains("--format"), "{name}: {error}");
        assert!(disk.events.borrow().is_empty() && *disk.bytes.borrow() == before, "{name}");
        let options = FormatOptions::new().force(true);
        add(&mut Writer::format(&disk, &options).unwrap(), "a", b"b");
        assert_eq!(open(&disk, &OpenOptions::default()).unwrap().kind(), "catalogue");
    }
}

#[test]
fn what_lies_behind_the_first_mib_is_noticed() {
    let disk = Disk::new(1 << 30);
    assert!(Writer::format(&disk, &FormatOptions::default()).is_ok(), "a bare one");
    for (at, bytes, times, name) in FAR {
        let disk = Disk::new(1 << 30);
        let data = bytes.repeat(times);
        disk.bytes.borrow_mut()[at..at + data.len()].copy_from_slice(&data);
        let error = Writer::format(&disk, &FormatOptions::default()).err().unwrap().to_string();
        assert!(error.starts_with(name) && error.contains("--format"), "{name}: {error}");
        assert!(disk.events.borrow().is_empty(), "{name}");
    }
}

#[test]
fn options_outside_their_limits_are_refused() {
    let disk = Disk::new(4 << 20);
    let options = FormatOptions::default();
    for (options, part) in [
        (options.unit(Some(2048)), "alignment 2048 bytes"),
        (options.unit(Some(6144)), "alignment 6144 bytes"),
        (options.area_bytes(Some(4096)), "area of 4096 bytes"),
        (options.area_bytes(Some(2 << 20)), "4194304 bytes: a catalogue with room"),
    ] {
        let error = Writer::format(&disk, &options).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(Writer::format(&Disk::new(4096), &options).is_err());
    assert!(disk.events.borrow().is_empty());
}

#[test]
fn files_begin_at_the_chosen_alignment() {
    let disk = Disk::new(4 << 20);
    let options = FormatOptions::new().unit(Some(3 * 65_536));
    let mut writer = Writer::format(&disk, &options).unwrap();
    ["a", "b", "c"].iter().for_each(|name| add(&mut writer, name, &[5; 5000]));
    writer.commit().unwrap();
    let catalogue = Catalogue::open(&disk, &OpenOptions::default()).unwrap();
    for (name, file) in catalogue.files() {
        assert_eq!(file.map().unwrap().extents()[0].at % (3 * 65_536), 0, "{name}");
        assert!(contents(&disk, &catalogue, name) == [5; 5000]);
    }
}

#[test]
fn a_damaged_generation_gives_way_to_the_one_before_on_request() {
    let disk = Disk::new(4 << 20);
    let mut writer = Writer::format(&disk, &FormatOptions::default()).unwrap();
    add(&mut writer, "a", b"a");
    writer.commit().unwrap();
    add(&mut writer, "b", b"b");
    writer.commit().unwrap();
    let names = |allow_dirty| -> Result<Vec<String>, String> {
        let options = OpenOptions::new().allow_dirty(allow_dirty);
        let catalogue = Catalogue::open(&disk, &options).map_err(|error| error.to_string())?;
        Ok(catalogue.files().map(|(name, _)| name.to_owned()).collect())
    };
    let flip = |at: usize| disk.bytes.borrow_mut()[at] ^= 1;
    assert_eq!(names(false).unwrap(), ["a", "b"]);
    // Generation 3 lies in the first area, after generations 1 and 2. Its head, then its records.
    for at in [0, 9, 64 + 30].map(|at| (1 << 20) + at) {
        flip(at);
        let error = names(false).unwrap_err();
        assert!(error.contains("in area 0 ") && error.contains("generation 2 is whole"), "{error}");
        assert!(Writer::open(&disk).is_err(), "nothing is written beside it");
        assert_eq!(names(true).unwrap(), ["a"]);
        flip(at);
    }
    // The one before may be half overwritten: a commit was cut.
    flip((1 << 20) + 65_536 + 64 + 30);
    assert_eq!(names(false).unwrap(), ["a", "b"]);
    flip((1 << 20) + 64 + 30);
    flip((1 << 20) + 65_536 + 9);
    let error = names(true).unwrap_err();
    assert!(error.contains("neither generation can be read: in area 0 records of generation 3"), "{error}");
    assert!(error.contains("in area 1 its head contradicts"), "{error}");
    flip(20);
    assert!(names(true).unwrap_err().starts_with("catalogue header at byte 0 is damaged: its CRC-32C"));
}

#[test]
fn what_was_put_over_a_catalogue_is_refused() {
    for (at, bytes, name) in [
        (4096, &[0xfc_u8, 0x4e, 0x2b, 0xa9][..], "md RAID member (superblock 1.2) at byte 4096"),
        (65_600, &[1], "data of an unknown kind at byte 65600"),
    ] {
        let disk = Disk::new(4 << 20);
        add(&mut Writer::format(&disk, &FormatOptions::default()).unwrap(), "a", b"b");
        disk.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        let error = Catalogue::open(&disk, &OpenOptions::default()).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("a catalogue was here before"), "{error}");
        assert!(Writer::open(&disk).is_err());
    }
}
