//! `tiers`: how long one access takes to local SSDs, to memory behind CXL, and to SSDs behind a fabric.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    bytes: u64 = 4096, Kind::Bytes, "B", "bytes that are wanted";
    nvme_us: f64 = 80.0, Kind::Positive, "us", "latency of an SSD", measurable;
    nvme_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of an SSD", measurable;
    nvme_granule_bytes: u64 = 4096, Kind::Bytes, "B", "smallest read of an SSD";
    cxl_ns: f64 = 300.0, Kind::Positive, "ns", "latency of memory behind CXL", measurable;
    cxl_gb_per_s: f64 = 64.0, Kind::Positive, "GB/s", "speed of a CXL link", measurable;
    cxl_granule_bytes: u64 = 64, Kind::Bytes, "B", "smallest read of memory";
    fabric: String = "roce-400".into(), Kind::Choice(&["roce-100", "roce-200", "roce-400", "ib-400", "uec-800", "uec-1600"]), "", "the way to remote SSDs";
    fabric_us: f64 = 10.0, Kind::Positive, "us", "latency that the fabric adds, there and back", measurable;
}

const FORMULA: &[&str] = &[
    "access = latency + bytes, rounded up to the granule, / B",
    "remote: latency of SSD and fabric, the slower of both speeds",
    "half of the speed is reached at latency * B bytes",
];
const SURE: (Sure, &str) = (
    Sure::WhatIf,
    "model M17; latencies are those of an article; no CXL hardware was at hand, and GPUs that load from it are not assumed",
);
const LIMITS: &[&str] = &[
    "one access at a time; with many in flight speeds decide, not latencies",
    "remote SSDs are a model only: Warpbell drives local controllers",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "nearest",
        meaning: "the fastest SSD and the slowest memory of the source",
        values: r#"{"nvme_us": 50, "cxl_ns": 400}"#,
    },
    Preset {
        name: "farthest",
        meaning: "the slowest SSD and the fastest memory of the source",
        values: r#"{"nvme_us": 100, "cxl_ns": 200}"#,
    },
    Preset { name: "cxl3", meaning: "CXL 3, x16", values: r#"{"cxl_gb_per_s": 121}"# },
];
model!("tiers", "how long does one access take to SSD, CXL memory and remote SSD?", presets: PRESETS, plot: Some(plot));

/// A place where data lies.
struct Tier {
    latency_us: f64,
    gb_per_s: f64,
    granule: u64,
}

impl Tier {
    fn moved(&self, bytes: f64) -> f64 {
        (bytes / self.granule as f64).ceil() * self.granule as f64
    }

    fn access_us(&self, bytes: f64) -> f64 {
        self.latency_us + self.moved(bytes) / self.gb_per_s / 1e3
    }
}

impl Input {
    fn fabric_gb_per_s(&self) -> f64 {
        match self.fabric.as_str() {
            "roce-100" => 12.5,
            "roce-200" => 25.0,
            "uec-800" => 100.0,
            "uec-1600" => 200.0,
            _ => 50.0,
        }
    }

    fn nvme(&self) -> Tier {
        Tier { latency_us: self.nvme_us, gb_per_s: self.nvme_gb_per_s, granule: self.nvme_granule_bytes }
    }

    fn cxl(&self) -> Tier {
        Tier { latency_us: self.cxl_ns / 1e3, gb_per_s: self.cxl_gb_per_s, granule: self.cxl_granule_bytes }
    }

    fn remote(&self) -> Tier {
        let gb_per_s = self.nvme_gb_per_s.min(self.fabric_gb_per_s());
        Tier { latency_us: self.nvme_us + self.fabric_us, gb_per_s, granule: self.nvme_granule_bytes }
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let (nvme, cxl, remote, bytes) = (input.nvme(), input.cxl(), input.remote(), input.bytes as f64);
    let half = nvme.latency_us * nvme.gb_per_s * 1e3;
    let part = if nvme.moved(bytes) < half { "latency" } else { "bandwidth" };
    Ok(Outcome::new(
        format!("{part} of the SSD: its latency weighs as much as its bandwidth at {} bytes", shown(half)),
        vec![
            Figure::new("nvme_us", nvme.access_us(bytes), "us", "one access, SSD"),
            Figure::new("cxl_us", cxl.access_us(bytes), "us", "one access, memory behind CXL"),
            Figure::new("remote_us", remote.access_us(bytes), "us", "one access, SSD behind the fabric"),
            Figure::new(
                "access_ratio",
                nvme.access_us(bytes) / cxl.access_us(bytes),
                "",
                "SSD by CXL, of such an access",
            ),
            Figure::new("latency_ratio", nvme.latency_us / cxl.latency_us, "", "SSD by CXL, latency alone"),
            Figure::new("bandwidth_ratio", cxl.gb_per_s / nvme.gb_per_s, "", "CXL by SSD, speed alone"),
            Figure::new(
                "remote_ratio",
                remote.access_us(bytes) / nvme.access_us(bytes),
                "",
                "remote by local SSD, of such an access",
            ),
            Figure::new("fabric_gb_per_s", input.fabric_gb_per_s(), "GB/s", "speed of the fabric"),
            Figure::new(
                "amplification",
                nvme.moved(bytes) / bytes,
                "",
                "bytes that an SSD reads for each that is wanted",
            ),
            Figure::new(
                "nvme_half_bytes",
                half,
                "B",
                "size at which an SSD reaches half of its speed with one access at a time",
            ),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |name: &str, tier: Tier| Series::of(name, powers(6, 24), |bytes| tier.access_us(bytes));
    let lines = vec![line("SSD", base.nvme()), line("CXL", base.cxl()), line("remote SSD", base.remote())];
    Ok(Plot::single("One access", Axis::log("bytes of the access"), Axis::log("time, us"), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_ssd_is_never_nearer_and_small_reads_are_amplified() {
        for bytes in [1.0, 64.0, 4096.0, 1e6, 1e9] {
            let input = Input::default();
            assert!(input.remote().access_us(bytes) > input.nvme().access_us(bytes));
            assert!(input.cxl().access_us(bytes) < input.nvme().access_us(bytes));
        }
        assert_eq!(Input::default().nvme().moved(64.0), 4096.0);
    }
}
