//! `contention`: streams that share PCIe switches. A fluid limit, and discrete events to hold it against.

mod fluid;

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Panel, Plot, Series};
use crate::sim::{Arbiter, Switch};

inputs! {
    streams: u64 = 8, Kind::Count(128), "", "streams";
    switches: u64 = 2, Kind::Count(32), "", "switches";
    placement: String = "balanced".into(), Kind::Choice(&["balanced", "block"]), "", "balanced: streams in turn; block: the first ones on the first switch";
    source_gb_per_s: f64 = 14.2, Kind::Positive, "GB/s", "speed of a stream's source", measurable;
    io_bytes: u64 = 128 << 10, Kind::Bytes, "B", "bytes of an I/O";
    depth: u64 = 8, Kind::Count(4096), "", "I/Os in flight of a stream";
    base_latency_us: f64 = 10.0, Kind::Number, "us", "time of an I/O that has the path for itself, transfer included", measurable;
    upstream_gb_per_s: f64 = 63.02, Kind::Positive, "GB/s", "speed of a switch's upstream port", measurable;
    downstream_gb_per_s: f64 = 63.02, Kind::Positive, "GB/s", "speed of each downstream port", measurable;
    efficiency: f64 = 0.9143, Kind::Fraction, "", "share of a port that is payload", measurable;
    arbiter: String = "rr".into(), Kind::Choice(&["rr", "wrr", "wfq"]), "", "round robin, weighted round robin, weighted fair queueing";
    weights: Vec<f64> = vec![], Kind::Weights, "", "of streams, for wrr and wfq; none: all the same";
    quantum_bytes: u64 = 4096, Kind::Bytes, "B", "bytes of a turn";
    switch_ns: f64 = 0.0, Kind::Number, "ns", "cost of a turn, where a switch has several streams", measurable;
    most_streams: u64 = 16, Kind::Count(128), "", "up to how many streams to look for the best number";
    tc1_share: f64 = 0.6, Kind::Share, "", "what if: share that a preferred traffic class takes of the root complex";
    victim_share: f64 = 0.6, Kind::Fraction, "", "what if: share that the other traffic had without it";
}

const FORMULA: &[&str] = &[
    "a stream alone: min(B_source, efficiency * B_down, depth * io / latency)",
    "a switch: efficiency * B_up; with several streams quantum / (quantum / (efficiency * B_up) + T_switch)",
    "streams of a switch: weighted max-min shares of the switch, none above what it has alone",
    "simulated: quanta in the order of the arbiter, a closed loop of depth I/Os for each stream, on a clock of nanoseconds",
    "a class that takes s leaves the victim 1 - s: reduction = max(0, 1 - (1 - s) / u)",
];
const SURE: (Sure, &str) = (
    Sure::Model,
    "models M5 and M6; the fluid limit is held against discrete events; traffic classes are a what-if, most root complexes have one",
);
const LIMITS: &[&str] = &[
    "the fluid limit holds where each stream keeps its path busy: several I/Os in flight, an I/O of several quanta or many streams",
    "no flow control between switch and sources, no bursts, no traffic in the other direction",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "two-streams-io",
        meaning: "two streams through 16 GB/s, 50 ns for each I/O of 128 KiB",
        values: r#"{"streams": 2, "switches": 1, "upstream_gb_per_s": 16, "efficiency": 1, "quantum_bytes": 131072, "switch_ns": 50}"#,
    },
    Preset {
        name: "two-streams-tlp",
        meaning: "the same, 50 ns for each packet of 128 B",
        values: r#"{"streams": 2, "switches": 1, "upstream_gb_per_s": 16, "efficiency": 1, "quantum_bytes": 128, "switch_ns": 50}"#,
    },
    Preset {
        name: "s4-8gpu",
        meaning: "an article's example: eight GPUs behind two switches of 25.2 GB/s",
        values: r#"{"streams": 8, "switches": 2, "upstream_gb_per_s": 31.5, "efficiency": 0.8}"#,
    },
    Preset {
        name: "s4-literal",
        meaning: "the same behind the 128 GB/s that the source names",
        values: r#"{"streams": 8, "switches": 2, "upstream_gb_per_s": 128, "downstream_gb_per_s": 128, "efficiency": 1}"#,
    },
    Preset {
        name: "weighted",
        meaning: "four streams of weights 1 to 4 through 25.2 GB/s",
        values: r#"{"streams": 4, "switches": 1, "upstream_gb_per_s": 31.5, "efficiency": 0.8, "arbiter": "wfq", "weights": [1, 2, 3, 4]}"#,
    },
];
model!("contention", "how do streams share PCIe switches, and how many are best?", presets: PRESETS, plot: Some(plot));

impl Input {
    /// The switch of each stream.
    fn places(&self) -> Vec<usize> {
        let (streams, switches) = (self.streams as usize, self.switches as usize);
        let place = |stream: usize| match self.placement.as_str() {
            "block" => stream * switches / streams,
            _ => stream % switches,
        };
        (0..streams).map(place).collect()
    }

    fn weight(&self, stream: usize) -> f64 {
        match self.arbiter.as_str() {
            "rr" => 1.0,
            _ => self.weights.get(stream).copied().unwrap_or(1.0),
        }
    }

    fn check(&self) -> Result<(), Error> {
        let (weights, streams) = (self.weights.len(), self.streams as usize);
        if weights != 0 && weights != streams {
            return Err(Error::Together(format!("weights: {weights} for {streams} streams; give one each")));
        }
        Ok(())
    }

