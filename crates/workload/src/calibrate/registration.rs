//! What registering a buffer costs: a part for any buffer, and a part for each page.

use std::sync::Arc;
use std::time::Instant;

use warpbell_hw::Window;

use super::fit::Rounds;
use super::{Calibrator, Measurement, Quantity, Unmeasured};
use crate::error::RunError;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Buffers that are registered, in pages: 4 KiB to 64 MiB.
const PAGES: [usize; 5] = [1, 16, 256, 4096, 16384];
const HOW: &str = "Ssd::register of populated host memory, 4 KiB to 64 MiB, unmapping not counted; each sample is a line \
                   of least relative squares through five sizes";

impl Calibrator<'_> {
    pub(super) fn registration(&self) -> Result<Vec<Measurement>, RunError> {
        (self.announce)(Quantity::RegistrationFixed);
        let mut rounds = Vec::new();
        for _ in 0..self.rounds {
            self.go_on()?;
            match self.sizes() {
                Ok(round) => rounds.push(round),
                Err(error) => return Ok(refused(error)),
            }
        }
        let rounds = Rounds::of(rounds);
        let of = |quantity, samples| Measurement::fitted(quantity, HOW, samples, &rounds);
        Ok(vec![
            of(Quantity::RegistrationFixed, rounds.at_zero()),
            of(Quantity::RegistrationPage, rounds.slope()),
        ])
    }

    /// Pages and microseconds of one registration of each size.
    fn sizes(&self) -> Result<Vec<(f64, f64)>, RunError> {
        let of = |pages: usize| {
            let window = Window::host(pages * PAGE)?;
            window.populate()?;
            let begin = Instant::now();
            let buffer = self.ssd.register(window)?;
            let time = begin.elapsed();
            drop(buffer);
            // A clock that did not move would be a point without weight.
            Ok((pages as f64, (time.as_nanos().max(1)) as f64 / 1e3))
        };
        PAGES.into_iter().map(of).collect()
    }
}

fn refused(error: RunError) -> Vec<Measurement> {
    let reason = Unmeasured::Failed(Arc::new(error));
    [Quantity::RegistrationFixed, Quantity::RegistrationPage]
        .map(|quantity| Measurement::new(quantity, HOW, Err(reason.clone())))
        .to_vec()
}
