//! States of a [`Model`] with other numbers for its warps.

use std::sync::atomic::Ordering;

use warpbell_kernels::cpu::Explorer;

use super::device::Device;
use super::locals::{Input, Shape};
use super::model::{Model, Move};
use super::search::key;
use super::symmetry::{Renaming, Symmetry};

impl Model {
    /// What is in the buffer of `lane`, but for addresses and values.
    pub(super) fn shape(&self, lane: usize) -> Shape {
        let stores = self.explorer.stores(lane);
        let last = stores.checked_sub(1).map(|last| self.explorer.waiting(lane, last));
        Shape {
            stores,
            epochs: last.map_or(0, |store| store.epoch),
            fenced: last.is_some_and(|store| store.fenced),
        }
    }

    /// 128 bits by which the state `words`, in which the model is, is known: the least of those of all states that
    /// differ from it only in the numbers of the warps.
    pub(super) fn key_of(&mut self, words: &[u64]) -> u128 {
        let Some(symmetry) = self.symmetry.take() else { return key(words) };
        let mut renamed = std::mem::take(&mut self.scratch);
        let kind = |lane: usize| (self.locals[lane].kind(self.place[lane]), self.explorer.stores(lane));
        let kinds: Vec<_> = (0..self.explorer.lanes()).map(kind).collect();
        let mut least = u128::MAX;
        for by in 0..symmetry.renamings().len() {
            // Of all numberings only those that put warps at different places in one order: for most states one.
            if !symmetry.sorts(&symmetry.renamings()[by], &kinds) {
                continue;
            }
            if by == 0 {
                least = least.min(key(words));
                continue;
            }
            self.rename(&symmetry, by, words, &mut renamed);
            least = least.min(key(&renamed));
        }
        self.scratch = renamed;
        self.symmetry = Some(symmetry);
        least
    }

    /// The state in which the model is, with each renaming of the warps.
    pub(super) fn renamed_states(&mut self) -> Vec<Vec<u64>> {
        let Some(symmetry) = self.symmetry.take() else { return Vec::new() };
        let mut words = Vec::new();
        self.save(&mut words);
        let mut states = vec![Vec::new(); symmetry.renamings().len()];
        for (by, renamed) in states.iter_mut().enumerate() {
            self.rename(&symmetry, by, &words, renamed);
        }
        self.symmetry = Some(symmetry);
        states
    }

    /// The state `words` without where lanes stand.
    pub(super) fn without_places(&self, words: &[u64]) -> Vec<u64> {
        let mut words = words.to_vec();
        let mut at = 2 + self.arena.kept_words();
        at += self.device.as_ref().map_or(0, |_| Device::saved_words(&words[at..]));
        for _ in 0..self.explorer.lanes() {
            words[at] = 0;
            at += 2 + words[at + 1] as usize * Explorer::STORE_WORDS;
        }
        words
    }

    /// Number of the command that `action` completes.
    pub(super) fn completes(&self, action: Move) -> Option<u32> {
        let Move::Complete { index } = action else { return None };
        self.device.as_ref().map(|device| u32::from(device.number(usize::from(index))))
    }

    /// What `action`, which completes command `number`, is where warps have other numbers.
    pub(super) fn renamed_move(&self, by: usize, action: Move, number: Option<u32>) -> Move {
        let (Some(symmetry), Some(device)) = (&self.symmetry, &self.device) else { return action };
        let by = &symmetry.renamings()[by];
        let renamed = |lane: u8| symmetry.lane(by, usize::from(lane)) as u8;
        match (action, number) {
            (Move::Step { lane }, _) => Move::Step { lane: renamed(lane) },
            (Move::Drain { lane, index }, _) => Move::Drain { lane: renamed(lane), index },
            (Move::Complete { index }, Some(number)) => {
                let number = symmetry.command(by, number) as u16;
                let place = (0..device.flights()).find(|place| device.number(*place) == number);
                Move::Complete { index: place.map_or(index, |place| place as u8) }
            }
            _ => action,
        }
    }

