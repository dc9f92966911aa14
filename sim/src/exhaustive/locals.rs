//! Where lanes stand: stack and registers of each lane, by number.
//!
//! Between two stops a lane does what it does because of what it read, so that where it stands is told by where it
//! stood before and what it read there. So each place remembers how a lane came to it first, and can be come to again:
//! by another lane, too, that reads the same of its own.

use std::collections::HashMap;

use super::search::key;

/// How many stores and fences are in a buffer. It decides nothing, but is left behind on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Stores.
    pub(super) stores: u32,
    /// Epoch of the last of them.
    pub(super) epochs: u32,
    /// Whether a fence came after it.
    pub(super) fenced: bool,
}

/// What a lane read where it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// From where.
    pub(super) address: u64,
    /// How much: 4 or 8 bytes, or none.
    pub(super) bytes: u32,
    /// What.
    pub(super) value: u64,
    /// The time.
    pub(super) clock: u64,
    /// Stores in its buffer, as [`Shape`] tells.
    pub(super) buffer: Shape,
}

/// One place.
#[derive(Debug)]
struct Place {
    control: Box<[u64]>,
    /// From where a lane came first; none, if it started there.
    origin: Option<(u32, Input)>,
}

/// The places of one lane.
#[derive(Debug, Default)]
pub(super) struct Locals {
    places: Vec<Place>,
    numbers: HashMap<u128, u32>,
}

impl Locals {
    /// The number of a place that is `saved`, with the buffer after it.
    pub(super) fn number(&mut self, saved: &[u64], origin: Option<(u32, Input)>) -> u32 {
        let mut control = saved[..saved[0] as usize].to_vec();
        control[1] = 0;
        let places = &mut self.places;
        *self.numbers.entry(key(&control)).or_insert_with(|| {
            places.push(Place { control: control.into_boxed_slice(), origin });
            places.len() as u32 - 1
        })
    }

    /// Something of a place that is the same whichever lane stands there: how deep its stack is, and where in the
    /// program it is.
    pub(super) fn kind(&self, number: u32) -> u64 {
        let control = self.control(number);
        // Stop and address, whether it lives, instruction pointer.
        control[5] << 12 | control[0]
    }

    /// Stack and registers there, with an empty buffer.
    pub(super) fn control(&self, number: u32) -> &[u64] {
        &self.places[number as usize].control
    }

    /// How a lane came there first.
    pub(super) fn origin(&self, number: u32) -> Option<(u32, Input)> {
        self.places[number as usize].origin
    }
}
