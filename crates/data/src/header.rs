//! The first 4096 bytes of each file: what is in it.
//!
//! Little-endian: magic (8 bytes), version (u32), numbers of parameters and of sections (u16 each), kind (16), seed
//! (u64), bytes of the file (u64); from byte 64 on 8 parameters of name (16) and value (u64); from byte 256 on 8
//! sections of name (16), first byte (u64) and bytes (u64). The last 8 bytes are the checksum of all before them
//! (FNV-1a, 64 bits). Names end with zeroes.

use std::io::Read;

use crate::Error;

/// Bytes of a header, and what sections are aligned to unless their kind says otherwise.
pub const HEADER_BYTES: u64 = 4096;
const MAGIC: [u8; 8] = *b"WARPDATA";
const VERSION: u32 = 1;
const NAME: usize = 16;
const MOST: usize = 8;
const PARAMETERS_AT: usize = 64;
const SECTIONS_AT: usize = 256;
const CHECKSUM_AT: usize = HEADER_BYTES as usize - 8;

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its first byte in the file.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

impl Section {
    /// One behind its last byte.
    pub fn end(self) -> u64 {
        self.offset + self.bytes
    }
}

/// What is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub(crate) kind: String,
    pub(crate) seed: u64,
    pub(crate) bytes: u64,
    pub(crate) parameters: Vec<(String, u64)>,
    pub(crate) sections: Vec<(String, Section)>,
}

impl Header {
    /// The name of its kind.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What it was made from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Bytes of the whole file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sizes and the like, by name.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, u64)> {
        self.parameters.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// One of them.
    pub fn parameter(&self, name: &str) -> Result<u64, Error> {
        let found = self.parameters().find(|(its, _)| *its == name);
        found.map(|(_, value)| value).ok_or_else(|| self.absent("parameter", name))
    }

    /// Its sections, by name.
    pub fn sections(&self) -> impl Iterator<Item = (&str, Section)> {
        self.sections.iter().map(|(name, section)| (name.as_str(), *section))
    }

    /// One of them.
    pub fn section(&self, name: &str) -> Result<Section, Error> {
        let found = self.sections().find(|(its, _)| *its == name);
        found.map(|(_, section)| section).ok_or_else(|| self.absent("section", name))
    }

    /// Refuses data of another kind.
    pub fn expect_kind(&self, kind: &str) -> Result<(), Error> {
        if self.kind == kind {
            return Ok(());
        }
        Err(wrong(format!("data of kind {}, and this takes {kind}", self.kind)))
    }

    fn absent(&self, what: &'static str, name: &str) -> Error {
        Error::Absent { kind: self.kind.clone(), what, name: name.to_owned() }
    }

