// UNSAFETY: memory of a GPU that other packages keep becomes memory that SSDs reach; handles of their streams.
#![expect(unsafe_code, reason = "memory and streams of other packages, of which they say where they are")]
//! Memory of a GPU that CuPy, torch, Numba or others have, and the streams that they work on.

use std::fmt::Display;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use warpbell::{DEVICE_PAGE, DeviceMemory, Gpu};

use crate::args;
use crate::error::{Answer, Failure, type_name};
use crate::foreign::{self, Found, Pages};

/// The default stream of cuda.h, with which those of other packages keep order.
const LEGACY_STREAM: u64 = 1;

/// An object's memory on a GPU.
pub(crate) struct OnGpu {
    found: Found,
    /// The stream that the object's data is made on, if it is on one.
    stream: Option<u64>,
    name: String,
}

/// Whole pages of the memory of `gpu`, which the SSD's data lies in, with that of an object, which is kept. `None`: it is
/// not on a GPU. Waits for the work on the object's stream.
pub(crate) fn pages(
    object: &Bound<'_, PyAny>,
    gpu: Option<&Arc<Gpu>>,
    readonly: bool,
) -> PyResult<Option<Pages<DeviceMemory>>> {
    let name = type_name(object);
    if object.hasattr("__cuda_array_interface__")? {
        let gpu = gpu.ok_or_else(|| no_route(format!("{name} in the memory of a GPU"), "in host memory"))?;
        return of_interface(object, name, readonly)?.pages(object.py(), gpu).map(Some);
    }
    let Some(ordinal) = foreign::gpu_of(object)? else { return Ok(None) };
    let object_place = format!("{name} in the memory of cuda:{ordinal}");
    let gpu = gpu.ok_or_else(|| no_route(&object_place, "in host memory"))?;
    let own = gpu.info();
    if own.is_ptx || i64::from(ordinal) != i64::from(own.ordinal) {
        return Err(no_route(object_place, &format!("in the memory of {}", own.target())).into());
    }
    let found = foreign::of_dlpack(object, Some(LEGACY_STREAM), readonly)?;
    OnGpu { found, stream: Some(LEGACY_STREAM), name }.pages(object.py(), gpu).map(Some)
}

fn no_route(object: impl Display, place_of_data: &str) -> Failure {
    let way = "open it with data=\"hbm\" and gpu=\"cuda:N\" of that GPU, or copy the array to the host";
    let limit = format!("there is no route to it: the SSD was opened with data {place_of_data}; {way}");
    Failure::argument("register", object, limit)
}

/// What `__cuda_array_interface__` says, version 2 or 3.
fn of_interface(object: &Bound<'_, PyAny>, name: String, readonly: bool) -> PyResult<OnGpu> {
    let refuse = |limit: &str| Failure::argument("register", &name, limit);
    let said = object.getattr("__cuda_array_interface__")?;
    let said = said.cast_into::<PyDict>().map_err(|_| refuse("its __cuda_array_interface__ is no dict"))?;
    let entry = |key: &str| -> PyResult<Bound<'_, PyAny>> {
        let missing =
            || Failure::argument("register", &name, format!("its __cuda_array_interface__ has no {key}"));
        Ok(said.get_item(key)?.ok_or_else(missing)?)
    };
    let optional = |key: &str| Ok::<_, PyErr>(said.get_item(key)?.filter(|value| !value.is_none()));
    let (address, is_readonly): (u64, bool) = entry("data")?.extract()?;
    if is_readonly && !readonly {
        return Err(refuse(foreign::READ_ONLY).into());
    }
    if optional("mask")?.is_some() {
        return Err(refuse("has a mask: register the data alone").into());
    }
    let item = item_bytes(&entry("typestr")?.extract::<String>()?)
        .ok_or_else(|| refuse("holds items of no fixed size: register numbers or bytes"))?;
    let shape: Vec<usize> = entry("shape")?.extract()?;
    let strides: Option<Vec<i64>> = optional("strides")?.map(|strides| strides.extract()).transpose()?;
    let nbytes = contiguous_bytes(item, &shape, strides.as_deref())
        .ok_or_else(|| refuse("is not contiguous: register the array that it is a view of, or a copy"))?;
    let version: u32 = entry("version")?.extract()?;
    // Version 3 says which stream the data is made on, if it is on one; older ones say nothing.
    let stream = match optional("stream")? {
        Some(stream) => Some(stream.extract()?),
        None if version < 3 => Some(LEGACY_STREAM),
        None => None,
    };
    let found = Found { address: address as usize, nbytes, owner: object.clone().unbind() };
    Ok(OnGpu { found, stream, name })
}

