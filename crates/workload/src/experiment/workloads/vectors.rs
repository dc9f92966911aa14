//! `vectors`: nearest neighbours whose vectors lie on the SSD: rows gathered one by one, as graphs of neighbours ask for
//! them, and whole clusters, as inverted files do. Rows and clusters are drawn by Zipf's law.

use super::{Requests, play, push, random};
use crate::distribution::Ranks;
use crate::error::RunError;
use crate::experiment::Lab;
use crate::size::ByteSize;

/// Rows that a query compares by itself.
const GATHERED: u64 = 64;
/// Vectors of a cluster.
const CLUSTER: u64 = 256;
/// Clusters that a query looks into.
const PROBES: [u64; 2] = [1, 8];
const SKEW: f64 = 0.8;

/// Runs it; `--bs` are the bytes of a vector.
pub(in crate::experiment) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    for size in lab.options.sizes.clone() {
        row(lab, format!("rows={GATHERED} bs={size}"), size, GATHERED, 1)?;
        for probes in PROBES {
            row(lab, format!("clusters={probes} bs={size}"), size, probes, CLUSTER)?;
        }
    }
    Ok(())
}

/// Each query reads `reads` runs of so many vectors.
fn row(lab: &mut Lab<'_>, name: String, size: ByteSize, reads: u64, vectors: u64) -> Result<(), RunError> {
    let mut requests = Requests::on(lab, lab.ssd)?;
    let bytes = size.0.saturating_mul(vectors);
    let places = requests.room().checked_div(bytes).unwrap_or(0);
    if places == 0 {
        let room = requests.room();
        lab.skip(&name, format!("{vectors} vectors take {bytes} bytes, and the namespace has {room}"));
        return Ok(());
    }
    let Some(ranks) = Ranks::new(places, SKEW) else {
        return Err(RunError::Unmeasurable(format!("{name}: no distribution of {places} places")));
    };
    // As many reads in each row, within one query.
    let queries = (lab.options.ops / reads).max(1);
    let mut random = random(lab, reads);
    for _ in 0..queries {
        for _ in 0..reads {
            let place = ranks.draw(&mut random);
            requests.read(place * bytes, bytes, 0);
        }
        requests.next_warp();
    }
    let useful = (bytes * reads) as f64;
    let figures = play(lab, &name, requests, queries)?;
    let figures = figures.map(|figures| {
        let read = figures.get("bytes_per_op").unwrap_or(0.0);
        figures.with("read_amplification", read / useful)
    });
    push(lab, name, figures);
    Ok(())
}
