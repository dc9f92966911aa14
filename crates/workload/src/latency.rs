//! Latency: high dynamic range histograms, and what results say of them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// The longest latency that is told apart from longer ones: one hour.
const MAX_NS: u64 = 3_600_000_000_000;
/// Digits kept of each value.
const DIGITS: u8 = 3;

/// Why a text is no histogram.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// Not base64.
    #[error("it is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// Not what HdrHistogram writes.
    #[error("it is no histogram of HdrHistogram, version 2, compressed: {0}")]
    Form(#[from] hdrhistogram::serialization::DeserializeError),
}

/// Latencies of single I/Os in nanoseconds, to three digits.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyHistogram(Histogram<u64>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl LatencyHistogram {
    /// An empty histogram.
    pub fn new() -> LatencyHistogram {
        LatencyHistogram(Histogram::new_with_bounds(1, MAX_NS, DIGITS).expect("constant bounds are valid"))
    }

    /// Adds `count` I/Os that took `ns` each.
    #[inline]
    pub fn record(&mut self, ns: u64, count: u64) {
        self.0.saturating_record_n(ns.max(1), count);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        self.0.add(&other.0).expect("all histograms have the same bounds");
    }

    /// Adds a lane's histogram: `counts[b]` I/Os in bucket `b` of the scale that kernels use, 32
    /// buckets for each power of two.
    pub fn merge_kernel(&mut self, counts: impl IntoIterator<Item = u32>) {
        for (bucket, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            self.record(bucket_middle(bucket as u64), u64::from(count));
        }
    }

    /// I/Os recorded.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// As HdrHistogram writes it: version 2, compressed, in base64. Nothing where it is empty.
    pub fn encoded(&self) -> Option<String> {
        let mut bytes = Vec::new();
        let written = V2DeflateSerializer::new().serialize(&self.0, &mut bytes);
        (!self.0.is_empty()).then(|| {
            written.expect("memory takes all of a histogram within our bounds");
            STANDARD.encode(bytes)
        })
    }

    /// Several that [`LatencyHistogram::encoded`] made as one; `None` of none.
    pub fn together<'a>(
        texts: impl IntoIterator<Item = &'a String>,
    ) -> Result<Option<LatencyHistogram>, HistogramError> {
        let mut all: Option<LatencyHistogram> = None;
        for text in texts {
            all.get_or_insert_default().merge(&LatencyHistogram::decoded(text)?);
        }
        Ok(all)
    }

    /// What [`LatencyHistogram::encoded`] made, also of other bounds.
    pub fn decoded(text: &str) -> Result<LatencyHistogram, HistogramError> {
        let bytes = STANDARD.decode(text)?;
        let other: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice())?;
        let mut own = LatencyHistogram::new();
        for step in other.iter_recorded() {
            own.record(step.value_iterated_to(), step.count_at_value());
        }
        Ok(own)
    }

    /// Each latency that was recorded, to three digits, and how often, in rising order.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// What this share of all I/Os took at most.
    pub fn at(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }

    /// The standard deviation.
    pub fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// Removes everything recorded.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// The summary; `None` when nothing was recorded.
    pub fn summary(&self) -> Option<Latency> {
        if self.0.is_empty() {
            return None;
        }
        let at = |percent| self.0.value_at_quantile(percent / 100.0);
        Some(Latency {
            min: self.0.min(),
            mean: self.0.mean(),
            max: self.0.max(),
            p50: at(50.0),
            p90: at(90.0),
            p99: at(99.0),
            p99_9: at(99.9),
            p99_99: at(99.99),
        })
    }
}

/// The value in the middle of a bucket: bucket b holds b alone below 64, and above that the values
/// v with `b = (m - 4) * 32 + ((v >> (m - 5)) & 31)` and `m = floor(log2 v)`.
fn bucket_middle(bucket: u64) -> u64 {
    if bucket < 32 {
        return bucket;
    }
    let shift = bucket / 32 - 1;
    let low = (32 + bucket % 32) << shift;
    low + ((1 << shift) - 1) / 2
}

/// Latency of single I/Os in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The fastest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The slowest.
    pub max: u64,
    /// Half were at most this long.
    pub p50: u64,
    /// 90 % were at most this long.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p99_9: u64,
    /// 99.99 %.
    pub p99_99: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_out() {
        let mut one = LatencyHistogram::new();
        let mut other = LatencyHistogram::new();
        for ns in 1..=10_000 {
            if ns % 2 == 0 { one.record(ns, 1) } else { other.record(ns, 1) }
        }
        one.merge(&other);
        let latency = one.summary().unwrap();
        assert_eq!((one.count(), latency.min), (10_000, 1));
        for (got, want) in
            [(latency.p50, 5000), (latency.p99, 9900), (latency.p99_99, 9999), (latency.max, 10_000)]
        {
            assert!(got.abs_diff(want) * 1000 <= want, "{got} is not {want} to three digits");
        }
        assert!((latency.mean - 5000.5).abs() < 5.0);
    }

    #[test]
    fn a_histogram_survives_its_text() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!(histogram.encoded(), None);
        for ns in [1, 77, 4096, 123_457, 9_000_000_000, MAX_NS] {
            histogram.record(ns, ns % 7 + 1);
        }
        let text = histogram.encoded().unwrap();
        let again = LatencyHistogram::decoded(&text).unwrap();
        assert_eq!(again.summary(), histogram.summary());
        assert!(again.recorded().eq(histogram.recorded()));
        // The cookie of version 2, compressed, counts in words of any length.
        assert_eq!(STANDARD.decode(&text).unwrap()[..4], 0x1c84_9314_u32.to_be_bytes());
        assert!(matches!(LatencyHistogram::decoded("?"), Err(HistogramError::Base64(_))));
        assert!(matches!(LatencyHistogram::decoded("AAAA"), Err(HistogramError::Form(_))));
    }

    #[test]
    fn kernel_buckets_keep_their_values() {
        let bucket = |v: u64| {
            if v < 32 {
                v
            } else {
                let m = u64::from(v.ilog2());
                (m - 4) * 32 + ((v >> (m - 5)) & 31)
            }
        };
        for value in [0, 1, 31, 32, 33, 63, 64, 65, 1000, 123_456, 10_000_000_000] {
            let middle = bucket_middle(bucket(value));
            assert_eq!(bucket(middle), bucket(value), "{value}");
            assert!(middle.abs_diff(value) * 32 <= value, "{value}: {middle}");
        }
        let mut histogram = LatencyHistogram::new();
        let mut counts = [0; 1024];
        counts[bucket(671_000) as usize] = 5;
        histogram.merge_kernel(counts);
        assert_eq!(histogram.count(), 5);
    }

    #[test]
    fn extremes_saturate() {
        let mut histogram = LatencyHistogram::new();
        assert_eq!(histogram.summary(), None);
        histogram.record(0, 1);
        histogram.record(u64::MAX, 2);
        assert_eq!(histogram.count(), 3);
        assert_eq!(histogram.summary().unwrap().min, 1);
        histogram.clear();
        assert_eq!(histogram.count(), 0);
    }
}
