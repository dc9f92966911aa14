// UNSAFETY: launches kernels of its own.
//! Vector add with write-back: z = x + y, all three on the SSD.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

use std::process::ExitCode;

use clap::Parser;
use warpbell_data::Vectors;
use warpbell_examples::{Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef, ending};
use zerocopy::{Immutable, IntoBytes};

/// Adds two vectors on an SSD by kernels, writes the sums back through a page cache, and compares what is on the SSD then.
#[derive(Parser)]
#[command(version)]
struct VectorAdd {
    #[command(flatten)]
    sizes: Vectors,
    #[command(flatten)]
    options: Options,
}

/// As in vector_add.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct AddArgs {
    stage: StageRef,
    x: u64,
    y: u64,
    z: u64,
    count: u64,
}

fn main() -> ExitCode {
    ending(run(&VectorAdd::parse()))
}

fn run(VectorAdd { sizes, options }: &VectorAdd) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let (x, y, z) = (data.section("x")?, data.section("y")?, data.room());
    let (count, bytes) = (data.parameter("count")?, x.bytes);
    if x.bytes != y.bytes || count.checked_mul(4) != Some(bytes) {
        let limit =
            format!("{count} elements of 4 bytes, and its vectors have {bytes} and {} bytes", y.bytes);
        return Err(data.refused(limit));
    }
    let code = Code { name: "vector_add.cu", source: include_str!("vector_add.cu") };
    let stage = Stage::open(options, &data, code, bytes)?;
    stage.corrupt(byte_that_matters(x.offset, count))?;

    let add = |pass: &mut Pass| {
        let args = AddArgs { stage: pass.stage(), x: x.offset, y: y.offset, z, count };
        // SAFETY: the kernel touches what its arguments name: memory of this pass.
        unsafe { pass.launch("vector_add", &args, count) }?;
        pass.store(z, bytes)
    };
    let floats = |section| data.values(section, f32::from_le_bytes);
    let sums: Vec<f32> = floats("x")?.iter().zip(&floats("y")?).map(|(x, y)| x + y).collect();
    let on_ssd =
        |name| Ok::<_, Failure>(Check::of(name, &sums, &stage.values(z, bytes, f32::from_le_bytes)?));

    let ((), cached) = stage.cached(add)?;
    let check = on_ssd("z")?;
    stage.clear(z, bytes)?;
    let ((), loaded) = stage.loaded(add)?;
    let check = check.and(on_ssd("z of the loaded program")?);
    let (program, element, elements, bytes) = ("vector_add", "element", count, 3 * bytes);
    stage.report(Outcome { program, element, elements, bytes, check, cached, loaded })
}

/// Of an element of x, in the middle: that with the upper bits of its exponent, since an addition may round lower ones away.
fn byte_that_matters(x: u64, count: u64) -> u64 {
    x + count / 2 * 4 + 3
}

#[cfg(test)]
mod tests {
    use warpbell_examples::DAMAGE;

    use super::*;

    fn damaged(element: f32) -> f32 {
        let mut bytes = element.to_le_bytes();
        bytes[(byte_that_matters(0, 1024) % 4) as usize] ^= DAMAGE;
        f32::from_le_bytes(bytes)
    }

    #[test]
    fn whatever_the_elements_are_a_changed_byte_changes_their_sum() {
        // Elements are multiples of 2^-23 from -1 to 1.
        let element = |units: i32| units as f32 / 8_388_608.0;
        let near_powers = (0..=23).flat_map(|bit| [-1, 0, 1].map(|by| (1 << bit) + by));
        let units = (0..=1 << 23).step_by(97).chain(near_powers).filter(|units| *units <= 1 << 23);
        for x in units.flat_map(|units| [element(units), -element(units)]) {
            assert!(damaged(x).abs() > 1e9, "{x} becomes {}, which must be far from any sum", damaged(x));
        }
    }
}
