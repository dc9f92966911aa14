//! What a [`Model`] does, in words.

use warpbell_kernels::cpu::{Next, Waiting};

use super::model::{Model, Move};

impl Model {
    /// Who does `action` here, and what that is, in words.
    pub fn describe(&self, action: Move) -> (String, String) {
        match action {
            Move::Step { lane } => (format!("warp {lane}"), self.describe_step(usize::from(lane))),
            Move::Drain { lane, index } => {
                let store = self.explorer.waiting(usize::from(lane), u32::from(index));
                (format!("warp {lane}"), format!("its store arrives: {}", self.describe_store(&store)))
            }
            Move::Fetch => ("controller".into(), "fetches".into()),
            Move::Complete { index } => {
                let number = self.device.as_ref().map_or(0, |device| device.number(usize::from(index)));
                ("controller".into(), format!("completes command {number}"))
            }
            Move::Leap => ("time".into(), "all deadlines pass".into()),
        }
    }

    fn describe_step(&self, lane: usize) -> String {
        let stores = || {
            let names = self.waiting(lane).into_iter().map(|store| self.describe_store(&store));
            names.collect::<Vec<_>>().join(", ")
        };
        match self.explorer.next(lane) {
            Next::Load { address, bytes } => {
                let own = self.waiting(lane).into_iter().rfind(|store| store.overlaps(address, bytes));
                let value = own.map_or_else(|| self.value(address, bytes), |store| number(store.number()));
                format!("loads {}: {value}", self.arena.name(address))
            }
            Next::Rmw { address, bytes } => {
                format!("read-modify-writes {}: {}", self.arena.name(address), self.value(address, bytes))
            }
            Next::Fence => format!("fence: {}", stores()),
            Next::Done => format!("has returned: {}", stores()),
            Next::Fault => self.explorer.fault(),
        }
    }

    fn describe_store(&self, store: &Waiting) -> String {
        let name = self.arena.name(store.address);
        match store.bytes {
            16 => name,
            _ => format!("{name} = {}", number(store.number())),
        }
    }

    fn value(&self, address: u64, bytes: u32) -> String {
        let offset = address.wrapping_sub(self.arena.base()) as usize;
        number(if bytes == 4 { u64::from(self.arena.half(offset)) } else { self.arena.word(offset) })
    }

    /// What each lane is about to do, in words.
    pub fn describe_lanes(&self) -> Vec<String> {
        let lanes = 0..self.explorer.lanes();
        let stand = |lane: usize| match self.explorer.next(lane) {
            Next::Done if self.explorer.stores(lane) == 0 => format!("warp {lane}     has returned"),
            _ => format!("warp {lane}     next: {}", self.describe_step(lane)),
        };
        lanes.map(stand).collect()
    }
}

fn number(value: u64) -> String {
    if value < 1 << 16 { value.to_string() } else { format!("{value:#x}") }
}
