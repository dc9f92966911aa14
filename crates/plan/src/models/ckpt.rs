//! `ckpt`: writing and restoring a checkpoint over several SSDs.

use super::{fence, reg};
use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::largest;
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series};

inputs! {
    bytes: u64 = 16 << 30, Kind::Bytes, "B", "bytes of the checkpoint";
    ssds: u64 = 8, Kind::Count(4096), "", "SSDs, each with its part";
    ssd_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of one SSD", measurable;
    shared_gb_per_s: f64 = 57.6, Kind::Positive, "GB/s", "speed of what all parts pass", measurable;
    chunk_bytes: u64 = 16 << 10, Kind::Bytes, "B", "bytes under which there is a fence, before batching";
    batch: u64 = 32, Kind::Count(1 << 20), "", "chunks that one fence covers";
    fence_ns: f64 = 0.0, Kind::Number, "ns", "cost of a fence; 0: left out", measurable;
    registered_bytes: u64 = 1 << 30, Kind::Bytes, "B", "bytes of a buffer that is registered";
    registrations: u64 = 0, Kind::Whole(1 << 32), "", "times that it is registered";
    fixed_us: f64 = 10.0, Kind::Number, "us", "cost of any registration", measurable;
    page_us: f64 = 1.0, Kind::Number, "us", "cost of one page of 4 KiB", measurable;
    ranks: u64 = 8, Kind::Count(1 << 20), "", "ranks that restore";
    restore: String = "sharded".into(), Kind::Choice(&["sharded", "everybody"]), "", "sharded: each rank reads its part, then all gather; everybody: each reads all";
}

const FORMULA: &[&str] = &[
    "T = max(bytes of an SSD / B_ssd, bytes / B_shared) + T_fences (plan fence) + registrations * T_reg (plan reg)",
    "bytes read to restore = bytes (sharded), ranks * bytes (everybody)",
];
const SURE: (Sure, &str) = (Sure::Model, "model M15, of M1, M4 and the bounds of M7");
const LIMITS: &[&str] = &[
    "parts are of the same size; the gather after a sharded restore is not counted",
    "fences and registrations add to the transfer; none is hidden behind it",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "s4-fences",
        meaning: "an article's example: a fence of 500 ns for each 16 KiB, over 100 Gb/s",
        values: r#"{"shared_gb_per_s": 12.5, "batch": 1, "fence_ns": 500}"#,
    },
    Preset {
        name: "registered-each-time",
        meaning: "1 GiB registered for each of 16 transfers",
        values: r#"{"shared_gb_per_s": 12.5, "registrations": 16}"#,
    },
    Preset {
        name: "registered-once",
        meaning: "the same buffer registered once",
        values: r#"{"shared_gb_per_s": 12.5, "registrations": 1}"#,
    },
];
model!("ckpt", "how long does a checkpoint take to write or to restore?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn parts(&self) -> [(&'static str, f64); 4] {
        let each = self.bytes.div_ceil(self.ssds) as f64;
        let fences = fence::Input {
            bytes: self.bytes,
            chunk_bytes: self.chunk_bytes,
            streams: self.ssds,
            batch: self.batch,
            fence_ns: self.fence_ns,
            ..fence::Input::default()
        };
        let registration = reg::Input {
            bytes: self.registered_bytes,
            fixed_us: self.fixed_us,
            page_us: self.page_us,
            ..reg::Input::default()
        };
        [
            ("the SSDs", each / self.ssd_gb_per_s / 1e6),
            ("what all parts pass", self.bytes as f64 / self.shared_gb_per_s / 1e6),
            ("fences", fences.time_ms()),
            ("registration", self.registrations as f64 * registration.time_us() / 1e3),
        ]
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let parts = input.parts();
    let transfer = parts[0].1.max(parts[1].1);
    let total = transfer + parts[2].1 + parts[3].1;
    let (decides, longest) = largest(&parts);
    let reads = if input.restore == "everybody" { input.ranks as f64 } else { 1.0 };
    Ok(Outcome::new(
        format!("{decides}: {} ms of {}", shown(longest), shown(total)),
        vec![
            Figure::new("time_ms", total, "ms", "all of it"),
            Figure::new("transfer_ms", transfer, "ms", "moving the bytes"),
            Figure::new("fence_ms", parts[2].1, "ms", "fences"),
            Figure::new("registration_ms", parts[3].1, "ms", "registrations"),
            Figure::new("bandwidth_gb_per_s", input.bytes as f64 / total / 1e6, "GB/s", "as it comes out"),
            Figure::new("restore_bytes", reads * input.bytes as f64, "B", "bytes read to restore"),
            Figure::new("restore_ms", transfer * reads, "ms", "reading them"),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |shared_gb_per_s: f64| {
        let at = |ssds: f64| {
            let parts = Input { ssds: ssds as u64, shared_gb_per_s, ..base.clone() }.parts();
            parts[0].1.max(parts[1].1) + parts[2].1 + parts[3].1
        };
        Series::of(format!("{shared_gb_per_s} GB/s shared"), (1..=16).map(f64::from), at)
    };
    let lines = [12.5, 57.6, 112.0].map(line).to_vec();
    Ok(Plot::single("A checkpoint", Axis::linear("SSDs"), Axis::linear("time, ms"), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sharding_reads_each_byte_once() {
        for ranks in [1, 2, 8, 512] {
            let restored = |restore: &str| {
                let outcome = answer(&Input { ranks, restore: restore.into(), ..Input::default() }).unwrap();
                outcome
                    .results
                    .iter()
                    .find(|one| one.name == "restore_bytes")
                    .unwrap()
                    .value
                    .as_f64()
                    .unwrap()
            };
            assert_eq!(restored("everybody"), ranks as f64 * restored("sharded"));
        }
    }

    #[test]
    fn more_ssds_help_until_what_they_share_decides() {
        let at = |ssds| largest(&Input { ssds, ..Input::default() }.parts());
        assert_eq!((at(2).0, at(8).0), ("the SSDs", "what all parts pass"));
        assert!(at(4).1 < at(2).1);
        assert_eq!(at(8).1, at(16).1);
    }
}
