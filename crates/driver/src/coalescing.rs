//! Interrupt Coalescing: how many completions share an interrupt, and how long the first of them waits for the others
//! (NVM Express Base 2.0, 5.27.1.6).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use warpbell_base::Time;
use warpbell_nvme::feature::{FeatureId, InterruptCoalescing};

use crate::DriverError;
use crate::controller::Controller;

/// Completions of one interrupt: the field has eight bits, from zero on.
const THRESHOLDS: std::ops::RangeInclusive<u32> = 2..=256;
/// Unit of the aggregation time.
const TICK: Duration = Duration::from_micros(100);
/// How a value that gathers nothing is written.
const OFF: &str = "off";

/// How the controller gathers interrupts of I/O completion queues. Those of the admin queue are never gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing(InterruptCoalescing);

/// Why something is no such value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoalescingError {
    /// Not THRESHOLD/TIME.
    #[error("'{0}': expected COMPLETIONS/TIME, such as 8/100us, or off")]
    Form(String),
    /// Another number of completions.
    #[error("{0} completions: one interrupt is for {least} to {most}; off gathers none", least = THRESHOLDS.start(), most = THRESHOLDS.end())]
    Threshold(u32),
    /// Another time.
    #[error("{}: expected a multiple of 100us, from 100us to 25500us", Time(*.0))]
    Time(Duration),
}

impl Coalescing {
    /// An interrupt for each completion.
    pub const OFF: Coalescing = Coalescing(InterruptCoalescing::from_bits(0));

    /// An interrupt when `threshold` completions of a vector wait, or the first of them has waited for `time`.
    pub fn new(threshold: u32, time: Duration) -> Result<Coalescing, CoalescingError> {
        if !THRESHOLDS.contains(&threshold) {
            return Err(CoalescingError::Threshold(threshold));
        }
        let ticks = u8::try_from(time.as_nanos() / TICK.as_nanos()).unwrap_or(0);
        if ticks == 0 || TICK * u32::from(ticks) != time {
            return Err(CoalescingError::Time(time));
        }
        Ok(Coalescing(InterruptCoalescing::new().with_thr_z((threshold - 1) as u8).with_time(ticks)))
    }

    /// Completions that share an interrupt; 1 where none wait for others.
    pub fn threshold(self) -> u32 {
        if self.0.time() == 0 { 1 } else { self.0.threshold() }
    }

    /// The longest that a completion waits for others.
    pub fn time(self) -> Duration {
        if self.threshold() == 1 { Duration::ZERO } else { TICK * u32::from(self.0.time()) }
    }
}

impl fmt::Display for Coalescing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threshold() {
            1 => f.write_str(OFF),
            threshold => write!(f, "{threshold}/{}us", self.time().as_micros()),
        }
    }
}

impl FromStr for Coalescing {
    type Err = CoalescingError;

    fn from_str(text: &str) -> Result<Coalescing, CoalescingError> {
        if text == OFF {
            return Ok(Coalescing::OFF);
        }
        let form = || CoalescingError::Form(text.to_owned());
        let (threshold, time) = text.split_once('/').ok_or_else(form)?;
        let (number, unit) = match time.strip_suffix("us") {
            Some(number) => (number, Duration::from_micros(1)),
            None => (time.strip_suffix("ms").ok_or_else(form)?, Duration::from_millis(1)),
        };
        let number: u32 = number.parse().map_err(|_| form())?;
        let threshold = threshold.parse().map_err(|_| form())?;
        Coalescing::new(threshold, unit.saturating_mul(number))
    }
}

impl Controller {
    /// How the controller gathers interrupts.
    pub fn interrupt_coalescing(&self) -> Result<Coalescing, DriverError> {
        let bits = self.current(FeatureId::INTERRUPT_COALESCING)?;
        Ok(Coalescing(InterruptCoalescing::from_bits(bits)))
    }

    /// Gathers interrupts so, on all vectors that are not exempt (Interrupt Vector Configuration). A reset of the controller
    /// sets it again. Waiting for a completion takes up to [`Coalescing::time`] longer.
    pub fn set_interrupt_coalescing(&self, value: Coalescing) -> Result<(), DriverError> {
        self.set_feature(FeatureId::INTERRUPT_COALESCING, value.0.into_bits(), None).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_they_are_written() {
        for (text, threshold, micros, bits) in
            [("8/100us", 8, 100, 0x0107), ("256/25500us", 256, 25500, 0xffff), ("off", 1, 0, 0)]
        {
            let value: Coalescing = text.parse().unwrap();
            assert_eq!((value.threshold(), value.time()), (threshold, Duration::from_micros(micros)));
            assert_eq!((value.0.into_bits(), value.to_string().as_str()), (bits, text));
        }
        assert_eq!("2/1ms".parse::<Coalescing>().unwrap().to_string(), "2/1000us");
        // What a controller may say: a threshold without a time, which gathers nothing.
        assert_eq!(Coalescing(InterruptCoalescing::from_bits(7)).to_string(), "off");
    }

    #[test]
    fn other_values_are_refused_with_the_limit() {
        for (text, said) in [
            ("8", "'8': expected COMPLETIONS/TIME, such as 8/100us, or off"),
            ("8/100", "'8/100': expected COMPLETIONS/TIME"),
            ("x/100us", "'x/100us': expected"),
            ("1/100us", "1 completions: one interrupt is for 2 to 256; off gathers none"),
            ("257/100us", "257 completions: "),
            ("8/150us", "150us: expected a multiple of 100us, from 100us to 25500us"),
            ("8/0us", "0ns: expected"),
            ("8/26ms", "26ms: expected a multiple of 100us"),
        ] {
            let error = text.parse::<Coalescing>().unwrap_err().to_string();
            assert!(error.starts_with(said), "{text}: {error}");
        }
    }
}
