//! Profiles as TOML.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use warpbell_base::Time;

use super::{MediaProfile, Percentiles, Profile, ReadProfile, WriteProfile};
use crate::{toml_file, units};

/// Most units.
const MAX_UNITS: u32 = 4096;
/// Shortest and longest stripe, and piece that is programmed at a time.
const PIECES: (u64, u64) = (512, 16 << 20);

/// Why a profile is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The file cannot be read.
    #[error("profile {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is not TOML, or has unknown keys, lacks some, or has wrong types.
    #[error("profile {}: {reason}", path.display())]
    Syntax {
        /// The file, or `<text>`.
        path: PathBuf,
        /// Where and what.
        reason: String,
    },
    /// A value out of its range.
    #[error("profile {}: {key} = {value}: {limit}", path.display())]
    Value {
        /// The file, or `<text>`.
        path: PathBuf,
        /// The key, with its tables.
        key: String,
        /// Its value.
        value: String,
        /// What it may be.
        limit: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    name: String,
    read: ReadText,
    write: WriteText,
    flush: FlushText,
    media: MediaText,
    buffer: BufferText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadText {
    latency: LatencyText,
    bandwidth: String,
    busy: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteText {
    latency: LatencyText,
    bandwidth: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlushText {
    latency: LatencyText,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LatencyText {
    min: String,
    p50: String,
    p90: String,
    p99: String,
    p99_9: String,
    p99_99: String,
    max: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MediaText {
    units: u32,
    stripe: String,
    program: String,
    program_size: String,
    suspend: Option<String>,
    erase: Option<String>,
    erase_every: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BufferText {
    bytes: String,
}

/// A refused value: key, value, limit.
struct Refused(String, String, String);

impl Profile {
    /// Reads a profile from TOML text.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        Self::named(text, Path::new("<text>"))
    }

    /// Reads a profile from a file.
    pub fn load(path: impl AsRef<Path>) -> Result<Profile, ProfileError> {
        let path = path.as_ref();
        let text =
            toml_file::read(path).map_err(|source| ProfileError::Read { path: path.to_owned(), source })?;
        Self::named(&text, path)
    }

    fn named(text: &str, path: &Path) -> Result<Profile, ProfileError> {
        let text: ProfileText = toml_file::parse(text)
            .map_err(|reason| ProfileError::Syntax { path: path.to_owned(), reason })?;
        let profile = text.build().and_then(|profile| profile.check().map(|()| profile));
        profile.map_err(|refused| refused.of(path))
    }

    /// Checks every figure against its limit.
    pub fn validate(&self) -> Result<(), ProfileError> {
        self.check().map_err(|refused| refused.of(Path::new("<profile>")))
    }

    fn check(&self) -> Result<(), Refused> {
        increasing("read", &self.read.latency)?;
        increasing("write", &self.write.latency)?;
        increasing("flush", &self.flush)?;
        bandwidth("read.bandwidth", self.read.bandwidth)?;
        bandwidth("write.bandwidth", self.write.bandwidth)?;
        self.media.check()?;
        let stripe = |bandwidth: u64| {
            Duration::from_nanos(
                (u128::from(self.media.stripe) * 1_000_000_000 / u128::from(bandwidth)) as u64,
            )
        };
        let busy = self.read.busy;
        let least = busy.max(stripe(self.read.bandwidth));
        let limit =
            format!("must be {} or more: busy, and the transfer of a stripe, are parts of it", Time(least));
        at_least("read.latency.min", self.read.latency.min, least, &limit)?;
        let least = stripe(self.write.bandwidth);
        let limit = format!("must be {} or more: the transfer of a stripe is a part of it", Time(least));
        at_least("write.latency.min", self.write.latency.min, least, &limit)?;
        if self.buffer_bytes < self.media.program_size {
            let least = self.media.program_size;
            let limit = format!("must be media.program_size, {least} bytes, or more");
            return Err(Refused("buffer.bytes".into(), self.buffer_bytes.to_string(), limit));
        }
        Ok(())
    }
}

impl MediaProfile {
    fn check(&self) -> Result<(), Refused> {
        let within = |key: &str, value: u64, (low, high): (u64, u64)| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Refused(key.to_owned(), value.to_string(), format!("must be {low} to {high}")))
        };
        within("media.units", self.units.into(), (1, MAX_UNITS.into()))?;
        within("media.stripe", self.stripe, PIECES)?;
        within("media.program_size", self.program_size, PIECES)?;
        if let Some((_, every)) = self.erase {
            within("media.erase_every", every, (self.program_size, 1 << 40))?;
        }
        Ok(())
    }
}

fn at_least(key: &str, value: Duration, least: Duration, limit: &str) -> Result<(), Refused> {
    if value < least {
        return Err(Refused(key.to_owned(), Time(value).to_string(), limit.to_owned()));
    }
    Ok(())
}

fn bandwidth(key: &str, value: u64) -> Result<(), Refused> {
    if value < 1_000_000 {
        return Err(Refused(key.to_owned(), value.to_string(), "must be 1MB/s or more".to_owned()));
    }
    Ok(())
}

fn increasing(table: &str, latency: &Percentiles) -> Result<(), Refused> {
    let named = latency.named();
    for pair in named.windows(2) {
        let [(low, before), (high, value)] = pair else { continue };
        let limit = format!("must be {low}, {}, or more", Time(*before));
        at_least(&format!("{table}.latency.{high}"), *value, *before, &limit)?;
    }
    Ok(())
}

impl Refused {
    fn of(self, path: &Path) -> ProfileError {
        let Refused(key, value, limit) = self;
        ProfileError::Value { path: path.to_owned(), key, value, limit }
    }
}

impl ProfileText {
    fn build(self) -> Result<Profile, Refused> {
        let erase = match (&self.media.erase, &self.media.erase_every) {
            (None, None) => None,
            (erase, every) => Some((
                time("media.erase", erase.as_deref().unwrap_or("(none)"))?,
                size("media.erase_every", every.as_deref().unwrap_or("(none)"))?,
            )),
        };
        let suspend = self.media.suspend.as_deref().map(|text| time("media.suspend", text)).transpose()?;
        Ok(Profile {
            read: ReadProfile {
                latency: self.read.latency.build("read")?,
                bandwidth: rate("read.bandwidth", &self.read.bandwidth)?,
                busy: time("read.busy", &self.read.busy)?,
            },
            write: WriteProfile {
                latency: self.write.latency.build("write")?,
                bandwidth: rate("write.bandwidth", &self.write.bandwidth)?,
            },
            flush: self.flush.latency.build("flush")?,
            media: MediaProfile {
                units: self.media.units,
                stripe: size("media.stripe", &self.media.stripe)?,
                program: time("media.program", &self.media.program)?,
                program_size: size("media.program_size", &self.media.program_size)?,
                suspend,
                erase,
            },
            buffer_bytes: size("buffer.bytes", &self.buffer.bytes)?,
            name: self.name,
        })
    }
}

impl LatencyText {
    fn build(&self, table: &str) -> Result<Percentiles, Refused> {
        let at = |name: &str, text: &str| time(&format!("{table}.latency.{name}"), text);
        Ok(Percentiles {
            min: at("min", &self.min)?,
            p50: at("p50", &self.p50)?,
            p90: at("p90", &self.p90)?,
            p99: at("p99", &self.p99)?,
            p99_9: at("p99_9", &self.p99_9)?,
            p99_99: at("p99_99", &self.p99_99)?,
            max: at("max", &self.max)?,
        })
    }
}

fn time(key: &str, text: &str) -> Result<Duration, Refused> {
    let limit = "must be a duration from 1ns to 3600s, such as \"10us\"";
    units::duration(text).ok_or_else(|| Refused(key.to_owned(), text.to_owned(), limit.to_owned()))
}

fn size(key: &str, text: &str) -> Result<u64, Refused> {
    let limit = "must be a size, such as \"4k\" or \"64m\"";
    units::size(text).ok_or_else(|| Refused(key.to_owned(), text.to_owned(), limit.to_owned()))
}

fn rate(key: &str, text: &str) -> Result<u64, Refused> {
    let limit = "must be a rate, such as \"2.5GB/s\"";
    units::rate(text).ok_or_else(|| Refused(key.to_owned(), text.to_owned(), limit.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(from: &str, to: &str) -> String {
        let text = include_str!("tlc.toml");
        assert!(text.contains(from), "{from}");
        Profile::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn the_built_in_profiles_are_valid() {
        assert_eq!((Profile::optane().name, Profile::tlc().name), ("optane-like".into(), "tlc-like".into()));
        assert_eq!(Profile::tlc().media.erase, Some((Duration::from_millis(4), 16 << 20)));
        assert_eq!(Profile::optane().media.erase, None);
    }

    #[test]
    fn errors_name_file_key_value_and_limit() {
        assert_eq!(
            error("p90 = \"95us\"", "p90 = \"70us\""),
            "profile <text>: read.latency.p90 = 70us: must be p50, 80us, or more"
        );
        assert!(error("\"6.5GB/s\"", "\"6.5\"").contains("read.bandwidth = 6.5: must be a rate"));
        assert!(error("\"6.5GB/s\"", "\"6kB/s\"").contains("read.bandwidth = 6000: must be 1MB/s or more"));
        assert!(
            error("busy = \"50us\"", "busy = \"70us\"").contains("read.latency.min = 65us: must be 70us")
        );
        assert!(error("units = 128", "units = 0").contains("media.units = 0: must be 1 to 4096"));
        assert!(error("\"16k\"", "\"100\"").contains("media.stripe = 100: must be 512 to 16777216"));
        assert!(error("erase = \"4ms\"\n", "").contains("media.erase = (none): must be a duration"));
        assert!(
            error("bytes = \"64m\"", "bytes = \"1k\"").contains("buffer.bytes = 1024: must be media.pro")
        );
        assert!(error("suspend", "susspend").contains("unknown field `susspend`"));
        let missing = Profile::load("/nonexistent/p.toml").unwrap_err().to_string();
        assert!(missing.starts_with("profile /nonexistent/p.toml: "), "{missing}");
    }
}
