//! What is counted.

use std::ops::{Index, IndexMut};

/// One thing that is counted of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Machine instructions but padding.
    Instructions,
    /// Those of them that are the kernel's own code, not that of functions which it calls.
    InlineInstructions,
    /// Registers, where the compiler takes what it likes.
    Registers,
    /// Registers, where the kernel is bounded to [`Figures::bound`]; 0 where it is not.
    RegistersBounded,
    /// Bytes spilled under that bound.
    SpillBoundedBytes,
    /// Accesses to local memory that the bound adds to the kernel's own code; below 0, that it takes away.
    InlineSpillBoundedSites,
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
}

/// All of them, in the order in which they are shown.
pub const FIGURES: [Figure; 16] = [
    Figure::Instructions,
    Figure::InlineInstructions,
    Figure::Registers,
    Figure::RegistersBounded,
    Figure::SpillBoundedBytes,
    Figure::InlineSpillBoundedSites,
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
];

impl Figure {
    /// In tables, budgets and JSON: with the unit at its end.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Instructions => "instructions",
            Figure::InlineInstructions => "inline_instructions",
            Figure::Registers => "registers",
            Figure::RegistersBounded => "bounded_registers",
            Figure::SpillBoundedBytes => "bounded_spill_bytes",
            Figure::InlineSpillBoundedSites => "bounded_inline_spill_sites",
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
        }
    }

    /// The figure of that name.
    pub fn named(name: &str) -> Option<Figure> {
        FIGURES.into_iter().find(|figure| figure.name() == name)
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
        match layer {
            "queue" | "cache" => Some(32),
            "io" => Some(48),
            _ => None,
        }
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
}
