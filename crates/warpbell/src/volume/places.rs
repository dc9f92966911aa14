//! Where the blocks of a volume lie, for I/O by the host: as kernels find them (`impl/volume_parts.cuh`).

use warpbell_hw::Lba;
use warpbell_kernels::abi;
use zerocopy::IntoBytes;

use super::Volume;
use crate::host_io::command_bytes;
use crate::{Error, VolumeBuffer, VolumeLayout};

/// Blocks of a volume that lie on one SSD, or on each replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePiece {
    /// Bytes from the begin of the I/O to that of this piece.
    pub at: u64,
    /// Replicated: the replicas that are complete, in the order in which a read tries them. Else one place.
    pub places: Vec<VolumePlace>,
}

/// Blocks of one SSD of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumePlace {
    /// Which SSD, as [`Volume::report`] counts them.
    pub member: usize,
    /// The first block, of the SSD's own.
    pub lba: Lba,
    /// As many blocks of it.
    pub blocks: u64,
}

impl Volume {
    /// The places of `blocks` blocks from `first` on, for I/O by the host. What follows one another on an SSD is one piece,
    /// but for replicas: the chunks of a read are spread over them, and a piece is one command, so that no more than what
    /// failed is read again.
    ///
    /// A read of a replica that fails may be tried on the next, unless the SSD has not answered: it may still write to the
    /// buffer. A write goes to each place; where one fails, replicas differ until these blocks are written again.
    pub fn places(&self, first: Lba, blocks: u64) -> Result<Vec<VolumePiece>, Error> {
        let (first, all) = (first.get(), self.blocks());
        let end = first.checked_add(blocks).filter(|end| *end <= all);
        let Some(end) = end else {
            let limit = format!("the volume has {all} blocks");
            let value = format!("{first} and {blocks} blocks");
            return Err(Error::Argument { object: "first block of a volume", value, limit });
        };
        // Others have no replicas, and need no look at it.
        let present = match self.layout {
            VolumeLayout::Replicate => self.state()?.present,
            VolumeLayout::Stripe | VolumeLayout::Concatenate => u64::MAX,
        };
        if present == 0 {
            let limit = "kernels must have left one that is complete".to_owned();
            return Err(Error::Argument { object: "replicas of a volume", value: "0".to_owned(), limit });
        }
        let (chunk_blocks, most) = (u64::from(self.shape.chunk_blocks), self.piece_blocks());
        let mut pieces: Vec<VolumePiece> = Vec::new();
        let mut from = first;
        while from < end {
            let (chunk, within) = (from / chunk_blocks, from % chunk_blocks);
            let count = (chunk_blocks - within).min(end - from).min(most);
            let places = self.places_of(chunk, (within, count), present);
            let piece = VolumePiece { at: (from - first) << self.shape.block_shift, places };
            match pieces.last_mut().filter(|last| last.is_followed_by(&piece)) {
                Some(last) => last.places[0].blocks += piece.places[0].blocks,
                None => pieces.push(piece),
            }
            from += count;
        }
        Ok(pieces)
    }

    /// The most blocks of a piece: what each replica takes by one command.
    fn piece_blocks(&self) -> u64 {
        let of_all = || self.members.iter().map(|member| command_bytes(member.queues.source()));
        match self.layout {
            VolumeLayout::Replicate => {
                of_all().min().map_or(u64::MAX, |bytes| (bytes >> self.shape.block_shift).max(1))
            }
            VolumeLayout::Stripe | VolumeLayout::Concatenate => u64::MAX,
        }
    }

    /// The SSDs that are read and written, as [`report`](Self::report) counts them: all but replicas that were dropped.
    pub fn present(&self) -> Result<Vec<usize>, Error> {
        let present = match self.layout {
            VolumeLayout::Replicate => self.state()?.present,
            VolumeLayout::Stripe | VolumeLayout::Concatenate => u64::MAX,
        };
        Ok((0..self.members.len()).filter(|member| present >> member & 1 != 0).collect())
    }

    /// For each SSD, as [`report`](Self::report) counts them, which one it was among those that the volume was made of.
    pub fn order(&self) -> impl Iterator<Item = usize> {
        self.members.iter().map(|member| member.given)
    }

    /// Whether it is a buffer of this volume's.
    pub(super) fn has(&self, buffer: &VolumeBuffer) -> bool {
        let parts = &buffer.parts;
        parts.len() == self.members.len()
            && self.members.iter().zip(parts).all(|(member, part)| member.queues.has(part))
    }

    /// Where blocks of one chunk lie: `count` from block `within` on.
    fn places_of(&self, chunk: u64, (within, count): (u64, u64), present: u64) -> Vec<VolumePlace> {
        let place = |(member, on_ssd): (usize, u64)| {
            let shift = self.members[member].reference.unit_shift;
            let lba = Lba((on_ssd * u64::from(self.shape.chunk_blocks) + within) << shift);
            VolumePlace { member, lba, blocks: count << shift }
        };
        match self.layout {
            VolumeLayout::Stripe => vec![place(self.in_stripe(chunk))],
            VolumeLayout::Concatenate => vec![place(self.in_row(chunk))],
            VolumeLayout::Replicate => {
                let there: Vec<usize> =
                    (0..self.members.len()).filter(|member| present >> member & 1 != 0).collect();
                let turn = (chunk % there.len() as u64) as usize;
                let order = there[turn..].iter().chain(&there[..turn]);
                order.map(|member| place((*member, chunk))).collect()
            }
        }
    }

