//! Data there and back, compared: on the processors and the software controller, which are here in any case. An SSD of
//! this machine would have to be written to, which takes its owner's word (`bench --allow-write`).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use warpbell::{DeviceName, OpenOptions, Ssd, Target};
use warpbell_workload::{Access, BenchOptions, ByteSize, Control, Run, RunError, Verify, bench, resolve};

const DEVICE: &str = "soft:size=4m";
const BLOCKS_OF: u64 = 4096;
const BYTES: u64 = 4 << 20;

/// What is, and is not, shown by it.
pub const MEANS: &str = "kernels on the processors and the software controller work; no GPU and no SSD was tried: \
                         warpbell bench DEVICE --rw randrw --verify crc32c --allow-write=DEVICE [--target cuda:0]";

/// What was moved, or what went wrong.
pub fn run(stop: Arc<AtomicBool>) -> Result<String, String> {
    let control = Control::with_stop(stop);
    let run = moved(&control).map_err(|error| error.to_string())?;
    let Some(verify) = run.verify.as_ref().filter(|_| !control.stopped()) else {
        return Err("it was interrupted".to_owned());
    };
    if let Some(wrong) = verify.examples.first() {
        return Err(format!(
            "{} blocks with wrong data; first: LBA {}: expected crc32c {}, actual {}",
            verify.mismatches, wrong.lba, wrong.expected, wrong.actual
        ));
    }
    if !run.failures.is_empty() || verify.blocks == 0 {
        return Err(format!("{} I/Os failed, {} blocks were compared", run.failures.len(), verify.blocks));
    }
    Ok(format!(
        "{} blocks written by kernels on the processors to {DEVICE}, and read back: 0 wrong",
        verify.blocks
    ))
}

fn moved(control: &Control) -> Result<Run, RunError> {
    let name: DeviceName = DEVICE.parse().expect("the name is well-formed");
    let options = OpenOptions { allow_write: vec![DEVICE.to_owned()], ..OpenOptions::default() };
    let ssd = Ssd::open(&name, &options)?;
    let options = BenchOptions {
        rw: Access::RandRw,
        bs: ByteSize(BLOCKS_OF),
        io_limit: Some(ByteSize(BYTES)),
        verify: Some(Verify::Crc32c),
        ..BenchOptions::default()
    };
    let job = resolve(&ssd, &options)?;
    bench(&ssd, Target::Cpu, &job, control)
}
