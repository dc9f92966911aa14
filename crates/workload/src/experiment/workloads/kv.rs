//! `kv`: a store of attention keys and values, got and put by token and layer, in the mixes of YCSB.
//!
//! A put stores a new token: a value for each layer. A get reads one layer's values of a window of tokens. Sequences are
//! drawn by Zipf's law, as YCSB does.

use rand::RngExt;
use rand::distr::Distribution;
use rand_distr::Zipf;

use super::{Requests, Way, play, push, random};
use crate::error::RunError;
use crate::experiment::Lab;
use crate::size::ByteSize;

const LAYERS: u64 = 8;
/// Tokens of a sequence.
const TOKENS: u64 = 64;
/// Tokens that a get wants.
const WINDOW: u64 = 16;
/// YCSB's constant.
const SKEW: f64 = 0.99;
/// Gets of 100 operations: YCSB's workloads C (read only), B (read mostly) and A (update heavy).
const GETS: [u64; 3] = [100, 95, 50];

/// Where values lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// All layers of a token together: a put is one request.
    ByToken,
    /// All tokens of a layer together: a get is one request.
    ByLayer,
}

/// Its ways: each order of values under each mix.
pub(in crate::experiment) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        for (order, word) in [(Order::ByToken, "by token"), (Order::ByLayer, "by layer")] {
            for gets in GETS {
                let name = format!("{word} get={gets}% bs={size}");
                ways.push(Box::new(move |lab| row(lab, name.clone(), order, gets, size)));
            }
        }
    }
    ways
}

/// Where the values of a sequence lie.
#[derive(Clone, Copy)]
struct Layout {
    order: Order,
    /// Bytes of a value.
    value: u64,
}

impl Layout {
    /// Offset of the value of a token in a layer.
    fn place(self, sequence: u64, token: u64, layer: u64) -> u64 {
        let within = match self.order {
            Order::ByToken => token * LAYERS + layer,
            Order::ByLayer => layer * TOKENS + token,
        };
        (sequence * LAYERS * TOKENS + within) * self.value
    }

    /// The values of a window of tokens in one layer.
    fn get(self, requests: &mut Requests, sequence: u64, first: u64, layer: u64) {
        match self.order {
            Order::ByToken => (first..first + WINDOW)
                .for_each(|token| requests.read(self.place(sequence, token, layer), self.value, 0)),
            Order::ByLayer => requests.read(self.place(sequence, first, layer), self.value * WINDOW, 0),
        }
    }

    /// The values of one token in all layers.
    fn put(self, requests: &mut Requests, sequence: u64, token: u64) {
        match self.order {
            Order::ByToken => requests.write(self.place(sequence, token, 0), self.value * LAYERS),
            Order::ByLayer => {
                (0..LAYERS).for_each(|layer| requests.write(self.place(sequence, token, layer), self.value))
            }
        }
    }

    /// Commands of `got` gets and `put` puts, where one moves at most so many bytes.
    fn commands(self, (got, put): (u64, u64), most: u64) -> u64 {
        let value = self.value;
        let (of_get, of_put) = match self.order {
            Order::ByToken => (WINDOW * value.div_ceil(most), (value * LAYERS).div_ceil(most)),
            Order::ByLayer => ((value * WINDOW).div_ceil(most), LAYERS * value.div_ceil(most)),
        };
        got * of_get + put * of_put
    }
}

fn row(lab: &mut Lab<'_>, name: String, order: Order, gets: u64, size: ByteSize) -> Result<(), RunError> {
    let mut requests = Requests::on(lab, lab.ssd)?;
    let (value, operations) = (requests.whole(size.0), lab.options.ops);
    let sequences = requests.room() / (LAYERS * TOKENS * value.max(1));
    if value == 0 || sequences == 0 {
        let reason = format!(
            "a sequence of {TOKENS} tokens in {LAYERS} layers takes {} bytes, and the namespace has {}",
            LAYERS.saturating_mul(TOKENS).saturating_mul(value),
            requests.room()
        );
        lab.skip(&name, reason);
        return Ok(());
    }
    let most = requests.most * requests.block;
    let mut random = random(lab, gets * 2 + u64::from(order == Order::ByLayer));
    let Ok(zipf) = Zipf::new(sequences as f64, SKEW) else {
        return Err(RunError::Unmeasurable(format!("{name}: no distribution of {sequences} sequences")));
    };
    let (layout, mut got) = (Layout { order, value }, 0);
    for _ in 0..operations {
        if requests.is_full() {
            break;
        }
        let sequence = zipf.sample(&mut random) as u64 - 1;
        if random.random_range(0..100) < gets {
            got += 1;
            let (layer, first) = (random.random_range(0..LAYERS), random.random_range(0..=TOKENS - WINDOW));
            layout.get(&mut requests, sequence, first, layer);
        } else {
            layout.put(&mut requests, sequence, random.random_range(0..TOKENS));
        }
        requests.next_warp();
    }
    let expected = layout.commands((got, operations - got), most) as f64 / operations as f64;
    let figures = play(lab, &name, requests, operations)?;
    push(lab, name, figures.map(|figures| figures.with("expected_commands_per_op", expected)));
    Ok(())
}
