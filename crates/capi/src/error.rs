//! What a call came to: a code, and a text that each thread keeps for itself.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use warpbell::error_chain;
use warpbell_kernels::Error as KernelError;
use warpbell_kernels::toolchain::CompileError;

/// `warpbell_error` of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Ok = 0,
    Failed = 1,
    Invalid = 2,
    Refused = 3,
    Missing = 4,
    Handle = 5,
    Busy = 6,
    Timeout = 7,
    Compile = 8,
    Command = 9,
    Internal = 10,
    InUse = 11,
}

impl Code {
    /// The name of a code, as the header has it.
    pub(crate) fn name(code: i32) -> &'static CStr {
        const NAMES: [&CStr; 12] = [
            c"WARPBELL_OK",
            c"WARPBELL_ERROR_FAILED",
            c"WARPBELL_ERROR_INVALID",
            c"WARPBELL_ERROR_REFUSED",
            c"WARPBELL_ERROR_MISSING",
            c"WARPBELL_ERROR_HANDLE",
            c"WARPBELL_ERROR_BUSY",
            c"WARPBELL_ERROR_TIMEOUT",
            c"WARPBELL_ERROR_COMPILE",
            c"WARPBELL_ERROR_COMMAND",
            c"WARPBELL_ERROR_INTERNAL",
            c"WARPBELL_ERROR_IN_USE",
        ];
        usize::try_from(code).ok().and_then(|code| NAMES.get(code)).copied().unwrap_or(c"unknown")
    }

    /// The code that goes with an exit code of the command.
    fn of_exit_code(code: u8) -> Code {
        match code {
            2 => Code::Invalid,
            3 => Code::Refused,
            4 => Code::Missing,
            _ => Code::Failed,
        }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

/// What a call gives.
pub(crate) type Answer<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, text: impl Display) -> Failure {
        Failure { code, text: text.to_string() }
    }

    /// A wrong argument: its name, its value, what is allowed.
    pub(crate) fn invalid(text: impl Display) -> Failure {
        Failure::new(Code::Invalid, text)
    }
}

impl From<warpbell::Error> for Failure {
    fn from(error: warpbell::Error) -> Failure {
        let code = match &error {
            warpbell::Error::Kernels(error) => return kernels(error),
            warpbell::Error::Busy { .. } => Code::Busy,
            warpbell::Error::Undeleted { .. } => Code::InUse,
            warpbell::Error::Command { .. } => Code::Command,
            other => Code::of_exit_code(other.exit_code()),
        };
        Failure::new(code, error_chain(&error))
    }
}

impl From<KernelError> for Failure {
    fn from(error: KernelError) -> Failure {
        kernels(&error)
    }
}

fn kernels(error: &KernelError) -> Failure {
    let code = match error {
        error if error.is_missing_requirement() => Code::Missing,
        KernelError::Compile(CompileError::Compile { .. }) => Code::Compile,
        KernelError::Compile(CompileError::Name { .. }) => Code::Invalid,
        KernelError::NoKernel { .. } | KernelError::Image { .. } => Code::Invalid,
        KernelError::ArgumentSize { .. } | KernelError::Refused { .. } => Code::Invalid,
        KernelError::TooManyBlocks { .. } => Code::Invalid,
        _ => Code::Failed,
    };
    Failure::new(code, error_chain(error))
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
    static STATUS: RefCell<CString> = RefCell::default();
}

/// Runs what a function does. Whatever comes of it, a panic too, becomes a code, and a text of this thread.
pub(crate) fn report(work: impl FnOnce() -> Answer<()>) -> i32 {
    let answer = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Failure::new(Code::Internal, format!("a bug in Warpbell, please report it: {text}")))
    });
    let Err(failure) = answer else { return Code::Ok as i32 };
    // A thread that is ending has no text any more: its code is all there is to say then.
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = c_text(failure.text));
    failure.code as i32
}

/// The text of this thread's last failure; valid until the next.
pub(crate) fn message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A status that a kernel reported, in words; valid until the next on this thread.
pub(crate) fn status_text(status: u32) -> *const c_char {
    let text = c_text(warpbell::describe_status(status));
    let keep = |kept: &RefCell<CString>| {
        *kept.borrow_mut() = text;
        kept.borrow().as_ptr()
    };
    STATUS.try_with(keep).unwrap_or(c"".as_ptr())
}

/// C text ends with the first zero byte, so there is none within.
fn c_text(text: String) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        MESSAGE.with(|message| message.borrow().to_string_lossy().into_owned())
    }

    #[test]
    fn a_panic_is_a_code_and_a_text() {
        assert_eq!(report(|| panic!("the {} is {}", "answer", 42)), Code::Internal as i32);
        assert!(last().ends_with("the answer is 42"), "{}", last());
    }

    #[test]
    fn success_leaves_the_text_and_other_threads_have_their_own() {
        assert_eq!(report(|| Err(Failure::new(Code::Busy, "zero \0 within"))), Code::Busy as i32);
        assert_eq!(report(|| Ok(())), 0);
        assert_eq!(last(), "zero   within");
        std::thread::spawn(|| assert_eq!(last(), "")).join().unwrap();
    }

    #[test]
    fn every_code_has_its_name() {
        assert_eq!(Code::name(Code::Internal as i32), c"WARPBELL_ERROR_INTERNAL");
        assert_eq!(Code::name(Code::InUse as i32), c"WARPBELL_ERROR_IN_USE");
        assert_eq!(Code::name(Code::Ok as i32), c"WARPBELL_OK");
        for unknown in [-1, 12, i32::MAX] {
            assert_eq!(Code::name(unknown), c"unknown");
        }
    }
}
