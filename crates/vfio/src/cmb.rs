//! The controller memory buffer: which part of which BAR it is.

use std::sync::Arc;

use warpbell_hw::{Registers, Window};
use warpbell_nvme::register::{Cap, CmbLoc, CmbMsc, CmbSz, offset};

use crate::VfioError;
use crate::bar;
use crate::device::Regions;

/// Where the buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bar: u8,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// Asks the controller, or says why its answer is of no use. The place shows only once CMBMSC.CRE is set, which is left
/// set.
pub(crate) fn place(registers: &dyn Registers) -> Result<Option<Place>, (u8, String)> {
    let cap = registers.read64(offset::CAP);
    if cap == u64::MAX || !Cap::from_bits(cap).cmbs() {
        return Ok(None);
    }
    let control = registers.read32(offset::CMBMSC);
    if !CmbMsc::from_bits(control.into()).cre() {
        registers.write32(offset::CMBMSC, control | CmbMsc::new().with_cre(true).into_bits() as u32);
    }
    let location = CmbLoc::from_bits(registers.read32(offset::CMBLOC));
    let size = CmbSz::from_bits(registers.read32(offset::CMBSZ));
    let bar = location.bir();
    let (Some(start), Some(len)) = (size.offset_bytes(location), size.bytes()) else {
        return Err((bar, format!("controller memory in unknown units (CMBSZ.SZU {})", size.szu())));
    };
    Ok((len > 0).then_some(Place { bar, start, len }))
}

/// Maps the buffer, if the controller has one.
pub(crate) fn map(regions: &Regions, registers: &dyn Registers) -> Result<Option<Window>, VfioError> {
    let place = place(registers).map_err(|(bar, reason)| VfioError::Bar { bdf: regions.bdf, bar, reason })?;
    let Some(Place { bar, start, len }) = place else { return Ok(None) };
    let refused = |reason| VfioError::Bar { bdf: regions.bdf, bar, reason };
    let region = regions.region(bar.into())?;
    let part = start..start.saturating_add(len);
    let spare = regions.msix.spare(bar, &region.mappable);
    if !spare.iter().any(|area| area.start <= part.start && part.end <= area.end) {
        return Err(refused(format!(
            "controller memory {part:#x?} is not within what may be mapped: {spare:#x?}"
        )));
    }
    let mapping = bar::map(regions.bdf, bar, std::os::fd::AsFd::as_fd(&regions.device), &region, part)?;
    Ok(Some(Window::whole(Arc::new(mapping))))
}
