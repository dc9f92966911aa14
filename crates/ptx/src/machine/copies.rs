//! Asynchronous copies between global and shared memory (PTX ISA 9.0, section 9.7.9.25). They are done where they begin:
//! PTX leaves open when, so waits for them find none.

use super::block::Common;
use super::lane::Lane;
use super::space::address;
use crate::error::{Check, Finding};
use crate::program::{Access, Address, Order, Reg, Scope};
use crate::text::Space;

impl Common<'_> {
    pub(super) fn copy(
        &mut self,
        lane: &mut Lane,
        to_shared: bool,
        (to, from): (Address, Address),
        size: Reg,
        (barrier, bulk): (Option<Address>, bool),
    ) -> Result<(), Box<Finding>> {
        let (to, from, size) = (address(lane, to), address(lane, from), lane.get(size) & 0xffff_ffff);
        self.copyable(lane, (to, from, size), bulk)?;
        for at in (0..size).step_by(4) {
            let source = self.place(lane, &access(!to_shared), from + at, false)?;
            let value = self.load(lane, &ACCESS, source);
            let target = self.place(lane, &access(to_shared), to + at, true)?;
            self.store(lane, &ACCESS, target, value);
        }
        match barrier {
            Some(barrier) => self.completes(lane, address(lane, barrier), size),
            None => Ok(()),
        }
    }

    /// Bulk copies have multiples of 16 bytes at multiples of 16 (sections 9.7.9.25.4.1), others 4, 8 or 16 at multiples
    /// of them.
    fn copyable(
        &self,
        lane: &Lane,
        (to, from, size): (u64, u64, u64),
        bulk: bool,
    ) -> Result<(), Box<Finding>> {
        let unit = if bulk { 16 } else { size };
        let fits = if bulk { size.is_multiple_of(16) } else { matches!(size, 4 | 8 | 16) };
        if fits && to.is_multiple_of(unit) && from.is_multiple_of(unit) {
            return Ok(());
        }
        let units = if bulk { "multiples of 16" } else { "4, 8 or 16, and addresses are multiples of them" };
        let what = format!("a copy of {size} bytes from {from:#x} to {to:#x}: they are {units}");
        Err(self.found(lane, Check::Alignment, what))
    }
}

/// Copies go word by word: sizes and addresses are multiples of one.
const ACCESS: Access =
    Access { space: Space::Generic, order: Order::Weak, scope: Scope::Cta, bytes: 4, elements: 1 };

/// Shared memory is named by its own addresses as well as by generic ones.
fn access(shared: bool) -> Access {
    Access { space: if shared { Space::Shared } else { Space::Global }, ..ACCESS }
}
