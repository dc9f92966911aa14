//! Completions in the order of submission (`order=submission`, experimental): what finishes early waits.

use std::collections::VecDeque;

/// The commands of one submission queue that were fetched and not reported, oldest first.
#[derive(Debug)]
pub(crate) struct Order<T> {
    /// Serial number of the oldest.
    first: u64,
    commands: VecDeque<Place<T>>,
}

#[derive(Debug)]
enum Place<T> {
    /// Not done.
    Open,
    Done(T),
    /// It will never be done, and nobody waits for it.
    Left,
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order { first: 0, commands: VecDeque::new() }
    }
}

impl<T> Order<T> {
    /// A command was fetched. Returns its serial number.
    pub(crate) fn enter(&mut self) -> u64 {
        self.commands.push_back(Place::Open);
        self.first + self.commands.len() as u64 - 1
    }

    fn place(&mut self, serial: u64) -> Option<&mut Place<T>> {
        let place = self.commands.get_mut(serial.checked_sub(self.first)? as usize)?;
        matches!(place, Place::Open).then_some(place)
    }

    /// The command with this number is done. Releases what has no place any more.
    pub(crate) fn finish(&mut self, serial: u64, finished: T) -> Option<T> {
        match self.place(serial) {
            Some(place) => {
                *place = Place::Done(finished);
                None
            }
            None => Some(finished),
        }
    }

    /// The command with this number will never be done.
    pub(crate) fn leave(&mut self, serial: u64) {
        if let Some(place) = self.place(serial) {
            *place = Place::Left;
        }
    }

    /// The oldest command, if it is done. It leaves.
    pub(crate) fn next(&mut self) -> Option<T> {
        loop {
            if matches!(self.commands.front()?, Place::Open) {
                return None;
            }
            self.first += 1;
            if let Some(Place::Done(finished)) = self.commands.pop_front() {
                return Some(finished);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finishes_early_waits_for_what_came_before() {
        let mut order = Order::default();
        for lap in 0..3 {
            let serials = [0, 1, 2].map(|_| order.enter());
            assert_eq!(serials, [3 * lap, 3 * lap + 1, 3 * lap + 2]);
            assert_eq!((order.finish(serials[2], 2), order.finish(serials[1], 1)), (None, None));
            assert_eq!(order.next(), None);
            assert_eq!(order.finish(serials[0], 0), None);
            assert_eq!(std::iter::from_fn(|| order.next()).collect::<Vec<_>>(), [0, 1, 2]);
        }
    }

    #[test]
    fn what_never_finishes_holds_up_nobody() {
        let mut order = Order::default();
        let serials = [0, 1, 2].map(|_| order.enter());
        order.finish(serials[2], 2);
        order.leave(serials[1]);
        order.finish(serials[0], 0);
        assert_eq!(std::iter::from_fn(|| order.next()).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(order.finish(serials[1], 1), Some(1), "it has no place any more");
    }
}
