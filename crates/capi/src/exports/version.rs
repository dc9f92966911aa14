// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! Versions and errors.

use std::ffi::{CStr, c_char};

use warpbell_kernels::abi::ABI_VERSION;

use crate::error::{Code, message, status_text};
use crate::types::API_VERSION;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(text) => text,
    Err(_) => c"",
};

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_version() -> *const c_char {
    VERSION.as_ptr()
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_api_version() -> u32 {
    API_VERSION
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_abi_version() -> u32 {
    ABI_VERSION
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_error_name(error: i32) -> *const c_char {
    Code::name(error).as_ptr()
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_error_message() -> *const c_char {
    message()
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_status_text(status: u32) -> *const c_char {
    status_text(status)
}
