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
