//! The controller memory buffer (Base 2.0, 3.1.3.11 to 3.1.3.16): memory of the controller for submission queues.
//!
//! It holds submission queues and nothing else. Clients enable its registers (CMBMSC.CRE), read where it is and what
//! it is for, and choose the address at which the controller knows it (CMBMSC.CBA with CMSE).

use warpbell_hw::{MemoryError, Window};
use warpbell_nvme::Status;
use warpbell_nvme::register::{CmbLoc, CmbMsc, CmbSts, CmbSz, offset};

use crate::engine::{Refused, never};

/// Bytes of CMBSZ.SZU = 0.
pub(crate) const UNIT: u64 = 4096;
/// The BAR that a PCI function would have it in: not the one with the registers.
const BAR: u8 = 2;

/// The buffer and its registers.
pub(crate) struct Cmb {
    window: Option<Window>,
    control: CmbMsc,
}

impl Cmb {
    /// `bytes` bytes of controller memory, a multiple of [`UNIT`]; none at all if 0.
    pub(crate) fn new(bytes: u64) -> Result<Cmb, MemoryError> {
        let window = if bytes == 0 { None } else { Some(Window::host(bytes as usize)?) };
        Ok(Cmb { window, control: CmbMsc::new() })
    }

    /// The memory, as a client maps it.
    pub(crate) fn window(&self) -> Option<&Window> {
        self.window.as_ref()
    }

    fn len(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.len() as u64)
    }

    /// A register of the buffer; `None` if `at` is none of them, or there is no buffer.
    pub(crate) fn read(&self, at: u32) -> Option<u32> {
        self.window.as_ref()?;
        let shown = |value: u32| Some(if self.control.cre() { value } else { 0 });
        match at {
            offset::CMBLOC => shown(CmbLoc::new().with_bir(BAR).into_bits()),
            offset::CMBSZ => {
                shown(CmbSz::new().with_sqs(true).with_sz((self.len() / UNIT) as u32).into_bits())
            }
            offset::CMBMSC => Some(self.control.into_bits() as u32),
            0x54 => Some((self.control.into_bits() >> 32) as u32),
            offset::CMBSTS => {
                Some(CmbSts::new().with_cbai(self.control.cmse() && self.end().is_none()).into_bits())
            }
            _ => None,
        }
    }

    /// Writes a register of the buffer; false if `at` is none that can be written, or there is no buffer.
    pub(crate) fn write(&mut self, at: u32, value: u32) -> bool {
        let old = self.control.into_bits();
        let new = match at {
            _ if self.window.is_none() => return false,
            // Bits 11:2 are reserved.
            offset::CMBMSC => old & !0xffff_ffff | u64::from(value & 0xffff_f003),
            0x54 => old & 0xffff_ffff | u64::from(value) << 32,
            _ => return false,
        };
        self.control = CmbMsc::from_bits(new);
        true
    }

    /// After a reset of the function the registers are as at power on. A controller reset leaves them.
    pub(crate) fn reset(&mut self) {
        self.control = CmbMsc::new();
    }

    /// The address behind the buffer, if it is one.
    fn end(&self) -> Option<u64> {
        self.control.base_address().checked_add(self.len())
    }

    /// Whether an address is the buffer's.
    pub(crate) fn holds(&self, address: u64) -> bool {
        let enabled = self.control.cre() && self.control.cmse();
        enabled && address >= self.control.base_address() && self.end().is_some_and(|end| address < end)
    }

    /// The memory of a submission queue that begins in the buffer and must not leave it.
    pub(crate) fn queue(&self, address: u64, len: u64) -> Result<Window, Refused> {
        let refused = never(Status::INVALID_CMB_USE);
        let at = address.wrapping_sub(self.control.base_address());
        let window = self.window.as_ref().ok_or(refused)?;
        window.slice(at as usize, len as usize).map_err(|_| refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enabled(base: u64) -> Cmb {
        let mut cmb = Cmb::new(16 * UNIT).unwrap();
        let control = CmbMsc::new().with_cre(true).with_cmse(true).with_cba(base >> 12).into_bits();
        assert!(cmb.write(0x54, (control >> 32) as u32) && cmb.write(offset::CMBMSC, control as u32));
        cmb
    }

    #[test]
    fn location_and_size_show_once_they_are_enabled() {
        let mut cmb = Cmb::new(16 * UNIT).unwrap();
        assert_eq!((cmb.read(offset::CMBLOC), cmb.read(offset::CMBSZ)), (Some(0), Some(0)));
        assert!(!cmb.holds(0));
        cmb.write(offset::CMBMSC, 0xffd);
        assert_eq!(cmb.read(offset::CMBMSC), Some(1), "reserved bits stay zero");
        let size = CmbSz::from_bits(cmb.read(offset::CMBSZ).unwrap());
        assert_eq!((size.bytes(), size.sqs(), size.cqs(), size.rds()), (Some(16 * UNIT), true, false, false));
        assert!(Cmb::new(0).unwrap().read(offset::CMBSZ).is_none());
    }

    #[test]
    fn queues_lie_inside_where_the_client_put_the_buffer() {
        let base = 0x1_2345_6000;
        let cmb = enabled(base);
        assert!(cmb.holds(base) && cmb.holds(base + 16 * UNIT - 1));
        assert!(!cmb.holds(base - 1) && !cmb.holds(base + 16 * UNIT));
        assert_eq!(cmb.queue(base + UNIT, 64).unwrap().offset_in_memory(), UNIT as usize);
        assert_eq!(cmb.queue(base + 15 * UNIT, UNIT + 64).unwrap_err(), never(Status::INVALID_CMB_USE));
        assert_eq!(cmb.read(offset::CMBSTS), Some(0));
    }

    #[test]
    fn an_address_that_overflows_is_invalid() {
        let cmb = enabled(u64::MAX - UNIT + 1);
        assert_eq!(cmb.read(offset::CMBSTS), Some(CmbSts::new().with_cbai(true).into_bits()));
        assert!(!cmb.holds(u64::MAX));
    }
}
