//! Signatures of partition tables and file systems: data that somebody may want to keep.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A signature: what it stands for, its bytes, and where they may lie.
struct Magic {
    name: &'static str,
    bytes: &'static [u8],
    at: &'static [u64],
}

/// Bytes from the start that hold every signature of [`AT_START`].
const START: usize = 256 << 10;
/// Bytes from the end that hold the backup of a GUID partition table, and superblocks of old MD versions.
const END: u64 = 128 << 10;

const fn magic(name: &'static str, bytes: &'static [u8], at: &'static [u64]) -> Magic {
    Magic { name, bytes, at }
}

/// Particular ones first: boot sectors of file systems end like a master boot record.
const AT_START: [Magic; 31] = [
    // In the second block, of 512 or 4096 bytes.
    magic("GUID partition table", b"EFI PART", &[512, 4096]),
    magic("LUKS volume", b"LUKS\xba\xbe", &[0]),
    magic("LUKS volume", b"SKUL\xba\xbe", &[16384, 32768, 65536, 131_072]),
    magic("LVM physical volume", b"LABELONE", &[0, 512, 1024, 1536]),
    magic("MD RAID member", b"\xfc\x4e\x2b\xa9", &[0, 4096]),
    magic("XFS file system", b"XFSB", &[0]),
    magic("ext2, ext3 or ext4 file system", b"\x53\xef", &[1080]),
    magic("btrfs file system", b"_BHRfS_M", &[65536 + 64]),
    magic("F2FS file system", b"\x10\x20\xf5\xf2", &[1024]),
    magic("EROFS file system", b"\xe2\xe1\xf5\xe0", &[1024]),
    magic("bcache device", b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", &[4120]),
    magic(
        "bcachefs file system",
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        &[4120],
    ),
    magic("swap space", b"SWAPSPACE2", &[4086, 16374, 65526]),
    magic("swap space", b"SWAP-SPACE", &[4086, 16374, 65526]),
    magic("hibernation image", b"S1SUSPEND", &[4086, 16374, 65526]),
    magic("Stratis pool member", b"!Stra0tis\x86\xff\x02^\x41rh", &[516, 4612]),
    magic("VDO volume", b"dmvdo001", &[0]),
    magic("Oracle ASM disk", b"ORCLDISK", &[32]),
    magic("APFS container", b"NXSB", &[32]),
    magic("HFS+ file system", b"H+\0\x04", &[1024]),
    magic("Ceph BlueStore device", b"bluestore block device", &[0]),
    magic("GFS2 file system", b"\x01\x16\x19\x70", &[65536]),
    magic("OCFS2 file system", b"OCFSV2", &[1024, 2048, 4096, 8192]),
    magic("ReiserFS file system", b"ReIsErFs", &[8244, 65588]),
    magic("JFS file system", b"JFS1", &[32768]),
    magic("NILFS2 file system", b"\x34\x34", &[1030]),
    magic("ISO 9660 file system", b"CD001", &[32769]),
    magic("squashfs file system", b"hsqs", &[0]),
    magic("NTFS file system", b"NTFS    ", &[3]),
    magic("exFAT file system", b"EXFAT   ", &[3]),
    magic("master boot record or FAT boot sector", b"\x55\xaa", &[510]),
];

/// The first signature found on a device of `size` bytes.
pub(super) fn find(device: &File, size: u64) -> io::Result<Option<&'static str>> {
    let start = read(device, 0, size.min(START as u64))?;
    if let Some(name) = at_start(&start) {
        return Ok(Some(name));
    }
    let from = size.saturating_sub(END);
    let end = read(device, from, size - from)?;
    Ok(at_end(&end, from, size))
}

/// A read of whole pages: a block device takes no other where it is opened for direct I/O.
fn read(device: &File, at: u64, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    device.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn at_start(bytes: &[u8]) -> Option<&'static str> {
    let holds = |magic: &&Magic| magic.at.iter().any(|at| lies_at(bytes, *at as usize, magic.bytes));
    AT_START.iter().find(holds).map(|magic| magic.name).or_else(|| zfs(bytes))
}

fn lies_at(bytes: &[u8], at: usize, magic: &[u8]) -> bool {
    bytes.get(at..at + magic.len()) == Some(magic)
}

/// ZFS writes its uberblocks in turn into an array in the second 128 KiB, in either byte order.
fn zfs(bytes: &[u8]) -> Option<&'static str> {
    let uberblock =
        |at| [b"\x0c\xb1\xba\0\0\0\0\0", b"\0\0\0\0\0\xba\xb1\x0c"].iter().any(|m| lies_at(bytes, at, *m));
    (START / 2..START).step_by(1024).any(uberblock).then_some("ZFS pool member")
}

/// Signatures of the last bytes, which begin at `from`.
fn at_end(bytes: &[u8], from: u64, size: u64) -> Option<&'static str> {
    let lies = |at: u64, magic: &[u8]| at >= from && lies_at(bytes, (at - from) as usize, magic);
    if [512, 4096].iter().any(|block| lies(size.saturating_sub(*block), b"EFI PART")) {
        return Some("GUID partition table (its backup)");
    }
    let md = b"\xfc\x4e\x2b\xa9";
    // Version 1.0: 8 KiB before the end, on 4 KiB; version 0.90: the last whole 64 KiB but one.
    let places = [(size.saturating_sub(8192)) & !4095, (size & !0xffff).saturating_sub(0x1_0000)];
    places.iter().any(|at| lies(*at, md)).then_some("MD RAID member")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn found(size: u64, marks: &[(u64, &[u8])]) -> Option<&'static str> {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        for (at, bytes) in marks {
            file.write_all_at(bytes, *at).unwrap();
        }
        file.flush().unwrap();
        find(&file, size).unwrap()
    }

    #[test]
    fn every_magic_is_found_at_each_of_its_places() {
        for magic in &AT_START {
            for at in magic.at {
                assert_eq!(found(1 << 20, &[(*at, magic.bytes)]), Some(magic.name), "at {at}");
                assert!(*at as usize + magic.bytes.len() <= START);
            }
        }
    }

    #[test]
    fn ends_are_looked_at_too() {
        let size: u64 = (1 << 20) + 512;
        assert_eq!(found(size, &[(size - 512, b"EFI PART")]), Some("GUID partition table (its backup)"));
        assert_eq!(found(1 << 20, &[((1 << 20) - 8192, b"\xfc\x4e\x2b\xa9")]), Some("MD RAID member"));
        assert_eq!(found(1 << 20, &[((1 << 20) - 65536, b"\xfc\x4e\x2b\xa9")]), Some("MD RAID member"));
        assert_eq!(
            found(1 << 20, &[(131_072 + 5 * 1024, b"\x0c\xb1\xba\0\0\0\0\0")]),
            Some("ZFS pool member")
        );
    }

    #[test]
    fn zeros_and_plain_data_are_no_signature() {
        assert_eq!(found(1 << 20, &[]), None);
        assert_eq!(found(1 << 20, &[(0, &[0x5a; 4096])]), None);
        assert_eq!(found(4096, &[]), None, "smaller than the part looked at");
    }

    #[test]
    fn a_device_shorter_than_said_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        assert!(find(&file, 4096).is_err());
    }
}
