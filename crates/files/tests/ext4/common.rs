//! Images by e2fsprogs, and sources in memory.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use warpbell_files::{Error, FileSystem, OpenOptions, Source, open, read_file};

/// Bytes as a source. Reads are counted.
pub struct Memory {
    pub bytes: Vec<u8>,
    pub reads: Cell<u64>,
}

impl Memory {
    pub fn new(bytes: Vec<u8>) -> Memory {
        Memory { bytes, reads: Cell::new(0) }
    }

    pub fn load(path: &Path) -> Memory {
        Memory::new(std::fs::read(path).unwrap())
    }

    /// The line that refuses it.
    pub fn refusal(&self) -> String {
        open(self, &OpenOptions::default()).err().expect("it is refused").to_string()
    }
}

impl Source for Memory {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn block_size(&self) -> u32 {
        512
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.reads.set(self.reads.get() + 1);
        let end = offset as usize + into.len();
        assert!(end <= self.bytes.len(), "bytes {offset} to {end} are read of {}", self.bytes.len());
        into.copy_from_slice(&self.bytes[offset as usize..end]);
        Ok(())
    }
}

/// Runs a program of e2fsprogs, and what it said. `e2fsck` ends with 1 where it changed something.
pub fn tool(name: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let output = Command::new(name).args(arguments).env("PATH", path).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}; scripts/setup installs e2fsprogs"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fine = output.status.success() || (name == "e2fsck" && output.status.code() == Some(1));
    assert!(fine, "{name} {arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Makes an image of `size` with what is in a folder.
pub fn mkfs(options: &[&str], contents: &Path, image: &Path, size: &str) {
    let (contents, image) = (contents.to_str().unwrap(), image.to_str().unwrap());
    // No lazy start: what a kernel would write later is written now.
    let all = [&["-q", "-F", "-E", "lazy_itable_init=0", "-d", contents], options, &[image, size]].concat();
    tool("mkfs.ext4", &all);
}

/// Bytes that look random, the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// All of a file.
pub fn contents(source: &dyn Source, files: &dyn FileSystem, path: &str) -> Vec<u8> {
    let map = files.file(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut bytes = vec![0xa5; map.size() as usize];
    read_file(source, &map, 0, &mut bytes).unwrap();
    bytes
}

/// Changes a superblock, and mends its checksum.
pub fn patch(image: &mut Memory, change: impl FnOnce(&mut [u8])) {
    let superblock = &mut image.bytes[1024..2048];
    change(superblock);
    let sum = !crc32c::crc32c(&superblock[..0x3fc]);
    superblock[0x3fc..].copy_from_slice(&sum.to_le_bytes());
}

/// Sets bits of a 32-bit number.
pub fn set(bytes: &mut [u8], at: usize, bits: u32) {
    let number = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) | bits;
    bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
}
