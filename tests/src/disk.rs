//! An SSD of a test with stepped controllers.

use warpbell_softctl::{
    Fault, FaultAction, FaultPlan, NamespaceConfig, OptionalCommands, Selector, SoftConfig,
};

/// One SSD: its size, its blocks, its queues, and what goes wrong with it.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Of its namespace.
    pub bytes: u64,
    /// Bytes of a block.
    pub block: u32,
    /// Queue pairs, where warps share them.
    pub queues: u32,
    /// Warp slots; `None`: enough.
    pub warps: Option<u32>,
    /// Whether data is described by SGLs.
    pub sgl: bool,
    /// `None`: the controller's own limit of a command; else it moves at most `4096 << mdts` bytes.
    pub mdts: Option<u8>,
    /// Which optional commands it has.
    pub optional: OptionalCommands,
    /// What goes wrong.
    pub faults: FaultPlan,
}

impl Disk {
    /// One queue, SGLs, no faults.
    pub fn new(bytes: u64, block: u32) -> Disk {
        let (optional, faults) = (OptionalCommands::new(), FaultPlan::default());
        Disk { bytes, block, queues: 1, warps: None, sgl: true, mdts: None, optional, faults }
    }

    /// With this one fault.
    pub fn failing(self, action: FaultAction, selector: Selector) -> Disk {
        Disk { faults: FaultPlan::new().faults(vec![Fault::new(action, selector)]), ..self }
    }

    /// Its controller.
    pub fn config(&self) -> SoftConfig {
        let config = SoftConfig::new()
            .namespaces(vec![NamespaceConfig::memory(self.bytes, self.block)])
            .sgl(self.sgl)
            .optional(self.optional)
            .faults(self.faults.clone());
        match self.mdts {
            Some(mdts) => config.mdts(mdts),
            None => config,
        }
    }
}
