//! What bounds reads of a soft controller whose profile says how long they take.

use std::time::Duration;

use warpbell::{DeviceName, Ssd};
use warpbell_softctl::{Profile, SoftConfig};

use super::{Figures, Lab};
use crate::size::ByteSize;

/// How many reads of one size each part could do alone, by a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReadLimits {
    /// Reads each second of all units that hold the data.
    media: f64,
    /// Of the way to the client.
    link: f64,
}

impl ReadLimits {
    fn of(profile: &Profile, bytes: u64) -> ReadLimits {
        // Each stripe, and each part of one, takes a unit for some time.
        let stripes = bytes.div_ceil(profile.media.stripe);
        let unit = 1.0 / (profile.read.busy.as_secs_f64() * stripes as f64);
        ReadLimits {
            media: unit * f64::from(profile.media.units),
            link: profile.read.bandwidth as f64 / bytes as f64,
        }
    }

    /// The slower of both.
    pub(super) fn slowest(self) -> f64 {
        self.media.min(self.link)
    }

    /// The rate of the way to the client, where it bounds reads whatever their addresses: the units could do twice as many.
    pub(super) fn by_link(self) -> Option<f64> {
        (2.0 * self.link <= self.media).then_some(self.link)
    }

    /// A rate as a part of each.
    pub(super) fn shares(self, iops: f64) -> Figures {
        Figures::default().with("media_share", iops / self.media).with("link_share", iops / self.link)
    }
}

/// What the name of a soft controller says of it.
pub(super) fn configuration(name: &DeviceName) -> Option<SoftConfig> {
    let DeviceName::Soft(text) = name else { return None };
    SoftConfig::parse(text).ok()
}

/// The profile of a soft controller that was opened by name.
pub(super) fn profile(ssd: &Ssd) -> Option<Profile> {
    configuration(ssd.name())?.profile
}

impl Lab<'_> {
    /// What a profile says of the latency of reads of up to a stripe, one at a time. Busy threads, and what was not there
    /// before, have no part in its clock.
    pub(super) fn read_latency(&self, size: ByteSize, depth: u32) -> Option<Figures> {
        let profile = profile(self.ssd)?;
        let latency = profile.read.latency;
        let nanoseconds = |time: Duration| time.as_nanos() as f64;
        (size.0 <= profile.media.stripe && depth == 1).then(|| {
            Figures::default()
                .with("expected_p50_ns", nanoseconds(latency.p50))
                .with("expected_p99_ns", nanoseconds(latency.p99))
                .with("expected_p99_9_ns", nanoseconds(latency.p99_9))
        })
    }

    /// What a profile says of reads of so many bytes, `depth` of them in flight, in virtual time: latencies of one at a time,
    /// and the rate of the way to the client where that many could be twice as fast.
    pub(super) fn reads_expected(&self, size: ByteSize, depth: u32) -> Figures {
        if !self.in_virtual_time() {
            return Figures::default();
        }
        if let Some(latencies) = self.read_latency(size, depth) {
            return latencies;
        }
        let unbound =
            profile(self.ssd).map(|profile| f64::from(depth) / profile.read.latency.p50.as_secs_f64());
        let link = self.read_limits(size.0).and_then(ReadLimits::by_link);
        let link = link.filter(|link| unbound.is_some_and(|unbound| unbound >= 2.0 * link));
        Figures::default().with_counted("expected_iops", link)
    }

    /// What bounds aligned reads of so many bytes, where a profile says.
    pub(super) fn read_limits(&self, bytes: u64) -> Option<ReadLimits> {
        profile(self.ssd).map(|profile| ReadLimits::of(&profile, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_says_how_fast_media_and_link_are() {
        // 28 units of 4 KiB in 7 us each, and 2.5 GB/s.
        let of = |bytes| ReadLimits::of(&Profile::optane(), bytes);
        assert!((of(4096).media / 4e6 - 1.0).abs() < 1e-9 && (of(4096).link / 610_351.5 - 1.0).abs() < 1e-6);
        assert!((of(16384).media / 1e6 - 1.0).abs() < 1e-9, "{:?}", of(16384));
        assert_eq!(of(512).media, of(4096).media, "a part of a stripe takes its unit as long");
        assert_eq!(of(4096).slowest(), of(4096).link);
        assert_eq!((of(4096).by_link(), of(512).by_link()), (Some(of(4096).link), None));
        assert_eq!(of(4096).shares(of(4096).link).get("link_share"), Some(1.0));
    }
}
