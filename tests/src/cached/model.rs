//! What lanes of `cache_test` do, drawn as the kernel draws it, and what comes of it.

pub(super) fn draw(seed: u64, who: u64, step: u64) -> u64 {
    let n = (seed ^ who << 40 ^ step).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ n >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n ^ n >> 27
}

/// One more value in a digest of values.
pub(super) fn fold(digest: u64, value: u64) -> u64 {
    (digest ^ value).wrapping_mul(0x100_0000_01b3)
}

/// Words of an array, and what kernels have done so far.
pub struct Words {
    words: Vec<u64>,
    /// All that lies where the array does, as it was at first.
    around: Vec<u8>,
    first_byte: u64,
    page_bytes: u64,
    shared: u64,
    lanes: u64,
    /// Loads, stores, additions and flushes.
    pub operations: u64,
}

impl Words {
    /// Those that lie from `first_byte` on in these bytes.
    pub(super) fn new(
        around: Vec<u8>,
        (first_byte, page_bytes): (u64, u64),
        (count, shared, lanes): (u64, u64, u64),
    ) -> Words {
        let all = around[first_byte as usize..].chunks_exact(8).take(count as usize);
        let words: Vec<u64> = all.map(|word| u64::from_le_bytes(word.try_into().expect("8"))).collect();
        assert_eq!(words.len() as u64, count, "the array lies on the SSD");
        Words { words, around, first_byte, page_bytes, shared, lanes, operations: 0 }
    }

    /// What must lie there now, byte by byte.
    pub(super) fn image(&self) -> Vec<u8> {
        let mut bytes = self.around.clone();
        let place = bytes[self.first_byte as usize..].chunks_exact_mut(8);
        place.zip(&self.words).for_each(|(place, word)| place.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    /// What a launch does, and the digest of what each lane loads.
    pub fn play(&mut self, seed: u64, steps: u32) -> Vec<u64> {
        let mut digests = vec![0; self.lanes as usize];
        for (me, digest) in (0..).zip(&mut digests) {
            for step in 0..u64::from(steps) {
                self.step(seed, me, step, digest);
            }
        }
        self.operations += self.lanes / 32;
        digests
    }

    fn index_of(&self, drawn: u64, me: u64) -> usize {
        let of_lane = (self.words.len() as u64 - self.shared) / self.lanes;
        (self.shared + drawn % of_lane * self.lanes + me) as usize
    }

    fn step(&mut self, seed: u64, me: u64, step: u64, digest: &mut u64) {
        let all = draw(seed, me / 32, step);
        let mine = draw(seed, 1 << 20 | me, step);
        match all & 15 {
            // One for the warp.
            0 if all >> 4 & 3 == 0 => self.operations += u64::from(me.is_multiple_of(32)),
            1 | 2 => self.through_a_guard(self.index_of(all >> 16, me), me, mine, digest),
            3 => self.load(self.index_of(all >> 16, me), digest),
            _ => self.its_own(self.index_of((all >> 16) + (mine & 1), me), mine, digest),
        }
    }

    fn load(&mut self, index: usize, digest: &mut u64) {
        *digest = fold(*digest, self.words[index]);
        self.operations += 1;
    }

    fn store(&mut self, index: usize, value: u64) {
        self.words[index] = value;
        self.operations += 1;
    }

    fn add(&mut self, index: usize, value: u64) {
        self.words[index] = self.words[index].wrapping_add(value);
        self.operations += 1;
    }

    fn its_own(&mut self, own: usize, mine: u64, digest: &mut u64) {
        let aligned = self.first_byte.is_multiple_of(8);
        match mine >> 8 & if aligned { 3 } else { 1 } {
            0 => self.load(own, digest),
            1 => self.store(own, mine),
            2 => self.add(own, mine),
            _ => self.add(((mine >> 16) % self.shared) as usize, mine),
        }
    }

    /// The guard has the page of the warp's first word.
    fn through_a_guard(&mut self, own: usize, me: u64, mine: u64, digest: &mut u64) {
        let byte = |index: u64| self.first_byte + index * 8;
        let page = byte(own as u64 - me % 32) / self.page_bytes;
        let inside =
            byte(own as u64) / self.page_bytes == page && (byte(own as u64) + 7) / self.page_bytes == page;
        if inside {
            self.load(own, digest);
            if mine & 1 != 0 {
                self.store(own, mine);
            }
        }
    }
}
