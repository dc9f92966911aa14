//! What is counted.

use std::ops::{Index, IndexMut};

/// One thing that is counted of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Machine instructions but padding.
    Instructions,
    /// Registers, where the compiler takes what it likes.
    Registers,
    /// Registers, where the kernel is bounded to [`Figures::bound`]; 0 where it is not.
    RegistersBounded,
    /// Bytes spilled under that bound.
    SpillBoundedBytes,
    /// Bytes spilled without a bound.
    SpillBytes,
    /// Stack frame.
    StackBytes,
    /// Instructions that load from or store to local memory.
    LocalSites,
    /// Atomic read-modify-write instructions.
    RmwSites,
    /// Sequentially consistent fences of system scope: `MEMBAR.SC.SYS`.
    FenceScSysSites,
    /// Acquire and release fences of system scope: `MEMBAR.ALL.SYS`.
    FenceSysSites,
    /// Acquire and release fences of GPU scope: `MEMBAR.ALL.GPU`.
    FenceGpuSites,
    /// Fences of any other kind.
    FenceOtherSites,
    /// Reciprocals: one in each integer division.
    DivisionSites,
    /// Calls, also of code of the same function.
    CallSites,
    /// Registers beyond those of the probe that only attaches. Derived, not counted.
    NetRegisters,
}

/// All of them, in the order in which they are shown.
pub const FIGURES: [Figure; 15] = [
    Figure::Instructions,
    Figure::Registers,
    Figure::RegistersBounded,
    Figure::SpillBoundedBytes,
    Figure::SpillBytes,
    Figure::StackBytes,
    Figure::LocalSites,
    Figure::RmwSites,
    Figure::FenceScSysSites,
    Figure::FenceSysSites,
    Figure::FenceGpuSites,
    Figure::FenceOtherSites,
    Figure::DivisionSites,
    Figure::CallSites,
    Figure::NetRegisters,
];

impl Figure {
    /// In tables, budgets and JSON: with the unit at its end.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Instructions => "instructions",
            Figure::Registers => "registers",
            Figure::RegistersBounded => "bounded_registers",
            Figure::SpillBoundedBytes => "bounded_spill_bytes",
            Figure::SpillBytes => "spill_bytes",
            Figure::StackBytes => "stack_bytes",
            Figure::LocalSites => "local_sites",
            Figure::RmwSites => "rmw_sites",
            Figure::FenceScSysSites => "fence_sc_sys_sites",
            Figure::FenceSysSites => "fence_sys_sites",
            Figure::FenceGpuSites => "fence_gpu_sites",
            Figure::FenceOtherSites => "fence_other_sites",
            Figure::DivisionSites => "division_sites",
            Figure::CallSites => "call_sites",
            Figure::NetRegisters => "net_registers",
        }
    }

    /// Those that are counted, and not derived from others.
    pub fn counted() -> impl Iterator<Item = Figure> {
        FIGURES.into_iter().filter(|figure| *figure != Figure::NetRegisters)
    }

    /// The figure of that name.
    pub fn named(name: &str) -> Option<Figure> {
        FIGURES.into_iter().find(|figure| figure.name() == name)
    }

    /// Whether it adds up, so that a call's share is the probe's less that of attaching alone. Registers do not:
    /// they are those of the whole probe, and memory is none in either.
    pub fn adds_up(self) -> bool {
        use Figure::{NetRegisters, Registers, RegistersBounded, SpillBoundedBytes, SpillBytes, StackBytes};
        !matches!(
            self,
            Registers | NetRegisters | RegistersBounded | SpillBoundedBytes | SpillBytes | StackBytes
        )
    }

    /// A fence too few, or of too narrow a scope, is a bug that no run on a CPU shows: its budget is exact.
    pub fn is_exact(self) -> bool {
        use Figure::{FenceGpuSites, FenceOtherSites, FenceScSysSites, FenceSysSites};
        matches!(self, FenceScSysSites | FenceSysSites | FenceGpuSites | FenceOtherSites)
    }
}

/// One number for each [`Figure`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures([i64; FIGURES.len()]);

impl Figures {
    /// Registers to which the probes of a layer are bounded, to see whether that is enough; none: they are not.
    pub fn bound(layer: &str) -> Option<u32> {
        (layer == "queue").then_some(32)
    }

    /// What a call adds to a probe that costs `base` without it.
    pub fn less(&self, base: &Figures) -> Figures {
        let mut net = *self;
        for figure in FIGURES.into_iter().filter(|figure| figure.adds_up()) {
            net[figure] -= base[figure];
        }
        net[Figure::NetRegisters] = self[Figure::Registers] - base[Figure::Registers];
        net
    }
}

impl Index<Figure> for Figures {
    type Output = i64;

    fn index(&self, figure: Figure) -> &i64 {
        &self.0[figure as usize]
    }
}

impl IndexMut<Figure> for Figures {
    fn index_mut(&mut self, figure: Figure) -> &mut i64 {
        &mut self.0[figure as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_its_place_and_its_name() {
        for (place, figure) in FIGURES.into_iter().enumerate() {
            assert_eq!(figure as usize, place);
            assert_eq!(Figure::named(figure.name()), Some(figure));
        }
    }

    #[test]
    fn what_adds_up_is_net_and_registers_are_whole() {
        let mut whole = Figures::default();
        (whole[Figure::Instructions], whole[Figure::Registers], whole[Figure::RmwSites]) = (100, 40, 3);
        let mut base = Figures::default();
        (base[Figure::Instructions], base[Figure::Registers], base[Figure::RmwSites]) = (30, 16, 1);
        let net = whole.less(&base);
        assert_eq!((net[Figure::Instructions], net[Figure::RmwSites]), (70, 2));
        assert_eq!((net[Figure::Registers], net[Figure::NetRegisters]), (40, 24));
    }
}
