//! The ways between a GPU and an SSD that the self-test takes one by one.

use std::sync::Arc;

use warpbell::{DataPlacement, DoorbellChoice, Gpu, OpenOptions, RingPlacement};

/// One of them.
pub(super) struct Way {
    /// The line.
    pub(super) subject: &'static str,
    /// What it means where all data is right.
    pub(super) means: &'static str,
    rings: Memory,
    data: Memory,
    doorbells: DoorbellChoice,
    /// How often each byte is read or written.
    pub(super) times: u64,
}

/// Where rings or data lie.
#[derive(Clone, Copy)]
enum Memory {
    Host,
    Gpu,
}

/// The plain one, of which the others differ in one thing.
pub(super) const DATA_IN_GPU_MEMORY: Way = Way {
    subject: "data through both",
    means: "kernels on the GPU drive the SSD, and it reads and writes GPU memory",
    rings: Memory::Host,
    data: Memory::Gpu,
    doorbells: DoorbellChoice::Auto,
    times: 1,
};

/// What is needed least comes first.
pub(super) const ALL: [Way; 6] = [
    Way {
        subject: "doorbells forwarded",
        means: "kernels on the GPU drive the SSD; a thread rings its doorbells; data in host memory",
        data: Memory::Host,
        doorbells: DoorbellChoice::Forwarded,
        ..DATA_IN_GPU_MEMORY
    },
    Way {
        subject: "doorbells mapped",
        means: "kernels on the GPU ring the SSD's doorbells themselves; data in host memory",
        data: Memory::Host,
        doorbells: DoorbellChoice::Mapped,
        ..DATA_IN_GPU_MEMORY
    },
    DATA_IN_GPU_MEMORY,
    Way {
        subject: "rings in GPU memory",
        means: "kernels on the GPU poll completions in its own memory; data in host memory",
        rings: Memory::Gpu,
        data: Memory::Host,
        ..DATA_IN_GPU_MEMORY
    },
    Way {
        subject: "rings and data in GPU memory",
        means: "nothing that kernels read or write is in host memory but doorbells",
        rings: Memory::Gpu,
        ..DATA_IN_GPU_MEMORY
    },
    Way {
        subject: "order under load",
        means: "no data was seen before it had arrived, over many commands",
        times: 64,
        ..DATA_IN_GPU_MEMORY
    },
];

impl Way {
    /// How the SSD is to be opened for it.
    pub(super) fn options(&self, gpu: &Arc<Gpu>) -> OpenOptions {
        let rings = match self.rings {
            Memory::Host => RingPlacement::Host,
            Memory::Gpu => RingPlacement::Hbm(gpu.clone()),
        };
        let data = match self.data {
            Memory::Host => DataPlacement::Host,
            Memory::Gpu => DataPlacement::Hbm(gpu.clone()),
        };
        OpenOptions::new().rings(rings).data(data).doorbells(self.doorbells)
    }
}