    /// The state `words`, in which the model is, with other numbers for the warps.
    fn rename(&mut self, symmetry: &Symmetry, by: usize, words: &[u64], to: &mut Vec<u64>) {
        let renaming = &symmetry.renamings()[by];
        to.clear();
        to.extend_from_slice(&words[..2]);
        let (memory, mut rest) = words[2..].split_at(self.arena.kept_words());
        symmetry.arena(renaming, memory, to);
        if self.device.is_some() {
            let (device, lanes) = rest.split_at(Device::saved_words(rest));
            Device::rename(symmetry, renaming, device, to);
            rest = lanes;
        }
        let lanes = self.explorer.lanes();
        let mut of_lane: Vec<&[u64]> = Vec::with_capacity(lanes);
        for _ in 0..lanes {
            let (own, after) = rest.split_at(2 + rest[1] as usize * Explorer::STORE_WORDS);
            of_lane.push(own);
            rest = after;
        }
        for becomes in 0..lanes {
            let lane = (0..lanes).find(|lane| symmetry.lane(renaming, *lane) == becomes).unwrap_or(becomes);
            let own = of_lane[lane];
            let place = self.renamed_place(symmetry, by, lane, own[0] as u32);
            to.extend([u64::from(place), own[1]]);
            own[2..]
                .chunks_exact(Explorer::STORE_WORDS)
                .for_each(|store| rename_store(symmetry, renaming, store, to));
        }
    }

    /// The place of the lane that `lane` becomes, where it stands if it read what `lane` read on its way to `place`.
    fn renamed_place(&mut self, symmetry: &Symmetry, by: usize, lane: usize, place: u32) -> u32 {
        let known = by * self.explorer.lanes() + lane;
        let mut way = Vec::new();
        let mut at = place;
        let mut found = loop {
            if let Some(Some(found)) = self.renamed[known].get(at as usize) {
                break *found;
            }
            way.push(at);
            match self.locals[lane].origin(at) {
                Some((before, _)) => at = before,
                // All lanes start alike.
                None => break u32::MAX,
            }
        };
        if way.is_empty() {
            return found;
        }
        let renaming = &symmetry.renamings()[by];
        let becomes = symmetry.lane(renaming, lane);
        let mut before = Vec::new();
        self.save(&mut before);
        while let Some(at) = way.pop() {
            found = match self.locals[lane].origin(at) {
                None => 0,
                Some((_, input)) => {
                    let address = symmetry.address(renaming, input.address);
                    let value = symmetry.value(renaming, input.address, input.bytes, input.value);
                    self.follow(becomes, found, Input { address, value, ..input })
                }
            };
            let places = &mut self.renamed[known];
            places.resize(places.len().max(at as usize + 1), None);
            places[at as usize] = Some(found);
        }
        let moved = self.moved;
        self.moved = 1 << becomes;
        self.restore_moved(&before);
        self.moved = moved;
        found
    }

    /// Where `lane` comes to from `place` if it reads that. Disturbs the lane, memory and the clock.
    fn follow(&mut self, lane: usize, place: u32, input: Input) -> u32 {
        let Shape { stores, epochs, fenced } = input.buffer;
        let buffer: Vec<u64> = (0..stores).flat_map(|index| nowhere(index, stores, epochs, fenced)).collect();
        self.put(lane, place, u64::from(stores), &buffer);
        self.clock.store(input.clock, Ordering::Relaxed);
        let offset = input.address.wrapping_sub(self.arena.base()) as usize;
        if input.bytes == 8 {
            self.arena.write(offset, &[input.value]);
        } else if input.bytes == 4 {
            let shift = offset % 8 * 8;
            let word = self.arena.word(offset & !7) & !(0xffff_ffff << shift);
            self.arena.write(offset & !7, &[word | (input.value & 0xffff_ffff) << shift]);
        }
        self.advance(lane);
        self.place[lane]
    }
}

fn rename_store(symmetry: &Symmetry, by: &Renaming, store: &[u64], to: &mut Vec<u64>) {
    let (address, bytes) = (store[0], store[1] as u32);
    let low = symmetry.value(by, address, bytes.min(8), store[3]);
    let high = if bytes > 8 { symmetry.value(by, address + 8, bytes - 8, store[4]) } else { store[4] };
    to.extend([symmetry.address(by, address), store[1], store[2], low, high]);
}

/// Store `index` of a buffer of that shape, which nobody looks at, and which never drains.
fn nowhere(index: u32, stores: u32, epochs: u32, fenced: bool) -> [u64; Explorer::STORE_WORDS] {
    // The epochs begin with the last stores.
    let epoch = (index + epochs + 1).saturating_sub(stores);
    let fenced = fenced || epoch < epochs;
    [0, 4, u64::from(epoch) | u64::from(fenced) << 32, 0, 0]
}
