//! What else may be on an SSD that is to get a catalogue.

use super::layout::AREAS_AT;
use crate::{Error, Source, open};

/// Refuses a source that holds anything: its first and its last MiB must be zeroes.
pub fn refuse_other(source: &dyn Source) -> Result<(), Error> {
    let bytes = source.bytes().min(AREAS_AT);
    let mut is_bare = true;
    for at in [0, source.bytes() - bytes] {
        let mut found = vec![0; bytes as usize];
        source.read_at(at, &mut found)?;
        is_bare &= found.iter().all(|byte| *byte == 0);
    }
    if is_bare {
        return Ok(());
    }
    let reason = "files are brought onto a bare SSD only; --format overwrites what is there";
    let found = match open::signature(source)? {
        Some(name) => name.to_owned(),
        None => "data of an unknown kind in the first or last MiB".to_owned(),
    };
    Err(Error::refused(found, reason))
}
