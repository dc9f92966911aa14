//! What an ETag says of an object's bytes: their MD5, or, of an object that was written in parts, the MD5 of the MD5s of its
//! parts, and how many there were. How long they were it does not say.

use md5::{Digest, Md5};

const MIB: u64 = 1 << 20;
/// Lengths of parts that programs write: 5 MiB (the least that S3 takes), 8 MiB (the command of AWS, and twice that as often
/// as it takes to have at most 10,000), 15 MiB, 16 MB, and round numbers of both kinds.
const PARTS: [u64; 24] = [
    5 * MIB,
    6 * MIB,
    7 * MIB,
    8 * MIB,
    10 * MIB,
    12 * MIB,
    15 * MIB,
    16 * MIB,
    20 * MIB,
    24 * MIB,
    25 * MIB,
    32 * MIB,
    50 * MIB,
    64 * MIB,
    100 * MIB,
    128 * MIB,
    256 * MIB,
    512 * MIB,
    1024 * MIB,
    5_000_000,
    8_000_000,
    10_000_000,
    16_000_000,
    100_000_000,
];
/// Bytes of a part at most, in S3.
const PART_MAX: u64 = 5 << 30;

/// What an ETag proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes are those that were written.
    Right,
    /// They are not: this is their MD5.
    Wrong(String),
    /// Nothing: there is none, it is no MD5, or the parts had lengths that are not known.
    Unknown,
}

/// Checksums of an object that comes in, to compare with its ETag.
pub struct Sums {
    kind: Kind,
}

enum Kind {
    None,
    Whole { expected: String, sum: Md5 },
    Parts { expected: String, sums: Vec<PartSums> },
}

impl Sums {
    /// Of an object of `size` bytes.
    pub fn new(etag: Option<&str>, size: u64) -> Sums {
        let text = etag.unwrap_or_default().trim_matches('"').to_ascii_lowercase();
        let (sum, parts) = text.split_once('-').map_or((&text[..], None), |(sum, parts)| (sum, Some(parts)));
        if sum.len() != 32 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Sums { kind: Kind::None };
        }
        let expected = sum.to_owned();
        let kind = match parts.map(str::parse::<u64>) {
            None => Kind::Whole { expected, sum: Md5::new() },
            Some(Ok(count)) => {
                Kind::Parts { expected, sums: lengths(size, count).into_iter().map(PartSums::new).collect() }
            }
            Some(Err(_)) => Kind::None,
        };
        Sums { kind }
    }

    /// The next bytes.
    pub fn update(&mut self, data: &[u8]) {
        match &mut self.kind {
            Kind::None => {}
            Kind::Whole { sum, .. } => sum.update(data),
            Kind::Parts { sums, .. } => sums.iter_mut().for_each(|sum| sum.update(data)),
        }
    }

    /// After the last bytes.
    pub fn verdict(self) -> Verdict {
        match self.kind {
            Kind::None => Verdict::Unknown,
            Kind::Whole { expected, sum } => match hex(sum) {
                found if found == expected => Verdict::Right,
                found => Verdict::Wrong(found),
            },
            // Where none matches, the parts may have had any other lengths.
            Kind::Parts { expected, sums } => {
                let right = sums.into_iter().any(|sum| sum.end() == expected);
                if right { Verdict::Right } else { Verdict::Unknown }
            }
        }
    }
}

/// Lengths that `count` parts of an object of `size` bytes may have, all but the last of one length.
fn lengths(size: u64, count: u64) -> Vec<u64> {
    if count <= 1 {
        return if count == 1 && size <= PART_MAX { vec![PART_MAX] } else { Vec::new() };
    }
    // Whole MiB above the usual ones, as programs choose for large objects.
    let least = size.div_ceil(count).next_multiple_of(MIB);
    let mut lengths: Vec<u64> = PARTS.into_iter().chain([least]).collect();
    lengths.retain(|length| size.div_ceil(*length) == count);
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// The MD5 of the MD5s of parts of one length.
struct PartSums {
    length: u64,
    /// Bytes of the part that comes in.
    within: u64,
    part: Md5,
    all: Md5,
}

impl PartSums {
    fn new(length: u64) -> PartSums {
        PartSums { length, within: 0, part: Md5::new(), all: Md5::new() }
    }

    fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let left = (self.length - self.within).min(data.len() as u64);
            let (now, rest) = data.split_at(left as usize);
            self.part.update(now);
            self.within += left;
            if self.within == self.length {
                self.end_part();
            }
            data = rest;
        }
    }

    fn end_part(&mut self) {
        self.all.update(self.part.finalize_reset());
        self.within = 0;
    }

    fn end(mut self) -> String {
        if self.within > 0 {
            self.end_part();
        }
        hex(self.all)
    }
}

fn hex(sum: Md5) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(etag: Option<&str>, data: &[u8]) -> Verdict {
        let mut sums = Sums::new(etag, data.len() as u64);
        data.chunks(999_983).for_each(|piece| sums.update(piece));
        sums.verdict()
    }

    fn of_parts(data: &[u8], length: usize) -> String {
        let sums: Vec<u8> = data.chunks(length).flat_map(Md5::digest).collect();
        let count = data.len().div_ceil(length);
        format!("\"{}-{count}\"", hex(Md5::new_with_prefix(sums)))
    }

    #[test]
    fn an_etag_proves_what_it_can() {
        let data: Vec<u8> = (0..22_000_001u32).map(|at| (at / 3) as u8).collect();
        let wrong = [&data[..21_000_000], b"x", &data[21_000_001..]].concat();
        let whole = hex(Md5::new_with_prefix(&data));
        assert_eq!(verdict(Some(&whole), &data), Verdict::Right);
        assert!(matches!(verdict(Some(&whole), &wrong), Verdict::Wrong(_)));
        for length in [5 << 20, 8 << 20, 10_000_000, 16_000_000, 11 << 20] {
            assert_eq!(verdict(Some(&of_parts(&data, length)), &data), Verdict::Right, "{length}");
            assert_eq!(verdict(Some(&of_parts(&data, length)), &wrong), Verdict::Unknown, "{length}");
        }
        for etag in [None, Some("-"), Some("0123-2"), Some(&of_parts(&data, 7_654_321)[..])] {
            assert_eq!(verdict(etag, &data), Verdict::Unknown);
        }
        assert_eq!(verdict(Some(&of_parts(b"one part", 100)), b"one part"), Verdict::Right);
    }
}
