//! `kv`: a KV cache on SSDs: how large, how long to fetch, and what that does to a GPU's utilisation.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::percent;
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    layers: u64 = 32, Kind::Count(1024), "", "layers of the model";
    kv_heads: u64 = 8, Kind::Count(1024), "", "heads that keep keys and values";
    head_dim: u64 = 128, Kind::Count(4096), "", "numbers of a head";
    element_bytes: u64 = 2, Kind::Count(8), "B", "bytes of a number";
    context_tokens: u64 = 32768, Kind::Count(1 << 30), "", "tokens to fetch";
    block_tokens: u64 = 16, Kind::Count(1 << 20), "", "tokens of a block";
    lba_bytes: u64 = 4096, Kind::Count(1 << 20), "B", "bytes of a block of the SSD";
    gb_per_s: f64 = 14.0, Kind::Positive, "GB/s", "speed of fetching", measurable;
    compute_ms: f64 = 100.0, Kind::Positive, "ms", "computing that goes with it", measurable;
    utilisation: f64 = 0.9, Kind::Fraction, "", "utilisation to reach";
    iops: f64 = 1e6, Kind::Positive, "1/s", "I/Os a second";
    io_bytes: u64 = 4096, Kind::Bytes, "B", "bytes of an I/O";
    link_gb_per_s: f64 = 57.6, Kind::Positive, "GB/s", "payload through the GPU's link", measurable;
}

const FORMULA: &[&str] = &[
    "bytes of a token = 2 * layers * heads * dimension * bytes of a number",
    "fetch = tokens * bytes of a token / B",
    "utilisation = compute / max(compute, fetch) with overlap, compute / (compute + fetch) without",
    "block of a layer = bytes of its tokens, rounded up to blocks of the SSD",
    "fetch may take (1 - u) / u of the computing without overlap, 1 / u with it",
];
const SURE: (Sure, &str) = (Sure::Model, "model M14; sizes are exact, speeds are inputs");
const LIMITS: &[&str] = &[
    "fetches are large or many enough in flight to reach the speed (plan queues)",
    "compute time does not change while data arrives; nothing is evicted or written back",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "8b",
        meaning: "32 layers, 8 heads of 128, 16 bits",
        values: r#"{"layers": 32, "kv_heads": 8, "head_dim": 128, "element_bytes": 2}"#,
    },
    Preset {
        name: "70b",
        meaning: "80 layers, 8 heads of 128, 16 bits",
        values: r#"{"layers": 80, "kv_heads": 8, "head_dim": 128, "element_bytes": 2}"#,
    },
];
model!("kv", "a KV cache on SSDs: how large, how long to fetch, how busy stays the GPU?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn layer_token_bytes(&self) -> u64 {
        2 * self.kv_heads * self.head_dim * self.element_bytes
    }

    fn fetch_ms(&self) -> f64 {
        self.context_tokens as f64 * (self.layers * self.layer_token_bytes()) as f64 / self.gb_per_s / 1e6
    }

    fn bound(&self) -> String {
        let (fetch, compute) = (self.fetch_ms(), self.compute_ms);
        match fetch > compute {
            true => format!("fetching: {} ms for {} ms of computing", shown(fetch), shown(compute)),
            false => format!(
                "computing, with overlap; without it the GPU idles {} of the time",
                percent(fetch / (compute + fetch))
            ),
        }
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let (token, fetch, compute) =
        (input.layers * input.layer_token_bytes(), input.fetch_ms(), input.compute_ms);
    let block = (input.block_tokens * input.layer_token_bytes()).next_multiple_of(input.lba_bytes);
    let overlapped = compute / compute.max(fetch);
    Ok(Outcome::new(
        input.bound(),
        vec![
            Figure::new("token_bytes", token, "B", "keys and values of a token, all layers"),
            Figure::new("context_bytes", input.context_tokens as f64 * token as f64, "B", "of all tokens"),
            Figure::new("block_bytes", block, "B", "a block of one layer, as it lies on the SSD"),
            Figure::new("fetch_ms", fetch, "ms", "fetching all tokens"),
            Figure::new("utilisation_overlapped", overlapped, "", "of the GPU, fetching while it computes"),
            Figure::new(
                "utilisation_serial",
                compute / (compute + fetch),
                "",
                "of the GPU, one after the other",
            ),
            Figure::new(
                "fetch_limit_serial",
                (1.0 - input.utilisation) / input.utilisation,
                "",
                "fetching, as a share of computing, that the utilisation allows without overlap",
            ),
            Figure::new("fetch_limit_overlapped", 1.0 / input.utilisation, "", "the same with overlap"),
            Figure::new(
                "iops_gb_per_s",
                input.iops * input.io_bytes as f64 / 1e9,
                "GB/s",
                "the I/Os, as bandwidth",
            ),
            Figure::new(
                "largest_io_bytes",
                input.link_gb_per_s * 1e9 / input.iops,
                "B",
                "the largest I/O of which the link carries so many",
            ),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |gb_per_s: f64| {
        let at = |tokens: f64| Input { context_tokens: tokens as u64, gb_per_s, ..base.clone() }.fetch_ms();
        Series::of(format!("{gb_per_s} GB/s"), powers(10, 17), at)
    };
    let lines = [14.0, 57.6, 112.0].map(line).to_vec();
    Ok(Plot::single("Fetching a context", Axis::log("tokens"), Axis::linear("time, ms"), lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_never_worse_and_blocks_are_whole() {
        for context_tokens in [1, 100, 32_768, 1 << 20] {
            let outcome =
                answer(&Input { context_tokens, block_tokens: 3, kv_heads: 1, ..Input::default() }).unwrap();
            let value = |name: &str| {
                outcome.results.iter().find(|one| one.name == name).unwrap().value.as_f64().unwrap()
            };
            assert!(value("utilisation_overlapped") >= value("utilisation_serial"));
            assert_eq!(value("block_bytes"), 4096.0);
        }
    }
}
