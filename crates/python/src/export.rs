// UNSAFETY: fills structs of Python's buffer protocol and of DLPack, which lead to the buffer's memory.
#![expect(unsafe_code, reason = "Python and DLPack get the address of the memory in structs of C")]
//! Views of a buffer without copies: the buffer protocol, and DLPack as it is and as it was.
//!
//! Each view keeps the memory and counts as an export, until whoever has it lets go of it.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::{self, NonNull};

use pyo3::exceptions::{PyAttributeError, PyBufferError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};

use crate::buffer::{Buffer, Export};
use crate::error::Failure;

/// DLPack's kDLCPU.
const CPU: i32 = 1;
/// kDLCUDA.
pub(crate) const CUDA: i32 = 2;
/// Kinds of memory that the host reaches: kDLCPU, kDLCUDAHost.
pub(crate) const CPU_TENSORS: [i32; 2] = [CPU, 3];
/// kDLUInt.
const UNSIGNED: u8 = 1;
/// DLPACK_FLAG_BITMASK_READ_ONLY.
pub(crate) const READ_ONLY: u64 = 1;

/// DLTensor of dlpack.h.
#[repr(C)]
pub(crate) struct Tensor {
    pub(crate) data: *mut c_void,
    device: i32,
    device_id: i32,
    pub(crate) ndim: i32,
    code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
    pub(crate) shape: *const i64,
    pub(crate) strides: *const i64,
    pub(crate) byte_offset: u64,
}

/// DLManagedTensor of dlpack.h.
#[repr(C)]
struct ManagedTensor {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedTensor)>,
}

/// DLManagedTensorVersioned of dlpack.h.
#[repr(C)]
pub(crate) struct VersionedTensor {
    pub(crate) major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut VersionedTensor)>,
    pub(crate) flags: u64,
    pub(crate) tensor: Tensor,
}

const _: () = assert!(size_of::<Tensor>() == 48 && size_of::<ManagedTensor>() == 64);
const _: () = assert!(size_of::<VersionedTensor>() == 80);

/// What a tensor of ours leads to.
struct Context {
    _export: Export,
    shape: [i64; 1],
    strides: [i64; 1],
}

impl Tensor {
    fn new(address: usize, nbytes: u64, place: (i32, i32), export: Export) -> (Tensor, *mut c_void) {
        let context = Box::new(Context { _export: export, shape: [nbytes as i64], strides: [1] });
        let tensor = Tensor {
            data: address as *mut c_void,
            device: place.0,
            device_id: place.1,
            ndim: 1,
            code: UNSIGNED,
            bits: 8,
            lanes: 1,
            shape: context.shape.as_ptr(),
            strides: context.strides.as_ptr(),
            byte_offset: 0,
        };
        (tensor, Box::into_raw(context).cast())
    }
}

/// The word for a kind of device, as DLPack numbers them.
pub(crate) fn device_name(kind: i32) -> String {
    match kind {
        2 => "cuda".to_owned(),
        8 => "metal".to_owned(),
        10 => "rocm".to_owned(),
        13 => "cuda managed".to_owned(),
        other => format!("device kind {other}"),
    }
}

/// Frees a tensor and its context.
///
/// # Safety
/// `managed` comes from `Box::into_raw`, and its context from [`Tensor::new`]; nobody uses them any more.
unsafe extern "C" fn delete(managed: *mut ManagedTensor) {
    // SAFETY: the contract of this function.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.context.cast::<Context>()) });
}

/// The same for a versioned tensor.
///
/// # Safety
/// As for [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut VersionedTensor) {
    // SAFETY: the contract of this function.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: as above.
    drop(unsafe { Box::from_raw(managed.context.cast::<Context>()) });
}

const NAME: &CStr = c"dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";

/// Of a capsule: frees the tensor, unless somebody consumed it and renamed the capsule.
///
/// # Safety
/// Python calls it with a capsule of ours.
unsafe extern "C" fn forget(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule, alive until this function ends.
    if unsafe { ffi::PyCapsule_IsValid(capsule, NAME.as_ptr()) } != 0 {
        // SAFETY: as above.
        let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule, NAME.as_ptr()) };
        // SAFETY: made by `dlpack`, and not consumed.
        unsafe { delete(tensor.cast()) };
    }
    // SAFETY: as above.
    if unsafe { ffi::PyCapsule_IsValid(capsule, NAME_VERSIONED.as_ptr()) } != 0 {
        // SAFETY: as above.
        let tensor = unsafe { ffi::PyCapsule_GetPointer(capsule, NAME_VERSIONED.as_ptr()) };
        // SAFETY: as above.
        unsafe { delete_versioned(tensor.cast()) };
    }
}

