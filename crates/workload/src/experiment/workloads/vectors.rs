//! `vectors`: nearest neighbours whose vectors lie on the SSD: rows gathered one by one, as graphs of neighbours ask for
//! them, and whole clusters, as inverted files do. Rows and clusters are drawn by Zipf's law.

use super::{Requests, Way, play, push, random};
use crate::distribution::Ranks;
use crate::error::RunError;
use crate::experiment::Lab;
use crate::experiment::unfit::Unfit;
use crate::size::ByteSize;

/// Rows that a query compares by itself.
const GATHERED: u64 = 64;
/// Vectors of a cluster.
const CLUSTER: u64 = 256;
/// Clusters that a query looks into.
const PROBES: [u64; 2] = [1, 8];
const SKEW: f64 = 0.8;

/// Its ways; `--bs` are the bytes of a vector.
pub(in crate::experiment) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        ways.push(Box::new(move |lab| row(lab, format!("rows={GATHERED} bs={size}"), size, GATHERED, 1)));
        for probes in PROBES {
            let name = format!("clusters={probes} bs={size}");
            ways.push(Box::new(move |lab| row(lab, name.clone(), size, probes, CLUSTER)));
        }
    }
    ways
}

/// Each query reads `reads` runs of so many vectors.
fn row(lab: &mut Lab<'_>, name: String, size: ByteSize, reads: u64, vectors: u64) -> Result<(), RunError> {
    let mut requests = Requests::on(lab, lab.ssd)?;
    let bytes = size.0.saturating_mul(vectors);
    let places = requests.room().checked_div(bytes).unwrap_or(0);
    if places == 0 {
        let room = requests.room();
        lab.skip(&name, Unfit::Items { what: "vectors", count: vectors, bytes, room });
        return Ok(());
    }
    let Some(ranks) = Ranks::new(places, SKEW) else {
        return Err(RunError::Unmeasurable(format!("{name}: no distribution of {places} places")));
    };
    // As many reads in each row, within one query.
    let queries = (lab.options.ops / reads).max(1);
    let mut random = random(lab, reads);
    let (block, most) = (requests.block, requests.most);
    let (mut blocks, mut commands) = (0, 0);
    for _ in 0..queries {
        if requests.is_full() {
            break;
        }
        for _ in 0..reads {
            let place = ranks.draw(&mut random);
            requests.read(place * bytes, bytes, 0);
            // The model: the blocks that it lies in, in commands of MDTS at most.
            let whole = ((place + 1) * bytes).div_ceil(block) - place * bytes / block;
            (blocks, commands) = (blocks + whole, commands + whole.div_ceil(most));
        }
        requests.next_warp();
    }
    let useful = (bytes * reads) as f64;
    let of_query = |count: u64| count as f64 / queries as f64;
    let figures = play(lab, &name, requests, queries)?;
    let figures = figures.map(|figures| {
        let read = figures.get("bytes_per_op").unwrap_or(0.0);
        let figures = figures.with("read_amplification", read / useful);
        let figures = figures.with("expected_commands_per_op", of_query(commands));
        figures.with("expected_read_amplification", of_query(blocks * block) / useful)
    });
    push(lab, name, figures);
    Ok(())
}
