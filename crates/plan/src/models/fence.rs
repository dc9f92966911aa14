//! `fence`: what memory fences cost, one for each chunk or one for a batch of them.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::percent;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    bytes: u64 = 16 << 30, Kind::Bytes, "B", "bytes to move";
    chunk_bytes: u64 = 16 << 10, Kind::Bytes, "B", "bytes of a chunk, or of a command";
    streams: u64 = 8, Kind::Count(1 << 20), "", "streams, each with its part of the chunks";
    batch: u64 = 1, Kind::Count(1 << 20), "", "chunks that one fence covers";
    fence_ns: f64 = 500.0, Kind::Number, "ns", "cost of a fence", measurable;
    mode: String = "parallel".into(), Kind::Choice(&["parallel", "serial"]), "", "parallel: streams fence at the same time; serial: one after the other";
    link_gb_per_s: f64 = 12.5, Kind::Positive, "GB/s", "speed without fences";
    sqe_ns: f64 = 20.0, Kind::Number, "ns", "writing one submission entry", measurable;
    doorbell_ns: f64 = 100.0, Kind::Number, "ns", "ringing a doorbell", measurable;
}

const FORMULA: &[&str] = &[
    "chunks = ceil(bytes / chunk); fences of a stream = ceil(chunks / streams / batch)",
    "T = fences of a stream * T_fence (parallel), or that times streams (serial)",
    "overhead = T / (bytes / link)",
    "cost of a command = T_sqe + (T_fence + T_doorbell) / batch",
];
const SURE: (Sure, &str) = (
    Sure::Model,
    "model M4; 500 to 1500 ns a fence is the figure of an article, whose mechanism (a fence on PCIe) does not exist",
);
const LIMITS: &[&str] = &[
    "PCIe has no fence packet; the model is of what a writer waits for, such as a system fence before a doorbell",
    "fences do not slow each other down; T_sqe and T_doorbell are placeholders until they are measured on a GPU",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "each-chunk",
        meaning: "the source's fence for each 16 KiB of eight drives",
        values: r#"{"batch": 1, "fence_ns": 500}"#,
    },
    Preset {
        name: "coalesced",
        meaning: "the source's fence for each 64 KiB",
        values: r#"{"batch": 4, "fence_ns": 200}"#,
    },
    Preset {
        name: "warp",
        meaning: "commands of 4 KiB, 32 under one fence and one doorbell",
        values: r#"{"chunk_bytes": 4096, "streams": 1, "batch": 32}"#,
    },
];
model!("fence", "what do memory fences cost, and what does it save to share them?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn chunks(&self) -> u64 {
        self.bytes.div_ceil(self.chunk_bytes)
    }

    fn fences_per_stream(&self) -> u64 {
        self.chunks().div_ceil(self.streams).div_ceil(self.batch)
    }

    /// All fences, in milliseconds.
    pub(super) fn time_ms(&self) -> f64 {
        let streams = if self.mode == "serial" { self.streams as f64 } else { 1.0 };
        self.fences_per_stream() as f64 * streams * self.fence_ns / 1e6
    }

    fn command_ns(&self) -> f64 {
        self.sqe_ns + (self.fence_ns + self.doorbell_ns) / self.batch as f64
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let base = input.bytes as f64 / input.link_gb_per_s / 1e6;
    let overhead = input.time_ms() / base;
    let bound = match overhead > 1.0 {
        true => format!("fences: they take {} of what the transfer takes", percent(overhead)),
        false => format!("the link: fences add {} at most", percent(overhead)),
    };
    Ok(Outcome::new(
        bound,
        vec![
            Figure::new("chunks", input.chunks(), "", "chunks of all streams"),
            Figure::new("fences_per_stream", input.fences_per_stream(), "", "fences of each stream"),
            Figure::new("time_ms", input.time_ms(), "ms", "all fences"),
            Figure::new("base_ms", base, "ms", "the transfer without them"),
            Figure::new("overhead_share", overhead, "", "fences, as a share of the transfer"),
            Figure::new(
                "command_ns",
                input.command_ns(),
                "ns",
                "one command's part of entry, fence and doorbell",
            ),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |fence_ns: f64| {
        let at = |batch: f64| Input { batch: batch as u64, fence_ns, ..base.clone() }.command_ns();
        Series::of(format!("fence of {fence_ns} ns"), powers(0, 6), at)
    };
    let lines = [200.0, 500.0, 1500.0].map(line).to_vec();
    Ok(Plot::single(
        "Cost of a command",
        Axis::log("commands under one fence and doorbell"),
        Axis::linear("time, ns"),
        lines,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_are_counted_as_the_ceiling() {
        for chunks in 1..200u64 {
            for batch in 1..40 {
                let input =
                    Input { bytes: chunks * 4096, chunk_bytes: 4096, streams: 1, batch, ..Input::default() };
                assert_eq!(input.fences_per_stream(), chunks.div_ceil(batch));
                let more = Input { batch: batch + 1, ..input.clone() };
                assert!(more.command_ns() < input.command_ns());
            }
        }
    }
}
