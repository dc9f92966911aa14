//! The fixed parts of the format: the header, and the head of a generation. Numbers are little endian.

use crate::bytes::{le32, le64};
use crate::{Error, Source, open};

const MAGIC: &[u8; 8] = b"WBELLCAT";
const GENERATION_MAGIC: &[u8; 8] = b"WBELLGEN";
/// The version that is read and written.
pub const VERSION: u32 = 1;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 4096;
/// Where the first area begins. What is before it holds nothing but the header.
pub const AREAS_AT: u64 = 1 << 20;
/// Bytes of a generation before its records.
pub const HEAD_BYTES: usize = 64;
/// Bytes of an area at least and at most.
pub const AREA_BYTES: std::ops::RangeInclusive<u64> = 65_536..=1 << 28;
/// Bytes of the unit of space at least and at most.
pub const UNIT_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// What formatting decided. It is never written again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Names this catalogue: both generations carry it, so those of an earlier format count for nothing.
    pub uuid: u128,
    /// The unit of space: files begin at a multiple of it, and take whole ones.
    pub unit: u64,
    /// Bytes of each of the two areas, which follow each other from [`AREAS_AT`] on.
    pub area_bytes: u64,
    /// Bytes of the namespace, when it was formatted.
    pub total: u64,
}

/// Which number of a header is outside its limits.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeaderError {
    #[error(
        "alignment {bytes} bytes: expected {} to {}, a multiple of {least}",
        UNIT_BYTES.start(),
        UNIT_BYTES.end()
    )]
    Unit { bytes: u64, least: u64 },
    #[error(
        "area of {bytes} bytes: expected {} to {}, a multiple of {least}",
        AREA_BYTES.start(),
        AREA_BYTES.end()
    )]
    Area { bytes: u64, least: u64 },
    #[error("{bytes} bytes: a catalogue with room for a file takes more")]
    Total { bytes: u64 },
}

impl Header {
    /// Whether a header of ours begins the source, whatever is wrong with it.
    pub fn is_on(source: &dyn Source) -> Result<bool, Error> {
        let mut magic = [0; 8];
        if source.bytes() < magic.len() as u64 {
            return Ok(false);
        }
        source.read_at(0, &mut magic)?;
        Ok(&magic == MAGIC)
    }

    /// Reads and checks it.
    pub fn read(source: &dyn Source) -> Result<Header, Error> {
        let damaged = |reason: String| Error::damaged("catalogue header at byte 0", reason);
        if source.bytes() < HEADER_BYTES as u64 {
            return Err(damaged(format!("the source has {} bytes", source.bytes())));
        }
        let mut bytes = vec![0; HEADER_BYTES];
        source.read_at(0, &mut bytes)?;
        if &bytes[..8] != MAGIC {
            return Err(damaged("it is none".to_owned()));
        }
        let (stored, found) = (le32(&bytes, HEADER_BYTES - 4), crc32c::crc32c(&bytes[..HEADER_BYTES - 4]));
        if stored != found {
            return Err(damaged(format!("its CRC-32C is {found:08x}, and it says {stored:08x}")));
        }
        let version = le32(&bytes, 8);
        if version != VERSION {
            let reason = format!("it has version {version}, and {VERSION} is read; use a newer warpbell");
            return Err(Error::refused("catalogue", reason));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[16..32]);
        let header = Header {
            uuid: u128::from_le_bytes(uuid),
            unit: le64(&bytes, 32),
            area_bytes: le64(&bytes, 40),
            total: le64(&bytes, 48),
        };
        header.check(source.block_size().into()).map_err(|error| damaged(error.to_string()))?;
        if header.total > source.bytes() {
            let reason = format!("it was made for {} bytes, and there are {}", header.total, source.bytes());
            return Err(damaged(reason));
        }
        Ok(header)
    }

    /// What the numbers must be like, with logical blocks of `block` bytes.
    pub(super) fn check(&self, block: u64) -> Result<(), HeaderError> {
        let least = block.max(4096);
        if !UNIT_BYTES.contains(&self.unit) || !self.unit.is_multiple_of(least) {
            return Err(HeaderError::Unit { bytes: self.unit, least });
        }
        if !AREA_BYTES.contains(&self.area_bytes) || !self.area_bytes.is_multiple_of(least) {
            return Err(HeaderError::Area { bytes: self.area_bytes, least });
        }
        let (start, end) = self.data();
        if start >= end {
            return Err(HeaderError::Total { bytes: self.total });
        }
        Ok(())
    }