    /// Where the smallest SSDs end, the stripe goes on over the others, which are sorted by size.
    fn in_stripe(&self, mut chunk: u64) -> (usize, u64) {
        let mut row = 0;
        for (first, member) in self.members.iter().enumerate() {
            let width = (self.members.len() - first) as u64;
            let here = (member.reference.chunks - row) * width;
            if chunk < here {
                return (first + (chunk % width) as usize, row + chunk / width);
            }
            chunk -= here;
            row = member.reference.chunks;
        }
        unreachable!("the chunk is one of the volume's")
    }

    fn in_row(&self, mut chunk: u64) -> (usize, u64) {
        for (index, member) in self.members.iter().enumerate() {
            if chunk < member.reference.chunks {
                return (index, chunk);
            }
            chunk -= member.reference.chunks;
        }
        unreachable!("the chunk is one of the volume's")
    }

    pub(super) fn state(&self) -> Result<abi::VolumeState, Error> {
        let mut state = abi::VolumeState::new();
        self.memory.read(super::state_offset(self.members.len()), state.as_mut_bytes())?;
        Ok(state)
    }
}

impl VolumePiece {
    /// Whether the next piece of the same I/O goes on where this one ends. Its data does in any case.
    fn is_followed_by(&self, next: &VolumePiece) -> bool {
        match (&self.places[..], &next.places[..]) {
            ([one], [other]) => one.member == other.member && one.lba.get() + one.blocks == other.lba.get(),
            _ => false,
        }
    }
}

impl VolumeBuffer {
    /// The memory as commands of one SSD name it, as [`Volume::report`] counts them.
    pub fn on(&self, member: usize) -> Option<abi::BufferRef> {
        self.parts.get(member).map(|part| self.part_of(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AttachOptions, Attachment, OpenOptions, Ssd, VolumeSpec};

    fn queues(sizes: &[&str]) -> Vec<Attachment> {
        let open = |size: &&str| {
            let name = format!("soft:size={size}").parse().unwrap();
            let ssd = Ssd::open(&name, &OpenOptions::default()).unwrap();
            ssd.attach(&AttachOptions::new()).unwrap()
        };
        sizes.iter().map(open).collect()
    }

    fn volume(sizes: &[&str], layout: VolumeLayout, chunk_bytes: u64) -> Volume {
        let queues = queues(sizes);
        let queues: Vec<&Attachment> = queues.iter().collect();
        Volume::new(&queues, &VolumeSpec::new().layout(layout).chunk_bytes(chunk_bytes)).unwrap()
    }

    /// At, then each place.
    type Found = (u64, Vec<(usize, u64, u64)>);

    fn found(volume: &Volume, first: u64, blocks: u64) -> Vec<Found> {
        let pieces = volume.places(Lba(first), blocks).unwrap();
        let places = |piece: VolumePiece| {
            let each = piece.places.iter().map(|place| (place.member, place.lba.get(), place.blocks));
            (piece.at, each.collect())
        };
        pieces.into_iter().map(places).collect()
    }

    #[test]
    fn a_stripe_goes_on_over_the_larger_ssds() {
        // 4 and 2 chunks of two blocks: the smaller one is the first of the volume's.
        let volume = volume(&["4k", "2k"], VolumeLayout::Stripe, 1024);
        assert_eq!(volume.order().collect::<Vec<_>>(), [1, 0]);
        let all = found(&volume, 1, 11);
        let wanted = [
            (0, vec![(0, 1, 1)]),
            (512, vec![(1, 0, 2)]),
            (1536, vec![(0, 2, 2)]),
            // The last chunk of both, then two of the larger one alone.
            (2560, vec![(1, 2, 6)]),
        ];
        assert_eq!(all, wanted);
    }

    #[test]
    fn ssds_in_a_row_are_a_piece_each() {
        let volume = volume(&["4k", "2k"], VolumeLayout::Concatenate, 512);
        assert_eq!(found(&volume, 6, 4), [(0, vec![(0, 6, 2)]), (1024, vec![(1, 0, 2)])]);
        assert_eq!(found(&volume, 0, 12).len(), 2);
        assert_eq!(found(&volume, 3, 0), []);
    }

    #[test]
    fn replicas_take_turns_by_chunks_and_those_dropped_are_left_out() {
        let volume = volume(&["4k", "4k", "4k"], VolumeLayout::Replicate, 1024);
        let turns = |volume: &Volume| {
            let pieces = found(volume, 1, 5).into_iter();
            pieces
                .map(|(_, places)| places.into_iter().map(|place| place.0).collect::<Vec<_>>())
                .collect::<Vec<_>>()
        };
        assert_eq!(turns(&volume), [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        let state = abi::VolumeState { present: 0b101, ..abi::VolumeState::new() };
        volume.memory.write(super::super::state_offset(3), state.as_bytes()).unwrap();
        assert_eq!(turns(&volume), [[0, 2], [2, 0], [0, 2]]);
        assert_eq!(found(&volume, 1, 5)[1], (512, vec![(2, 2, 2), (0, 2, 2)]));
    }

    #[test]
    fn blocks_are_those_of_each_ssd() {
        let volume = volume(&["64k,block=4096", "64k"], VolumeLayout::Concatenate, 4096);
        assert_eq!(found(&volume, 15, 2), [(0, vec![(0, 15, 1)]), (4096, vec![(1, 0, 8)])]);
    }

    #[test]
    fn blocks_behind_the_end_are_refused() {
        let volume = volume(&["4k", "2k"], VolumeLayout::Stripe, 1024);
        let text = volume.places(Lba(11), 2).unwrap_err().to_string();
        assert_eq!(text, "first block of a volume 11 and 2 blocks: the volume has 12 blocks");
        assert!(volume.places(Lba(u64::MAX), 2).is_err());
        assert!(volume.places(Lba(12), 0).is_ok());
    }
}
