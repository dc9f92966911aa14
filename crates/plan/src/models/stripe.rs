//! `stripe`: several SSDs as one: which of SSDs, commands in flight, links and switches bounds them.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::links::{LINK, PACKET_EFFICIENCY, speed};
use crate::model::{Outcome, Preset, Values, model};
use crate::models::least;
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series};

inputs! {
    ssds: u64 = 8, Kind::Count(4096), "", "SSDs";
    ssd_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of one SSD", measurable;
    ssd_iops: f64 = 0.0, Kind::Number, "1/s", "I/Os a second of one SSD; 0: no limit", measurable;
    io_bytes: u64 = 128 << 10, Kind::Bytes, "B", "bytes of an I/O";
    in_flight: u64 = 0, Kind::Whole(1 << 32), "", "commands in flight, of all SSDs; 0: no limit";
    latency_us: f64 = 100.0, Kind::Positive, "us", "time of an I/O", measurable;
    gpus: u64 = 1, Kind::Count(4096), "", "GPUs that the data goes to";
    link: String = "gen5-x16".into(), LINK, "", "kind of a GPU's link";
    link_gb_per_s: f64 = 63.02, Kind::Positive, "GB/s", "its speed in one direction, where its kind is custom", measurable;
    link_efficiency: f64 = PACKET_EFFICIENCY, Kind::Fraction, "", "share of a link that is payload", measurable;
    switches_gb_per_s: f64 = 0.0, Kind::Number, "GB/s", "speed of all switches between them; 0: no limit", measurable;
    efficiency: f64 = 1.0, Kind::Fraction, "", "share of the bound that is reached", measurable;
    target_gb_per_s: f64 = 80.0, Kind::Positive, "GB/s", "bandwidth to reach";
    chunk_blocks: u64 = 32, Kind::Count(1 << 32), "", "blocks of a chunk";
    lba: u64 = 100, Kind::Whole(1 << 48), "", "a block to find";
    blocks: u64 = 1 << 20, Kind::Count(1 << 48), "", "blocks that are read from the start";
}

const FORMULA: &[&str] = &[
    "B = efficiency * min(SSDs * B_ssd, SSDs * IOPS_ssd * size, in flight * size / latency, GPUs * B_link * efficiency of a link, switches)",
    "SSD of a block = (lba / chunk) mod SSDs",
];
const SURE: (Sure, &str) =
    (Sure::Bound, "model M12; 14 GB/s an SSD is a Gen5 x4 link after packet headers (plan tlp)");
