//! Bits of PCI configuration space, for whoever reads it or plays it.

use bitflags::bitflags;

bitflags! {
    /// The command register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Command: u16 {
        /// The function decodes memory.
        const MEMORY = 1 << 1;
        /// It masters the bus.
        const BUS_MASTER = 1 << 2;
        /// It responds to parity errors.
        const PARITY = 1 << 6;
        /// It reports system errors.
        const SERR = 1 << 8;
        /// It does not raise INTx.
        const INTX_DISABLE = 1 << 10;
        const _ = !0;
    }

    /// The status register.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Status: u16 {
        /// There is a list of capabilities.
        const CAPABILITIES = 1 << 4;
        /// Errors, each cleared by a write of one.
        const ERRORS = 1 << 8 | 0x1f << 11;
        const _ = !0;
    }

    /// Message control of MSI-X, but for the size of its table.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct MsixControl: u16 {
        /// No vector is sent.
        const MASK_ALL = 1 << 14;
        /// MSI-X is on.
        const ENABLE = 1 << 15;
        const _ = !0;
    }
}

impl Command {
    /// What a function needs to be driven: to be reached, and to reach memory.
    pub(crate) const DRIVEN: Command = Command::MEMORY.union(Command::BUS_MASTER);
}
