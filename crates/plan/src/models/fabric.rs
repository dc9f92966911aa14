//! `fabric`: many GPUs and SSDs behind switches, in one machine or in several that reach each other's SSDs.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::links::{LINK, PACKET_EFFICIENCY, speed};
use crate::model::{Outcome, Preset, Values, model};
use crate::models::least;
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series};

inputs! {
    machines: u64 = 1, Kind::Count(1 << 16), "", "machines, all alike";
    switches: u64 = 2, Kind::Count(64), "", "switches of a machine";
    gpus: u64 = 4, Kind::Count(64), "", "GPUs behind a switch";
    ssds: u64 = 8, Kind::Count(256), "", "SSDs behind a switch";
    ssd_gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of one SSD", measurable;
    link: String = "gen5-x16".into(), LINK, "", "kind of a GPU's link";
    link_gb_per_s: f64 = 63.02, Kind::Positive, "GB/s", "its speed in one direction, where its kind is custom", measurable;
    uplink_gb_per_s: f64 = 63.02, Kind::Positive, "GB/s", "a switch's upstream port, in each direction", measurable;
    root_gb_per_s: f64 = 0.0, Kind::Number, "GB/s", "what a root complex forwards between its ports; 0: no limit", measurable;
    link_efficiency: f64 = PACKET_EFFICIENCY, Kind::Fraction, "", "share of a PCIe link that is payload", measurable;
    nics: u64 = 1, Kind::Whole(64), "", "network adapters behind a switch";
    nic_gb_per_s: f64 = 50.0, Kind::Positive, "GB/s", "speed of one adapter, in each direction", measurable;
    near_share: f64 = 1.0, Kind::Share, "", "share of its reads that a GPU makes of SSDs behind its own switch";
    remote_share: f64 = 0.0, Kind::Share, "", "share that it makes of other machines' SSDs; the rest is of its machine's other switches";
    redirected: String = "no".into(), Kind::Choice(&["no", "yes"]), "", "whether what could stay below a switch goes up to the root complex (ACS, an IOMMU that translates)";
    io_bytes: u64 = 128 << 10, Kind::Bytes, "B", "bytes of an I/O";
    latency_us: f64 = 100.0, Kind::Positive, "us", "time of an I/O, the network's part included", measurable;
    granted: u64 = 128, Kind::Count(65535), "", "queue pairs that an SSD grants";
}

