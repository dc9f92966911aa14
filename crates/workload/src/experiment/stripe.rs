//! `stripe`: several SSDs as one volume, read by the host or by kernels.

mod host;
mod kernels;
mod places;

use warpbell::{Attachment, Ssd, Volume, VolumeLayout, VolumeSpec};

use super::unfit::Unfit;
use super::{Figures, Lab, Way};
use crate::error::RunError;
use crate::options::{VolumeApi, VolumePolicy};
use crate::size::ByteSize;
use places::Places;

/// What volumes there are, and who reads them.
#[derive(Clone, Debug)]
pub struct StripeOptions {
    /// Who reads.
    pub api: VolumeApi,
    /// Bytes of a chunk: stripes of each.
    pub chunks: Vec<ByteSize>,
    /// Of kernels: copies are read in each of these ways, stripes in the first.
    pub policies: Vec<VolumePolicy>,
}

impl Default for StripeOptions {
    fn default() -> StripeOptions {
        StripeOptions {
            api: VolumeApi::Host,
            chunks: vec![ByteSize(64 << 10), ByteSize(256 << 10)],
            policies: VolumePolicy::ALL.to_vec(),
        }
    }
}

/// A volume that is measured.
#[derive(Clone, Copy)]
struct Shape {
    ssds: usize,
    layout: VolumeLayout,
    chunk: u64,
}

impl Shape {
    /// The volume of queues that were attached for it.
    fn volume(self, queues: &[Attachment]) -> Result<Volume, RunError> {
        let queues: Vec<&Attachment> = queues.iter().collect();
        let spec = VolumeSpec::new().layout(self.layout).chunk_bytes(self.chunk);
        Ok(Volume::new(&queues, &spec)?)
    }
}

/// Who reads a volume.
#[derive(Clone, Copy)]
enum Reader {
    Host,
    Kernels(VolumePolicy),
}

impl Reader {
    /// As a part of the row's name, of copies.
    fn named(self) -> String {
        match self {
            Reader::Host => String::new(),
            Reader::Kernels(policy) => format!(" policy={policy}"),
        }
    }

    /// As many SSDs as this could work all the time, with such places.
    fn busy(self, places: &Places) -> f64 {
        match (self, places.layout) {
            (Reader::Kernels(VolumePolicy::Nearest), VolumeLayout::Replicate) => 1.0,
            _ => places.busy(),
        }
    }
}

/// Who reads in each of the ways that are asked for. There is one at least.
fn readers(options: &StripeOptions) -> Vec<Reader> {
    match options.api {
        VolumeApi::Host => vec![Reader::Host],
        VolumeApi::Volume => options.policies.iter().map(|policy| Reader::Kernels(*policy)).collect(),
    }
}

/// Its ways: 1, 2, 4 and 8 of the SSDs as a stripe, then all of them in the other layouts.
pub(super) fn ways(lab: &Lab<'_>) -> Result<Vec<Way>, RunError> {
    match lab.options.stripe.api {
        VolumeApi::Host => lab.in_real_time()?,
        VolumeApi::Volume => kernels::by_one_clock(lab.ssds)?,
    }
    let (all, counts) = (lab.ssds.len(), lab.ssd_counts());
    let StripeOptions { chunks, .. } = lab.options.stripe.clone();
    let readers = readers(&lab.options.stripe);
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        let alone = stripe_name(1, chunks[0], size);
        let mut add = |name: String, shape: Shape, reader: Reader| {
            let alone = alone.clone();
            ways.push(Box::new(move |lab| row(lab, &name, (shape, reader), size, &alone)));
        };
        for ssds in counts.clone() {
            for chunk in &chunks {
                let shape = Shape { ssds, layout: VolumeLayout::Stripe, chunk: chunk.0 };
                add(stripe_name(ssds, *chunk, size), shape, readers[0]);
            }
        }
        let of = |layout| Shape { ssds: all, layout, chunk: chunks[0].0 };
        add(format!("concatenate ssds={all} bs={size}"), of(VolumeLayout::Concatenate), readers[0]);
        for reader in &readers {
            let name = format!("replicate ssds={all}{} bs={size}", reader.named());
            add(name, of(VolumeLayout::Replicate), *reader);
        }
    }
    Ok(ways)
}

fn stripe_name(ssds: usize, chunk: ByteSize, size: ByteSize) -> String {
    format!("stripe ssds={ssds} chunk={chunk} bs={size}")
}

/// Measures a volume: its IOPS. The model: as many times those of `alone`, which is one SSD with as many reads in flight, as
/// the volume has SSDs that work all the time.
fn row(
    lab: &mut Lab<'_>,
    name: &str,
    (shape, reader): (Shape, Reader),
    size: ByteSize,
    alone: &str,
) -> Result<(), RunError> {
    let ssds = &lab.ssds[..shape.ssds];
    let before = read_by(ssds);
    let measured = match reader {
        Reader::Host => host::measure(lab, ssds, shape, size)?,
        Reader::Kernels(policy) => kernels::measure(lab, (name, ssds), (shape, policy), size)?,
    };
    let Measured { figures, wanted, places } = match measured {
        Ok(measured) => measured,
        Err(reason) => {
            lab.skip(name, reason);
            return Ok(());
        }
    };
    // A row that was cut short is none.
    if lab.control.stopped() {
        return Ok(());
    }
    let read = before.zip(read_by(ssds)).map(|(before, after)| differences(&before, &after));
    let figures = figures.with_counted("smallest_share", read.as_deref().and_then(smallest_share));
    let wanted = wanted.as_deref().and_then(smallest_share);
    lab.row(name, figures.with_counted("expected_smallest_share", wanted));
    if shape.ssds > 1 {
        let (alone, busy) = (alone.to_owned(), reader.busy(&places));
        lab.model(name, move |known| {
            Some(Figures::default().with("expected_iops", known.get(&alone, "iops")? * busy))
        });
    }
    Ok(())
}

/// Bytes that each SSD has read so far, where that is counted.
fn read_by(ssds: &[Ssd]) -> Option<Vec<u64>> {
    ssds.iter().map(|ssd| ssd.soft().map(|soft| soft.statistics().bytes_read)).collect()
}

fn differences(before: &[u64], after: &[u64]) -> Vec<u64> {
    before.iter().zip(after).map(|(before, after)| after - before).collect()
}

/// What the SSD that read least has read, of an even share.
fn smallest_share(read: &[u64]) -> Option<f64> {
    let even = read.iter().sum::<u64>() as f64 / read.len() as f64;
    read.iter().min().map(|least| *least as f64 / even.max(1.0))
}

/// What was measured of a volume.
struct Measured {
    figures: Figures,
    /// The bytes that each SSD should have read, where the layout says so.
    wanted: Option<Vec<u64>>,
    /// Where its bytes lie.
    places: Places,
}

/// Why a volume has no reads of so many bytes, if so.
fn refusal(volume: &Volume, bytes: u64) -> Option<Unfit> {
    let block = u64::from(volume.block_bytes());
    let all = volume.blocks() * block;
    if bytes == 0 || !bytes.is_multiple_of(block) {
        Some(Unfit::Block { bytes, block })
    } else if bytes > all {
        Some(Unfit::Volume { bytes, all })
    } else {
        None
    }
}
