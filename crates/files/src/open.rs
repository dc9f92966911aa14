//! Which file system a source has.

use crate::ext4::Ext4;
use crate::{Catalogue, Error, FileSystem, Source, partition};

warpbell_base::options! {
    /// How file systems are read.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct OpenOptions {
        /// Read a file system that was not unmounted: what only its journal has is missing. Of a catalogue whose newest
        /// generation is damaged: read the one before.
        pub allow_dirty: bool,
    }
}

/// Opens the file system of `source`.
///
/// # Errors
/// What is not read is refused by its name, with what to do instead: another file system, a container of volumes, an
/// encrypted one, a partition table.
pub fn open<'a>(source: &'a dyn Source, options: &OpenOptions) -> Result<Box<dyn FileSystem + 'a>, Error> {
    // First: the data of its files may look like anything.
    if Catalogue::is_on(source)? {
        return Ok(Box::new(Catalogue::open(source, options)?));
    }
    let looked = Looked { source };
    refuse_containers(&looked)?;
    // What is read, in the order in which it is looked for: a new kind has its line here.
    if Ext4::is_on(source)? {
        return Ok(Box::new(Ext4::open(source, options)?));
    }
    Err(looked.unknown()?)
}

/// What to do about a file system that is mounted as it is.
const MOUNT: &str = "it is not read without a mount; mount it, and record its files by a manifest";

/// A signature: what has it, what to do about it, where it lies, and its bytes.
type Signature = (&'static str, &'static str, u64, &'static [u8]);

const LVM: &str = "its logical volumes are not read; take the SSD whole, or record its files by a manifest";
const MD: &str = "RAID members hold parts of files; name an SSD that is no member of an array";
const LUKS: &str = "it is encrypted, and kernels would read ciphertext; name an SSD that is not";

/// What may have a file system in it, which may even begin at the same place.
const CONTAINERS: [Signature; 8] = [
    ("LUKS container", LUKS, 0, b"LUKS\xba\xbe"),
    ("LVM physical volume", LVM, 0, b"LABELONE"),
    ("LVM physical volume", LVM, 512, b"LABELONE"),
    ("LVM physical volume", LVM, 1024, b"LABELONE"),
    ("LVM physical volume", LVM, 1536, b"LABELONE"),
    ("md RAID member (superblock 1.1)", MD, 0, &MD_MAGIC),
    ("md RAID member (superblock 1.2)", MD, 4096, &MD_MAGIC),
    ("bcache device", "it holds a cache of another device; name that one", 4096 + 24, &BCACHE_MAGIC),
];
const MD_MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
const BCACHE_MAGIC: [u8; 16] =
    [0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];

/// File systems that are known by name alone.
const OTHERS: [Signature; 9] = [
    ("XFS", MOUNT, 0, b"XFSB"),
    (
        "btrfs",
        "its files are not plain extents: copy them to a file system that is read",
        0x1_0040,
        b"_BHRfS_M",
    ),
    ("F2FS", MOUNT, 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("NTFS", MOUNT, 3, b"NTFS    "),
    ("exFAT", MOUNT, 3, b"EXFAT   "),
    ("FAT", MOUNT, 54, b"FAT"),
    ("FAT32", MOUNT, 82, b"FAT32"),
    ("SquashFS", "its files are compressed", 0, b"hsqs"),
    ("swap space", "it has no files", 4086, b"SWAPSPACE2"),
];

/// A source that is looked at.
struct Looked<'a> {
    source: &'a dyn Source,
}

impl Looked<'_> {
    /// Bytes at `at`; `None` where the source ends before.
    fn bytes<const N: usize>(&self, at: u64) -> Result<Option<[u8; N]>, Error> {
        if at.checked_add(N as u64).is_none_or(|end| end > self.source.bytes()) {
            return Ok(None);
        }
        let mut bytes = [0; N];
        self.source.read_at(at, &mut bytes)?;
        Ok(Some(bytes))
    }

    fn has(&self, (.., at, signature): &Signature) -> Result<bool, Error> {
        let bytes: Option<[u8; 16]> = self.bytes(*at)?;
        Ok(bytes.is_some_and(|bytes| bytes.starts_with(signature)))
    }

    /// An md superblock at the end: 1.0, or 0.90, which has the byte order of its machine.
    fn md_at_end(&self) -> Result<Option<&'static str>, Error> {
        let sectors = self.source.bytes() / 512;
        if let Some(at) = sectors.checked_sub(16)
            && self.bytes(at / 8 * 8 * 512)? == Some(MD_MAGIC)
        {
            return Ok(Some("md RAID member (superblock 1.0)"));
        }
        let Some(at) = (self.source.bytes() / 65_536).checked_sub(1) else { return Ok(None) };
        let found: Option<[u8; 4]> = self.bytes(at * 65_536)?;
        let is = found.is_some_and(|mut found| {
            let little = found == MD_MAGIC;
            found.reverse();
            little || found == MD_MAGIC
        });
        Ok(is.then_some("md RAID member (superblock 0.90)"))
    }

    /// Why there is nothing to read.
    fn unknown(&self) -> Result<Error, Error> {
        for other in &OTHERS {
            if self.has(other)? {
                return Ok(Error::refused(other.0, other.1));
            }
        }
        if let Some(table) = partition::table(self.source)? {
            return Ok(Error::refused("partition table", format!("choose a partition: {table}")));
        }
        if let Some(lost) = Ext4::lost(self.source)? {
            return Ok(lost);
        }
        let bytes = self.source.bytes();
        let reason = "none that is known begins here; ext4 is read, and others by a manifest";
        Ok(Error::refused(format!("file system of {bytes} bytes"), reason))
    }
}