/// Bytes of an item of this type, as NumPy writes types; `None` for objects.
fn item_bytes(typestr: &str) -> Option<usize> {
    let kind = typestr.chars().nth(1).filter(|kind| *kind != 'O')?;
    let digits = typestr.get(1 + kind.len_utf8()..)?;
    digits.split('[').next()?.parse().ok()
}

/// Bytes of an array whose items follow each other in C order; `None` for others.
fn contiguous_bytes(item: usize, shape: &[usize], strides: Option<&[i64]>) -> Option<usize> {
    let mut bytes = item;
    for (axis, extent) in shape.iter().enumerate().rev() {
        let stride = strides.map_or(Some(bytes as i64), |strides| strides.get(axis).copied())?;
        if *extent > 1 && stride != bytes as i64 {
            return None;
        }
        bytes = bytes.checked_mul(*extent)?;
    }
    Some(bytes)
}

impl OnGpu {
    fn pages(self, py: Python<'_>, gpu: &Arc<Gpu>) -> PyResult<Pages<DeviceMemory>> {
        let Found { address, nbytes, owner } = self.found;
        if nbytes == 0 {
            return Err(Failure::argument("register", &self.name, "has no bytes").into());
        }
        foreign::check_alignment(&self.name, address)?;
        let skip = address % DEVICE_PAGE as usize;
        let whole =
            (skip.checked_add(nbytes)).and_then(|end| end.checked_next_multiple_of(DEVICE_PAGE as usize));
        let len = whole.ok_or_else(|| Failure::argument("register", &self.name, "is larger than memory"))?;
        let owner = Arc::new(owner);
        let memory = py.detach(|| -> Answer<DeviceMemory> {
            if let Some(stream) = self.stream {
                wait_for(gpu, stream)?;
            }
            // SAFETY: the object keeps its memory, and with it the pages of its allocation; the value keeps the object.
            let memory = unsafe { gpu.foreign((address - skip) as u64, len, Some(owner.clone())) };
            Ok(memory.map_err(warpbell::Error::from)?)
        })?;
        Ok(Pages { memory, part: (skip, nbytes), owner })
    }
}

/// Waits for the work that is on a stream.
fn wait_for(gpu: &Gpu, stream: u64) -> Answer<()> {
    // SAFETY: whoever names a stream answers for it: the documentation of `stream` says so.
    Ok(unsafe { gpu.wait_for_stream(stream) }.map_err(warpbell::Error::from)?)
}

/// Waits for the work on the caller's stream, which reads or writes the memory of `gpu`.
pub(crate) fn wait_for_stream(
    stream: &Bound<'_, PyAny>,
    buffer: impl Display,
    gpu: Option<&Arc<Gpu>>,
) -> PyResult<()> {
    let (py, stream) = (stream.py(), handle(stream)?);
    let Some(gpu) = gpu else {
        let limit = format!("the {buffer} lies in host memory, whose I/O waits for no stream");
        return Err(Failure::argument("stream", format!("{stream:#x}"), limit).into());
    };
    Ok(py.detach(|| wait_for(gpu, stream))?)
}

/// The driver's handle of a stream: a number, or what cuda.core, torch and CuPy have.
pub(crate) fn handle(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    if stream.hasattr("__cuda_stream__")? {
        let (_version, handle): (u64, u64) = stream.call_method0("__cuda_stream__")?.extract()?;
        return Ok(handle);
    }
    for name in ["cuda_stream", "ptr"] {
        if stream.hasattr(name)? {
            return args::count("stream", &stream.getattr(name)?);
        }
    }
    if stream.is_instance_of::<PyBool>() || !stream.hasattr("__int__")? {
        let limit = "must be a stream of torch, CuPy or cuda.core, or its handle as a number";
        return Err(Failure::argument_type("stream", stream, limit).into());
    }
    args::count("stream", &stream.call_method0("__int__")?)
}
