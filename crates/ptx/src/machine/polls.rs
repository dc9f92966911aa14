//! Polls by loads that need not see what is new: a lane that reads old values of one word time after time, alone or among other words.

/// How often a lane reads an old value of a word before that is a poll.
const POLLS: u32 = 10_000;
/// Words that are counted at a time.
const WORDS: usize = 8;

/// Addresses with counts, zero where the place is free. By the rule of Misra and Gries each word is counted that has more
/// than a ninth of all old reads, and no count is above the true one.
#[derive(Debug, Default)]
pub(super) struct Polls([(u64, u32); WORDS]);

impl Polls {
    /// An old value of the word at this address was read.
    pub(super) fn old(&mut self, address: u64) {
        let known = self.0.iter().position(|(word, count)| *word == address && *count > 0);
        match known.or_else(|| self.0.iter().position(|(_, count)| *count == 0)) {
            Some(at) => self.0[at] = (address, self.0[at].1 + 1),
            None => self.0.iter_mut().for_each(|(_, count)| *count -= 1),
        }
    }

    /// Its value is the newest: what was read before is no poll of it.
    pub(super) fn fresh(&mut self, address: u64) {
        self.0.iter_mut().filter(|(word, _)| *word == address).for_each(|(_, count)| *count = 0);
    }

    /// A word that is polled, and how often it was read.
    pub(super) fn is_poll(&self) -> Option<(u64, u32)> {
        self.0.iter().copied().find(|(_, count)| *count >= POLLS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_read_by_turns_are_counted_each() {
        let mut polls = Polls::default();
        // Among them, once each, words by the thousand.
        for round in 0..13_000_u64 {
            [8, 16, 24].into_iter().for_each(|word| polls.old(word));
            polls.old(1 << 20 | round << 3);
        }
        assert!(polls.is_poll().is_some_and(|(word, _)| word <= 24), "{polls:?}");
    }

    #[test]
    fn a_word_that_was_read_anew_is_no_poll() {
        let mut polls = Polls::default();
        for _ in 0..3 {
            (1..POLLS).for_each(|_| polls.old(8));
            polls.fresh(8);
        }
        assert_eq!(polls.is_poll(), None);
        (0..POLLS * 20).for_each(|read| polls.old(u64::from(read) << 3));
        assert_eq!(polls.is_poll(), None, "each word once");
    }
}
