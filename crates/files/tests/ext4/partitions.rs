//! Partition tables, and file systems in them.

use warpbell_files::{OpenOptions, Partition, Source, open, partition};

use crate::common::{Memory, contents, mkfs, noise};

/// CRC-32 by its definition.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// One slot of a boot record.
fn slot(disk: &mut [u8], record: usize, (index, kind): (usize, u8), (first, blocks): (u32, u32)) {
    let at = record * 512 + 446 + 16 * index;
    disk[at + 4] = kind;
    put(disk, at + 8, &first.to_le_bytes());
    put(disk, at + 12, &blocks.to_le_bytes());
    put(disk, record * 512 + 510, &[0x55, 0xaa]);
}

/// Two partitions of 1 MiB, from 1 MiB and 2 MiB on.
fn gpt_of(block: usize) -> Vec<u8> {
    let mut disk = vec![0; 4 << 20];
    let last = disk.len() / block - 1;
    slot(&mut disk, 0, (0, 0xee), (1, u32::MAX));
    let mut entries = vec![0; 128 * 128];
    for (index, label) in ["first", "déjà"].into_iter().enumerate() {
        let at = index * 128;
        put(&mut entries, at, &[7; 16]);
        let guid = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, index as u8];
        put(&mut entries, at + 16, &guid);
        put(&mut entries, at + 32, &(((index as u64 + 1) << 20) / block as u64).to_le_bytes());
        put(&mut entries, at + 40, &(((index as u64 + 2) << 20) / block as u64 - 1).to_le_bytes());
        let name: Vec<u8> = label.encode_utf16().flat_map(u16::to_le_bytes).collect();
        put(&mut entries, at + 56, &name);
    }
    let length = entries.len() / block;
    for (at, other, place) in [(1, last, 2), (last, 1, last - length)] {
        let mut header = vec![0; 92];
        put(&mut header, 0, b"EFI PART\0\0\x01\0\x5c\0\0\0");
        put(&mut header, 24, &(at as u64).to_le_bytes());
        put(&mut header, 32, &(other as u64).to_le_bytes());
        put(&mut header, 72, &(place as u64).to_le_bytes());
        put(&mut header, 80, &128u32.to_le_bytes());
        put(&mut header, 84, &128u32.to_le_bytes());
        put(&mut header, 88, &crc32(&entries).to_le_bytes());
        let sum = crc32(&header);
        put(&mut header, 16, &sum.to_le_bytes());
        put(&mut disk, at * block, &header);
        put(&mut disk, place * block, &entries);
    }
    disk
}

pub fn gpt() -> Vec<u8> {
    gpt_of(512)
}

/// A primary partition, and two logical ones in an extended one.
pub fn mbr() -> Vec<u8> {
    let mut disk = vec![0; 4 << 20];
    put(&mut disk, 440, &0x1234_abcd_u32.to_le_bytes());
    slot(&mut disk, 0, (0, 0x83), (2048, 2048));
    slot(&mut disk, 0, (2, 0x05), (4096, 4096));
    slot(&mut disk, 4096, (0, 0x83), (64, 1000));
    slot(&mut disk, 4096, (1, 0x05), (2000, 1100));
    slot(&mut disk, 6096, (0, 0x83), (64, 1000));
    disk
}

fn error(disk: Vec<u8>) -> String {
    partition::table(&Memory::new(disk)).unwrap_err().to_string()
}

