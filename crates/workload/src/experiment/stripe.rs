//! `stripe`: several SSDs as one volume, read by the host or by kernels.

mod host;
mod kernels;

use warpbell::{Attachment, Ssd, Volume, VolumeLayout, VolumeSpec};

use super::{Figures, Lab};
use crate::error::RunError;
use crate::options::{VolumeApi, VolumePolicy};
use crate::size::ByteSize;

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
    /// Adds to each SSD what it has of `bytes` from `at` on, where the layout says so, by arithmetic of its own: SSDs of
    /// `member` bytes each. Copies are read from whichever SSD is free.
    fn count(self, wanted: &mut [u64], member: u64, at: u64, bytes: u64) {
        let (mut next, end) = (at, at + bytes);
        while next < end {
            let (ssd, part) = match self.layout {
                VolumeLayout::Stripe => (next / self.chunk % self.ssds as u64, self.chunk),
                _ => (next / member, member),
            };
            let until = (next / part + 1) * part;
            wanted[ssd as usize] += until.min(end) - next;
            next = until;
        }
    }

    fn says_where(self) -> bool {
        self.layout != VolumeLayout::Replicate
    }

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

    /// How many SSDs work at a time, where a copy is on each of `ssds`.
    fn busy(self, ssds: usize) -> usize {
        if matches!(self, Reader::Kernels(VolumePolicy::Nearest)) { 1 } else { ssds }
    }
}

/// Who reads in each of the ways that are asked for. There is one at least.
fn readers(options: &StripeOptions) -> Vec<Reader> {
    match options.api {
        VolumeApi::Host => vec![Reader::Host],
        VolumeApi::Volume => options.policies.iter().map(|policy| Reader::Kernels(*policy)).collect(),
    }
}

/// Runs it: 1, 2, 4 and 8 of the SSDs as a stripe, then all of them in the other layouts.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    match lab.options.stripe.api {
        VolumeApi::Host => lab.in_real_time()?,
        VolumeApi::Volume => kernels::by_one_clock(lab.ssds)?,
    }
    let (all, counts) = (lab.ssds.len(), lab.ssd_counts());
    let StripeOptions { chunks, .. } = lab.options.stripe.clone();
    let readers = readers(&lab.options.stripe);
    for size in lab.options.sizes.clone() {
        let mut alone = None;
        for ssds in counts.clone() {
            for chunk in &chunks {
                let shape = Shape { ssds, layout: VolumeLayout::Stripe, chunk: chunk.0 };
                let name = format!("stripe ssds={ssds} chunk={chunk} bs={size}");
                let expected = alone.map(|alone: f64| alone * ssds as f64);
                let iops = row(lab, &name, (shape, readers[0]), size, expected)?;
                if ssds == 1 {
                    alone = alone.or(iops);
                }
            }
        }
        let of = |layout| Shape { ssds: all, layout, chunk: chunks[0].0 };
        let expected = alone.map(|alone| alone * all as f64);
        let name = format!("concatenate ssds={all} bs={size}");
        row(lab, &name, (of(VolumeLayout::Concatenate), readers[0]), size, expected)?;
        for reader in &readers {
            let name = format!("replicate ssds={all}{} bs={size}", reader.named());
            let expected = alone.map(|alone| alone * reader.busy(all) as f64);
            row(lab, &name, (of(VolumeLayout::Replicate), *reader), size, expected)?;
        }
    }
    Ok(())
}

/// Measures a volume: its IOPS. The model: as many times those of one SSD as there are SSDs at work, each with as many
/// reads in flight.
fn row(
    lab: &mut Lab<'_>,
    name: &str,
    (shape, reader): (Shape, Reader),
    size: ByteSize,
    expected: Option<f64>,
) -> Result<Option<f64>, RunError> {
    if lab.control.stopped() {
        return Ok(None);
    }
    let ssds = &lab.ssds[..shape.ssds];
    let before = read_by(ssds);
    let measured = match reader {
        Reader::Host => host::measure(lab, ssds, shape, size)?,
        Reader::Kernels(policy) => kernels::measure(lab, (name, ssds), (shape, policy), size)?,
    };
    let (figures, wanted) = match measured {
        Ok(measured) => measured,
        Err(reason) => {
            lab.skip(name, reason);
            return Ok(None);
        }
    };
    // A row that was cut short is none.
    if lab.control.stopped() {
        return Ok(None);
    }
    let read = before.zip(read_by(ssds)).map(|(before, after)| differences(&before, &after));
    let iops = figures.get("iops");
    let figures = figures.with_counted("expected_iops", expected);
    let figures = figures.with_counted("smallest_share", read.as_deref().and_then(smallest_share));
    let wanted = wanted.as_deref().and_then(smallest_share);
    lab.row(name, figures.with_counted("expected_smallest_share", wanted));
    Ok(iops)
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

/// What was measured, and the bytes that each SSD should have read, where the layout says so; or why nothing was.
type Measured = Result<(Figures, Option<Vec<u64>>), String>;

/// Why a volume has no reads of so many bytes, if so.
fn refusal(volume: &Volume, bytes: u64) -> Option<String> {
    let block = u64::from(volume.block_bytes());
    let all = volume.blocks() * block;
    if bytes == 0 || !bytes.is_multiple_of(block) {
        Some(format!("{bytes} bytes: must be a multiple of the block size, {block} bytes"))
    } else if bytes > all {
        Some(format!("{bytes} bytes: the volume has {all}"))
    } else {
        None
    }
}
