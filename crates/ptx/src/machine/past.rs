//! What words held before a block of this GPU wrote them: a load that nothing orders behind that store may still find it,
//! also where its block never looked before.

use std::collections::VecDeque;

use super::real::Span;
use super::words::Words;

/// Words that are known, at most.
const WORDS: usize = 4096;
/// Stores that are known, at most: of each word the last one counts.
const STORES: usize = 4 * WORDS;

/// Of all blocks of a GPU.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The bytes that a store wrote last, what they held before, and when it was seen.
    words: Words<(Span, u64, u64)>,
    /// The words of stores and when they were seen, the oldest first: the order in which words are forgotten.
    stores: VecDeque<(u64, u64)>,
    /// Words that threads wrote which had released before: who acquires there may know all that was seen so far.
    released: Words<()>,
}

/// What a block can no longer find old.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Its last acquire.
    acquired: u64,
    /// When it last saw or wrote each word.
    words: Words<u64>,
}

impl Past {
    pub(super) fn stored(&mut self, to: Span, before: u64, now: u64, released: bool) {
        self.words.insert(to.word(), (to, before, now));
        self.stores.push_back((to.word(), now));
        while self.words.len() > WORDS || self.stores.len() > STORES {
            self.forget();
        }
        if released {
            self.released.insert(to.word(), ());
        }
    }

    /// The oldest store is forgotten, and with it its word, unless that was stored again.
    fn forget(&mut self) {
        let Some((word, time)) = self.stores.pop_front() else { return };
        if self.words.get(&word).is_some_and(|(_, _, last)| *last == time) {
            self.words.remove(&word);
        }
    }

    /// An atomic wrote there: what was before it is not found any more.
    pub(super) fn updated(&mut self, word: u64, released: bool) {
        self.words.remove(&word);
        if released {
            self.released.insert(word, ());
        }
    }

    pub(super) fn is_released(&self, word: u64) -> bool {
        self.released.contains_key(&word)
    }

    /// What a load may find of bytes that hold something newer.
    pub(super) fn of(&self, at: Span, looked: &Looked) -> Option<u64> {
        let (to, before, until) = *self.words.get(&at.word())?;
        let seen = looked.words.get(&at.word()).copied().unwrap_or(0).max(looked.acquired);
        (to == at && seen <= until).then_some(before)
    }
}

impl Looked {
    /// Of a block that begins now.
    pub(super) fn from(now: u64) -> Looked {
        Looked { acquired: now, words: Words::default() }
    }

    pub(super) fn acquire(&mut self, now: u64) {
        // What was looked at before that is known, too.
        self.words.clear();
        self.acquired = now;
    }

    /// The word is known as it was at that time.
    pub(super) fn at(&mut self, word: u64, time: u64) {
        let known = self.words.entry(word).or_insert(time);
        *known = time.max(*known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A word of this number, at its own address.
    fn word(number: usize) -> Span {
        Span::of_word(number as u64 * 8)
    }

    #[test]
    fn what_is_known_of_too_many_words_is_forgotten_from_the_oldest_on() {
        let (mut past, looked) = (Past::default(), Looked::default());
        for number in 0..WORDS {
            past.stored(word(number), 7, 1 + number as u64, false);
        }
        // The first is stored again: the second is the oldest now.
        past.stored(word(0), 8, 1 + WORDS as u64, false);
        assert_eq!(past.of(word(1), &looked), Some(7));
        past.stored(word(WORDS), 9, 2 + WORDS as u64, false);
        let known = [0, 1, 2, WORDS].map(|number| past.of(word(number), &looked));
        assert_eq!(known, [Some(8), None, Some(7), Some(9)]);
    }

    #[test]
    fn a_word_that_is_stored_time_after_time_takes_no_more_room() {
        let (mut past, looked) = (Past::default(), Looked::default());
        for now in 1..=10 * STORES as u64 {
            past.stored(word(0), now, now, false);
        }
        assert_eq!((past.words.len(), past.stores.len()), (1, STORES));
        assert_eq!(past.of(word(0), &looked), Some(10 * STORES as u64));
    }
}
