//! `datapath`: the stages of one I/O, with copies and software, one after the other or overlapped.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::{largest, percent};
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    bytes: u64 = 1 << 20, Kind::Bytes, "B", "bytes of an I/O";
    media_us: f64 = 80.0, Kind::Number, "us", "latency of the medium", measurable;
    media_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of the medium", measurable;
    network_us: f64 = 0.0, Kind::Number, "us", "latency of the network", measurable;
    network_gb_per_s: f64 = 0.0, Kind::Number, "GB/s", "speed of the network; 0: there is none", measurable;
    link_gb_per_s: f64 = 57.6, Kind::Number, "GB/s", "speed of the PCIe link into the GPU; 0: left out", measurable;
    copies: u64 = 0, Kind::Whole(16), "", "copies by way of host memory";
    copy_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of a copy", measurable;
    software_us: f64 = 0.5, Kind::Number, "us", "software on the way of an I/O", measurable;
    cpu_us: f64 = 0.0, Kind::Number, "us", "time of a CPU for an I/O, copies apart", measurable;
    overlap: String = "streamed".into(), Kind::Choice(&["streamed", "store-and-forward"]), "", "streamed: stages work at the same time; store-and-forward: one after the other";
}

const FORMULA: &[&str] = &[
    "streamed: B = min of all stages, T = sum of latencies + bytes / B",
    "store-and-forward: T = sum of latencies + sum of bytes / B of each stage, B = bytes / T",
    "gain = T with the copies / T without them; software share = T_software / (T_software + bytes / slowest stage)",
];
const SURE: (Sure, &str) = (
    Sure::Model,
    "model M16; the presets' latencies are of the order of magnitude that articles give, from no measurement of ours",
);
const LIMITS: &[&str] = &[
    "one I/O at a time; for many in flight see plan queues and plan pipeline",
    "copies wait for no memory bandwidth that others use",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "posix",
        meaning: "page cache, then a copy to the GPU",
        values: r#"{"copies": 2, "software_us": 20, "cpu_us": 20, "overlap": "store-and-forward"}"#,
    },
    Preset {
        name: "bounce-pinned",
        meaning: "O_DIRECT into pinned memory, then a copy to the GPU",
        values: r#"{"copies": 1, "software_us": 10, "cpu_us": 10, "overlap": "store-and-forward"}"#,
    },
    Preset {
        name: "gds-cpu-initiated",
        meaning: "straight into the GPU's memory, submitted by a CPU",
        values: r#"{"copies": 0, "software_us": 5, "cpu_us": 5}"#,
    },
    Preset {
        name: "gpu-initiated",
        meaning: "straight into the GPU's memory, submitted by the GPU",
        values: r#"{"copies": 0, "software_us": 0.5, "cpu_us": 0}"#,
    },
    Preset {
        name: "roce-400",
        meaning: "from a remote SSD over 400 Gb/s",
        values: r#"{"network_us": 5, "network_gb_per_s": 50, "software_us": 5, "cpu_us": 5}"#,
    },
    Preset {
        name: "uec-800",
        meaning: "the same over 800 Gb/s",
        values: r#"{"network_us": 5, "network_gb_per_s": 100, "software_us": 5, "cpu_us": 5}"#,
    },
];
model!("datapath", "how long does one I/O take, stage by stage, and what do copies cost?", presets: PRESETS, plot: Some(plot));

impl Input {
    /// Stages that bytes pass, with their speeds.
    fn stages(&self) -> Vec<(&'static str, f64)> {
        let fixed = [
            ("media", self.media_gb_per_s),
            ("network", self.network_gb_per_s),
            ("link", self.link_gb_per_s),
        ];
        let present = fixed.into_iter().filter(|(_, speed)| *speed > 0.0);
        present.chain((0..self.copies).map(|_| ("copy", self.copy_gb_per_s))).collect()
    }

    /// The stages, in microseconds for all bytes.
    fn transfers(&self) -> Vec<(&'static str, f64)> {
        let bytes = self.bytes as f64;
        self.stages().into_iter().map(|(name, speed)| (name, bytes / speed / 1e3)).collect()
    }

    fn time_us(&self) -> f64 {
        let latencies = self.media_us + self.network_us + self.software_us;
        let transfers = self.transfers();
        latencies
            + match self.overlap.as_str() {
                "streamed" => largest(&transfers).1,
                _ => transfers.iter().map(|(_, time)| time).sum(),
            }
    }
}

impl Input {
    /// The largest part of an I/O's time.
    fn bound(&self, copying_us: f64, slowest_us: f64) -> String {
        let parts = [
            ("the medium's latency", self.media_us),
            ("the network's latency", self.network_us),
            ("software", self.software_us),
            ("copies", copying_us),
            ("the slowest transfer", slowest_us),
        ];
        let (decides, part) = largest(&parts);
        format!("{decides}: {} of the time", percent(part / self.time_us()))
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let (bytes, time) = (input.bytes as f64, input.time_us());
    let transfers = input.transfers();
    let slowest = largest(&transfers).1;
    let bandwidth = match input.overlap.as_str() {
        "streamed" => bytes / slowest / 1e3,
        _ => bytes / time / 1e3,
    };
    let direct = Input { copies: 0, ..input.clone() }.time_us();
    let copying: f64 = transfers.iter().filter(|(name, _)| *name == "copy").map(|(_, time)| time).sum();
    Ok(Outcome::new(
        input.bound(copying, slowest),
        vec![
            Figure::new("time_us", time, "us", "one I/O"),
            Figure::new(
                "bandwidth_gb_per_s",
                bandwidth,
                "GB/s",
                "with stages kept busy (streamed), or one I/O after the other",
            ),
            Figure::new("copies", input.copies, "", "copies by way of host memory"),
            Figure::new("gain_without_copies", time / direct, "", "how many times faster without copies"),
            Figure::new(
                "software_share",
                input.software_us / (input.software_us + slowest),
                "",
                "software, as a share of it and the slowest transfer",
            ),
            Figure::new("slowest_transfer_us", slowest, "us", "the bytes on the slowest stage"),
            Figure::new(
                "cpu_us",
                input.cpu_us + copying,
                "us",
                "time of a CPU for the I/O, if it copies itself",
            ),
        ],
    ))
}

fn plot(_: &Values) -> Result<Plot, Error> {
    let line = |preset: &Preset| {
        let settings = crate::Settings { preset: Some(preset.name.to_owned()), ..crate::Settings::default() };
        let answer = MODEL.answer(&settings)?;
        let values: Values = answer.inputs.into_iter().map(|one| (one.name.to_owned(), one.value)).collect();
        let input: Input = read(&values)?;
        let at = |bytes: f64| Input { bytes: bytes as u64, ..input.clone() }.time_us();
        Ok(Series::of(preset.name, powers(9, 24), at))
    };
    let lines = PRESETS.iter().take(4).map(line).collect::<Result<Vec<_>, Error>>()?;
    Ok(Plot::single("One I/O on each path", Axis::log("bytes of the I/O"), Axis::linear("time, us"), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_never_help_and_overlap_never_hurts() {
        for bytes in [512, 4096, 1 << 20, 1 << 30] {
            for copies in 0..4 {
                let at = |copies, overlap: &str| {
                    Input { bytes, copies, overlap: overlap.into(), ..Input::default() }.time_us()
                };
                assert!(at(copies + 1, "streamed") >= at(copies, "streamed"));
                assert!(at(copies + 1, "store-and-forward") > at(copies, "store-and-forward"));
                assert!(at(copies, "streamed") <= at(copies, "store-and-forward"));
            }
        }
    }
}