    /// Where the data of files can lie.
    pub fn data(&self) -> (u64, u64) {
        let start = (AREAS_AT + 2 * self.area_bytes).next_multiple_of(self.unit);
        (start, self.total / self.unit * self.unit)
    }

    /// Where area 0 or 1 begins.
    pub fn area(&self, index: usize) -> u64 {
        AREAS_AT + index as u64 * self.area_bytes
    }

    /// As it lies on the SSD.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.uuid.to_le_bytes());
        for (at, value) in [(32, self.unit), (40, self.area_bytes), (48, self.total)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// A whole generation: head and records.
    pub fn encode_generation(&self, generation: u64, count: u64, records: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[..8].copy_from_slice(GENERATION_MAGIC);
        bytes[8..16].copy_from_slice(&generation.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.uuid.to_le_bytes());
        bytes[32..40].copy_from_slice(&(records.len() as u64).to_le_bytes());
        bytes[40..48].copy_from_slice(&count.to_le_bytes());
        bytes[48..52].copy_from_slice(&crc32c::crc32c(records).to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(records);
        bytes
    }

    /// What an area holds.
    pub fn read_generation(&self, source: &dyn Source, area: usize) -> Area {
        let unreadable = |error: Error| Area::Broken { generation: None, reason: error.to_string() };
        let mut head = vec![0; HEAD_BYTES];
        if let Err(error) = source.read_at(self.area(area), &mut head) {
            return unreadable(error);
        }
        if head.iter().all(|byte| *byte == 0) {
            return Area::Empty;
        }
        if &head[..8] != GENERATION_MAGIC || head[16..32] != self.uuid.to_le_bytes() {
            return Area::Broken {
                generation: None,
                reason: "its head is none of this catalogue".to_owned(),
            };
        }
        if le32(&head, 60) != crc32c::crc32c(&head[..60]) {
            return Area::Broken { generation: None, reason: "its head contradicts its CRC-32C".to_owned() };
        }
        let (generation, length, count) = (le64(&head, 8), le64(&head, 32), le64(&head, 40));
        let broken = |reason| Area::Broken { generation: Some(generation), reason };
        let room = self.area_bytes - HEAD_BYTES as u64;
        if length > room {
            return broken(format!(
                "generation {generation} has {length} bytes, and there is room for {room}"
            ));
        }
        let mut records = vec![0; length as usize];
        if let Err(error) = source.read_at(self.area(area) + HEAD_BYTES as u64, &mut records) {
            return broken(error.to_string());
        }
        let (stored, found) = (le32(&head, 48), crc32c::crc32c(&records));
        if stored != found {
            return broken(format!(
                "records of generation {generation} have CRC-32C {found:08x} instead of {stored:08x}"
            ));
        }
        Area::Whole(Raw { generation, count, records })
    }

    /// Refuses a source where something else was put behind the header: the format has zeroes there.
    pub fn refuse_others(&self, source: &dyn Source) -> Result<(), Error> {
        let mut between = vec![0; AREAS_AT as usize - HEADER_BYTES];
        source.read_at(HEADER_BYTES as u64, &mut between)?;
        let Some(at) = between.iter().position(|byte| *byte != 0) else { return Ok(()) };
        let found = open::container(source)?.unwrap_or("data of an unknown kind");
        let object = format!("{found} at byte {}", HEADER_BYTES + at);
        let reason = "a catalogue was here before, and its files may be overwritten since";
        Err(Error::refused(object, reason))
    }
}

/// What an area holds.
pub enum Area {
    /// Nothing since the SSD was formatted.
    Empty,
    /// A generation whose checksums are right.
    Whole(Raw),
    /// A generation that is damaged, or that a commit has begun to overwrite.
    Broken {
        /// Its number, if its head is right.
        generation: Option<u64>,
        /// What is wrong.
        reason: String,
    },
}

/// A generation whose checksums are right.
pub struct Raw {
    /// Its number.
    pub generation: u64,
    /// How many records there are.
    pub count: u64,
    /// The records.
    pub records: Vec<u8>,
}
