//! An input as a list of choices. Where it has ended every choice is 0, which is what something well behaved would do.

/// The choices that an input makes.
pub(crate) struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    pub(crate) fn new(input: &[u8]) -> Choices {
        Choices { bytes: input.to_vec(), at: 0 }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// No more choices.
    pub(crate) fn finish(&mut self) {
        self.at = self.bytes.len();
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// Up to `most` bytes, as many as are left.
    pub(crate) fn take(&mut self, most: usize) -> &[u8] {
        let from = self.at.min(self.bytes.len());
        let to = (from + most).min(self.bytes.len());
        self.at = to;
        &self.bytes[from..to]
    }

    /// A number below `limit`, from one byte where that is enough.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        let value = if limit <= 256 { self.byte().into() } else { u32::from(self.u16()) };
        value % limit.max(1)
    }

    /// True in one case of `in`, and never at the end of the input.
    pub(crate) fn one_in(&mut self, cases: u8) -> bool {
        self.byte() % cases == cases - 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.bytes())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// Mostly small, sometimes at an edge, sometimes anything.
    pub(crate) fn number(&mut self, small: u32) -> u64 {
        match self.byte() {
            0..200 => self.below(small).into(),
            200..230 => self.pick(&[0, 1, 0xffff, 0x1_0000, u64::MAX, 1 << 63, u32::MAX.into(), 1 << 32]),
            _ => self.u64(),
        }
    }
}
