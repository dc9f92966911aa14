//! NVRTC: NVIDIA's compiler as a library, which needs neither a toolkit nor a GPU nor files of ours.
//!
//! It is loaded at the first use, and never before: builds and normal runs do without it.

mod ffi;
mod find;
mod includes;
mod notice;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use parking_lot::Mutex;

use super::error::first_lines;
use super::{CompileError, Watch};
use crate::image::Format;
use ffi::Library;

/// The library, loaded.
pub(super) struct Nvrtc {
    library: Library,
    version: (i32, i32),
    identity: String,
    /// 75, 80, ...: in ascending order.
    architectures: Vec<u32>,
}

/// One compilation.
pub(super) struct Job {
    /// For messages.
    pub(super) name: String,
    pub(super) text: String,
    /// By the names under which they are included.
    pub(super) headers: Vec<(String, String)>,
    pub(super) options: Vec<String>,
    pub(super) format: Format,
    /// For messages, too: 90 for 9.0.
    pub(super) arch: u32,
}

/// Between two polls of whether it was interrupted.
const POLL: Duration = Duration::from_millis(50);
/// The stack of a compilation: what main threads have.
const STACK: usize = 8 << 20;
/// Compilations that nobody waits for any more, and that are not over.
static ABANDONED: AtomicUsize = AtomicUsize::new(0);

/// Whether there are any.
pub(super) fn abandoned() -> bool {
    ABANDONED.load(Ordering::Acquire) > 0
}

impl Nvrtc {
    /// The library, which is loaded once; a failure is tried again.
    ///
    /// By one thread at a time: while one has it loaded, another would find it by its name, without its other half, and if
    /// that one were kept, the half that the first loaded would go.
    pub(super) fn get() -> Result<&'static Nvrtc, CompileError> {
        static LOADED: OnceLock<Nvrtc> = OnceLock::new();
        static LOADING: Mutex<()> = Mutex::new(());
        let _alone = LOADING.lock();
        if let Some(nvrtc) = LOADED.get() {
            return Ok(nvrtc);
        }
        let nvrtc = Nvrtc::load()?;
        Ok(LOADED.get_or_init(|| nvrtc))
    }

    fn load() -> Result<Nvrtc, CompileError> {
        let library = find::library().map_err(|error| CompileError::NoNvrtc { tried: error.to_string() })?;
        let version = library.version()?;
        let mut architectures = library.architectures()?;
        architectures.sort_unstable();
        let identity = format!("nvrtc {}.{} {}", version.0, version.1, find::build_of_loaded());
        Ok(Nvrtc { library, version, identity, architectures })
    }

    /// Its version: `13.0`.
    pub(super) fn version(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// What tells its results from those of another.
    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// What to compile for a GPU of this capability: machine code where its architecture is known, else PTX.
    pub(super) fn target(&self, capability: u32) -> Result<(Format, u32), CompileError> {
        let known = &self.architectures;
        if known.contains(&capability) {
            return Ok((Format::Cubin, capability));
        }
        let newest = known.iter().copied().filter(|arch| *arch < capability).max();
        newest.map(|arch| (Format::Ptx, arch)).ok_or_else(|| CompileError::Architecture {
            capability,
            nvrtc: self.version(),
            oldest: known.first().copied().unwrap_or(0),
        })
    }

    /// Compiles on a thread of its own, as `watch` wants to know of it: until the end, or until it is interrupted.
    pub(super) fn compile_watched(
        &'static self,
        job: Job,
        watch: Option<&Watch>,
    ) -> Result<Vec<u8>, CompileError> {
        let what = format!("{} for compute capability {}.{}", job.name, job.arch / 10, job.arch % 10);
        let Some(watch) = watch else {
            let _told = notice::of(&what);
            return self.compile(&job);
        };
        if (watch.interrupted)() {
            return Err(CompileError::Interrupted { what });
        }
        (watch.begin)(&what);
        let (done, ended) = sync_channel(0);
        let work = move || {
            let result = self.compile(&job);
            if done.send(result).is_err() {
                ABANDONED.fetch_sub(1, Ordering::Release);
            }
        };
        let failed = |reason: String| CompileError::Nvrtc { call: "nvrtcCompileProgram", reason };
        let thread = Builder::new().name("nvrtc".to_owned()).stack_size(STACK).spawn(work);
        thread.map_err(|error| failed(format!("a thread for it: {error}")))?;
        loop {
            match ended.recv_timeout(POLL) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => return Err(failed("its thread has ended".to_owned())),
                Err(RecvTimeoutError::Timeout) if (watch.interrupted)() => {
                    // Before the receiver goes, whose end the thread takes for this.
                    ABANDONED.fetch_add(1, Ordering::Release);
                    return Err(CompileError::Interrupted { what });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Compiles, and returns the image.
    fn compile(&self, job: &Job) -> Result<Vec<u8>, CompileError> {
        let all: Vec<(&str, &str)> =
            job.headers.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let texts: Vec<String> =
            all.iter().map(|(name, text)| includes::resolved(name, text, &all)).collect();
        let headers: Vec<_> =
            all.iter().zip(&texts).map(|((name, _), text)| (*name, text.as_str())).collect();
        let program = self.library.program(&job.name, &job.text, &headers)?;
        if !program.compile(&job.options)? {
            let text = first_lines(&program.log()?);
            return Err(CompileError::Compile { what: job.name.clone(), text });
        }
        match job.format {
            Format::Ptx => program.ptx(),
            Format::Cubin => program.cubin(),
        }
    }
}

/// How a source is compiled, in NVRTC's words.
pub(super) fn options(format: Format, arch: u32, definitions: &[String]) -> Vec<String> {
    let kind = match format {
        Format::Ptx => "compute",
        Format::Cubin => "sm",
    };
    let fixed = ["--std=c++20".to_owned(), format!("--gpu-architecture={kind}_{arch}")];
    let definitions = definitions.iter().map(|definition| format!("--define-macro={definition}"));
    fixed.into_iter().chain(definitions).collect()
}

/// Of files with such images.
pub(super) fn extension(format: Format) -> &'static str {
    match format {
        Format::Ptx => "ptx",
        Format::Cubin => "cubin",
    }
}
