//! How a file is made of a kind.

use std::io::{self, Write};

use crate::header::{HEADER_BYTES, Header, Section};
use crate::{Error, Kind};

/// What a kind of data must say of itself.
pub trait Plan {
    /// Its name, at most 16 bytes.
    fn name(&self) -> &'static str;
    /// Refuses sizes outside their limits.
    fn check(&self) -> Result<(), Error>;
    /// Sizes and the like, for the header: at most 8, with names of at most 16 bytes.
    fn parameters(&self) -> Vec<(&'static str, u64)>;
    /// The sections in their order, each with its bytes; at most 8.
    fn sections(&self) -> Vec<(&'static str, u64)>;
    /// What their first bytes are multiples of.
    fn alignment(&self) -> u64 {
        HEADER_BYTES
    }
    /// Writes one of them, all of its bytes and no more.
    fn write(&self, section: &str, seed: u64, out: &mut dyn Write) -> io::Result<()>;
}

/// The header that a file of this kind and seed has.
pub fn layout(kind: &Kind, seed: u64) -> Result<Header, Error> {
    let plan = kind.plan();
    plan.check()?;
    let mut end = HEADER_BYTES;
    // Limits of sizes keep the sum within 64 bits.
    let mut place = |(name, bytes): (&str, u64)| {
        let offset = end.next_multiple_of(plan.alignment());
        end = offset + bytes;
        (name.to_owned(), Section { offset, bytes })
    };
    let sections: Vec<_> = plan.sections().into_iter().map(&mut place).collect();
    let parameters = plan.parameters().into_iter().map(|(name, value)| (name.to_owned(), value));
    let header =
        Header { kind: plan.name().to_owned(), seed, bytes: end, parameters: parameters.collect(), sections };
    header.assert_fits();
    Ok(header)
}

/// Writes a file of this kind; what its header says.
pub fn generate(kind: &Kind, seed: u64, out: &mut impl Write) -> Result<Header, Error> {
    let header = layout(kind, seed)?;
    let mut out = Counted { out, written: 0 };
    out.write_all(&header.to_bytes())?;
    for (name, section) in header.sections() {
        let gap = section.offset - out.written;
        io::copy(&mut io::Read::take(io::repeat(0), gap), &mut out)?;
        kind.plan().write(name, seed, &mut out)?;
        assert_eq!(out.written, section.end(), "kind {}: bytes of section '{name}'", header.kind());
    }
    out.flush()?;
    Ok(header)
}

struct Counted<'a, W> {
    out: &'a mut W,
    written: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        self.written += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes `count` values that are `N` bytes each, a piece at a time: for [`Plan::write`].
pub(crate) fn write_each<const N: usize>(
    out: &mut dyn Write,
    count: u64,
    value: impl Fn(u64) -> [u8; N],
) -> io::Result<()> {
    const PIECE: u64 = 8192;
    let mut piece = Vec::with_capacity(PIECE as usize * N);
    for first in (0..count).step_by(PIECE as usize) {
        piece.clear();
        (first..count.min(first + PIECE)).for_each(|index| piece.extend_from_slice(&value(index)));
        out.write_all(&piece)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::fnv;
    use crate::{Columns, Csr, Embeddings, Kv, Shards, Vectors};

    fn kinds() -> Vec<Kind> {
        vec![
            Vectors { count: 20_000 }.into(),
            Vectors { count: 1 }.into(),
            Embeddings { rows: 100, dim: 33, lookups: 5000 }.into(),
            Csr { nodes: 1000, edges: 9000 }.into(),
            Columns { left: 100, right: 700, matching: 30 }.into(),
            Kv { sequences: 8, layers: 2, tokens: 16, heads: 1, head_dim: 4, steps: 100 }.into(),
            Shards { ranks: 4, shard: 10_000 }.into(),
        ]
    }

    #[test]
    fn a_file_is_what_its_header_says() {
        for kind in kinds() {
            let mut file = Vec::new();
            let header = generate(&kind, 5, &mut file).unwrap();
            assert_eq!(header, Header::read(&mut file.as_slice()).unwrap());
            assert_eq!(header, layout(&kind, 5).unwrap());
            assert_eq!(header.bytes(), file.len() as u64, "{kind:?}");
            let mut end = HEADER_BYTES;
            for (name, section) in header.sections() {
                assert!(section.offset.is_multiple_of(4096) && section.offset >= end, "{kind:?} {name}");
                assert!(file[end as usize..section.offset as usize].iter().all(|byte| *byte == 0));
                end = section.end();
            }
        }
    }

    /// Files of users, and figures that were published with a seed, must stay what they are.
    #[test]
    fn the_bytes_of_a_seed_never_change() {
        let sums = kinds().into_iter().map(|kind| {
            let mut file = Vec::new();
            generate(&kind, 5, &mut file).unwrap();
            fnv(&file)
        });
        assert_eq!(
            sums.collect::<Vec<u64>>(),
            [
                13384691139909043522,
                15194217572522163538,
                9033446211642199209,
                7298287902648941274,
                16783437915545700502,
                9599639908202519775,
                15099414903806758406
            ]
        );
    }

    #[test]
    fn sizes_have_limits() {
        let text = |kind: &Kind| layout(kind, 1).unwrap_err().to_string();
        assert_eq!(text(&Vectors { count: 0 }.into()), "--count 0: must be from 1 to 1099511627776");
        let wide = Embeddings { rows: 1, dim: 1 << 17, lookups: 1 };
        assert_eq!(text(&wide.into()), "--dim 131072: must be from 1 to 65536");
    }

    /// An overflow would panic here, or give a file that has less than its header says.
    #[test]
    fn the_largest_sizes_of_each_kind_fit_64_bits() {
        let kinds: [(Kind, u64); 6] = [
            (Vectors { count: 1 << 40 }.into(), 1 << 43),
            (Embeddings { rows: 1 << 32, dim: 1 << 16, lookups: 1 << 32 }.into(), (1 << 50) + (1 << 35)),
            (Csr { nodes: 1 << 31, edges: 1 << 36 }.into(), (1 << 34) + 8 + (1 << 38)),
            (Columns { left: 1 << 36, right: 1 << 36, matching: 100 }.into(), 1 << 41),
            (
                Kv {
                    sequences: 1 << 20,
                    layers: 1,
                    tokens: 1 << 16,
                    heads: 16,
                    head_dim: 256,
                    steps: 1 << 20,
                }
                .into(),
                (1 << 50) + (48 << 20),
            ),
            (Shards { ranks: 8, shard: 1 << 40 }.into(), 8 << 39),
        ];
        for (kind, least) in kinds {
            let header = layout(&kind, 1).unwrap();
            let bytes: u128 = header.sections().map(|(_, section)| u128::from(section.bytes)).sum();
            assert!(bytes >= least.into() && u128::from(header.bytes()) >= bytes, "{kind:?}: {bytes} bytes");
            assert!(i64::try_from(header.bytes()).is_ok(), "{kind:?}: no file has {} bytes", header.bytes());
        }
    }

    #[test]
    fn lookups_are_rows_and_some_rows_are_wanted_often() {
        let kind = Embeddings { rows: 1000, dim: 1, lookups: 10_000 };
        let mut file = Vec::new();
        let header = generate(&kind.into(), 1, &mut file).unwrap();
        let section = header.section("lookups").unwrap();
        let (words, _) = file[section.offset as usize..section.end() as usize].as_chunks::<8>();
        let mut wanted = [0u32; 1000];
        words.iter().for_each(|word| wanted[u64::from_le_bytes(*word) as usize] += 1);
        wanted.sort_unstable();
        let often: u32 = wanted[875..].iter().sum();
        assert!((4500..6500).contains(&often), "{often} of 10000 lookups want an eighth of the rows");
    }
}
