//! Memory that a launch keeps, and that addresses in its arguments may lie in.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use warpbell_kernels::abi::Span;

use crate::{Buffer, Error, KernelMemory, KernelQueues, SharedMemory};

/// Memory that kernels may be handed.
pub trait Region: sealed::Sealed + Clone + Any + Send + Sync {
    /// Its addresses for kernels. Valid while it, or a clone, lives.
    fn range(&self) -> Range<u64>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Buffer {}
    impl Sealed for crate::KernelMemory {}
    impl Sealed for crate::KernelQueues {}
    impl Sealed for crate::SharedMemory {}
}

impl Region for Buffer {
    fn range(&self) -> Range<u64> {
        let buffer = self.as_ref();
        of(buffer.data, buffer.bytes)
    }
}

impl Region for KernelMemory {
    fn range(&self) -> Range<u64> {
        of(self.address(), self.len() as u64)
    }
}

/// The references of its queues.
impl Region for KernelQueues {
    fn range(&self) -> Range<u64> {
        self.references().range()
    }
}

impl Region for SharedMemory {
    fn range(&self) -> Range<u64> {
        of(self.address(), self.window().len() as u64)
    }
}

fn of(start: u64, len: u64) -> Range<u64> {
    start..start.saturating_add(len)
}

/// Memory for a launch, which keeps it until its kernel has ended.
#[derive(Clone, Default)]
pub struct Regions {
    ranges: Vec<Range<u64>>,
    /// References of queues, which kernels follow: no other memory may name queues.
    queues: Vec<Range<u64>>,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges.iter().chain(&self.queues)).finish()
    }
}

impl Regions {
    /// None yet.
    pub fn new() -> Regions {
        Regions::default()
    }

    /// This one too.
    pub fn with(mut self, memory: &impl Region) -> Regions {
        let any: &dyn Any = memory;
        let of = if any.is::<KernelQueues>() { &mut self.queues } else { &mut self.ranges };
        of.push(memory.range());
        self.kept.push(Arc::new(memory.clone()));
        self
    }

    /// Memory of the library's own in which references of queues lie beside other words of kernels.
    pub(crate) fn with_references(mut self, memory: &KernelMemory) -> Regions {
        self.queues.push(memory.range());
        self.with(memory)
    }

    /// Refuses memory that is not inside one of these.
    pub(crate) fn check(&self, kernel: &str, span: &Span) -> Result<(), Error> {
        let end = span.address.checked_add(span.bytes);
        let holds =
            |range: &Range<u64>| range.start <= span.address && end.is_some_and(|end| end <= range.end);
        let known = if span.queues { &self.queues } else { &self.ranges };
        if span.bytes == 0 || known.iter().any(holds) {
            return Ok(());
        }
        let Span { field, address, bytes, .. } = *span;
        Err(Error::Unowned { kernel: kernel.to_owned(), field, address, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn a_span_lies_in_one_region_from_end_to_end() {
        let target = Target::Cpu.open().unwrap();
        let (one, other) = (target.memory(64).unwrap(), target.shared(64).unwrap());
        let regions = Regions::new().with(&one).with(&other);
        let check = |address, bytes| regions.check("k", &Span::new("f", address, bytes));
        assert!(check(one.range().start, 64).is_ok() && check(other.range().end - 1, 1).is_ok());
        assert!(check(0, 0).is_ok(), "nothing is touched");
        let start = one.range().start;
        for (address, bytes) in [(start - 1, 2), (one.range().end - 1, 2), (start, u64::MAX), (0, 1)] {
            let text = check(address, bytes).unwrap_err().to_string();
            let expected = format!("kernel k: argument f: {bytes} bytes at {address:#x}");
            assert!(text.starts_with(&expected), "{text}");
        }
    }

    #[test]
    fn queues_are_named_by_an_attachments_memory_alone() {
        let target = Target::Cpu.open().unwrap();
        let memory = target.memory(4096).unwrap();
        let regions = Regions::new().with(&memory);
        let forged = Span { queues: true, ..Span::new("ns", memory.range().start, 64) };
        assert!(regions.check("k", &forged).is_err(), "what stands there is the caller's");
        assert!(regions.check("k", &Span { queues: false, ..forged }).is_ok());
    }
}
