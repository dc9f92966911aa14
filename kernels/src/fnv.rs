//! FNV-1a, 64 bits: tells sources and cached results apart. Also part of the build script.

/// A running hash of texts, in which carriage returns do not count.
#[derive(Clone)]
pub(crate) struct Fnv(u64);

impl Fnv {
    /// The hash of nothing.
    pub(crate) fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    /// Adds a text and its end, so that "ab", "c" and "a", "bc" differ.
    pub(crate) fn text(mut self, text: &str) -> Fnv {
        let end = std::iter::once(0xff);
        for byte in text.bytes().filter(|byte| *byte != b'\r').chain(end) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self
    }

    /// 16 hexadecimal digits.
    pub(crate) fn hex(&self) -> String {
        format!("{:016x}", self.0)
    }
}
