//! What holds on any SSD: a soft controller, one behind a socket, a PCI function.
//!
//! Each part takes an open [`Ssd`](warpbell::Ssd), panics with a reason where something does not hold, and says in a line what it did.

mod calls;
mod kernels;
mod life;
mod queues;
mod volumes;
mod workloads;

pub use calls::{Calls, calls_on};
pub use kernels::{kernels, kernels_on};
pub use life::{ResetOrder, all_queues, reset_under_load, reset_under_load_on, works};
pub use queues::host_queues_and_those_of_kernels;
pub use volumes::{
    concatenated_on, concatenated_over, mirrored_over, replicated_on, striped_on, striped_over,
};
pub use workloads::{
    RANGE, apis_on, apis_within, arrays_on, both_apis, boundaries, interrupts_and_polling, protocols_on,
    read_errors, read_errors_on, verified,
};
