//! Where the bytes of a volume lie, by arithmetic of its own.

use warpbell::{Attachment, VolumeLayout};

use super::Shape;

/// Where the bytes of a volume lie.
pub(super) struct Places {
    pub(super) layout: VolumeLayout,
    chunk: u64,
    /// Whole chunks of each SSD; of a stripe the smallest SSD comes first.
    chunks: Vec<u64>,
}

impl Places {
    /// Of a volume of these queues.
    pub(super) fn of(shape: Shape, queues: &[Attachment]) -> Places {
        let bytes = queues.iter().map(|queues| {
            let namespace = queues.namespace();
            namespace.blocks << namespace.block_shift
        });
        Places::new(shape.layout, shape.chunk, bytes)
    }

    fn new(layout: VolumeLayout, chunk: u64, bytes: impl Iterator<Item = u64>) -> Places {
        let mut chunks: Vec<u64> = bytes.map(|bytes| bytes / chunk).collect();
        if layout == VolumeLayout::Stripe {
            chunks.sort_unstable();
        }
        Places { layout, chunk, chunks }
    }

    /// Adds to each SSD what it has of `bytes` from `at` on. Copies are everywhere: there is nothing to add.
    pub(super) fn count(&self, wanted: &mut [u64], at: u64, bytes: u64) {
        let (mut next, end) = (at, at + bytes);
        while next < end {
            let number = next / self.chunk;
            let until = (number + 1) * self.chunk;
            if let Some(ssd) = self.ssd(number) {
                wanted[ssd] += until.min(end) - next;
            }
            next = until;
        }
    }

    /// Which SSD has a chunk.
    fn ssd(&self, chunk: u64) -> Option<usize> {
        match self.layout {
            VolumeLayout::Stripe => self.in_stripe(chunk),
            VolumeLayout::Concatenate => self.in_row(chunk),
            VolumeLayout::Replicate => None,
        }
    }

    /// A level ends where the smallest of its SSDs does; the next has all others.
    fn in_stripe(&self, chunk: u64) -> Option<usize> {
        let (mut before, mut row) = (0, 0);
        for (first, end) in self.chunks.iter().enumerate() {
            let width = (self.chunks.len() - first) as u64;
            let level = (end - row) * width;
            if chunk < before + level {
                return Some(first + ((chunk - before) % width) as usize);
            }
            (before, row) = (before + level, *end);
        }
        None
    }

    fn in_row(&self, chunk: u64) -> Option<usize> {
        let mut before = 0;
        self.chunks.iter().position(|chunks| {
            before += chunks;
            chunk < before
        })
    }

    /// As many SSDs as these could work all the time: places are drawn evenly, so that the largest SSD has the most to do,
    /// and the others wait for it.
    pub(super) fn busy(&self) -> f64 {
        let (all, most) = (self.chunks.iter().sum::<u64>(), self.chunks.iter().max());
        match (self.layout, most) {
            (VolumeLayout::Replicate, _) | (_, None | Some(0)) => self.chunks.len() as f64,
            (_, Some(most)) => all as f64 / *most as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(layout: VolumeLayout, bytes: &[u64]) -> Vec<u64> {
        let places = Places::new(layout, 10, bytes.iter().copied());
        let mut wanted = vec![0; bytes.len()];
        let all: u64 = bytes.iter().map(|bytes| bytes / 10 * 10).sum();
        places.count(&mut wanted, 0, all);
        wanted
    }

    #[test]
    fn every_byte_has_its_ssd_whatever_their_sizes() {
        // What fills no chunk is no part of the volume.
        assert_eq!(counted(VolumeLayout::Stripe, &[48, 20, 30]), [20, 30, 40], "the smallest first");
        assert_eq!(counted(VolumeLayout::Concatenate, &[48, 20, 30]), [40, 20, 30]);
        let stripe = Places::new(VolumeLayout::Stripe, 10, [20, 40].into_iter());
        let ssds: Vec<_> = (0..7).map(|chunk| stripe.ssd(chunk)).collect();
        assert_eq!(ssds, [Some(0), Some(1), Some(0), Some(1), Some(1), Some(1), None]);
        let mut wanted = [0; 2];
        stripe.count(&mut wanted, 35, 10);
        assert_eq!(wanted, [0, 10]);
    }

    #[test]
    fn the_largest_ssd_bounds_the_others() {
        let busy = |layout, bytes: &[u64]| Places::new(layout, 10, bytes.iter().copied()).busy();
        assert_eq!(busy(VolumeLayout::Stripe, &[80, 240]), 4.0 / 3.0);
        assert_eq!(busy(VolumeLayout::Concatenate, &[80; 4]), 4.0);
        assert_eq!(busy(VolumeLayout::Replicate, &[80, 240]), 2.0);
    }
}
