//! What an address names, and accesses by space.

use std::sync::atomic::Ordering;

use super::block::Common;
use super::generic;
use super::lane::Lane;
use super::real::Real;
use super::{bytes, real};
use crate::error::{Check, Finding};
use crate::program::{Access, Address, Order};
use crate::text::Space;

/// Where one element of an access is.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Real(Real),
    Shared(u64),
    Local(u64),
    Param(u64),
}

impl Common<'_> {
    /// What `access` names at `address`: aligned, and inside of memory that the kernel may touch.
    pub(super) fn place(
        &mut self,
        lane: &Lane,
        access: &Access,
        address: u64,
        stores: bool,
    ) -> Result<Place, Box<Finding>> {
        let (space, at) = match access.space {
            Space::Generic => generic(address),
            space => (space, address),
        };
        let size = u64::from(access.bytes);
        if !bytes::is_aligned(address, size) {
            let what = format!("{size} bytes at {address:#x}: the address is no multiple of them");
            return Err(self.found(lane, Check::Alignment, what));
        }
        let limit = match space {
            Space::Global | Space::Constant | Space::Generic => return self.real(lane, access, at, stores),
            Space::Shared => self.shared.len(),
            Space::Local => lane.local.len(),
            Space::Param => lane.parameters.len(),
        } as u64;
        if at.checked_add(size).is_none_or(|end| end > limit) {
            let what = format!("{size} bytes at {at:#x} of {space} memory, which has {limit}");
            return Err(self.found(lane, Check::Bounds, what));
        }
        let place = match space {
            Space::Shared => Place::Shared(at),
            Space::Local => Place::Local(at),
            _ => Place::Param(at),
        };
        if !stores {
            self.written(lane, access, place)?;
        }
        Ok(place)
    }

    /// Something was written to what is read there. Of a load of several bytes or elements, one that was written is
    /// enough: compilers copy padding.
    pub(super) fn written(&self, lane: &Lane, access: &Access, place: Place) -> Result<(), Box<Finding>> {
        let (room, space, at) = match place {
            Place::Shared(at) => (&self.shared, Space::Shared, at),
            Place::Local(at) => (&lane.local, Space::Local, at),
            Place::Real(_) | Place::Param(_) => return Ok(()),
        };
        let (bytes, elements) = (u64::from(access.bytes), u64::from(access.elements));
        // The first one's address is a multiple of all, which are a power of two.
        let first = at & !(bytes * elements - 1);
        if (0..elements).any(|element| room.is_written(first + element * bytes, access.bytes)) {
            return Ok(());
        }
        let comes = space == Space::Shared && self.copies.comes_to(at, bytes);
        let but = if comes { ": a copy to there was not waited for" } else { "" };
        let what = format!(
            "{bytes} bytes at {at:#x} of {space} memory are read, and nothing was written there{but}"
        );
        Err(self.found(lane, Check::Uninitialized, what))
    }

    fn real(
        &mut self,
        lane: &Lane,
        access: &Access,
        address: u64,
        stores: bool,
    ) -> Result<Place, Box<Finding>> {
        let bytes = access.bytes;
        let region = self.region(address, u64::from(bytes));
        let found = region.and_then(|region| Some((region, Real::new(&region, address, bytes)?)));
        let Some((region, real)) = found else {
            let what =
                format!("{bytes} bytes at {address:#x}: no memory of this GPU, and none that is registered");
            return Err(self.found(lane, Check::Bounds, what));
        };
        if region.registers && stores && (access.order != Order::Mmio || bytes != 4) {
            let what = format!(
                "a store of {bytes} bytes to a device's registers at {address:#x} that is no st.mmio of 4"
            );
            return Err(self.found(lane, Check::Doorbell, what));
        }
        if let Some(constant) = &self.run.constant
            && let Some(what) = constant.sees(real.span(), access.read_only, stores)
        {
            return Err(self.found(lane, Check::ReadOnly, what));
        }
        Ok(Place::Real(real))
    }

    /// Whether nothing was ever written to the word of this place, which was found just now, and this was seen there.
    pub(super) fn is_fresh(&self, place: Place, seen: u64) -> bool {
        let Place::Real(real) = place else { return false };
        self.regions[0].is_fresh(real, seen)
    }

    /// A load or an atomic of memory that nothing was written to.
    pub(super) fn unwritten(&self, lane: &Lane, bytes: u64, at: u64) -> Box<Finding> {
        let what =
            format!("{bytes} bytes at {at:#x} of global memory are read, and nothing was written there");
        self.found(lane, Check::Uninitialized, what)
    }

    /// The memory of an access of one element, where none but the host's rules hold and it lies in a region that was found
    /// already; else nothing, and the long way says what there is to say.
    pub(super) fn nearby(&self, lane: &Lane, access: &Access, at: Address) -> Option<(real::Region, Real)> {
        let real = matches!(access.space, Space::Global | Space::Generic | Space::Constant);
        if !self.is_plain || !real || access.elements != 1 {
            return None;
        }
        // No region has addresses of another space's window.
        let address = address(lane, at);
        self.regions.iter().find_map(|region| Some((*region, Real::new(region, address, access.bytes)?)))
    }

    /// The region that has these bytes: those that were found last are asked first.
    fn region(&mut self, address: u64, bytes: u64) -> Option<real::Region> {
        if let Some(at) = self.regions.iter().position(|region| region.has(address, bytes)) {
            self.regions.swap(0, at);
            return Some(self.regions[0]);
        }
        let found = self.run.memory.region(address).filter(|region| region.has(address, bytes))?;
        self.regions.rotate_right(1);
        self.regions[0] = found;
        Some(found)
    }

    pub(super) fn load(&mut self, lane: &mut Lane, access: &Access, place: Place) -> u64 {
        if let Place::Real(real) = place
            && let Some(seen) = self.weak_load(lane, access, real)
        {
            return seen;
        }
        if matches!(place, Place::Shared(_)) {
            self.weak_shared(lane, access, false);
        }
        match place {
            Place::Real(real) => real.load(order_of_load(access)),
            Place::Shared(at) => self.shared.read(at, access.bytes).unwrap_or_default(),
            Place::Local(at) => lane.local.read(at, access.bytes).unwrap_or_default(),
            Place::Param(at) => bytes::read(&lane.parameters, at, access.bytes).unwrap_or_default(),
        }
    }

    pub(super) fn store(&mut self, lane: &mut Lane, access: &Access, place: Place, value: u64) {
        if matches!(place, Place::Shared(_)) {
            self.weak_shared(lane, access, true);
        }
        // `place` has seen that there is room.
        let _ = match place {
            Place::Real(real) => {
                if self.weak_store(lane, access, real, value).is_some() {
                    return;
                }
                return real.store(value, order_of_store(access));
            }
            Place::Shared(at) => self.shared.write(at, access.bytes, value),
            Place::Local(at) => lane.local.write(at, access.bytes, value),
            Place::Param(at) => bytes::write(&mut lane.parameters, at, access.bytes, value),
        };
    }

    /// A register of a device gets the value that the lane stored there last, and it has stored nothing since: a doorbell
    /// that says nothing new.
    pub(super) fn rings(&self, lane: &mut Lane, place: Place, value: u64) -> Result<(), Box<Finding>> {
        // The place was found in this region.
        let Place::Real(real) = place else { return Ok(()) };
        let ring = Some((real.span().address(), value));
        if !self.regions[0].registers || lane.rang != ring {
            lane.rang = ring;
            return Ok(());
        }
        let what = format!("a device's register at {:#x} gets {value} twice", real.span().address());
        Err(self.found(lane, Check::Doorbell, what))
    }

    pub(super) fn update(
        &mut self,
        lane: &mut Lane,
        access: &Access,
        place: Place,
        change: impl Fn(u64) -> u64,
    ) -> u64 {
        if let Place::Real(real) = place {
            return match self.weak_update(lane, access, real, &change) {
                Some(old) => old,
                None => real.update(change),
            };
        }
        let old = self.load(lane, access, place);
        self.store(lane, access, place, change(old));
        old
    }
}

pub(super) fn order_of_load(access: &Access) -> Ordering {
    if access.order == Order::Acquire { Ordering::Acquire } else { Ordering::Relaxed }
}

pub(super) fn order_of_store(access: &Access) -> Ordering {
    if access.order == Order::Release { Ordering::Release } else { Ordering::Relaxed }
}

/// The address that an instruction computes.
pub(super) fn address(lane: &Lane, at: Address) -> u64 {
    lane.get(at.base).wrapping_add_signed(at.offset)
}
