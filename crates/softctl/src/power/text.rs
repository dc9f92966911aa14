//! Power states as a device name carries them: `8W+4W:0us:0us+50mW:5ms:10ms:nops`.

use std::time::Duration;

use warpbell_base::Time;

use super::{MAX_POWER_STATES, POWERS, PowerState};
use crate::config::SoftConfigError;
use crate::units;

const FORM: &str = "must be states such as 8W+4.5W+50mW:5ms:10ms:nops (power, entry and exit latency, nops for a \
                    non-operational state)";

fn refused(value: &str, limit: impl Into<String>) -> SoftConfigError {
    SoftConfigError::value("power", value, limit)
}

/// Reads the states, from state 0 on.
pub(crate) fn parse(value: &str) -> Result<Vec<PowerState>, SoftConfigError> {
    value.split('+').map(|text| state(text).ok_or_else(|| refused(text, FORM))).collect()
}

fn state(text: &str) -> Option<PowerState> {
    let mut parts: Vec<&str> = text.split(':').map(str::trim).collect();
    let operational = parts.last() != Some(&"nops");
    if !operational {
        parts.pop();
    }
    let (entry, exit) = match parts[..] {
        [_] => (Duration::ZERO, Duration::ZERO),
        [_, entry, exit] => (latency(entry)?, latency(exit)?),
        _ => return None,
    };
    Some(PowerState { tenth_mw: power(parts[0])?, operational, entry, exit })
}

fn latency(text: &str) -> Option<Duration> {
    if matches!(text, "0" | "0us" | "0ms" | "0s") { Some(Duration::ZERO) } else { units::duration(text) }
}

/// `8.25W` or `4.9mW`, in 0.1 mW.
fn power(text: &str) -> Option<u32> {
    let (number, factor) = match text.strip_suffix("mW") {
        Some(number) => (number, 10.0),
        None => (text.strip_suffix('W')?, 10_000.0),
    };
    let tenths = (number.trim().parse::<f64>().ok()? * factor).round();
    (tenths >= 0.0 && tenths <= f64::from(u32::MAX)).then_some(tenths as u32)
}

/// Checks the states against what a descriptor can say.
pub(crate) fn check(states: &[PowerState]) -> Result<(), SoftConfigError> {
    let count = states.len();
    if count > MAX_POWER_STATES {
        return Err(refused(&format!("{count} states"), format!("must be at most {MAX_POWER_STATES}")));
    }
    let longest = Duration::from_micros(u32::MAX.into());
    for (index, state) in states.iter().enumerate() {
        let one = format!("state {index}");
        if !POWERS.contains(&state.tenth_mw)
            || state.tenth_mw > u16::MAX.into() && !state.tenth_mw.is_multiple_of(100)
        {
            let limit = "must have from 0.1mW to 655.35W, in steps of 10mW above 6.5535W";
            return Err(refused(&one, limit));
        }
        if state.entry > longest || state.exit > longest {
            return Err(refused(&one, format!("latencies must be at most {}", Time(longest))));
        }
        if index == 0 && !state.operational {
            return Err(refused(&one, "must be operational"));
        }
        if index > 0 && state.tenth_mw > states[index - 1].tenth_mw {
            return Err(refused(&one, "must not have more power than the state before it"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_as_they_are_written() {
        let states = parse("8.25W+4W:1us:2us+50mW:5ms:10ms:nops+4.9mW:nops").unwrap();
        check(&states).unwrap();
        assert_eq!(states.iter().map(|one| one.tenth_mw).collect::<Vec<_>>(), [82_500, 40_000, 500, 49]);
        assert_eq!(states[1].exit, Duration::from_micros(2));
        assert_eq!(states[2].entry, Duration::from_millis(5));
        assert_eq!(states.iter().map(|one| one.operational).collect::<Vec<_>>(), [true, true, false, false]);
    }

    #[test]
    fn errors_name_state_and_limit() {
        for text in ["", "8", "8W:1ms", "8W:1ms:2ms:3ms", "-1W", "8W:x:1ms", "8W++4W"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("must be states such as 8W+"), "{text}: {error}");
        }
        let error = |text: &str| check(&parse(text).unwrap()).unwrap_err().to_string();
        assert!(error("8W:nops").contains("power=state 0: must be operational"));
        assert!(error("8W+9W").contains("power=state 1: must not have more power"));
        assert!(error("700W").contains("power=state 0: must have from 0.1mW to 655.35W"));
        assert!(error("6.5536W").contains("in steps of 10mW"));
        let many = vec!["1W"; 33].join("+");
        assert!(error(&many).contains("33 states: must be at most 32"));
    }
}
