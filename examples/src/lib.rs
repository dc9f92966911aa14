//! What the programs in `programs/` have in common: options, data on an SSD, two passes over it, a check, a report.
//!
//! A program is a `.cu` file of at most 150 lines, whose kernels come in pairs (`programs/program.cuh`), and a host side:
//!
//! ```no_run
//! # use warpbell_examples::{Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef};
//! # use zerocopy::{Immutable, IntoBytes};
//! #[derive(IntoBytes, Immutable)]
//! #[repr(C)]
//! struct AddArgs { stage: StageRef, x: u64, y: u64, z: u64, count: u64 }
//!
//! # fn run(options: &Options, sizes: warpbell_data::Vectors) -> Result<(), Failure> {
//! let data = DataFile::take(options, sizes.into())?;                   // synthetic, or the one that --data names
//! let (x, y) = (data.section("x")?, data.section("y")?);
//! let (z, count) = (data.room(), x.bytes / 4);                         // behind the data
//! let code = Code { name: "vector_add.cu", source: "..." };
//! let stage = Stage::open(options, &data, code, x.bytes)?;             // the data is on the SSD now
//! let add = |pass: &mut Pass| {
//!     let args = AddArgs { stage: pass.stage(), x: x.offset, y: y.offset, z, count };
//!     // SAFETY: the kernel touches what its arguments name: memory of this pass.
//!     unsafe { pass.launch("vector_add", &args, count) }?;             // vector_add_cached, or vector_add_loaded
//!     pass.store(z, x.bytes)                                           // a cache did that by itself
//! };
//! let (_, cached) = stage.cached(add)?;                                // over the page cache
//! let check = Check::of("z", [0.5f32], [0.5f32]);                      // what the SSD has now, against the host's own sums
//! let (_, loaded) = stage.loaded(add)?;                                // the same after loading everything first
//! stage.report(Outcome { program: "vector_add", element: "element", elements: count, bytes: 3 * x.bytes, check, cached, loaded })
//! # }
//! ```

mod check;
mod data_file;
mod disk;
mod failure;
mod options;
mod pass;
mod progress;
mod report;
mod stage;

pub use check::Check;
pub use data_file::{DataFile, values};
pub use disk::DAMAGE;
pub use failure::{Failure, ending};
pub use options::{Form, Options};
pub use pass::{CacheFigures, Measured, Pass, Way};
pub use report::Outcome;
pub use stage::{Code, Stage, StageRef};
