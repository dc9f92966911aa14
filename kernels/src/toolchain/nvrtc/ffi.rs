// UNSAFETY: loads libnvrtc and calls its C interface.
#![expect(unsafe_code, reason = "foreign functions of a library that is loaded at run time")]
//! `nvrtc.h`, as far as it is needed.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;

use crate::toolchain::CompileError;

const SUCCESS: c_int = 0;
const ERROR_COMPILATION: c_int = 6;

type RawProgram = *mut c_void;

/// The functions, by their names without the prefix.
macro_rules! functions {
    ($($field:ident = $symbol:literal: fn($($argument:ty),*) -> $result:ty;)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            fn load(library: &libloading::Library) -> Result<Functions, libloading::Error> {
                Ok(Functions {
                    $($field: {
                        // SAFETY: nvrtc.h gives the symbol this type, in every version 13.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> $result>($symbol)
                        };
                        *symbol?
                    },)*
                })
            }
        }
    };
}

functions! {
    error_string = b"nvrtcGetErrorString": fn(c_int) -> *const c_char;
    version = b"nvrtcVersion": fn(*mut c_int, *mut c_int) -> c_int;
    architecture_count = b"nvrtcGetNumSupportedArchs": fn(*mut c_int) -> c_int;
    architectures = b"nvrtcGetSupportedArchs": fn(*mut c_int) -> c_int;
    create = b"nvrtcCreateProgram": fn(
        *mut RawProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
    ) -> c_int;
    destroy = b"nvrtcDestroyProgram": fn(*mut RawProgram) -> c_int;
    compile = b"nvrtcCompileProgram": fn(RawProgram, c_int, *const *const c_char) -> c_int;
    log_size = b"nvrtcGetProgramLogSize": fn(RawProgram, *mut usize) -> c_int;
    log = b"nvrtcGetProgramLog": fn(RawProgram, *mut c_char) -> c_int;
    ptx_size = b"nvrtcGetPTXSize": fn(RawProgram, *mut usize) -> c_int;
    ptx = b"nvrtcGetPTX": fn(RawProgram, *mut c_char) -> c_int;
    cubin_size = b"nvrtcGetCUBINSize": fn(RawProgram, *mut usize) -> c_int;
    cubin = b"nvrtcGetCUBIN": fn(RawProgram, *mut c_char) -> c_int;
}

/// The library.
pub(super) struct Library {
    functions: Functions,
    /// Keep the code mapped. The second looks for the first by its name.
    _builtins: Option<libloading::Library>,
    _library: libloading::Library,
}

impl Library {
    /// Loads `builtins`, if there is any, then `library`.
    pub(super) fn open(builtins: Option<&Path>, library: &Path) -> Result<Library, libloading::Error> {
        // SAFETY: the initialisers of NVIDIA's library run; whoever put it there vouches for it, as for any other
        // that the loader finds.
        let load = |path: &Path| unsafe { libloading::Library::new(path) };
        let builtins = builtins.map(load).transpose()?;
        let library = load(library)?;
        let functions = Functions::load(&library)?;
        Ok(Library { functions, _builtins: builtins, _library: library })
    }

