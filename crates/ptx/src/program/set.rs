//! Sets of small numbers.

#[derive(Clone, Debug, Default)]
pub(super) struct Set(Vec<u64>);

impl Set {
    /// Of numbers below `count`: all of them, or none.
    pub(super) fn new(count: usize, filled: bool) -> Set {
        Set(vec![if filled { u64::MAX } else { 0 }; count.div_ceil(64)])
    }

    /// These numbers, which are below `count`.
    pub(super) fn of(numbers: impl Iterator<Item = u32>, count: usize) -> Set {
        let mut set = Set::new(count, false);
        numbers.for_each(|number| set.put(number));
        set
    }

    fn put(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    pub(super) fn has(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    /// Keeps what either of two others has, too; says whether it had more.
    pub(super) fn keep(&mut self, one: &Set, other: &Set) -> bool {
        let mut changed = 0;
        for ((own, one), other) in self.0.iter_mut().zip(&one.0).zip(&other.0) {
            let kept = *own & (one | other);
            changed |= *own ^ kept;
            *own = kept;
        }
        changed != 0
    }

    /// Gets what another has and a third has not; says whether that is more.
    pub(super) fn add(&mut self, from: &Set, but: &Set) -> bool {
        let mut changed = 0;
        for ((own, from), but) in self.0.iter_mut().zip(&from.0).zip(&but.0) {
            let more = *own | (from & !but);
            changed |= *own ^ more;
            *own = more;
        }
        changed != 0
    }

    /// Its numbers, in their order.
    pub(super) fn each(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            let mut left = *bits;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(word * 64 + bit)
            })
        })
    }
}
