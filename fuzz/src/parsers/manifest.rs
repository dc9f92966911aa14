//! Manifests, and the stamps of file systems that they are compared with.

use std::sync::LazyLock;

use warpbell_files::manifest::{
    CapturedFile, Checksum, Device, Ext4Stamp, FileSystemId, Identity, Kind, LogPosition, Manifest, SCHEMA,
    Stamp, XfsStamp,
};
use warpbell_files::{Error, Extent, Source};

use super::disk::{EXT4, Memory, walk};
use super::tables::patch;
use super::told;
use crate::choices::Choices;

/// A source that says of what it does not have that it has not, as SSDs do: manifests speak of places on any SSD.
struct Ssd(Memory);

impl Source for Ssd {
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn block_size(&self) -> u32 {
        self.0.block_size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let bytes = into.len() as u64;
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes()) {
            return self.0.read_at(offset, into);
        }
        Err(Error::Io { action: "reading", offset, bytes, source: "behind the end".into() })
    }
}

/// A manifest as text, beside the image that the seeds of the corpus are of.
pub(super) fn text(text: &str) {
    let Some(manifest) = told(Manifest::parse(text)) else { return };
    let printed = told(manifest.to_json()).expect("a manifest prints");
    assert_eq!(told(Manifest::parse(&printed)).as_ref(), Some(&manifest), "{text:?} prints as {printed:?}");
    let ssd = Ssd(Memory(EXT4.clone()));
    let identity = Identity { serial: "S1".to_owned(), nsid: 1 };
    let Some(files) = told(manifest.open(&ssd, Some(&identity))) else { return };
    walk(&ssd, &files, "", 8);
    for file in manifest.files.iter().filter(|file| file.size < 1 << 20) {
        let _ = told(manifest.sum(&ssd, file, &mut |_| true));
    }
}

/// Bytes of the image with XFS: one group of 128 blocks, with a log of 640 blocks of its own.
const XFS_BYTES: usize = 512 << 10;
const XFS_LOG_AT: usize = 32 << 10;

static XFS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut image = vec![0; XFS_BYTES];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"XFSB\0\0\x10\0");
    put(32, &[7; 16]);
    put(48, &8u64.to_be_bytes());
    for (at, value) in [(84, 128u32), (88, 1), (96, 80)] {
        put(at, &value.to_be_bytes());
    }
    put(100, &[0, 5, 2, 0, 2, 0, 0, 8]);
    put(120, &[12, 9, 9, 3, 7]);
    // Inode 16: a regular file with big times.
    put(2 * 4096, b"IN\x81\xa4");
    put(2 * 4096 + 120, &8u64.to_be_bytes());
    put(2 * 4096 + 152, &16u64.to_be_bytes());
    for block in 0..640 {
        put(XFS_LOG_AT + block * 512, &u32::from(block < 4).to_be_bytes());
    }
    // A transaction, and an unmount.
    for (block, operations, length, flags) in [(0u8, 12, 0, 1), (2, 1, 8, 0x20)] {
        let at = XFS_LOG_AT + usize::from(block) * 512;
        put(at, &[0xfe, 0xed, 0xba, 0xbe, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, block]);
        put(at + 40, &[0, 0, 0, operations]);
        put(at + 320, &32_768u32.to_be_bytes());
        put(at + 512, &[0, 0, 0, 1, 0, 0, 0, length, 0, flags]);
    }
    image
});

/// A stamp and inodes that the input has, and an image with changes; XFS gets its checksum again.
pub(super) fn stamp(input: &[u8]) {
    let mut choices = Choices::new(input);
    let is_xfs = choices.one_in(2);
    let (mut image, uuid_at) = if is_xfs { (XFS.clone(), 32) } else { (EXT4.clone(), 1024 + 0x68) };
    let uuid = uuid(&image[uuid_at..uuid_at + 16]);
    let start = choices.number(1);
    let stamp = match is_xfs {
        true => Stamp::Xfs(XfsStamp {
            log: LogPosition { cycle: choices.byte().into(), block: choices.u16().into() },
        }),
        false => Stamp::Ext4(Ext4Stamp {
            mount_count: choices.u16(),
            mounted: choices.number(9),
            written: choices.number(9),
            free_blocks: choices.number(9),
            free_inodes: choices.number(9),
        }),
    };
    let files = (0..choices.below(4)).map(|index| file(index, &mut choices)).collect();
    let block_size = if is_xfs { 4096 } else { 1024 };
    let manifest = Manifest {
        schema: SCHEMA.to_owned(),
        warpbell: String::new(),
        device: Device {
            name: "fuzz".to_owned(),
            serial: None,
            nsid: None,
            bytes: image.len() as u64,
            block_size: 512,
        },
        partition: (start > 0).then_some(warpbell_files::manifest::Partition {
            number: 1,
            start,
            bytes: choices.number(99),
        }),
        file_system: FileSystemId {
            kind: if is_xfs { Kind::Xfs } else { Kind::Ext4 },
            uuid,
            label: String::new(),
            block_size,
        },
        stamp,
        checksum: Checksum::None,
        files,
        links: Vec::new(),
        refused: Vec::new(),
    };
    patch(&mut image, choices.take(input.len()));
    if is_xfs {
        let size = usize::from(u16::from_be_bytes([image[102], image[103]]));
        image[224..228].fill(0);
        let sum = crc32c::crc32c(&image[..size.clamp(512, 32_768)]);
        image[224..228].copy_from_slice(&sum.to_le_bytes());
    }
    let ssd = Ssd(Memory(image));
    let changes = told(manifest.changes(&ssd, None));
    let named =
        |change: &warpbell_files::manifest::Change| !change.what.is_empty() && change.was != change.is;
    assert!(changes.is_none_or(|changes| changes.iter().all(named)), "a change of nothing");
}

fn file(index: u32, choices: &mut Choices) -> CapturedFile {
    let size = choices.number(5000);
    let extents = match size {
        0 => Vec::new(),
        _ => vec![Extent { offset: 0, at: choices.number(60_000), bytes: choices.number(5000) }],
    };
    CapturedFile {
        path: format!("/{index}"),
        size,
        inode: choices.number(64),
        modified: (choices.u32().into(), 0),
        changed: (0, choices.u32()),
        shared: false,
        checksum: None,
        extents,
    }
}

fn uuid(bytes: &[u8]) -> String {
    let hex = |range: std::ops::Range<usize>| -> String {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)].join("-")
}
