//! What was expected, and what was found.

use std::fmt::Debug;

/// How a comparison went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Values that were compared.
    pub compared: u64,
    /// Those that were wrong.
    pub wrong: u64,
    /// The first of them in words.
    pub first: Option<String>,
}

impl Check {
    /// Compares values one by one; a number of values that is not the same is wrong, too.
    pub fn of<T: PartialEq + Debug>(
        name: &str,
        expected: impl IntoIterator<Item = T>,
        found: impl IntoIterator<Item = T>,
    ) -> Check {
        let mut check = Check::default();
        let (mut expected, mut found) = (expected.into_iter(), found.into_iter());
        loop {
            match (expected.next(), found.next()) {
                (None, None) => return check,
                (wanted, had) => check.add(
                    wanted == had,
                    || {
                        let text =
                            |value: Option<T>| value.map_or("nothing".into(), |value| format!("{value:?}"));
                        (text(wanted), text(had))
                    },
                    name,
                ),
            }
        }
    }

    fn add(&mut self, right: bool, texts: impl FnOnce() -> (String, String), name: &str) {
        if !right {
            self.wrong += 1;
            let index = self.compared;
            self.first.get_or_insert_with(|| {
                let (expected, found) = texts();
                format!("{name}[{index}] is {found}, expected {expected}")
            });
        }
        self.compared += 1;
    }

    /// Both.
    pub fn and(self, other: Check) -> Check {
        Check {
            compared: self.compared + other.compared,
            wrong: self.wrong + other.wrong,
            first: self.first.or(other.first),
        }
    }

    /// Whether all values were right, and there were some.
    pub fn passed(&self) -> bool {
        self.wrong == 0 && self.compared > 0
    }

    /// In words.
    pub fn text(&self) -> String {
        match &self.first {
            Some(first) => format!("WRONG: {} of {} values; the first: {first}", self.wrong, self.compared),
            None if self.compared == 0 => "WRONG: nothing was compared".to_owned(),
            None => format!("ok, {} values compared", self.compared),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_value_is_named() {
        let right = Check::of("z", [1, 2], [1, 2]);
        assert!(right.passed());
        assert_eq!(right.text(), "ok, 2 values compared");
        let wrong = Check::of("z", [1, 2, 3, 4], [1, 5, 3, 0]);
        assert_eq!(wrong.text(), "WRONG: 2 of 4 values; the first: z[1] is 5, expected 2");
        let both = right.and(wrong);
        assert_eq!((both.compared, both.wrong, both.passed()), (6, 2, false));
    }

    #[test]
    fn too_few_values_are_wrong() {
        let text = |expected: &[u8], found: &[u8]| Check::of("z", expected, found).text();
        assert_eq!(text(&[7], &[]), "WRONG: 1 of 1 values; the first: z[0] is nothing, expected 7");
        assert_eq!(text(&[], &[7]), "WRONG: 1 of 1 values; the first: z[0] is 7, expected nothing");
        assert_eq!(text(&[], &[]), "WRONG: nothing was compared");
    }
}