    /// Reads and checks the first bytes of a file.
    pub fn read(from: &mut impl Read) -> Result<Header, Error> {
        let mut bytes = [0; HEADER_BYTES as usize];
        match from.read_exact(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(wrong(format!("the file ends before byte {HEADER_BYTES}")))
            }
            Err(error) => Err(error.into()),
            Ok(()) => Header::parse(&bytes),
        }
    }

    fn parse(bytes: &[u8; HEADER_BYTES as usize]) -> Result<Header, Error> {
        if bytes[..8] != MAGIC {
            return Err(wrong("not a file of `warpbell gen`: it begins otherwise".to_owned()));
        }
        let version = number(bytes, 8, 4);
        if version != u64::from(VERSION) {
            return Err(wrong(format!("version {version}: this program reads {VERSION}")));
        }
        let (found, expected) = (number(bytes, CHECKSUM_AT, 8), checksum(bytes));
        if found != expected {
            return Err(wrong(format!(
                "damaged: its checksum is {found:#x}, that of its bytes {expected:#x}"
            )));
        }
        let counts = [12, 14].map(|at| number(bytes, at, 2) as usize);
        if counts.iter().any(|count| *count > MOST) {
            return Err(wrong(format!("{counts:?} parameters and sections: at most {MOST} of each")));
        }
        let parameter = |index| {
            let at = PARAMETERS_AT + index * (NAME + 8);
            Ok((name(bytes, at)?, number(bytes, at + NAME, 8)))
        };
        let section = |index| {
            let at = SECTIONS_AT + index * (NAME + 16);
            let [offset, bytes_of] = [0, 8].map(|by| number(bytes, at + NAME + by, 8));
            Ok((name(bytes, at)?, Section { offset, bytes: bytes_of }))
        };
        let header = Header {
            kind: name(bytes, 16)?,
            seed: number(bytes, 32, 8),
            bytes: number(bytes, 40, 8),
            parameters: (0..counts[0]).map(parameter).collect::<Result<_, Error>>()?,
            sections: (0..counts[1]).map(section).collect::<Result<_, Error>>()?,
        };
        header.check()
    }

    /// A checksum is no proof of sense: whoever made the header may have been wrong.
    fn check(self) -> Result<Header, Error> {
        let outside = |section: &Section| {
            let end = section.offset.checked_add(section.bytes);
            section.offset < HEADER_BYTES || end.is_none_or(|end| end > self.bytes)
        };
        match self.sections.iter().find(|(_, section)| outside(section)) {
            Some((name, _)) => Err(wrong(format!("section '{name}' is not within the file"))),
            None => Ok(self),
        }
    }

    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        let mut put = |at: usize, text: &[u8]| bytes[at..at + text.len()].copy_from_slice(text);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(self.parameters.len() as u16).to_le_bytes());
        put(14, &(self.sections.len() as u16).to_le_bytes());
        put(16, self.kind.as_bytes());
        put(32, &self.seed.to_le_bytes());
        put(40, &self.bytes.to_le_bytes());
        for (index, (name, value)) in self.parameters.iter().enumerate() {
            let at = PARAMETERS_AT + index * (NAME + 8);
            put(at, name.as_bytes());
            put(at + NAME, &value.to_le_bytes());
        }
        for (index, (name, section)) in self.sections.iter().enumerate() {
            let at = SECTIONS_AT + index * (NAME + 16);
            put(at, name.as_bytes());
            put(at + NAME, &section.offset.to_le_bytes());
            put(at + NAME + 8, &section.bytes.to_le_bytes());
        }
        let sum = checksum(&bytes);
        bytes[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Panics where a kind has more, or longer names, than a header has room for.
    pub(crate) fn assert_fits(&self) {
        let names = self.parameters.iter().map(|(name, _)| name);
        let mut names = names.chain(self.sections.iter().map(|(name, _)| name)).chain([&self.kind]);
        assert!(names.all(|name| (1..=NAME).contains(&name.len())), "names of 1 to {NAME} bytes: {self:?}");
        assert!(self.parameters.len() <= MOST && self.sections.len() <= MOST, "at most {MOST}: {self:?}");
    }
}

fn wrong(reason: String) -> Error {
    Error::Header { reason }
}

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn name(bytes: &[u8], at: usize) -> Result<String, Error> {
    let bytes = &bytes[at..at + NAME];
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME);
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| wrong(format!("name {bytes:?} is no text")))?;
    Ok(text.to_owned())
}

fn checksum(bytes: &[u8]) -> u64 {
    fnv(&bytes[..CHECKSUM_AT])
}

/// FNV-1a of 64 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let section = |offset, bytes| Section { offset, bytes };
        Header {
            kind: "sixteen-bytes-xx".into(),
            seed: u64::MAX,
            bytes: 12_288,
            parameters: (0..8).map(|index| (format!("p{index}"), 1 << (index * 8))).collect(),
            sections: vec![("x".into(), section(4096, 100)), ("y".into(), section(8192, 4096))],
        }
    }

    #[test]
    fn a_header_comes_back() {
        let header = header();
        assert_eq!(Header::read(&mut header.to_bytes().as_slice()).unwrap(), header);
        assert_eq!(header.parameter("p3").unwrap(), 1 << 24);
        assert_eq!(header.section("y").unwrap().end(), 12_288);
        assert!(header.expect_kind("csr").unwrap_err().to_string().contains("this takes csr"));
        let absent = header.parameter("q").unwrap_err().to_string();
        assert_eq!(absent, "data of kind sixteen-bytes-xx: no parameter 'q'");
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let good = header().to_bytes();
        for at in (0..600).chain(4080..4096) {
            let mut bytes = good;
            bytes[at] ^= 1 << (at % 8);
            assert!(Header::read(&mut bytes.as_slice()).is_err(), "byte {at}");
        }
        let text = |bytes: &[u8]| Header::read(&mut { bytes }).unwrap_err().to_string();
        assert_eq!(text(&good[..4095]), "header: the file ends before byte 4096");
        assert!(text(&[b'x'; 4096]).contains("not a file of `warpbell gen`"));
    }

    #[test]
    fn sections_lie_within_the_file() {
        for section in [(0, 1), (4095, 1), (4096, 8193), (u64::MAX, 2)] {
            let mut wrong = header();
            wrong.sections[1].1 = Section { offset: section.0, bytes: section.1 };
            let error = Header::read(&mut wrong.to_bytes().as_slice()).unwrap_err().to_string();
            assert_eq!(error, "header: section 'y' is not within the file");
        }
    }
}
