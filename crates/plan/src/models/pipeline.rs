//! `pipeline`: SSDs, adapters, links; the slowest of them decides.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::links::{LINK, speed};
use crate::model::{Outcome, Preset, Values, model};
use crate::models::least;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series};

inputs! {
    ssds: u64 = 8, Kind::Count(4096), "", "SSDs";
    ssd_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of one SSD", measurable;
    hcas: u64 = 0, Kind::Whole(4096), "", "network adapters on the way; 0: none";
    hca_gb_per_s: f64 = 50.0, Kind::Positive, "GB/s", "speed of one adapter", measurable;
    links: u64 = 1, Kind::Count(4096), "", "PCIe links into GPUs";
    link: String = "gen5-x16".into(), LINK, "", "kind of link";
    link_gb_per_s: f64 = 63.02, Kind::Positive, "GB/s", "speed of one link and direction, where its kind is custom", measurable;
    efficiency: f64 = 1.0, Kind::Fraction, "", "share of the bound that is reached", measurable;
}

const FORMULA: &[&str] = &["B = efficiency * min(SSDs * B_ssd, adapters * B_hca, links * B_link)"];
const SURE: (Sure, &str) =
    (Sure::Bound, "model M7; link speeds of one direction after line encoding (PCIe base specification)");
const LIMITS: &[&str] = &[
    "packet headers take about a twelfth more off a link (plan tlp); adapters have a PCIe link of their own too",
    "every stage is kept busy: enough commands in flight (plan queues), no contention in switches (plan contention)",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "s4-one-drive",
        meaning: "an article's example: one drive of 16, an adapter of 100, a link of 128 GB/s",
        values: r#"{"ssds": 1, "ssd_gb_per_s": 16, "hcas": 1, "hca_gb_per_s": 100, "link": "custom", "link_gb_per_s": 128}"#,
    },
    Preset {
        name: "s4-eight-drives",
        meaning: "the same with eight drives and two adapters",
        values: r#"{"ssds": 8, "ssd_gb_per_s": 16, "hcas": 2, "hca_gb_per_s": 100, "link": "custom", "link_gb_per_s": 128}"#,
    },
    Preset {
        name: "eight-drives",
        meaning: "the same into one Gen5 x16 link as it is",
        values: r#"{"ssds": 8, "ssd_gb_per_s": 16, "hcas": 2, "hca_gb_per_s": 100, "link": "gen5-x16"}"#,
    },
];
model!("pipeline", "which stage between SSD and GPU bounds the throughput?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn stages(&self) -> [(&'static str, f64); 3] {
        let adapters = match self.hcas {
            0 => f64::INFINITY,
            count => count as f64 * self.hca_gb_per_s,
        };
        [
            ("the SSDs", self.ssds as f64 * self.ssd_gb_per_s),
            ("the network adapters", adapters),
            ("the links", self.links as f64 * speed(&self.link, self.link_gb_per_s)),
        ]
    }

    fn bandwidth(&self) -> f64 {
        self.efficiency * least(&self.stages()).1
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let stages = input.stages();
    let (decides, bound) = least(&stages);
    Ok(Outcome::new(
        format!("{decides}: {} GB/s", crate::number::shown(bound)),
        vec![
            Figure::new("bandwidth_gb_per_s", input.bandwidth(), "GB/s", "of the whole pipeline"),
            Figure::new("ssds_gb_per_s", stages[0].1, "GB/s", "all SSDs"),
            Figure::new("hcas_gb_per_s", stages[1].1, "GB/s", "all adapters; none where there are none"),
            Figure::new("links_gb_per_s", stages[2].1, "GB/s", "all links, one direction"),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |link: &'static str| {
        let at = |ssds: f64| Input { ssds: ssds as u64, link: link.into(), ..base.clone() }.bandwidth();
        Series::of(link, (1..=16).map(f64::from), at)
    };
    let lines = ["gen3-x16", "gen4-x16", "gen5-x16", "gen6-x16"].map(line).to_vec();
    Ok(Plot::single("Pipeline bound", Axis::linear("SSDs"), Axis::linear("throughput, GB/s"), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_of_anything_never_lowers_the_bound() {
        let base = Input::default();
        for ssds in 1..32 {
            let at = |ssds, links| Input { ssds, links, ..base.clone() }.bandwidth();
            assert!(at(ssds + 1, 1) >= at(ssds, 1) && at(ssds, 2) >= at(ssds, 1));
        }
        let (decides, _) = least(&Input { ssds: 2, ..base.clone() }.stages());
        assert_eq!((decides, least(&base.stages()).0), ("the SSDs", "the links"));
    }
}
