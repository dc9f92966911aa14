//! The ways between a GPU and an SSD that the self-test takes one by one.

use std::sync::Arc;

use warpbell::{DataPlacement, DeviceName, DoorbellChoice, Gpu, OpenOptions, RingPlacement};

/// One of them.
pub(super) struct Way {
    /// The line.
    pub(super) subject: &'static str,
    /// What it means where all data is right.
    means: Means,
    rings: Memory,
    data: Memory,
    doorbells: DoorbellChoice,
    /// How often each byte is read or written.
    pub(super) times: u64,
}

/// What right data means: of an SSD, and of the soft controller in its place.
pub(super) struct Means {
    pub(super) ssd: &'static str,
    pub(super) soft: &'static str,
}

impl Means {
    /// Of the device of this name.
    pub(super) fn of(&self, name: &DeviceName) -> String {
        match name {
            DeviceName::Soft(_) => self.soft.to_owned(),
            DeviceName::VfioUser(_) => self.ssd.replace("the SSD", "the controller behind the socket"),
            _ => self.ssd.to_owned(),
        }
    }
}

/// Where rings or data lie.
#[derive(Clone, Copy)]
enum Memory {
    Host,
    Gpu,
}

/// Kernels of the processors and the SSD.
pub(super) const ALONE: Means = Means {
    ssd: "kernels on the processors drive the SSD, and it reads and writes host memory",
    soft: "kernels on the processors drive the soft controller in the place of an SSD",
};

/// The plain one, of which the others differ in one thing.
pub(super) const DATA_IN_GPU_MEMORY: Way = Way {
    subject: "data through both",
    means: Means {
        ssd: "kernels on the GPU drive the SSD, and it reads and writes GPU memory",
        soft: "kernels on the GPU drive the soft controller, which copies to and from GPU memory; no SSD did",
    },
    rings: Memory::Host,
    data: Memory::Gpu,
    doorbells: DoorbellChoice::Auto,
    times: 1,
};

/// What is needed least comes first.
pub(super) const ALL: [Way; 6] = [
    Way {
        subject: "doorbells forwarded",
        means: Means {
            ssd: "kernels on the GPU drive the SSD; a thread rings its doorbells; data in host memory",
            soft: "",
        },
        data: Memory::Host,
        doorbells: DoorbellChoice::Forwarded,
        ..DATA_IN_GPU_MEMORY
    },
    Way {
        subject: "doorbells mapped",
        means: Means {
            ssd: "kernels on the GPU ring the doorbells of the SSD themselves; data in host memory",
            soft: "kernels on the GPU ring in memory that the soft controller polls: no register of an SSD was tested",
        },
        data: Memory::Host,
        doorbells: DoorbellChoice::Mapped,
        ..DATA_IN_GPU_MEMORY
    },
    DATA_IN_GPU_MEMORY,
    Way {
        subject: "rings in GPU memory",
        means: Means {
            ssd: "kernels on the GPU poll completions in their GPU's memory; data in host memory",
            soft: "kernels on the GPU poll completions in their GPU's memory, where the soft controller copies them; data \
                   in host memory",
        },
        rings: Memory::Gpu,
        data: Memory::Host,
        ..DATA_IN_GPU_MEMORY
    },
    Way {
        subject: "rings and data in GPU memory",
        means: Means {
            ssd: "nothing that kernels read or write is in host memory but doorbells",
            soft: "nothing that kernels read or write is in host memory but doorbells; the soft controller copies",
        },
        rings: Memory::Gpu,
        ..DATA_IN_GPU_MEMORY
    },
    Way {
        subject: "order under load",
        means: Means {
            ssd: "no data was seen before it had arrived, over many commands",
            soft: "the soft controller completes a command when its copies have ended: no order of an SSD was tested",
        },
        times: 64,
        ..DATA_IN_GPU_MEMORY
    },
];

impl Way {
    /// What right data means, over the device of this name.
    pub(super) fn means(&self, name: &DeviceName) -> String {
        self.means.of(name)
    }

    /// Why there is nothing to test with the device of this name.
    pub(super) fn pointless(&self, name: &DeviceName) -> Option<&'static str> {
        let soft = matches!(name, DeviceName::Soft(_));
        (soft && self.doorbells == DoorbellChoice::Forwarded)
            .then_some("the soft controller polls its doorbells: nothing is forwarded")
    }

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
