// UNSAFETY: memory of a Python object's, as memory of ours; tensors that a DLPack capsule leads to.
#![expect(unsafe_code, reason = "memory of other Python objects becomes memory that devices reach")]
//! The memory of an existing Python object (NumPy, JAX, torch, bytearray, mmap), as a window that an SSD may use.

use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyMemoryView, PyTuple};
use warpbell_hw::{BASE_PAGE, Window};

use crate::buffer::Buffer;
use crate::error::{Answer, Failure, type_name};
use crate::export::{self, CPU_TENSORS, CUDA, Tensor, VersionedTensor, device_name};

/// Bytes to which the first byte must be aligned: commands name addresses by double words.
const ALIGNMENT: usize = 4;

/// Why memory that may not be written is refused.
pub(crate) const READ_ONLY: &str =
    "is read-only, and SSDs write to buffers: with readonly=True they only read from this one";

/// Where the object's bytes lie, and what keeps them there.
pub(crate) struct Found {
    pub(crate) address: usize,
    pub(crate) nbytes: usize,
    pub(crate) owner: Py<PyAny>,
}

/// Refuses a buffer of ours: its memory is mapped already.
pub(crate) fn check_no_buffer(object: &Bound<'_, PyAny>) -> Answer<()> {
    if object.cast::<Buffer>().is_ok() {
        return Err(Failure::argument_type("register", object, "is a buffer already"));
    }
    Ok(())
}

/// Whole pages with an object's memory.
pub(crate) struct Pages<M> {
    pub(crate) memory: M,
    /// Where in them it lies: bytes before it, and its own.
    pub(crate) part: (usize, usize),
    /// The reference by which they keep the object.
    pub(crate) owner: Arc<Py<PyAny>>,
}

/// The object's memory, in pages of the host.
pub(crate) fn window(object: &Bound<'_, PyAny>, readonly: bool) -> PyResult<Pages<Window>> {
    let found = match on_other_device(object)? {
        Some(refusal) => return Err(refusal.into()),
        None => find(object, readonly)?,
    };
    let name = type_name(object);
    if found.nbytes == 0 {
        return Err(Failure::argument("register", &name, "has no bytes").into());
    }
    check_alignment(&name, found.address)?;
    let skip = found.address % BASE_PAGE;
    let whole = skip.checked_add(found.nbytes).and_then(|end| end.checked_next_multiple_of(BASE_PAGE));
    let len = whole.ok_or_else(|| Failure::argument("register", &name, "is larger than memory"))?;
    let base = NonNull::new((found.address - skip) as *mut u8)
        .ok_or_else(|| Failure::argument("register", &name, "lies at address 0"))?;
    let owner = Arc::new(found.owner);
    // SAFETY: the owner keeps the object's memory where it is, and with it the pages that it lies in.
    let memory = unsafe { Window::of_user(base, len, Some(Box::new(owner.clone()))) };
    Ok(Pages { memory, part: (skip, found.nbytes), owner })
}

/// Whether commands can name the address.
pub(crate) fn check_alignment(name: &str, address: usize) -> Answer<()> {
    if address.is_multiple_of(ALIGNMENT) {
        return Ok(());
    }
    let limit = format!("begins at {address:#x}: must begin at a multiple of {ALIGNMENT} bytes");
    Err(Failure::argument("register", name, limit))
}

/// The device that an object's memory is on, as DLPack numbers kinds and devices.
fn device_of(object: &Bound<'_, PyAny>) -> PyResult<Option<(i32, i32)>> {
    if !object.hasattr("__dlpack_device__")? {
        return Ok(None);
    }
    object.call_method0("__dlpack_device__")?.extract().map(Some)
}

/// The number of the GPU that an object's memory is on, if it is on one.
pub(crate) fn gpu_of(object: &Bound<'_, PyAny>) -> PyResult<Option<i32>> {
    Ok(device_of(object)?.filter(|(kind, _)| *kind == CUDA).map(|(_, ordinal)| ordinal))
}

/// Why memory of another device cannot be registered; `None` for the host's.
fn on_other_device(object: &Bound<'_, PyAny>) -> PyResult<Option<Failure>> {
    let refusal = |(kind, number): (i32, i32)| {
        let place = format!("{} in the memory of {}:{number}", type_name(object), device_name(kind));
        Failure::argument("register", place, "there is no route to it: copy it to the host")
    };
    Ok(device_of(object)?.filter(|(kind, _)| !CPU_TENSORS.contains(kind)).map(refusal))
}

fn find(object: &Bound<'_, PyAny>, readonly: bool) -> PyResult<Found> {
    // The view keeps the export, and with it the memory, for as long as it lives.
    if let Ok(view) = PyMemoryView::from(object) {
        return of_view(object, view, readonly);
    }
    if object.hasattr("__dlpack__")? {
        return of_dlpack(object, None, readonly);
    }
    let limit = "must have the buffer protocol or DLPack, as arrays and tensors do";
    Err(Failure::argument_type("register", object, limit).into())
}

