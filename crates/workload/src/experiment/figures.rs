//! What experiments say: rows of figures.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::latency::LatencyHistogram;
use crate::options::VolumeApi;
use crate::origin::Origin;
use crate::result::{DeviceReport, PathReport, Skipped};
use crate::statistics::Interval;
use crate::stopwatch::ClockKind;

/// What a model says of a figure has its key, and this before it.
pub const EXPECTED: &str = "expected_";

/// Figures in the order in which they are shown. Units are suffixes of the keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    values: Vec<(Cow<'static, str>, f64)>,
    /// The latencies that they sum up, as [`LatencyHistogram::encoded`]: a row has them beside its figures.
    latencies: Option<String>,
}

impl Figures {
    /// The same with another one.
    #[must_use]
    pub fn with(mut self, key: impl Into<Cow<'static, str>>, value: f64) -> Figures {
        self.values.push((key.into(), value));
        self
    }

    /// The same with one that may not have been counted.
    #[must_use]
    pub fn with_counted(self, key: &'static str, value: Option<f64>) -> Figures {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// The same with the latencies that they sum up.
    #[must_use]
    pub(super) fn of(mut self, latencies: &LatencyHistogram) -> Figures {
        self.latencies = latencies.encoded();
        self
    }

    /// Sets one, which may be there.
    pub(super) fn set(&mut self, key: &str, value: f64) {
        match self.values.iter_mut().find(|(known, _)| known == key) {
            Some((_, known)) => *known = value,
            None => self.values.push((key.to_owned().into(), value)),
        }
    }

    /// All but one.
    #[must_use]
    pub(super) fn without(mut self, key: &str) -> Figures {
        self.values.retain(|(known, _)| known != key);
        self
    }

    /// These, then others.
    #[must_use]
    pub(super) fn merged(mut self, others: Figures) -> Figures {
        self.values.extend(others.values);
        self.latencies = self.latencies.or(others.latencies);
        self
    }

    /// One of them.
    pub fn get(&self, key: &str) -> Option<f64> {
        self.values.iter().find(|(known, _)| known == key).map(|(_, value)| *value)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.values.iter().map(|(key, value)| (key.as_ref(), *value))
    }
}

/// A figure in all repeats that have it.
pub(super) fn values(each: &[Figures], key: &str) -> Vec<f64> {
    each.iter().filter_map(|figures| figures.get(key)).collect()
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.values.len()))?;
        for (key, value) in &self.values {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Figures {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Figures, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Figures;

            fn expecting(&self, form: &mut fmt::Formatter<'_>) -> fmt::Result {
                form.write_str("figures by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figures, A::Error> {
                let mut figures = Figures::default();
                // What is no number, as a ratio of nothing to nothing, is null in JSON.
                while let Some((key, value)) = map.next_entry::<String, Option<f64>>()? {
                    figures = figures.with(key, value.unwrap_or(f64::NAN));
                }
                Ok(figures)
            }
        }
        from.deserialize_map(Map)
    }
}

/// One way, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Which way.
    pub name: String,
    /// What was measured; of several repeats the median of each figure.
    #[serde(flatten)]
    pub figures: Figures,
    /// Of several repeats: where the true median of the rate lies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops_interval: Option<Interval>,
    /// Latencies of all its I/Os, of all repeats, where they were recorded one by one: HdrHistogram, version 2, compressed, in
    /// base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<String>,
    /// Of several repeats: where the true median of each figure lies, that of the rate among them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intervals: BTreeMap<String, Interval>,
    /// When it was measured among the ways of its repeat, from 0 on; of each repeat that has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<u32>,
    /// What each of several repeats measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub each: Vec<Figures>,
}

impl Row {
    /// Measured once.
    pub fn new(name: impl Into<String>, mut figures: Figures) -> Row {
        let latency_histogram = figures.latencies.take();
        let (intervals, order, each) = (BTreeMap::new(), Vec::new(), Vec::new());
        Row { name: name.into(), figures, iops_interval: None, latency_histogram, intervals, order, each }
    }

    /// What each repeat measured of a figure; of those that have it.
    pub fn values(&self, key: &str) -> Vec<f64> {
        let once = std::slice::from_ref(&self.figures);
        let each = if self.each.is_empty() { once } else { &self.each[..] };
        values(each, key).into_iter().filter(|value| value.is_finite()).collect()
    }
}

/// What an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExperimentReport {
    /// Form of the document.
    pub schema: String,
    /// Its name.
    pub experiment: String,
    /// Of `stripe`: who read. Older results do not say; it was the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<VolumeApi>,
    /// Version of Warpbell. Older results do not say.
    #[serde(default)]
    pub warpbell: String,
    /// How and where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Where kernels ran.
    pub target: String,
    /// Which device; of several the first.
    pub device: DeviceReport,
    /// All that were measured. Older results name the first only.
    #[serde(default)]
    pub devices: Vec<DeviceReport>,
    /// The way that commands and data take to each of them. Older results do not say.
    #[serde(default)]
    pub data_paths: Vec<PathReport>,
    /// Which clock.
    pub clock: ClockKind,
    /// I/Os in flight.
    pub iodepth: u32,
    /// How often all of it was measured.
    #[serde(default = "once")]
    pub repeats: u32,
    /// What was found.
    pub rows: Vec<Row>,
    /// Rows that some repeats lack, with how many have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<Skipped>,
    /// Ways that could not be taken, with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// It was stopped before its end.
    pub partial: bool,
}

impl ExperimentReport {
    /// The devices that were measured, as far as the result names them.
    pub fn devices(&self) -> &[DeviceReport] {
        if self.devices.is_empty() { std::slice::from_ref(&self.device) } else { &self.devices }
    }

    /// The figures that some row has, in their order.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in self.rows.iter().flat_map(|row| row.figures.iter()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

/// What documents say that are from before repeats.
fn once() -> u32 {
    1
}
