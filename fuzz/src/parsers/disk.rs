//! What is on SSDs: file systems and partition tables.

use std::sync::LazyLock;

use warpbell_files::{
    EntryKind, Error, FileMap, FileSystem, OpenOptions, Source, open, partition, read_file,
};

use super::told;

/// 160 KiB by `mkfs.ext4 -b 1024 -O ^metadata_csum,^has_journal,^resize_inode -d`, then `e2fsck -D`: folders with and
/// without an index, a tree of extents, symbolic links of both kinds. Without checksums what is wrong is met where it is used.
pub(super) static EXT4: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let image = include_bytes!("../../ext4.img.gz");
    // Behind gzip's ten bytes.
    miniz_oxide::inflate::decompress_to_vec(&image[10..]).expect("an image that was packed")
});

pub(super) struct Memory(pub(super) Vec<u8>);

impl Source for Memory {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn block_size(&self) -> u32 {
        512
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        // Whoever reads has made sure that it is there.
        into.copy_from_slice(&self.0[offset as usize..][..into.len()]);
        Ok(())
    }
}

/// A partition table, and what it leads to.
pub(super) fn partitions(input: &[u8]) {
    let image = Memory(input.to_vec());
    let _ = told(open(&image, &OpenOptions::default()).map(drop));
    for entry in told(partition::table(&image)).flatten().map(|table| table.entries).unwrap_or_default() {
        assert!(entry.start + entry.bytes <= image.bytes(), "{entry} leaves the SSD");
    }
}

/// Four bytes each: where the image differs, and by what.
pub(super) fn ext4(input: &[u8]) {
    let mut image = EXT4.clone();
    for each in input.chunks_exact(4) {
        let at = usize::from(each[0]) | usize::from(each[1]) << 8 | usize::from(each[2]) << 16;
        let len = image.len();
        image[at % len] = each[3];
    }
    let image = Memory(image);
    if let Some(files) = told(open(&image, &OpenOptions::new().allow_dirty(true))) {
        walk(&image, &*files, "/", 3);
    }
}

/// A catalogue with a header of ours: the input is the records of its only generation, behind a byte that says how many.
pub(super) fn catalogue(input: &[u8]) {
    let Some((count, records)) = input.split_first() else { return };
    const AREA: usize = 65_536;
    let mut image = vec![0; (1 << 20) + 4 * AREA];
    let (head, records) = (1 << 20, &records[..records.len().min(AREA - 64)]);
    let put =
        |image: &mut Vec<u8>, at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let sum = |image: &[u8], from: usize, to: usize| crc32c::crc32c(&image[from..to]).to_le_bytes();
    put(&mut image, 0, b"WBELLCAT\x01");
    let bytes = image.len() as u64;
    for (at, value) in [(32, 4096), (40, AREA as u64), (48, bytes)] {
        put(&mut image, at, &u64::to_le_bytes(value));
    }
    let crc = sum(&image, 0, 4092);
    put(&mut image, 4092, &crc);
    put(&mut image, head, b"WBELLGEN\x01");
    put(&mut image, head + 32, &(records.len() as u64).to_le_bytes());
    put(&mut image, head + 40, &u64::from(*count).to_le_bytes());
    put(&mut image, head + 48, &crc32c::crc32c(records).to_le_bytes());
    let crc = sum(&image, head, head + 60);
    put(&mut image, head + 60, &crc);
    put(&mut image, head + 64, records);
    let image = Memory(image);
    if let Some(files) = told(open(&image, &OpenOptions::default())) {
        walk(&image, &*files, "", 64);
    }
}

pub(super) fn walk(source: &dyn Source, files: &dyn FileSystem, path: &str, depth: u32) {
    let Some(entries) = told(files.entries(path)) else { return };
    for entry in entries.iter().take(100) {
        let path = format!("{path}/{}", entry.name);
        if entry.kind == EntryKind::Directory && depth > 0 {
            walk(source, files, &path, depth - 1);
        } else if let Some(map) = told(files.file(&path)) {
            let mut bytes = vec![0; map.size().min(20_000) as usize];
            assert!(
                told(read_file(source, &map, 0, &mut bytes)).is_some(),
                "{path} is mapped and cannot be read"
            );
            writable(files, &path, &map);
        }
    }
}

/// What of a file may be written is some of what is read of it.
fn writable(files: &dyn FileSystem, path: &str, map: &FileMap) {
    let Some(file) = told(files.writable(path)) else { return };
    assert_eq!(file.map(), map, "{path}");
    for (offset, bytes) in [(0, 512), (0, file.whole_bytes(512)), (512, 4096)] {
        let Some(pieces) = told(file.pieces(offset, bytes, 512)) else { continue };
        let inside = |(at, bytes): &(u64, u64)| {
            map.extents().iter().any(|extent| extent.at <= *at && at + bytes <= extent.at + extent.bytes)
        };
        let all: u64 = pieces.iter().map(|(_, bytes)| bytes).sum();
        assert!(
            pieces.iter().all(inside) && all == bytes && offset + bytes <= map.size(),
            "{path}: {pieces:?}"
        );
    }
}
