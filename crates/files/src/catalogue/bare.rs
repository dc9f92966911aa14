//! What else may be on an SSD that is to get a catalogue.

use super::layout::{AREAS_AT, Header};
use crate::{Error, Partition, Source, open};

/// Where partitions usually begin: at 63 and 64 sectors of 512 bytes, and at powers of two from 1 to 16 MiB.
const STARTS: [u64; 7] = [63 * 512, 64 * 512, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20];
/// Bytes of data that are looked at behind the areas: where the first files will lie.
const FIRST_DATA: u64 = 16 << 20;
/// Places that are looked at between there and the end, and bytes of each.
const PLACES: u64 = 512;
const PLACE_BYTES: u64 = 4096;
/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Refuses a source that holds anything: a signature at its begin or where a partition would begin, or a byte other than
/// zero where formatting and the first files would write, or at one of many places over the rest.
pub fn refuse_other(source: &dyn Source, header: &Header) -> Result<(), Error> {
    if let Some(name) = open::signature(source)? {
        return Err(refused(name.to_owned()));
    }
    for start in STARTS.into_iter().filter(|start| *start < source.bytes()) {
        let partition = Partition::new(source, start, source.bytes() - start)?;
        if let Some(name) = open::signature(&partition)? {
            return Err(refused(format!("{name} at byte {start}")));
        }
    }
    let end = source.bytes();
    let first_end = (header.data().0 + FIRST_DATA).min(end);
    let last = end.saturating_sub(2 * AREAS_AT).max(first_end);
    let step = ((last - first_end) / PLACES).next_multiple_of(PLACE_BYTES).max(PLACE_BYTES);
    let places = (first_end.next_multiple_of(PLACE_BYTES)..last).step_by(step as usize);
    let places = places.map(|at| (at, PLACE_BYTES.min(last - at)));
    for (at, bytes) in pieces(0, first_end).chain(places).chain(pieces(last, end)) {
        let mut found = vec![0; bytes as usize];
        source.read_at(at, &mut found)?;
        if let Some(within) = found.iter().position(|byte| *byte != 0) {
            return Err(refused(format!("data of an unknown kind at byte {}", at + within as u64)));
        }
    }
    Ok(())
}

/// From `start` to `end`.
fn pieces(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    (start..end).step_by(PIECE as usize).map(move |at| (at, PIECE.min(end - at)))
}

fn refused(found: String) -> Error {
    Error::refused(found, "files are brought onto a bare SSD only; --format overwrites what is there")
}