fn of_view(object: &Bound<'_, PyAny>, view: Bound<'_, PyMemoryView>, readonly: bool) -> PyResult<Found> {
    let refuse = |limit| Err(Failure::argument("register", type_name(object), limit).into());
    let buffer = PyUntypedBuffer::get(&view)?;
    if buffer.readonly() && !readonly {
        return refuse(READ_ONLY);
    }
    // Bytes of an SSD are no references. Names of fields stand between colons.
    if buffer.format().to_bytes().split(|byte| *byte == b':').step_by(2).any(|part| part.contains(&b'O')) {
        return refuse("holds Python objects: register numbers or bytes");
    }
    if !buffer.is_c_contiguous() && !buffer.is_fortran_contiguous() {
        return refuse("is not contiguous: register the array that it is a view of, or a copy");
    }
    let (address, nbytes) = (buffer.buf_ptr() as usize, buffer.len_bytes());
    Ok(Found { address, nbytes, owner: view.into_any().unbind() })
}

/// The tensor of an object, in a capsule that nobody consumes: its own destructor lets the tensor go. On a GPU the work on
/// `stream` begins after the data is made.
pub(crate) fn of_dlpack(object: &Bound<'_, PyAny>, stream: Option<u64>, readonly: bool) -> PyResult<Found> {
    let (py, name) = (object.py(), type_name(object));
    let wanted = PyDict::new(py);
    if let Some(stream) = stream {
        wanted.set_item("stream", stream)?;
    }
    let older = wanted.copy()?;
    wanted.set_item("max_version", PyTuple::new(py, [1, 0])?)?;
    // Objects of the older protocol do not know the argument.
    let asked = object.call_method("__dlpack__", (), Some(&wanted)).or_else(|error| {
        let is_older = error.is_instance_of::<PyTypeError>(py);
        if is_older { object.call_method("__dlpack__", (), Some(&older)) } else { Err(error) }
    })?;
    let bad = || Failure::argument("register", &name, "its __dlpack__ gives no tensor");
    let capsule = asked.cast_into::<PyCapsule>().map_err(|_| bad())?;
    let (tensor, is_readonly) = if let Ok(pointer) = capsule.pointer_checked(Some(c"dltensor_versioned")) {
        // SAFETY: a capsule of this name leads to such a struct, as DLPack says, and lives.
        let managed = unsafe { pointer.cast::<VersionedTensor>().as_ref() };
        if managed.major != 1 {
            let limit = format!("gives a tensor of DLPack {}: must be 1", managed.major);
            return Err(Failure::argument("register", &name, limit).into());
        }
        (&managed.tensor, managed.flags & export::READ_ONLY != 0)
    } else {
        let pointer = capsule.pointer_checked(Some(c"dltensor")).map_err(|_| bad())?;
        // SAFETY: as above: the older struct begins with the tensor.
        (unsafe { pointer.cast::<Tensor>().as_ref() }, false)
    };
    if is_readonly && !readonly {
        return Err(Failure::argument("register", &name, READ_ONLY).into());
    }
    if !bits_of(tensor).is_multiple_of(8) {
        let limit = format!("has items of {} bits: must be whole bytes", bits_of(tensor));
        return Err(Failure::argument("register", &name, limit).into());
    }
    let (address, nbytes) = place_of(tensor).ok_or_else(|| {
        let limit =
            "is not contiguous, or larger than memory: register the tensor that it is a view of, or a copy";
        Failure::argument("register", &name, limit)
    })?;
    Ok(Found { address, nbytes, owner: capsule.into_any().unbind() })
}

/// Bits of an item.
fn bits_of(tensor: &Tensor) -> usize {
    usize::from(tensor.bits) * usize::from(tensor.lanes)
}

/// Where a tensor's bytes lie, and how many; `None` where they are not contiguous.
fn place_of(tensor: &Tensor) -> Option<(usize, usize)> {
    let dimensions = usize::try_from(tensor.ndim).ok()?;
    let at = |list: *const i64, index: usize| {
        // SAFETY: DLPack's lists have as many numbers as there are dimensions, aligned as such.
        unsafe { *list.wrapping_add(index) }
    };
    let mut items: i64 = 1;
    for index in (0..dimensions).rev() {
        let extent = at(tensor.shape, index);
        if !tensor.strides.is_null() && extent > 1 && at(tensor.strides, index) != items {
            return None;
        }
        items = items.checked_mul(extent)?;
    }
    let nbytes = usize::try_from(items).ok()?.checked_mul(bits_of(tensor) / 8)?;
    Some(((tensor.data as usize).checked_add(usize::try_from(tensor.byte_offset).ok()?)?, nbytes))
}
