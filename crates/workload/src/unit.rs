//! Verifiable contents: every I/O unit carries its address, the seed and a CRC-32C of the rest.
//!
//! A unit's contents depend on its address and the seed alone, so a read that races with a write of
//! the same unit is still right. The form is that of the `verify` kernel (`warpbell_unit_header`).

use warpbell_base::SplitMix64;
use warpbell_hw::Lba;

/// "WARPBELL", little endian.
const MAGIC: u64 = 0x4c4c_4542_5052_4157;
/// Bytes before the payload: magic, LBA, seed, CRC-32C of the payload, bytes of the unit.
const HEADER: usize = 32;
/// The multiplier that keeps the streams of neighbouring units apart.
const LBA_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A block that is not as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongBlock {
    /// The block.
    pub lba: Lba,
    /// CRC-32C of the block as it was written.
    pub expected: u32,
    /// CRC-32C of the block as it was read.
    pub actual: u32,
}

/// Fills `unit`, which lies at `lba`.
pub fn fill(unit: &mut [u8], lba: Lba, seed: u64) {
    let (header, payload) = unit.split_at_mut(HEADER);
    let mut words = SplitMix64::from_state(seed ^ lba.get().wrapping_mul(LBA_FACTOR));
    for word in payload.chunks_exact_mut(8) {
        word.copy_from_slice(&words.next_u64().to_le_bytes());
    }
    let (crc, bytes) = (crc32c::crc32c(payload), (HEADER + payload.len()) as u32);
    header.copy_from_slice(&self::header(lba.get(), seed, crc, bytes));
}

fn header(lba: u64, seed: u64, crc: u32, bytes: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    for (index, word) in [MAGIC, lba, seed, u64::from(crc) | u64::from(bytes) << 32].into_iter().enumerate() {
        header[index * 8..][..8].copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// Compares `unit`, as read from `lba`, with what [`fill`] writes there.
pub fn check(unit: &[u8], lba: Lba, seed: u64, block_size: usize) -> Vec<WrongBlock> {
    let (found, payload) = unit.split_at(HEADER);
    if found == header(lba.get(), seed, crc32c::crc32c(payload), unit.len() as u32) {
        return Vec::new();
    }
    let mut right = vec![0; unit.len()];
    fill(&mut right, lba, seed);
    let blocks = right.chunks(block_size).zip(unit.chunks(block_size)).zip(0..);
    blocks
        .filter(|((right, found), _)| right != found)
        .map(|((right, found), index)| WrongBlock {
            lba: lba + index,
            expected: crc32c::crc32c(right),
            actual: crc32c::crc32c(found),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_is_right_at_its_place_only() {
        let mut unit = vec![0; 4096];
        fill(&mut unit, Lba(24), 7);
        assert_eq!(&unit[..8], b"WARPBELL");
        assert_eq!(check(&unit, Lba(24), 7, 512), []);
        assert_eq!(check(&unit, Lba(25), 7, 512).len(), 8, "data of another address");
        assert_eq!(check(&unit, Lba(24), 8, 512).len(), 8, "data of another seed");
    }

    #[test]
    fn a_wrong_byte_is_found_in_its_block() {
        let mut unit = vec![0; 4096];
        fill(&mut unit, Lba(24), 7);
        for (byte, block) in [(0, 24), (31, 24), (32, 24), (1024, 26), (4095, 31)] {
            let mut wrong = unit.clone();
            wrong[byte] ^= 0x80;
            let found = check(&wrong, Lba(24), 7, 512);
            assert_eq!(found.iter().map(|block| block.lba).collect::<Vec<_>>(), [Lba(block)]);
            assert_eq!(found[0].actual, crc32c::crc32c(&wrong[(block as usize - 24) * 512..][..512]));
            assert_ne!(found[0].expected, found[0].actual);
        }
    }
}
