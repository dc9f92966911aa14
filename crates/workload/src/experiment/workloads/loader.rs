//! `loader`: samples for training, each once in an epoch, in orders of more and more chance; and how long the trainer
//! waits for them.

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Requests, Way, play, push, random, refusal, seconds};
use crate::error::RunError;
use crate::experiment::Lab;
use crate::experiment::unfit::Unfit;
use crate::options::ReplayTiming;
use crate::size::ByteSize;

/// Records that are shuffled among themselves, in the middle way.
const WINDOW: usize = 256;
/// How often every record is read, each time in another order where it is shuffled.
const EPOCHS: u64 = 2;
/// Samples that the trainer takes, in percent of what the SSD gave at most.
const TAKEN: [u64; 3] = [50, 90, 200];

#[derive(Clone, Copy)]
enum Order {
    Sequential,
    Windowed,
    Shuffled,
}

impl Order {
    /// Every record once.
    fn epoch(self, records: u64, random: &mut Xoshiro256PlusPlus) -> Vec<u64> {
        let mut ids: Vec<u64> = (0..records).collect();
        match self {
            Order::Sequential => {}
            Order::Windowed => ids.chunks_mut(WINDOW).for_each(|window| window.shuffle(random)),
            Order::Shuffled => ids.shuffle(random),
        }
        ids
    }
}

/// Its ways. The trainer takes what the shuffled order gave at most, and so comes with it.
pub(in crate::experiment) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        let windowed = format!("shuffled within {WINDOW} bs={size}");
        ways.push(Box::new(move |lab| {
            row(lab, format!("sequential bs={size}"), Order::Sequential, size, 0).map(drop)
        }));
        ways.push(Box::new(move |lab| row(lab, windowed.clone(), Order::Windowed, size, 1).map(drop)));
        ways.push(Box::new(move |lab| shuffled(lab, size)));
    }
    ways
}

fn shuffled(lab: &mut Lab<'_>, size: ByteSize) -> Result<(), RunError> {
    if let Some(best) = row(lab, format!("shuffled bs={size}"), Order::Shuffled, size, 2)? {
        for taken in TAKEN {
            trainer(lab, size, taken, best)?;
        }
    }
    Ok(())
}

/// All epochs as fast as they go: records each second.
fn row(
    lab: &mut Lab<'_>,
    name: String,
    order: Order,
    size: ByteSize,
    number: u64,
) -> Result<Option<f64>, RunError> {
    let Some(requests) = epochs(lab, &name, order, size, number, 0.0)? else { return Ok(None) };
    // The model: a record is whole blocks, read by commands of MDTS at most.
    let record = requests.whole(size.0);
    let commands = (record / requests.block).div_ceil(requests.most);
    let figures = play(lab, &name, requests, lab.options.ops * EPOCHS)?;
    let figures = figures.map(|figures| {
        let figures = figures.with("expected_commands_per_op", commands as f64);
        figures.with("expected_bytes_per_op", record as f64)
    });
    let best = figures.as_ref().and_then(|figures| figures.get("ops_per_s"));
    push(lab, name, figures);
    Ok(best)
}

/// The reads of all epochs, `interval` nanoseconds apart.
fn epochs(
    lab: &mut Lab<'_>,
    name: &str,
    order: Order,
    size: ByteSize,
    row: u64,
    interval: f64,
) -> Result<Option<Requests>, RunError> {
    let mut requests = Requests::on(lab, lab.ssd)?;
    let (record, records) = (requests.whole(size.0), lab.options.ops);
    if record == 0 || records.saturating_mul(record) > requests.room() {
        let (bytes, room) = (records.saturating_mul(record), requests.room());
        lab.skip(name, Unfit::Items { what: "records", count: records, bytes, room });
        return Ok(None);
    }
    let mut random = random(lab, row);
    let ids = (0..EPOCHS).flat_map(|_| order.epoch(records, &mut random));
    for (index, id) in ids.enumerate() {
        if requests.is_full() {
            break;
        }
        requests.read(id * record, record, (index as f64 * interval) as u64);
        requests.next_warp();
    }
    if let Some(reason) = refusal(&requests) {
        lab.skip(name, reason);
        return Ok(None);
    }
    Ok(Some(requests))
}

/// A trainer that takes samples at a rate of its own, and stalls for those that come late. The model: it waits for what
/// the SSD cannot give, 1 - `best` / `rate` of the time.
fn trainer(lab: &mut Lab<'_>, size: ByteSize, taken: u64, best: f64) -> Result<(), RunError> {
    let (share, operations) = (taken as f64 / 100.0, lab.options.ops * EPOCHS);
    let interval = 1e9 / (best * share);
    let name = format!("trainer takes {taken}% bs={size}");
    let Some(requests) = epochs(lab, &name, Order::Shuffled, size, 2, interval)? else { return Ok(()) };
    let options = requests.options(lab, &name, ReplayTiming::Recorded);
    let Some(run) = lab.point(&name, &options)? else { return Ok(()) };
    let computing = operations as f64 * interval / 1e9;
    let figures = super::Figures::default()
        .with("ops_per_s", operations as f64 / seconds(&run))
        .merged(super::figures_of(&run))
        .with("stall_share", (1.0 - computing / seconds(&run)).max(0.0))
        .with("expected_stall_share", (1.0 - 1.0 / share).max(0.0));
    lab.row(name, figures);
    Ok(())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn an_epoch_has_every_record_once_and_the_next_another_order() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for (order, same, farthest) in [
            (Order::Sequential, true, 0),
            (Order::Windowed, false, WINDOW as u64),
            (Order::Shuffled, false, 1000),
        ] {
            let (first, second) = (order.epoch(1000, &mut random), order.epoch(1000, &mut random));
            assert_eq!(first == second, same);
            let mut ids = second.clone();
            ids.sort_unstable();
            assert!(ids.into_iter().eq(0..1000));
            let moved = second.iter().zip(0..).map(|(id, place): (&u64, u64)| id.abs_diff(place)).max();
            assert!(moved <= Some(farthest) && (same || moved > Some(farthest / 2)), "{moved:?}");
        }
    }
}
