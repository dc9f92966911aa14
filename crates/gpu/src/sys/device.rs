//! Devices and their attributes, which need no context.
// UNSAFETY: calls the CUDA driver with pointers to local variables.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::ffi::{CStr, c_char, c_int};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUuuid};

use super::functions::{Functions, functions};
use crate::GpuError;

/// A device of the driver.
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub(super) raw: CUdevice,
    ordinal: u32,
    pub(super) functions: &'static Functions,
}

/// Devices that the driver shows.
pub(crate) fn device_count() -> Result<u32, GpuError> {
    let functions = functions()?;
    let mut count: c_int = 0;
    // SAFETY: writes one integer.
    let result = unsafe { functions.cuDeviceGetCount(&raw mut count) };
    result.map_err(|failure| failure.error("GPUs".to_owned()))?;
    Ok(count.max(0) as u32)
}

impl Device {
    pub(crate) fn get(ordinal: u32) -> Result<Device, GpuError> {
        let count = device_count()?;
        if ordinal >= count {
            return Err(GpuError::NoDevice { ordinal, count });
        }
        Device { raw: 0, ordinal, functions: functions()? }.found()
    }

    /// The one of the driver that has the PTX machine.
    #[cfg(feature = "ptx")]
    pub(crate) fn ptx() -> Result<Device, GpuError> {
        Device { raw: 0, ordinal: 0, functions: super::functions::functions_of_ptx()? }.found()
    }

    fn found(mut self) -> Result<Device, GpuError> {
        // SAFETY: writes one integer.
        let result = unsafe { self.functions.cuDeviceGet(&raw mut self.raw, self.ordinal as c_int) };
        result.map_err(|failure| failure.error(self.name_in_errors()))?;
        Ok(self)
    }

    /// `cuda:N`, or `ptx`.
    pub(crate) fn name_in_errors(&self) -> String {
        name(self.is_ptx(), self.ordinal)
    }

    /// No GPU: kernels run on the PTX machine.
    pub(crate) fn is_ptx(&self) -> bool {
        self.functions.are_of_ptx()
    }

    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    pub(crate) fn name(&self) -> Result<String, GpuError> {
        let mut text = [0; 256];
        // SAFETY: writes at most as many bytes as there are, with a zero at the end.
        let result =
            unsafe { self.functions.cuDeviceGetName(text.as_mut_ptr(), text.len() as c_int, self.raw) };
        result.map_err(|failure| failure.error(self.name_in_errors()))?;
        Ok(until_zero(&text))
    }

    /// The PCI address, in lower case as Linux writes it.
    pub(crate) fn pci_address(&self) -> Result<String, GpuError> {
        let mut text = [0; 64];
        // SAFETY: writes at most as many bytes as there are, with a zero at the end.
        let result =
            unsafe { self.functions.cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int, self.raw) };
        result.map_err(|failure| failure.error(self.name_in_errors()))?;
        Ok(until_zero(&text).to_ascii_lowercase())
    }

    pub(crate) fn uuid(&self) -> Result<[u8; 16], GpuError> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: writes 16 bytes.
        let result = unsafe { self.functions.cuDeviceGetUuid_v2(&raw mut uuid, self.raw) };
        result.map_err(|failure| failure.error(self.name_in_errors()))?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    pub(crate) fn memory(&self) -> Result<u64, GpuError> {
        let mut bytes = 0;
        // SAFETY: writes one integer.
        let result = unsafe { self.functions.cuDeviceTotalMem_v2(&raw mut bytes, self.raw) };
        result.map_err(|failure| failure.error(self.name_in_errors()))?;
        Ok(bytes as u64)
    }

    pub(crate) fn attribute(&self, attribute: CUdevice_attribute) -> Result<i32, GpuError> {
        let mut value: c_int = 0;
        // SAFETY: writes one integer.
        let result = unsafe { self.functions.cuDeviceGetAttribute(&raw mut value, attribute, self.raw) };
        result.map_err(|failure| failure.error(format!("{}: {attribute:?}", self.name_in_errors())))?;
        Ok(value)
    }

    /// CUDA version of the driver: major and minor.
    pub(crate) fn driver_version(&self) -> Result<(u32, u32), GpuError> {
        let mut version: c_int = 0;
        // SAFETY: writes one integer.
        let result = unsafe { self.functions.cuDriverGetVersion(&raw mut version) };
        result.map_err(|failure| failure.error("the CUDA driver".to_owned()))?;
        let version = version.max(0) as u32;
        Ok((version / 1000, version % 1000 / 10))
    }
}

/// A device as targets name it.
pub(crate) fn name(ptx: bool, ordinal: u32) -> String {
    if ptx { "ptx".to_owned() } else { format!("cuda:{ordinal}") }
}

fn until_zero(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|byte| *byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}
