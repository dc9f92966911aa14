//! What words held before a block of this GPU wrote them: a load that nothing orders behind that store may still find it,
//! also where its block never looked before.

use std::collections::{HashMap, HashSet};

use super::real::Span;

/// Words that are known, at most.
const WORDS: usize = 4096;

/// Of all blocks of a GPU.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The bytes that a store wrote last, what they held before, and when it was seen.
    words: HashMap<u64, (Span, u64, u64)>,
    /// Words that threads wrote which had released before: who acquires there may know all that was seen so far.
    released: HashSet<u64>,
}

/// What a block can no longer find old.
#[derive(Debug, Default)]
pub(super) struct Looked {
    /// Its last acquire.
    acquired: u64,
    /// When it last saw or wrote each word.
    words: HashMap<u64, u64>,
}

impl Past {
    pub(super) fn stored(&mut self, to: Span, before: u64, now: u64, released: bool) {
        if self.words.len() >= WORDS {
            self.words.clear();
        }
        self.words.insert(to.word(), (to, before, now));
        if released {
            self.released.insert(to.word());
        }
    }

    /// An atomic wrote there: what was before it is not found any more.
    pub(super) fn updated(&mut self, word: u64, released: bool) {
        self.words.remove(&word);
        if released {
            self.released.insert(word);
        }
    }

    pub(super) fn is_released(&self, word: u64) -> bool {
        self.released.contains(&word)
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
        Looked { acquired: now, words: HashMap::new() }
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