    pub(super) fn version(&self) -> Result<(i32, i32), CompileError> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: two places for numbers.
        let result = unsafe { (self.functions.version)(&raw mut major, &raw mut minor) };
        self.check("nvrtcVersion", result)?;
        Ok((major, minor))
    }

    /// 75, 80, ...: what it compiles machine code for.
    pub(super) fn architectures(&self) -> Result<Vec<u32>, CompileError> {
        let mut count = 0;
        // SAFETY: a place for a number.
        let result = unsafe { (self.functions.architecture_count)(&raw mut count) };
        self.check("nvrtcGetNumSupportedArchs", result)?;
        let mut numbers = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: there is room for as many as the library said.
        let result = unsafe { (self.functions.architectures)(numbers.as_mut_ptr()) };
        self.check("nvrtcGetSupportedArchs", result)?;
        Ok(numbers.into_iter().filter_map(|number| u32::try_from(number).ok()).collect())
    }

    /// A source with the headers that it may include.
    pub(super) fn program(
        &self,
        name: &str,
        text: &str,
        headers: &[(&str, &str)],
    ) -> Result<Program<'_>, CompileError> {
        let (name, text) = (c_string(name)?, c_string(text)?);
        let names = Strings::new(headers.iter().map(|(name, _)| *name))?;
        let texts = Strings::new(headers.iter().map(|(_, text)| *text))?;
        let mut raw = ptr::null_mut();
        let create = self.functions.create;
        // SAFETY: C strings, and two arrays of as many as the count says; the library copies them all.
        let result = unsafe {
            create(&raw mut raw, text.as_ptr(), name.as_ptr(), names.len(), texts.as_ptr(), names.as_ptr())
        };
        self.check("nvrtcCreateProgram", result)?;
        Ok(Program { library: self, raw })
    }

    fn check(&self, call: &'static str, result: c_int) -> Result<(), CompileError> {
        if result == SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be asked for.
        let text = unsafe { (self.functions.error_string)(result) };
        // SAFETY: the answer is a constant C string.
        let text = unsafe { CStr::from_ptr(text) };
        Err(CompileError::Nvrtc { call, reason: text.to_string_lossy().into_owned() })
    }
}

/// A source on its way to an image.
pub(super) struct Program<'a> {
    library: &'a Library,
    raw: RawProgram,
}

impl Program<'_> {
    /// Compiles; false: the log says why not.
    pub(super) fn compile(&self, options: &[String]) -> Result<bool, CompileError> {
        let options = Strings::new(options.iter().map(String::as_str))?;
        // SAFETY: a program that was created, and as many C strings as the count says.
        let result = unsafe { (self.library.functions.compile)(self.raw, options.len(), options.as_ptr()) };
        if result == ERROR_COMPILATION {
            return Ok(false);
        }
        self.library.check("nvrtcCompileProgram", result).map(|()| true)
    }

    pub(super) fn log(&self) -> Result<String, CompileError> {
        let functions = &self.library.functions;
        let bytes = self.content("nvrtcGetProgramLog", functions.log_size, functions.log)?;
        Ok(String::from_utf8_lossy(text_of(&bytes)).into_owned())
    }

    pub(super) fn ptx(&self) -> Result<Vec<u8>, CompileError> {
        let functions = &self.library.functions;
        let bytes = self.content("nvrtcGetPTX", functions.ptx_size, functions.ptx)?;
        Ok(text_of(&bytes).to_vec())
    }

    pub(super) fn cubin(&self) -> Result<Vec<u8>, CompileError> {
        let functions = &self.library.functions;
        self.content("nvrtcGetCUBIN", functions.cubin_size, functions.cubin)
    }

    fn content(
        &self,
        call: &'static str,
        size_of: unsafe extern "C" fn(RawProgram, *mut usize) -> c_int,
        get: unsafe extern "C" fn(RawProgram, *mut c_char) -> c_int,
    ) -> Result<Vec<u8>, CompileError> {
        let mut size = 0;
        // SAFETY: a program that was created, and a place for a number.
        self.library.check(call, unsafe { size_of(self.raw, &raw mut size) })?;
        let mut bytes = vec![0u8; size];
        // SAFETY: there is room for as many bytes as the library said.
        self.library.check(call, unsafe { get(self.raw, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: created once and destroyed once. That it fails would be of no consequence.
        unsafe { (self.library.functions.destroy)(&raw mut self.raw) };
    }
}

/// Texts for an array of C strings.
struct Strings {
    _owned: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl Strings {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Strings, CompileError> {
        let owned = texts.map(c_string).collect::<Result<Vec<_>, _>>()?;
        // What a CString points at stays where it is when the CString moves.
        let pointers = owned.iter().map(|text| text.as_ptr()).collect();
        Ok(Strings { _owned: owned, pointers })
    }

    fn len(&self) -> c_int {
        c_int::try_from(self.pointers.len()).unwrap_or(c_int::MAX)
    }

    fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

fn c_string(text: &str) -> Result<CString, CompileError> {
    let shown = || text.chars().take(40).collect();
    CString::new(text).map_err(|_| CompileError::Name {
        object: "source",
        name: shown(),
        limit: "there is a zero byte in it",
    })
}

/// What comes before the zero byte at the end.
fn text_of(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