const FORMULA: &[&str] = &[
    "a GPU has the least of: SSDs * B_ssd / GPUs; efficiency * B_link; what its part of uplink, root complex and adapters leaves",
    "uplink: efficiency * B_up / (GPUs * u), where u = far, and 1 + remote where all is redirected; root: B_root / (switches * GPUs * u)",
    "adapters: adapters * B_nic / (GPUs * remote)",
    "far = 1 - near - remote; commands in flight = B * latency / io; queue pairs = SSDs * granted / GPUs",
];
const SURE: (Sure, &str) = (
    Sure::Bound,
    "fluid bounds where all GPUs read alike and reads spread evenly; plan contention has the bursts of one switch, plan tiers one access",
);
const LIMITS: &[&str] = &[
    "reads only, evenly spread; one busy SSD, a slow rank or traffic of collectives on the same adapters is not in it",
    "adapters are behind the switches of the GPUs, and headers of the network's protocol are in their speed",
    "Warpbell drives the SSDs of one machine; remote ones are a model only",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "redirected",
        meaning: "an IOMMU sends up what could stay below a switch",
        values: r#"{"redirected": "yes"}"#,
    },
    Preset {
        name: "scattered",
        meaning: "each GPU reads all SSDs of its machine alike",
        values: r#"{"near_share": 0.5}"#,
    },
    Preset {
        name: "rack",
        meaning: "eight machines, each GPU reads all SSDs alike",
        values: r#"{"machines": 8, "near_share": 0.0625, "remote_share": 0.875}"#,
    },
];
model!("fabric", "what does each of many GPUs get from SSDs behind switches, and what bounds it?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn check(&self) -> Result<(), Error> {
        let together = |why: &str| Err(Error::Together(why.to_owned()));
        if self.near_share + self.remote_share > 1.0 + 1e-9 {
            return together("near_share and remote_share: together they are at most 1");
        }
        if self.remote_share > 0.0 && (self.machines < 2 || self.nics == 0) {
            return together("remote_share: it takes other machines, and network adapters");
        }
        if self.switches == 1 && self.far() > 1e-9 {
            return together("near_share: with one switch all is near but what is remote");
        }
        Ok(())
    }

    fn far(&self) -> f64 {
        (1.0 - self.near_share - self.remote_share).max(0.0)
    }

    /// How often a byte that a GPU reads crosses an uplink, in each direction. What is remote passes two switches: that
    /// of the SSD and that of the GPU.
    fn crossings(&self) -> f64 {
        match self.redirected.as_str() {
            "yes" => 1.0 + self.remote_share,
            _ => self.far(),
        }
    }

    /// What each part leaves a GPU.
    fn bounds(&self) -> [(&'static str, f64); 5] {
        let gpus = self.gpus as f64;
        let shared = |speed: f64, by: f64| if by > 0.0 { speed / by } else { f64::INFINITY };
        let root = match self.root_gb_per_s {
            none if none <= 0.0 => f64::INFINITY,
            speed => shared(speed, self.switches as f64 * gpus * self.crossings()),
        };
        let efficiency = self.link_efficiency;
        [
            ("the SSDs", self.ssds as f64 * self.ssd_gb_per_s / gpus),
            ("the GPU's link", efficiency * speed(&self.link, self.link_gb_per_s)),
            (
                "the uplinks of the switches",
                shared(efficiency * self.uplink_gb_per_s, gpus * self.crossings()),
            ),
            ("the root complex", root),
            ("the network adapters", shared(self.nics as f64 * self.nic_gb_per_s, gpus * self.remote_share)),
        ]
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    input.check()?;
    let bounds = input.bounds();
    let (decides, each) = least(&bounds);
    let machine = each * (input.gpus * input.switches) as f64;
    let throughput = vec![
        Figure::new("gpu_gb_per_s", each, "GB/s", "each GPU"),
        Figure::new("machine_gb_per_s", machine, "GB/s", "all GPUs of a machine"),
        Figure::new("all_gb_per_s", machine * input.machines as f64, "GB/s", "all GPUs"),
        Figure::new("decides", decides, "", "the smallest bound"),
    ];
    let figures = [throughput, parts(&bounds), input.needs(each)];
    Ok(Outcome::new(format!("{decides}: {} GB/s for each GPU", shown(each)), figures.concat()))
}

/// What each part would let a GPU have.
fn parts(bounds: &[(&str, f64); 5]) -> Vec<Figure> {
    let names = [
        ("ssds_gb_per_s", "a GPU's part of the SSDs"),
        ("link_gb_per_s", "its link"),
        ("uplink_gb_per_s", "its part of the uplinks; none: nothing crosses them"),
        ("root_gb_per_s", "its part of the root complex; none: no limit"),
        ("adapters_gb_per_s", "its part of the adapters; none: nothing is remote"),
    ];
    let figure = |((name, meaning), bound): (_, &(_, f64))| Figure::new(name, bound.1, "GB/s", meaning);
    names.into_iter().zip(bounds).map(figure).collect()
}

impl Input {
    /// What each GPU has to have for that.
    fn needs(&self, each: f64) -> Vec<Figure> {
        let in_flight = each * self.latency_us * 1e3 / self.io_bytes as f64;
        let queue_pairs = self.ssds * self.granted / self.gpus;
        vec![
            Figure::new(
                "crossings",
                self.crossings(),
                "",
                "how often a byte crosses an uplink, in each direction",
            ),
            Figure::new("in_flight", in_flight, "", "commands that each GPU has in flight for it"),
            Figure::new(
                "queue_pairs",
                queue_pairs,
                "",
                "queue pairs for each GPU, were SSDs shared out by queues",
            ),
            Figure::new(
                "ssds_owned",
                self.ssds / self.gpus,
                "",
                "whole SSDs for each GPU, as VFIO gives them to processes",
            ),
        ]
    }
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |redirected: &str, name: &str| {
        let local = 1.0 - base.remote_share;
        Series::of(name, (0..=20).map(|step| local * f64::from(step) / 20.0), |near_share| {
            least(&Input { near_share, redirected: redirected.into(), ..base.clone() }.bounds()).1
        })
    };
    let lines = vec![line("no", "stays below switches"), line("yes", "all goes up")];
    Ok(Plot::single(
        "Each GPU",
        Axis::linear("share of reads that is near"),
        Axis::linear("throughput, GB/s"),
        lines,
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Settings, find};

    fn number(model: &str, given: Value, result: &str) -> f64 {
        let given = given.as_object().cloned().unwrap();
        let answer = find(model).unwrap().answer(&Settings { given, ..Settings::default() }).unwrap();
        answer.result(result).and_then(Value::as_f64).unwrap()
    }

    #[test]
    fn where_all_crosses_one_uplink_it_agrees_with_contention() {
        for (gpus, ssds) in [(1, 1), (2, 8), (4, 8), (8, 4)] {
            let here = number("fabric", json!({"gpus": gpus, "ssds": ssds, "near_share": 0}), "gpu_gb_per_s");
            let source = 14.0 * f64::from(ssds) / f64::from(gpus);
            let there = json!({"streams": gpus, "switches": 1, "source_gb_per_s": source, "depth": 4096, "efficiency": PACKET_EFFICIENCY});
            let there = number("contention", there, "slowest_gb_per_s");
            assert!((here - there).abs() < 1e-6 * there, "{gpus} {ssds}: {here} {there}");
        }
    }

    #[test]
    fn each_bound_can_decide_and_nearer_is_never_worse() {
        let base = Input::default();
        for (input, decides) in [
            (base.clone(), "the SSDs"),
            (Input { gpus: 1, ..base.clone() }, "the GPU's link"),
            (Input { near_share: 0.0, ..base.clone() }, "the uplinks of the switches"),
            (Input { near_share: 0.0, root_gb_per_s: 50.0, ..base.clone() }, "the root complex"),
            (
                Input { machines: 2, near_share: 0.0, remote_share: 1.0, ..base.clone() },
                "the network adapters",
            ),
        ] {
            assert_eq!(least(&input.bounds()).0, decides);
        }
        let at = |near_share| least(&Input { near_share, ..base.clone() }.bounds()).1;
        assert!((0..20).all(|step| at(f64::from(step) / 20.0) <= at(f64::from(step + 1) / 20.0)));
    }

    #[test]
    fn shares_that_cannot_be_are_refused() {
        for (input, why) in [
            (Input { near_share: 0.8, remote_share: 0.3, machines: 2, ..Input::default() }, "at most 1"),
            (Input { near_share: 0.0, remote_share: 1.0, ..Input::default() }, "other machines"),
            (Input { near_share: 0.5, switches: 1, ..Input::default() }, "one switch"),
        ] {
            let error = answer(&input).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
