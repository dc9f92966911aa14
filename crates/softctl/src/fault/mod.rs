//! Faults as data: a plan says which commands fail or are corrupted, and every injected fault is recorded.

mod inject;
mod plan;

pub use inject::InjectedFault;
pub(crate) use inject::{Corruption, Injector, Target, Verdict};
pub use plan::{Fault, FaultAction, FaultError, FaultKind, FaultPlan, Selector};