fn capsule<'py>(
    py: Python<'py>,
    tensor: *mut c_void,
    name: &'static CStr,
) -> PyResult<Bound<'py, PyCapsule>> {
    let tensor = NonNull::new(tensor).ok_or_else(|| PyBufferError::new_err("no tensor"))?;
    // SAFETY: the tensor lives until the capsule's destructor or its consumer deletes it; any thread may do so.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, tensor, name, Some(forget)) }
}

/// Where the host finds the bytes.
fn host_address(buffer: &Buffer) -> PyResult<usize> {
    buffer.core.host().ok_or_else(|| {
        PyBufferError::new_err(format!(
            "{}: lies in the memory of {}, where the host has no pointer: copy_to_host copies it",
            *buffer.core,
            buffer.core.gpu().map_or_else(|| "another device".to_owned(), |gpu| gpu.info().target()),
        ))
    })
}

/// The buffer's device as DLPack numbers kinds and devices, and the address there.
fn place(buffer: &Buffer) -> PyResult<((i32, i32), usize)> {
    let gpu = buffer.core.gpu().filter(|gpu| !gpu.info().is_ptx);
    match gpu {
        Some(gpu) => Ok((
            (CUDA, gpu.info().ordinal as i32),
            buffer.core.reference().map_err(PyErr::from)?.data as usize,
        )),
        None => Ok(((CPU, 0), host_address(buffer)?)),
    }
}

#[pymethods]
impl Buffer {
    /// A tensor of bytes over the memory, for `from_dlpack` of NumPy, JAX, torch and others.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let (own, address) = place(self)?;
        // On a GPU any stream will do: what wrote to the memory was waited for.
        if let Some(stream) = stream.filter(|_| own.0 == CPU) {
            return Err(
                Failure::argument("stream", stream, "must be None: this is memory of the host").into()
            );
        }
        if let Some((kind, number)) = dl_device.filter(|device| *device != own) {
            let asked = format!("{}:{number}", device_name(kind));
            return Err(PyBufferError::new_err(format!(
                "dl_device {asked}: must be the buffer's own, {own:?}"
            )));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("copy True: views are never copies; copy the array"));
        }
        let is_new = max_version.is_some_and(|(major, _)| major >= 1);
        if self.core.is_readonly() && !is_new {
            return Err(PyBufferError::new_err(format!(
                "{}: is read-only, which tensors can say since DLPack 1.0",
                *self.core
            )));
        }
        let (tensor, context) = Tensor::new(address, self.core.nbytes(), own, self.core.export()?);
        if is_new {
            let flags = if self.core.is_readonly() { READ_ONLY } else { 0 };
            let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut VersionedTensor));
            let managed = VersionedTensor { major: 1, minor: 0, context, deleter, flags, tensor };
            capsule(py, Box::into_raw(Box::new(managed)).cast(), NAME_VERSIONED)
        } else {
            let deleter = Some(delete as unsafe extern "C" fn(*mut ManagedTensor));
            capsule(py, Box::into_raw(Box::new(ManagedTensor { tensor, context, deleter })).cast(), NAME)
        }
    }

    /// The kind of memory as DLPack numbers it, and which device: the host, or the GPU whose memory it is.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        Ok(place(self)?.0)
    }

    /// Where the bytes lie on a GPU, for CuPy, Numba, torch and others (version 3 of the interface). The object is theirs
    /// to keep: as long as there is one, closing leaves the memory to them.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ((kind, _), address) =
            place(self).map_err(|error| PyAttributeError::new_err(error.to_string()))?;
        if kind != CUDA {
            return Err(PyAttributeError::new_err(format!("{}: lies in host memory", *self.core)));
        }
        self.core.show()?;
        let said = PyDict::new(py);
        said.set_item("shape", (self.core.nbytes(),))?;
        said.set_item("typestr", "|u1")?;
        said.set_item("data", (address, self.core.is_readonly()))?;
        said.set_item("strides", py.None())?;
        said.set_item("stream", py.None())?;
        said.set_item("version", 3)?;
        Ok(said)
    }

    /// # Safety
    /// Python calls it, with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let address = host_address(slf.get())?;
        let (nbytes, readonly) =
            (slf.get().core.nbytes() as isize, c_int::from(slf.get().core.is_readonly()));
        let export = Box::new(slf.get().core.export()?);
        // SAFETY: the view is Python's to be filled; the memory stays until `__releasebuffer__` drops the export.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address as *mut c_void, nbytes, readonly, flags)
        };
        if filled != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        // SAFETY: filled just now; `internal` is the exporter's own.
        unsafe { (*view).internal = Box::into_raw(export).cast() };
        Ok(())
    }

    /// # Safety
    /// Python calls it once, with a view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: Python's view, for this call alone.
        let view = unsafe { &mut *view };
        let internal = std::mem::replace(&mut view.internal, ptr::null_mut());
        if !internal.is_null() {
            // SAFETY: put there by `__getbuffer__`, and taken out just now.
            drop(unsafe { Box::from_raw(internal.cast::<Export>()) });
        }
    }
}
