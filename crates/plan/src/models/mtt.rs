//! `mtt`: how often a cache of address translations misses, and what that costs.

use std::collections::{BTreeMap, HashMap};

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::percent;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};
use crate::random::Random;

inputs! {
    entries: u64 = 64, Kind::Count(1 << 20), "", "entries of the cache", measurable;
    workers: u64 = 64, Kind::Count(1 << 20), "", "workers";
    entries_per_worker: u64 = 1, Kind::Count(1 << 20), "", "translations that each worker uses";
    miss_us: f64 = 2.0, Kind::Number, "us", "cost of a miss", measurable;
    policy: String = "lru-cyclic".into(), Kind::Choice(&["lru-cyclic", "uniform"]), "", "lru-cyclic: all in turn, the oldest is evicted; uniform: at random";
    state: String = "warm".into(), Kind::Choice(&["cold", "warm"]), "", "cold: nothing is cached yet";
    seed: u64 = 1, Kind::Whole(u64::MAX), "", "seed of the random accesses";
}

const FORMULA: &[&str] = &[
    "N = workers * translations of each",
    "hit rate = 1 if N <= entries, else 0 (lru-cyclic) or entries / N (uniform); 0 where cold",
    "overhead of a round (N accesses) = N * (1 - hit rate) * T_miss",
];
const SURE: (Sure, &str) = (
    Sure::WhatIf,
    "model M3; how many translations a NIC or an IOMMU caches is undisclosed, and 64 to 128 is a figure of an article",
);
const LIMITS: &[&str] = &[
    "misses wait for each other: none overlaps with another, nor with transfers",
    "a fully associative cache; real ones have sets, which miss earlier",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "cold-64",
        meaning: "64 workers that find an empty cache",
        values: r#"{"workers": 64, "state": "cold"}"#,
    },
    Preset {
        name: "thrash",
        meaning: "eight translations for each entry, at random",
        values: r#"{"workers": 64, "entries_per_worker": 8, "policy": "uniform"}"#,
    },
];
model!("mtt", "how often does a cache of address translations miss?", presets: PRESETS, plot: Some(plot));

/// The largest working set that is simulated; above it the closed form stands alone.
const MOST_SIMULATED: u64 = 1 << 16;
const ACCESSES: u64 = 200_000;

impl Input {
    fn working_set(&self) -> u64 {
        self.workers * self.entries_per_worker
    }

    fn hit_rate(&self) -> f64 {
        let (set, entries) = (self.working_set(), self.entries);
        match (set <= entries, self.policy.as_str()) {
            (true, _) => 1.0,
            (false, "uniform") => entries as f64 / set as f64,
            (false, _) => 0.0,
        }
    }

    /// The hit rate of a simulated cache that evicts the least recently used entry, once it is warm.
    fn simulated(&self) -> Option<f64> {
        let set = self.working_set();
        if set > MOST_SIMULATED {
            return None;
        }
        let mut cache = Lru::new(self.entries as usize);
        let mut random = Random::new(self.seed);
        let mut next = |turn: u64| if self.policy == "uniform" { random.below(set) } else { turn % set };
        let warm_up = 8 * set;
        for turn in 0..warm_up {
            cache.access(next(turn));
        }
        let hits = (warm_up..warm_up + ACCESSES).filter(|turn| cache.access(next(*turn))).count();
        Some(hits as f64 / ACCESSES as f64)
    }
}

/// Entries by the time of their last use.
struct Lru {
    capacity: usize,
    now: u64,
    last_use: HashMap<u64, u64>,
    by_age: BTreeMap<u64, u64>,
}

impl Lru {
    fn new(capacity: usize) -> Lru {
        Lru { capacity, now: 0, last_use: HashMap::new(), by_age: BTreeMap::new() }
    }

    /// Whether the entry was there; it is there now.
    fn access(&mut self, entry: u64) -> bool {
        self.now += 1;
        let before = self.last_use.insert(entry, self.now);
        if let Some(before) = before {
            self.by_age.remove(&before);
        } else if self.by_age.len() == self.capacity
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.last_use.remove(&oldest);
        }
        self.by_age.insert(self.now, entry);
        before.is_some()
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let (set, hit_rate) = (input.working_set(), input.hit_rate());
    let cold = input.state == "cold";
    let misses = set as f64 * if cold { 1.0 } else { 1.0 - hit_rate };
    let bound = match (cold, set <= input.entries) {
        (true, _) => "a cold cache: each translation misses once".to_owned(),
        (false, true) => format!("none: {set} translations fit into {} entries", input.entries),
        (false, false) => {
            format!(
                "{set} translations share {} entries: {} of accesses hit",
                input.entries,
                percent(hit_rate)
            )
        }
    };
    Ok(Outcome::new(
        bound,
        vec![
            Figure::new("working_set", set, "", "translations in use"),
            Figure::new("hit_rate", hit_rate, "", "share of accesses that hit, once warm"),
            Figure::new(
                "simulated_hit_rate",
                input.simulated(),
                "",
                "the same of a simulated cache; none above 65536 translations",
            ),
            Figure::new("misses_per_round", misses, "", "misses when each translation is used once"),
            Figure::new("overhead_us", misses * input.miss_us, "us", "what they cost"),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |policy: &'static str| {
        let at = |workers: f64| {
            Input { workers: workers as u64, policy: policy.into(), ..base.clone() }.hit_rate()
        };
        Series::of(policy, powers(0, 12), at)
    };
    let lines = vec![line("lru-cyclic"), line("uniform")];
    Ok(Plot::single("Hit rate of a translation cache", Axis::log("workers"), Axis::linear("hit rate"), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulated_cache_agrees_with_the_closed_form() {
        for policy in ["lru-cyclic", "uniform"] {
            for (entries, workers) in [(64, 64), (64, 65), (64, 128), (64, 512), (128, 1280), (128, 100)] {
                let input = Input { entries, workers, policy: policy.into(), ..Input::default() };
                let simulated = input.simulated().unwrap();
                assert!(
                    (simulated - input.hit_rate()).abs() < 0.01,
                    "{policy} {entries} {workers}: {simulated}"
                );
            }
        }
    }

    #[test]
    fn a_larger_cache_never_misses_more() {
        for entries in 1..600 {
            let at = |entries| {
                Input { entries, workers: 500, policy: "uniform".into(), ..Input::default() }.hit_rate()
            };
            assert!(at(entries + 1) >= at(entries));
        }
    }
}