    /// The speed of each stream by discrete events, where `fluid` is about what it may be.
    fn simulated(&self, fluid: &[f64]) -> Vec<f64> {
        let places = self.places();
        let mut speeds = vec![0.0; fluid.len()];
        for switch in 0..self.switches as usize {
            let streams: Vec<usize> = (0..fluid.len()).filter(|stream| places[*stream] == switch).collect();
            if streams.is_empty() {
                continue;
            }
            let expected: Vec<f64> = streams.iter().map(|stream| fluid[*stream]).collect();
            for (stream, speed) in streams.iter().zip(self.switch(&streams).run(&expected)) {
                speeds[*stream] = speed;
            }
        }
        speeds
    }

    fn switch(&self, streams: &[usize]) -> Switch {
        Switch {
            sources: vec![
                self.source_gb_per_s.min(self.efficiency * self.downstream_gb_per_s);
                streams.len()
            ],
            weights: streams.iter().map(|stream| self.weight(*stream)).collect(),
            port: self.efficiency * self.upstream_gb_per_s,
            quantum: self.quantum_bytes.min(self.io_bytes) as f64,
            switch_ns: self.switch_ns,
            io: self.io_bytes as f64,
            depth: self.depth,
            latency_ns: self.base_latency_us * 1e3,
            arbiter: if self.arbiter == "wfq" { Arbiter::Fair } else { Arbiter::Rounds },
        }
    }

    /// What is left of the victim's traffic, as a share that it loses.
    fn reduction(&self) -> f64 {
        (1.0 - (1.0 - self.tc1_share) / self.victim_share).max(0.0)
    }
}

/// The largest relative difference.
fn deviation(fluid: &[f64], simulated: &[f64]) -> f64 {
    fluid.iter().zip(simulated).map(|(left, right)| (left - right).abs() / left).fold(0.0, f64::max)
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    input.check()?;
    let fluid = input.fluid();
    let aggregate: f64 = fluid.iter().sum();
    let smallest = fluid.iter().copied().fold(f64::INFINITY, f64::min);
    let (utilisation, saturated) = input.utilisation(&fluid);
    let figures = [
        vec![
            Figure::new("per_stream_gb_per_s", fluid.clone(), "GB/s", "each stream, fluid limit"),
            Figure::new("slowest_gb_per_s", smallest, "GB/s", "the slowest of them"),
            Figure::new("aggregate_gb_per_s", aggregate, "GB/s", "all of them"),
            Figure::new(
                "of_one_alone",
                smallest / input.alone(),
                "",
                "the slowest, as a share of what a stream has alone",
            ),
            Figure::new("utilisation", utilisation, "", "of each switch"),
            Figure::new("saturated", saturated, "", "whether a switch is full"),
            Figure::new(
                "best_streams",
                input.best_streams(),
                "",
                "the fewest streams within 1 % of the most throughput",
            ),
        ],
        input.simulator(&fluid),
        vec![Figure::new(
            "reduction",
            input.reduction(),
            "",
            "what if: share that the victim of a traffic class loses",
        )],
    ];
    Ok(Outcome::new(input.bound(saturated), figures.concat()))
}

impl Input {
    /// What the simulator says, and how far that is from the fluid limit.
    fn simulator(&self, fluid: &[f64]) -> Vec<Figure> {
        let simulated = self.simulated(fluid);
        let (aggregate, deviation) = (simulated.iter().sum::<f64>(), deviation(fluid, &simulated));
        vec![
            Figure::new("simulated_gb_per_s", simulated, "GB/s", "each stream, discrete events"),
            Figure::new("simulated_aggregate_gb_per_s", aggregate, "GB/s", "all of them"),
            Figure::new("deviation", deviation, "", "largest difference of a stream between both, relative"),
            Figure::new("fluid_holds", deviation <= 0.02, "", "whether they agree within 2 %"),
        ]
    }

    fn bound(&self, saturated: bool) -> String {
        let capacity = shown(self.capacity(2));
        let window = self.depth as f64 * self.io_bytes as f64 / (self.base_latency_us * 1e3);
        match saturated {
            true => format!("the switches: {capacity} GB/s each where streams share one"),
            false if window <= self.alone() => {
                format!("the window: {} I/Os of {} bytes in flight", self.depth, self.io_bytes)
            }
            false if self.alone() < self.source_gb_per_s => "the downstream ports".to_owned(),
            false => format!("the sources: {} GB/s each", shown(self.source_gb_per_s)),
        }
    }
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let with = |streams: f64| Input { streams: streams as u64, weights: vec![], ..base.clone() };
    let counts = || (1..=base.most_streams).map(|count| count as f64);
    let both = |name: &str, of: fn(&[f64]) -> f64| {
        let fluid = Series::of(format!("{name}, fluid"), counts(), |count| of(&with(count).fluid()));
        let simulated = Series::of(format!("{name}, discrete events"), counts(), |count| {
            let input = with(count);
            of(&input.simulated(&input.fluid()))
        });
        Panel { title: name.to_owned(), series: vec![fluid, simulated] }
    };
    Ok(Plot {
        title: "Streams that share switches".into(),
        x: Axis::linear("streams"),
        y: Axis::linear("throughput, GB/s"),
        panels: vec![
            both("all streams", |speeds| speeds.iter().sum()),
            both("the slowest stream", |speeds| speeds.iter().copied().fold(f64::INFINITY, f64::min)),
        ],
    })
}

#[cfg(test)]
mod tests;
