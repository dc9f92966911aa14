//! Durations as people write them: `1.5ms`, `20us`.

use std::fmt;
use std::time::Duration;

/// Shows a duration in the form that flags and settings take; that of [`Duration`] itself has a micro sign.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{:?}", self.0).replace('µ', "u"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_flags_take_them() {
        let shown = |nanos| Time(Duration::from_nanos(nanos)).to_string();
        let times = [0, 7, 20_000, 1_234_567, 90_000_000_000].map(shown);
        assert_eq!(times, ["0ns", "7ns", "20us", "1.234567ms", "90s"]);
    }
}
