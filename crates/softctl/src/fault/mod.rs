//! Faults as data: a plan says what goes wrong with which commands, and every injected fault is recorded.

mod incident;
mod inject;
mod plan;
mod text;

pub(crate) use incident::Incident;
pub use inject::InjectedFault;
pub(crate) use inject::{Chosen, Corruption, Injector, Target};
pub use plan::{Fault, FaultAction, FaultKind, FaultPlan, Selector};
pub use text::FaultError;
