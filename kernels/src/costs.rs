//! What each call of the device library costs, from the compiler's output: no GPU is needed to know.
//!
//! A *probe* (`probes/*.cu`) is a kernel that makes one call. [`measure`] compiles the probes for each architecture and
//! counts registers, instructions, atomics and fences; [`checked_in`] is what that gave when `scripts/regenerate-costs`
//! was last run; [`Budgets`] are the limits. [`judge`] puts the three together.

mod budget;
mod count;
mod family;
mod figures;
mod judge;
mod measure;
mod ptxas;
mod sass;
mod table;

pub use budget::{BudgetError, Budgets, Limit};
pub use count::{Class, Unknown, classify, opcode};
pub use family::{STREAMS, families};
pub use figures::{FIGURES, Figure, Figures};
pub use judge::{Judged, judge};
pub use measure::{Compiled, MeasureError, compile, compile_family, measure};
pub use ptxas::{Usage, usages};
pub use sass::{Function, functions};
pub use table::{CostTable, LineError, Probe, Row, TableError, checked_in, source_hash};

/// The architectures that are counted: 90 for sm_90.
pub const ARCHITECTURES: [u32; 5] = [75, 80, 90, 100, 120];
