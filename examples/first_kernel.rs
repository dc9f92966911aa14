// UNSAFETY: launches a kernel of its own.
//! A kernel of one's own: compiled while this program runs, and run over the queues of an SSD.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use warpbell::abi::{BufferRef, NamespaceRef};
use warpbell::{AttachOptions, CompileOptions, DeviceName, OpenOptions, Program, Ssd, Target};
use zerocopy::{Immutable, IntoBytes};

/// Threads of the warp, each of which reads a block.
const LANES: usize = 32;

/// Reads the first 32 blocks of an image file by a kernel, and compares the sums of their words with its own.
#[derive(Parser)]
struct Options {
    /// Where the kernel runs: cpu, cuda:N, or ptx
    #[arg(long, default_value = "cpu")]
    target: Target,
    /// The kernel's source
    #[arg(long)]
    source: Option<PathBuf>,
    /// The image; without it, a file of numbers that is gone afterwards
    image: Option<PathBuf>,
}

/// As in first_kernel.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct SumArgs {
    ns: NamespaceRef,
    data: BufferRef,
    sums: BufferRef,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<warpbell::Error>() {
            Some(error) => {
                eprintln!("error: {error}");
                ExitCode::from(error.exit_code())
            }
            None => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
    }
}

fn run(options: &Options) -> Result<()> {
    let target = options.target.open()?;
    let compiling = CompileOptions::default();
    let program = match &options.source {
        // SAFETY: whoever names a source trusts its code.
        Some(path) => unsafe { Program::compile_file(&target, path, &compiling) }?,
        None => {
            let source = include_str!("first_kernel.cu");
            // SAFETY: the source has no initialisers of its own.
            unsafe { Program::compile(&target, "first_kernel.cu", source, &compiling) }?
        }
    };
    println!("compiled for {}: {}", program.target(), program.code());

    let synthetic = tempfile::NamedTempFile::new().context("an image to read")?;
    let image = options.image.as_deref().unwrap_or(synthetic.path());
    if options.image.is_none() {
        let numbers: Vec<u8> = (0..8192u64).flat_map(|number| (number * number).to_le_bytes()).collect();
        std::fs::write(image, numbers).context("an image to read")?;
    }
    let name: DeviceName = format!("soft:file={}", image.display()).parse()?;
    let ssd = Ssd::open(&name, &OpenOptions::default())?;
    let queues = ssd.attach(&AttachOptions::new().target(options.target))?;
    let block = 1usize << queues.namespace().block_shift;

    let (data, sums) = (queues.buffer(LANES * block)?, queues.buffer(LANES * size_of::<u64>())?);
    let args = SumArgs { ns: queues.namespace(), data: data.as_ref(), sums: sums.as_ref() };
    // SAFETY: the kernel touches its queues and two buffers, which the launch keeps, and no more than a block for each lane.
    let launch = unsafe { program.launch(&queues, "sum_blocks", &args) }?;
    launch.start()?.join()?;

    let mut found = [0u64; LANES];
    sums.read(0, found.as_mut_bytes())?;
    let bytes = std::fs::read(image).with_context(|| image.display().to_string())?;
    for (lane, (found, block)) in found.iter().zip(bytes.chunks_exact(block)).enumerate() {
        let words = block.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let expected = words.fold(0u64, u64::wrapping_add);
        ensure!(*found == expected, "block {lane}: the kernel's sum is {found:#x}, not {expected:#x}");
    }
    println!("{LANES} blocks read by the kernel, each sum right; the first: {:#x}", found[0]);
    Ok(())
}
