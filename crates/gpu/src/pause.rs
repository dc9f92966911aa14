//! Waiting for a device by polling it.

use std::time::Duration;

/// Pauses between two polls: none at first, then up to a millisecond.
#[derive(Default)]
pub(crate) struct Pause(u32);

impl Pause {
    pub(crate) fn next(&mut self) {
        const EAGER: u32 = 200;
        self.0 += 1;
        if self.0 <= EAGER {
            std::thread::yield_now();
            return;
        }
        let micros = u64::from(self.0 - EAGER) * 10;
        std::thread::sleep(Duration::from_micros(micros.min(1000)));
    }
}