const LIMITS: &[&str] = &[
    "I/Os spread evenly; a stripe that one SSD delays waits for the slowest",
    "nothing is said of how near one comes: efficiency is 1 unless told",
];
const PRESETS: &[Preset] = &[
    Preset { name: "one-gpu", meaning: "eight SSDs into one GPU", values: r#"{"ssds": 8, "gpus": 1}"# },
    Preset {
        name: "node",
        meaning: "eight SSDs into the GPUs of a node",
        values: r#"{"ssds": 8, "gpus": 8}"#,
    },
];
model!("stripe", "what can several SSDs together deliver, and what bounds them?", presets: PRESETS, plot: Some(plot));

impl Input {
    pub(super) fn bounds(&self) -> [(&'static str, f64); 5] {
        let (ssds, size) = (self.ssds as f64, self.io_bytes as f64);
        let or_none = |limit: f64, is: f64| if limit > 0.0 { is } else { f64::INFINITY };
        [
            ("the SSDs' bandwidth", ssds * self.ssd_gb_per_s),
            ("the SSDs' IOPS", or_none(self.ssd_iops, ssds * self.ssd_iops * size / 1e9)),
            (
                "the commands in flight",
                or_none(self.in_flight as f64, self.in_flight as f64 * size / self.latency_us / 1e3),
            ),
            (
                "the GPUs' links",
                self.gpus as f64 * speed(&self.link, self.link_gb_per_s) * self.link_efficiency,
            ),
            ("the switches", or_none(self.switches_gb_per_s, self.switches_gb_per_s)),
        ]
    }

    fn ssd_of(&self, lba: u64) -> u64 {
        lba / self.chunk_blocks % self.ssds
    }

    /// Blocks of the busiest and of the idlest SSD, when the first `blocks` are read.
    fn spread(&self) -> (u64, u64) {
        let (chunks, rest) = (self.blocks / self.chunk_blocks, self.blocks % self.chunk_blocks);
        let (each, over) = (chunks / self.ssds, chunks % self.ssds);
        let of = |ssd: u64| {
            let more = u64::from(ssd < over) * self.chunk_blocks;
            each * self.chunk_blocks + more + if ssd == over { rest } else { 0 }
        };
        let all = || (0..self.ssds).map(of);
        (all().max().unwrap_or(0), all().min().unwrap_or(0))
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let bounds = input.bounds();
    let (decides, bound) = least(&bounds);
    let (most, fewest) = input.spread();
    Ok(Outcome::new(
        format!("{decides}: {} GB/s", shown(bound)),
        vec![
            Figure::new("bandwidth_gb_per_s", bound * input.efficiency, "GB/s", "of all SSDs together"),
            Figure::new("decides", decides, "", "the smallest bound"),
            Figure::new("ssds_gb_per_s", bounds[0].1, "GB/s", "the SSDs' bandwidth"),
            Figure::new("iops_gb_per_s", bounds[1].1, "GB/s", "the SSDs' IOPS, as bandwidth; none: no limit"),
            Figure::new(
                "in_flight_gb_per_s",
                bounds[2].1,
                "GB/s",
                "the commands in flight, as bandwidth; none: no limit",
            ),
            Figure::new("links_gb_per_s", bounds[3].1, "GB/s", "the GPUs' links"),
            Figure::new(
                "needed_efficiency",
                input.target_gb_per_s / bound,
                "",
                "share of the bound that the target needs; above 1: impossible",
            ),
            Figure::new(
                "needed_in_flight",
                input.target_gb_per_s * input.latency_us * 1e3 / input.io_bytes as f64,
                "",
                "commands in flight that the target needs",
            ),
            Figure::new("ssd", input.ssd_of(input.lba), "", "SSD of the block"),
            Figure::new(
                "imbalance_blocks",
                most - fewest,
                "",
                "blocks that the busiest SSD has more than the idlest",
            ),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |gpus: u64| {
        let at = |ssds: f64| {
            least(&Input { ssds: ssds as u64, gpus, ..base.clone() }.bounds()).1 * base.efficiency
        };
        Series::of(format!("GPUs: {gpus}"), (1..=32).map(f64::from), at)
    };
    let lines = [1, 2, 4, 8].map(line).to_vec();
    Ok(Plot::single("SSDs as one", Axis::linear("SSDs"), Axis::linear("throughput, GB/s"), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_spread_to_within_a_chunk() {
        for ssds in 1..9 {
            for blocks in (1..2000).step_by(37) {
                let input = Input { ssds, blocks, chunk_blocks: 8, ..Input::default() };
                let mut count = vec![0u64; ssds as usize];
                (0..blocks).for_each(|lba| count[input.ssd_of(lba) as usize] += 1);
                let counted = (*count.iter().max().unwrap(), *count.iter().min().unwrap());
                assert_eq!(input.spread(), counted, "{ssds} {blocks}");
                assert!(counted.0 - counted.1 <= 8);
            }
        }
    }

    #[test]
    fn each_bound_can_decide() {
        let base = Input::default();
        for (input, decides) in [
            (Input { gpus: 2, ..base.clone() }, "the SSDs' bandwidth"),
            (Input { ssd_iops: 1e4, ..base.clone() }, "the SSDs' IOPS"),
            (Input { in_flight: 8, ..base.clone() }, "the commands in flight"),
            (base.clone(), "the GPUs' links"),
            (Input { switches_gb_per_s: 25.0, ..base.clone() }, "the switches"),
        ] {
            assert_eq!(least(&input.bounds()).0, decides);
        }
    }
}
