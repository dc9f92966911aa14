//! Results of calls: numbers, names and texts of `CUresult`.

use std::ffi::{CStr, CString};

use parking_lot::Mutex;

/// An error, or the reason why there is no result yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u32);

pub(crate) type Result<T> = std::result::Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Code {
            $(pub(crate) const $name: Code = Code($number);)*
        }

        const TABLE: &[(u32, &str, &str)] =
            &[$(($number, concat!("CUDA_ERROR_", stringify!($name), "\0"), concat!($text, "\0")),)*];
    };
}

codes! {
    INVALID_VALUE = 1, "invalid argument";
    OUT_OF_MEMORY = 2, "out of memory";
    NOT_INITIALIZED = 3, "initialization error";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_IMAGE = 200, "device kernel image is invalid";
    INVALID_CONTEXT = 201, "invalid device context";
    NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    INVALID_PTX = 218, "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "the provided PTX was compiled with an unsupported toolchain.";
    OPERATING_SYSTEM = 304, "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400, "invalid resource handle";
    NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    CONTEXT_IS_DESTROYED = 709, "context is destroyed";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the requested memory range is already mapped";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region";
    LAUNCH_FAILED = 719, "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720, "too many blocks in cooperative launch";
    NOT_PERMITTED = 800, "operation not permitted";
    NOT_SUPPORTED = 801, "operation not supported";
    UNKNOWN = 999, "unknown error";
}

/// What kernels did wrong, in place of the text of their result.
static FAULTS: Mutex<Vec<(Code, &'static CStr)>> = Mutex::new(Vec::new());

/// From now on `code` has this text.
pub(crate) fn tell(code: Code, text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let mut faults = FAULTS.lock();
    faults.retain(|(of, _)| *of != code);
    // It is asked for as long as the process lives. A context has one fault.
    faults.push((code, Box::leak(text.into_boxed_c_str())));
}

/// Name and text of a result, 0 included; `None` for numbers that nobody returns here.
pub(crate) fn words(number: u32) -> Option<(&'static CStr, &'static CStr)> {
    if number == 0 {
        return Some((c"CUDA_SUCCESS", c"no error"));
    }
    let (_, name, text) = TABLE.iter().find(|(of, ..)| *of == number)?;
    let zero_ended = |text: &'static str| CStr::from_bytes_with_nul(text.as_bytes()).ok();
    let fault = FAULTS.lock().iter().find(|(of, _)| of.0 == number).map(|(_, text)| *text);
    Some((zero_ended(name)?, fault.or_else(|| zero_ended(text))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_names_of_cuda_h() {
        assert_eq!(words(0).unwrap().0, c"CUDA_SUCCESS");
        assert_eq!(words(700).unwrap().0, c"CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_eq!(words(Code::HOST_MEMORY_ALREADY_REGISTERED.0).unwrap().0.to_bytes().len(), 41);
        assert!(words(12345).is_none());
    }
}
