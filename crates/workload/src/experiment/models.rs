//! What models say of rows, where that follows from other rows.

use super::figures::{Figures, Row};

/// A model: figures of one row from those of others, where these are there.
type Says = Box<dyn Fn(&Known<'_>) -> Option<Figures> + Send + Sync>;

/// What a model says of one row, given others.
pub(super) struct Model {
    pub(super) row: String,
    pub(super) says: Says,
}

/// The rows that were measured.
pub(super) struct Known<'a>(&'a [Row]);

impl Known<'_> {
    /// A figure of one of them.
    pub(super) fn get(&self, row: &str, key: &str) -> Option<f64> {
        self.0.iter().find(|known| known.name == row)?.figures.get(key)
    }
}

/// Adds what the models say, in place of what they said before, as of single repeats.
pub(super) fn apply(models: &[Model], rows: &mut [Row]) {
    for model in models {
        let Some(said) = (model.says)(&Known(rows)) else { continue };
        if let Some(row) = rows.iter_mut().find(|row| row.name == model.row) {
            for (key, value) in said.iter() {
                row.figures.set(key, value);
            }
        }
    }
}
