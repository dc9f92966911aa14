//! Data of admin commands: a DMA buffer per command, described by PRPs.

use std::sync::atomic::Ordering;

use warpbell_hw::{DmaBuffer, Iova};
use warpbell_nvme::command::Sqe;
use warpbell_nvme::data::PRP_ENTRY_SIZE;

use crate::DriverError;
use crate::core::Core;

/// Bytes of a memory page: CC.MPS is always 0.
pub(crate) const PAGE: usize = 4096;

/// The most data of one admin command: what one page of PRP entries describes.
pub(crate) const MAX_DATA: usize = PAGE / PRP_ENTRY_SIZE as usize * PAGE;

/// The data of an admin command.
#[derive(Debug)]
pub enum Data<'a> {
    /// None.
    None,
    /// The controller fills these bytes.
    In(&'a mut [u8]),
    /// The controller takes these bytes.
    Out(&'a [u8]),
}

impl Data<'_> {
    fn len(&self) -> usize {
        match self {
            Data::None => 0,
            Data::In(bytes) => bytes.len(),
            Data::Out(bytes) => bytes.len(),
        }
    }

    /// Copies what a completed command brought.
    pub(crate) fn take(&mut self, buffer: Option<&DmaBuffer>) {
        if let (Data::In(bytes), Some(buffer)) = (self, buffer) {
            let read = buffer.window().read(0, bytes);
            debug_assert!(read.is_ok(), "the buffer was made for these bytes");
        }
    }
}

/// Makes the DMA buffer for `data` and points `sqe` at it.
pub(crate) fn prepare(core: &Core, sqe: &mut Sqe, data: &Data<'_>) -> Result<Option<DmaBuffer>, DriverError> {
    let len = data.len();
    if len == 0 {
        return Ok(None);
    }
    let limit = core.max_transfer().map_or(MAX_DATA, |max| MAX_DATA.min(max as usize));
    if len > limit {
        let (device, command) = (core.name(), sqe.opcode().into());
        return Err(DriverError::DataLength { device, command, len, limit });
    }
    let pages = len.div_ceil(PAGE);
    let list_pages = usize::from(pages > 2);
    let buffer = core.dma_buffer("command data", (pages + list_pages) * PAGE)?;
    if let Data::Out(bytes) = data {
        buffer.window().write(0, bytes).map_err(|error| core.dma_error("command data", error.into()))?;
    }
    point_at(sqe, &buffer, pages);
    Ok(Some(buffer))
}

fn point_at(sqe: &mut Sqe, buffer: &DmaBuffer, pages: usize) {
    let Iova(base) = buffer.iova();
    let page = |index: usize| base + (index * PAGE) as u64;
    match pages {
        1 => sqe.set_prp(base, 0),
        2 => sqe.set_prp(base, page(1)),
        _ => {
            for index in 1..pages {
                let entry = pages * PAGE + (index - 1) * PRP_ENTRY_SIZE as usize;
                buffer.window().store_u64(entry, page(index), Ordering::Relaxed);
            }
            sqe.set_prp(base, page(pages));
        }
    }
}
