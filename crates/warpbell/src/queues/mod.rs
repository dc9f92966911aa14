//! All of an attachment: queue pairs for kernels, where their memory lies and how each side reaches it.

pub(crate) mod attach;
pub(crate) mod device_rings;
pub(crate) mod doorbells;
pub(crate) mod flush;
pub(crate) mod host_pages;
pub(crate) mod kernel_memory;
pub(crate) mod kernel_queues;
pub(crate) mod layout;
pub(crate) mod mapping;
pub(crate) mod memory;
pub(crate) mod namespace;
pub(crate) mod pairs;
pub(crate) mod proof;
