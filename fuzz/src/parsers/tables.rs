//! What begins or ends a disk: partition tables, signatures of containers, and the fixed parts of a catalogue.

use warpbell_files::{Error, OpenOptions, Source, found, member_of_array, open, partition};

use super::disk::{Memory, walk};
use super::told;

/// Bytes of the disk that has a partition table: 128 blocks.
const DISK: usize = 64 << 10;
const BLOCK: usize = 512;
/// Bytes of a GPT's entries: 4 of 128.
const ENTRIES: usize = 512;

/// Changes of an image: where, how many bytes, and these. What reaches beyond its end is left out.
pub(super) fn patch(image: &mut [u8], mut changes: &[u8]) {
    while let [low, middle, high, count, rest @ ..] = changes {
        let at = u32::from_le_bytes([*low, *middle, *high, 0]) as usize % image.len();
        let (bytes, later) = rest.split_at(rest.len().min(usize::from(*count)));
        let room = bytes.len().min(image.len() - at);
        image[at..at + room].copy_from_slice(&bytes[..room]);
        changes = later;
    }
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A number of `N` bytes in an image; 0 where it has none.
fn number<const N: usize>(image: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    if let Some(found) = image.get(at..at + N) {
        bytes[..N].copy_from_slice(found);
    }
    u64::from_le_bytes(bytes)
}

/// A disk with a GPT or an MBR, changes of it, and then checksums that are right again. The first byte says which of it.
pub(super) fn table(input: &[u8]) {
    let Some((flags, changes)) = input.split_first() else { return };
    let mut image = vec![0; DISK];
    if flags & 1 == 0 {
        gpt(&mut image)
    } else {
        mbr(&mut image)
    }
    patch(&mut image, changes);
    if flags & 2 == 0 {
        seal(&mut image, 1);
        seal(&mut image, DISK / BLOCK - 1);
    }
    let image = Memory(image);
    let Some(Some(table)) = told(partition::table(&image)) else { return };
    for entry in &table.entries {
        let end = entry.start.checked_add(entry.bytes);
        assert!(entry.bytes > 0 && end.is_some_and(|end| end <= image.bytes()), "{entry} leaves the SSD");
        let found = table.find(&entry.number.to_string());
        assert!(found.is_ok_and(|found| found == entry), "{entry} is not found by its number");
        let _ = told(table.find(&entry.uuid));
    }
    assert!(!table.to_string().is_empty());
}

fn gpt(image: &mut [u8]) {
    let last = DISK / BLOCK - 1;
    put(image, 446, &[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0, last as u8, 0, 0, 0]);
    put(image, 510, &[0x55, 0xaa]);
    for (place, other, entries) in [(1, last, 2), (last, 1, last - 1)] {
        let at = place * BLOCK;
        put(image, at, b"EFI PART\0\0\x01\0\x5c\0\0\0");
        for (field, value) in [(24, place), (32, other), (40, 3), (48, last - 2), (72, entries)] {
            put(image, at + field, &(value as u64).to_le_bytes());
        }
        put(image, at + 80, &[4, 0, 0, 0, 128, 0, 0, 0]);
        for (index, (first, end)) in [(8u64, 15u64), (16, 63)].into_iter().enumerate() {
            let entry = entries * BLOCK + 128 * index;
            put(image, entry, &[0xa2; 32]);
            put(image, entry + 32, &first.to_le_bytes());
            put(image, entry + 40, &end.to_le_bytes());
            put(image, entry + 56, b"d\0a\0t\0a\0");
        }
    }
}

/// Two primary partitions, and two logical ones.
fn mbr(image: &mut [u8]) {
    let slot = |image: &mut [u8], block: usize, index: usize, kind: u8, (first, blocks): (u8, u8)| {
        put(image, block * BLOCK + 446 + 16 * index + 4, &[kind, 0, 0, 0, first, 0, 0, 0, blocks]);
        put(image, block * BLOCK + 510, &[0x55, 0xaa]);
    };
    slot(image, 0, 0, 0x83, (1, 31));
    slot(image, 0, 1, 0x83, (32, 32));
    slot(image, 0, 2, 0x0f, (64, 64));
    slot(image, 64, 0, 0x83, (1, 15));
    slot(image, 64, 1, 0x05, (16, 48));
    slot(image, 80, 0, 0x83, (1, 20));
}

/// Makes the checksums of a GPT's header, and of its entries where they are where it says, right.
fn seal(image: &mut [u8], block: usize) {
    let at = block * BLOCK;
    let start = (number::<8>(image, at + 72) as usize).saturating_mul(BLOCK);
    let bytes = number::<4>(image, at + 80).saturating_mul(number::<4>(image, at + 84)) as usize;
    let entries = start.checked_add(bytes.min(4 * ENTRIES)).and_then(|end| image.get(start..end));
    let sum = crc32(entries.unwrap_or_default());
    put(image, at + 88, &sum.to_le_bytes());
    let length = (number::<4>(image, at + 12) as usize).min(BLOCK);
    put(image, at + 16, &[0; 4]);
    let sum = crc32(&image[at..at + length]);
    put(image, at + 16, &sum.to_le_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

/// A disk of 0 to 255 times 1 KiB, where anything may lie: members of arrays, volumes, other file systems.
pub(super) fn containers(input: &[u8]) {
    let Some((size, changes)) = input.split_first() else { return };
    let mut image = vec![0; usize::from(*size) << 10];
    if !image.is_empty() {
        patch(&mut image, changes);
    }
    let image = Memory(image);
    let member = told(member_of_array(&image)).flatten();
    let opened = open(&image, &OpenOptions::new().allow_dirty(true));
    if let (Some(member), Err(Error::Refused { object, .. })) = (member, &opened) {
        assert!(!object.is_empty(), "{member} is refused without a name");
    }
    let _ = told(opened.map(drop));
    let named = told(found(&image));
    assert!(named.is_none_or(|name| !name.is_empty()), "what is there has no name");
}

const AREA: usize = 65_536;
const AREAS_AT: usize = 1 << 20;

/// A catalogue with two generations, changes of header and heads, and then checksums that are right again, where the first
/// byte says so.
pub(super) fn generations(input: &[u8]) {
    let Some((flags, mut changes)) = input.split_first() else { return };
    let mut image = catalogue();
    while let [low, high, region, byte, rest @ ..] = changes {
        let (base, room) = [(0, 4096), (AREAS_AT, AREA), (AREAS_AT + AREA, AREA)][usize::from(region % 3)];
        // Most of it is about the fields at the begin.
        let room = if region & 0x80 == 0 { 128 } else { room };
        image[base + usize::from(u16::from_le_bytes([*low, *high])) % room] = *byte;
        changes = rest;
    }
    seal_catalogue(&mut image, *flags);
    let image = Memory(image);
    for allow_dirty in [false, true] {
        if let Some(files) = told(open(&image, &OpenOptions::new().allow_dirty(allow_dirty))) {
            walk(&image, &*files, "", 64);
        }
    }
    let _ = told(found(&image));
}

/// An empty generation, and one with a file.
fn catalogue() -> Vec<u8> {
    let mut image = vec![0; AREAS_AT + 4 * AREA];
    let total = image.len() as u64;
    put(&mut image, 0, b"WBELLCAT\x01");
    for (at, value) in [(32, 4096), (40, AREA as u64), (48, total)] {
        put(&mut image, at, &u64::to_le_bytes(value));
    }
    let data = (AREAS_AT + 2 * AREA) as u64;
    let mut record = 5000u64.to_le_bytes().to_vec();
    record.extend([0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    record.extend(b"a/b");
    record.extend([data.to_le_bytes(), 8192u64.to_le_bytes()].concat());
    for (area, generation, records) in [(0, 1u64, &[][..]), (1, 2, &record)] {
        let head = AREAS_AT + area * AREA;
        put(&mut image, head, b"WBELLGEN");
        let count = u64::from(!records.is_empty());
        for (at, value) in [(8, generation), (32, records.len() as u64), (40, count)] {
            put(&mut image, head + at, &value.to_le_bytes());
        }
        put(&mut image, head + 64, records);
    }
    image
}

fn seal_catalogue(image: &mut [u8], flags: u8) {
    if flags & 1 == 0 {
        let sum = crc32c::crc32c(&image[..4092]);
        put(image, 4092, &sum.to_le_bytes());
    }
    for head in [AREAS_AT, AREAS_AT + AREA] {
        if flags & 2 == 0 {
            let length = (number::<8>(image, head + 32) as usize).min(AREA - 64);
            let sum = crc32c::crc32c(&image[head + 64..head + 64 + length]);
            put(image, head + 48, &sum.to_le_bytes());
        }
        if flags & 4 == 0 {
            let sum = crc32c::crc32c(&image[head..head + 60]);
            put(image, head + 60, &sum.to_le_bytes());
        }
    }
}