fn refuse_containers(looked: &Looked<'_>) -> Result<(), Error> {
    for container in &CONTAINERS {
        if looked.has(container)? {
            return Err(Error::refused(container.0, container.1));
        }
    }
    // An array at the end of the last partition ends where the whole SSD does.
    match looked.md_at_end()? {
        Some(member) if partition::table(looked.source)?.is_none() => Err(Error::refused(member, MD)),
        _ => Ok(()),
    }
}

/// The kind of md superblock at the end of a source. Its partition table is then that of an array, of which the source has a
/// part.
pub fn member_of_array(source: &dyn Source) -> Result<Option<&'static str>, Error> {
    Looked { source }.md_at_end()
}

/// What is on a source, in words, for whoever is about to overwrite it.
pub fn found(source: &dyn Source) -> Result<String, Error> {
    if !Catalogue::is_on(source)? {
        return Ok(signature(source)?.unwrap_or("nothing that is known").to_owned());
    }
    Ok(match Catalogue::open(source, &OpenOptions { allow_dirty: true }) {
        Ok(catalogue) => format!("a catalogue with {} files", catalogue.files().len()),
        Err(error) => format!("a catalogue that cannot be read: {error}"),
    })
}

/// The name of what may have a file system in it.
pub(crate) fn container(source: &dyn Source) -> Result<Option<&'static str>, Error> {
    let looked = Looked { source };
    for known in &CONTAINERS {
        if looked.has(known)? {
            return Ok(Some(known.0));
        }
    }
    Ok(None)
}

/// The name of what is on a source, whether it is read or not; `None`: nothing that is known.
pub(crate) fn signature(source: &dyn Source) -> Result<Option<&'static str>, Error> {
    let looked = Looked { source };
    if Catalogue::is_on(source)? {
        return Ok(Some("catalogue"));
    }
    // Its first blocks may be a boot loader's.
    if Ext4::is_on(source)? {
        return Ok(Some("ext4"));
    }
    let table = [("", 512, &b"EFI PART"[..]), ("", 4096, b"EFI PART"), ("", 510, &[0x55, 0xaa])];
    let tables = table.map(|(what, at, bytes)| ("partition table", what, at, bytes));
    // A boot sector of FAT ends as a partition table does.
    for known in CONTAINERS.iter().chain(&OTHERS).chain(&tables) {
        if looked.has(known)? {
            return Ok(Some(known.0));
        }
    }
    if let Some(member) = looked.md_at_end()? {
        return Ok(Some(member));
    }
    Ok(Ext4::lost(source)?.map(|_| "ext4, of which a backup superblock is left"))
}