#[test]
fn partitions_have_numbers_labels_and_identifiers() {
    for block in [512, 4096] {
        let table = partition::table(&Memory::new(gpt_of(block))).unwrap().unwrap();
        assert_eq!((table.entries.len(), &table.warning), (2, &None), "{block}");
        let uuid = "04030201-0605-0807-090a-0b0c0d0e0f01";
        for name in [
            "2",
            uuid,
            &uuid.to_uppercase(),
            "PARTUUID=04030201-0605-0807-090a-0b0c0d0e0f01",
            "déjà",
            "PARTLABEL=déjà",
        ] {
            let found = table.find(name).unwrap();
            assert_eq!((found.number, found.start, found.bytes), (2, 2 << 20, 1 << 20), "{name}");
        }
        let line = table.find("3").unwrap_err().to_string();
        assert!(
            line.starts_with(
                "partition 3: there is no such partition; there are: 1: 1048576 bytes, PARTUUID "
            )
        );
        assert!(line.ends_with("label \"déjà\""), "{line}");
    }
    let table = partition::table(&Memory::new(mbr())).unwrap().unwrap();
    let places: Vec<_> =
        table.entries.iter().map(|each| (each.number, each.start / 512, each.bytes / 512)).collect();
    assert_eq!(places, [(1, 2048, 2048), (5, 4160, 1000), (6, 6160, 1000)]);
    assert_eq!(table.find("1234abcd-05").unwrap().number, 5);
    assert!(table.find("3").is_err(), "an extended partition is no place for files");
    assert_eq!(partition::table(&Memory::new(vec![0; 4 << 20])).unwrap(), None);
}

#[test]
fn a_damaged_gpt_is_read_from_its_backup_with_a_warning() {
    for (at, reason) in [
        (512, "GPT header in block 1 is damaged: it has no signature"),
        (552, "GPT header in block 1 is damaged: its CRC-32 is "),
        (1100, "the CRC-32 of its entries"),
    ] {
        let mut disk = gpt();
        disk[at] ^= 1;
        let table = partition::table(&Memory::new(disk.clone())).unwrap().unwrap();
        assert_eq!(table.entries[1].label.as_deref(), Some("déjà"));
        let warning = table.warning.unwrap();
        assert!(
            warning.contains(reason) && warning.ends_with("; the backup at the end of the SSD is read"),
            "{warning}"
        );
        let last = disk.len() - 512 + 30;
        disk[last] ^= 1;
        let line = error(disk);
        assert!(line.starts_with("GPT is damaged: ") && line.contains("there is no backup"), "{line}");
    }
}

#[test]
fn tables_that_contradict_themselves() {
    let mut far = mbr();
    slot(&mut far, 0, (1, 0x83), (8000, 1000));
    assert_eq!(error(far), "partition 2 is damaged: it has blocks 8000 to 8999, and the SSD has 8192");
    let mut circle = mbr();
    slot(&mut circle, 6096, (1, 0x05), (0, 1100));
    assert!(error(circle).contains("the next record lies before it"));
    let mut lost = mbr();
    lost[4096 * 512 + 510] = 0;
    assert!(error(lost).ends_with("it has no signature"));
}

#[test]
fn a_file_system_in_a_partition() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.bin"), noise(1, 10_000)).unwrap();
    let path = root.path().with_extension("img");
    mkfs(&["-b", "1024"], root.path(), &path, "1M");
    let mut disk = gpt();
    put(&mut disk, 2 << 20, &std::fs::read(&path).unwrap());
    let disk = Memory::new(disk);
    let line = disk.refusal();
    assert!(line.starts_with("partition table: choose a partition: 1: 1048576 bytes, PARTUUID "), "{line}");
    let place = partition::table(&disk).unwrap().unwrap().find("2").unwrap().clone();
    let window = Partition::new(Memory::new(disk.bytes.clone()), place.start, place.bytes).unwrap();
    let files = open(&window, &OpenOptions::default()).unwrap();
    assert!(contents(&window, &*files, "/a.bin") == noise(1, 10_000));
    let map = files.file("/a.bin").unwrap().moved(place.start).unwrap();
    let mut bytes = vec![0; 10_000];
    warpbell_files::read_file(&disk, &map, 0, &mut bytes).unwrap();
    assert!(bytes == noise(1, 10_000), "moved to the whole SSD");
    assert!(
        window.read_at((1 << 20) - 1, &mut [0; 2]).unwrap_err().to_string().contains("the partition has")
    );
    assert!(Partition::new(disk, 4 << 20, 1).is_err());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn a_partition_without_blocks_is_damaged() {
    let mut disk = vec![0; 1 << 20];
    slot(&mut disk, 0, (0, 0x83), (0, 0));
    let line = partition::table(&Memory::new(disk)).unwrap_err().to_string();
    assert_eq!(line, "partition 1 is damaged: it has no blocks");
}
