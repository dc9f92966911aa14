//! Numbers and times that a caller gives: each refusal names the argument, its value and the limit.

use std::time::Duration;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyMemoryView};

use crate::error::{Answer, Failure, type_name};

/// The longest time that is one.
const LONGEST: f64 = 1e9;
/// The shortest that a command may be given.
const SHORTEST: Duration = Duration::from_millis(1);

/// A whole number that is not negative.
pub(crate) fn count(name: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if value.is_instance_of::<PyBool>() {
        return Err(Failure::argument_type(name, value, "must be a whole number").into());
    }
    value.extract::<u64>().map_err(|error| {
        let py = value.py();
        if error.is_instance_of::<PyOverflowError>(py) {
            return Failure::argument(name, value, "must be from 0 to 2^64 - 1").into();
        }
        if error.is_instance_of::<PyTypeError>(py) {
            return Failure::argument_type(name, value, "must be a whole number").into();
        }
        error
    })
}

/// A whole number from `least` to `most`.
pub(crate) fn within(name: &str, value: &Bound<'_, PyAny>, least: u64, most: u64) -> PyResult<u64> {
    let found = count(name, value)?;
    if !(least..=most).contains(&found) {
        return Err(Failure::argument(name, found, format!("must be from {least} to {most}")).into());
    }
    Ok(found)
}

/// The same for a number that need not be given.
pub(crate) fn optional(
    name: &str,
    value: Option<&Bound<'_, PyAny>>,
    least: u64,
    most: u64,
) -> PyResult<Option<u64>> {
    value.map(|value| within(name, value, least, most)).transpose()
}

/// Seconds; `None`: no limit.
pub(crate) fn seconds(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    let Some(value) = value else { return Ok(None) };
    let found = value.extract::<f64>().map_err(|_| {
        Failure::argument_type(name, value, "must be seconds as a number, or None for no limit")
    })?;
    Ok(Some(duration(name, found)?))
}

fn duration(name: &str, seconds: f64) -> Answer<Duration> {
    if !(0.0..=LONGEST).contains(&seconds) {
        return Err(Failure::argument(name, seconds, format!("must be from 0 to {LONGEST:e} seconds")));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Seconds that a command may take: some.
pub(crate) fn timeout(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Duration>> {
    let found = seconds(name, value)?;
    match found {
        Some(found) if found < SHORTEST => {
            Err(Failure::argument(name, found.as_secs_f64(), "must be at least 0.001 seconds").into())
        }
        _ => Ok(found),
    }
}

/// Names, in a list or tuple; one by itself is a list of one.
pub(crate) fn names(name: &str, value: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    if let Ok(one) = value.extract::<String>() {
        return Ok(vec![one]);
    }
    value.extract::<Vec<String>>().map_err(|_| {
        Failure::argument_type(
            name,
            value,
            format!("must be text or a list of text, not {}", type_name(value)),
        )
        .into()
    })
}

/// Bytes to be written: those of a bytes object themselves, a copy of what other objects have.
pub(crate) fn bytes<'py>(name: &str, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    let view = PyMemoryView::from(data).map_err(|_| {
        Failure::argument_type(name, data, "must be bytes, or an object with the buffer protocol")
    })?;
    Ok(view.call_method0("tobytes")?.cast_into()?)
}

/// The part of a buffer of `all` bytes that a request moves: from where, and how many bytes.
pub(crate) fn part(
    at: Option<&Bound<'_, PyAny>>,
    nbytes: Option<&Bound<'_, PyAny>>,
    all: u64,
) -> PyResult<(u64, u64)> {
    let at = optional("at", at, 0, all)?.unwrap_or(0);
    if at % 4 != 0 {
        return Err(Failure::argument("at", at, "must be a multiple of 4 bytes").into());
    }
    let given = optional("nbytes", nbytes, 0, u64::MAX)?;
    if given.is_none() && at == all {
        let limit = format!("the buffer has {all} bytes, and none from there on");
        return Err(Failure::argument("at", at, limit).into());
    }
    let nbytes = given.unwrap_or(all - at);
    if nbytes > all - at {
        let limit = format!("the buffer has {} bytes from {at} on", all - at);
        return Err(Failure::argument("nbytes", nbytes, limit).into());
    }
    Ok((at, nbytes))
}

/// Whether these bytes are blocks of something with `all` bytes in blocks of `block`.
pub(crate) fn check_extent(offset: u64, nbytes: u64, (block, all): (u64, u64), of: &str) -> Answer<()> {
    let multiple = format!("must be a multiple of the block size of {of}, {block} bytes");
    if !offset.is_multiple_of(block) {
        return Err(Failure::argument("offset", offset, multiple));
    }
    if nbytes == 0 || !nbytes.is_multiple_of(block) {
        let multiple = multiple.replace("must be", "must be more than 0 and");
        return Err(Failure::argument("nbytes", nbytes, multiple));
    }
    if offset.checked_add(nbytes).is_none_or(|end| end > all) {
        let value = format!("{offset} and {nbytes} bytes");
        return Err(Failure::argument("offset", value, format!("{of} has {all} bytes")));
    }
    Ok(())
}
