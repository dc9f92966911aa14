//! Memory that a launch keeps, and that addresses in its arguments may lie in.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use warpbell_kernels::abi::{
    BufferRef, Holds, KernelArgs, NAMESPACE_READ_ONLY, NamespaceRef, QueueRef, Span, VolumeMember,
};

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

/// References in memory, and the bytes of each.
#[derive(Clone)]
struct Table {
    range: Range<u64>,
    each: usize,
}

impl Table {
    /// Whether whole references of it are there.
    fn holds(&self, part: &Range<u64>) -> bool {
        inside(part, &self.range) && (part.start - self.range.start).is_multiple_of(self.each as u64)
    }
}

fn inside(part: &Range<u64>, whole: &Range<u64>) -> bool {
    whole.start <= part.start && part.end <= whole.end
}

/// What commands of one SSD may name.
#[derive(Clone)]
struct Attached {
    namespace: NamespaceRef,
    queues: Range<u64>,
    buffers: Vec<BufferRef>,
}

/// Memory for a launch, which keeps it until its kernel has ended.
#[derive(Clone, Default)]
pub struct Regions {
    ranges: Vec<Range<u64>>,
    /// References of queues, which kernels follow: no other memory may name queues.
    queues: Vec<Table>,
    /// References of buffers, whose addresses kernels put into commands: no other memory may name buffers.
    references: Vec<Table>,
    attached: Vec<Attached>,
    kept: Vec<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Regions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = self.queues.iter().chain(&self.references).map(|table| &table.range);
        f.debug_list().entries(self.ranges.iter().chain(tables)).finish()
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
        if any.is::<KernelQueues>() {
            self.queues.push(Table { range: memory.range(), each: size_of::<QueueRef>() });
        } else {
            self.ranges.push(memory.range());
        }
        self.keep(memory)
    }

    fn keep(mut self, memory: &impl Region) -> Regions {
        self.kept.push(Arc::new(memory.clone()));
        self
    }

    /// Memory of the library's own: members of a volume, which name queues, in its first bytes, then words of kernels.
    pub(crate) fn with_members(mut self, memory: &KernelMemory, bytes: usize) -> Regions {
        let all = memory.range();
        let members = all.start..all.start + bytes as u64;
        self.ranges.push(members.end..all.end);
        self.queues.push(Table { range: members, each: size_of::<VolumeMember>() });
        self.keep(memory)
    }

    /// Memory of the library's own in which so many bytes are references of buffers.
    pub(crate) fn with_buffers(mut self, memory: &KernelMemory, bytes: usize) -> Regions {
        let start = memory.address();
        self.references.push(Table { range: of(start, bytes as u64), each: size_of::<BufferRef>() });
        self.keep(memory)
    }

    /// The queues of an SSD, and the buffers that its commands may name.
    pub(crate) fn with_attached(
        self,
        namespace: NamespaceRef,
        queues: &KernelQueues,
        buffers: &[Buffer],
    ) -> Regions {
        let attached = Attached {
            namespace,
            queues: queues.range(),
            buffers: buffers.iter().map(Buffer::as_ref).collect(),
        };
        let mut regions = buffers.iter().fold(self.with(queues), Regions::with);
        regions.attached.push(attached);
        regions
    }

    /// Refuses a buffer that is no part of one of the SSD's whose queues the namespace names, and a namespace that allows
    /// more than that SSD's: what an SSD writes is where the buffer's addresses and the namespace's block size say. Without
    /// a buffer no data moves, or a volume's members say how.
    pub(crate) fn check_commands(&self, kernel: &str, args: &impl KernelArgs) -> Result<(), Error> {
        let (Some(buffer), namespace) = (args.buffer(), args.namespace()) else { return Ok(()) };
        let refused =
            |field, address, bytes| Err(Error::Unowned { kernel: kernel.to_owned(), field, address, bytes });
        let queues = namespace.queues..namespace.queues.saturating_add(1);
        let known = |attached: &&Attached| inside(&queues, &attached.queues);
        let Some(attached) = self.attached.iter().find(known) else {
            return refused("ns", namespace.queues, u64::from(namespace.size));
        };
        if buffer.bytes != 0 && !attached.buffers.iter().any(|whole| is_part(buffer, whole)) {
            return refused("buffer", buffer.data, buffer.bytes);
        }
        if !is_narrower(namespace, &attached.namespace) {
            return refused("ns", namespace.queues, u64::from(namespace.size));
        }
        Ok(())
    }

    /// Refuses memory that is not inside one of these.
    pub(crate) fn check(&self, kernel: &str, span: &Span) -> Result<(), Error> {
        let held = span.address.checked_add(span.bytes).is_some_and(|end| {
            let part = span.address..end;
            match span.holds {
                Holds::Data => self.ranges.iter().any(|range| inside(&part, range)),
                Holds::Queues => self.queues.iter().any(|table| table.holds(&part)),
                Holds::Buffers => self.references.iter().any(|table| table.holds(&part)),
            }
        });
        if span.bytes == 0 || held {
            return Ok(());
        }
        let Span { field, address, bytes, .. } = *span;
        Err(Error::Unowned { kernel: kernel.to_owned(), field, address, bytes })
    }
}

/// Whether addresses of `part`, for kernels and for the controller, are those of `whole` at the same place. The table of
/// PRP lists counts from the page of the buffer's first byte.
fn is_part(part: &BufferRef, whole: &BufferRef) -> bool {
    let skip = part.data.wrapping_sub(whole.data);
    let fits = skip.checked_add(part.bytes).is_some_and(|end| end <= whole.bytes);
    let same_page = part.iova >> whole.page_shift == whole.iova >> whole.page_shift;
    let by_table = part.prp_iova == whole.prp_iova && same_page;
    fits && part.iova.wrapping_sub(whole.iova) == skip
        && part.page_shift == whole.page_shift
        && part.flags == whole.flags
        && (part.prp_iova == 0 || by_table)
}

/// Whether commands by `part` touch nothing that those by `whole` do not.
fn is_narrower(part: &NamespaceRef, whole: &NamespaceRef) -> bool {
    let lbas = |ns: &NamespaceRef| ns.lease_first..ns.lease_end;
    let iovas = |ns: &NamespaceRef| ns.lease_iova..ns.lease_iova_end;
    let alike = |ns: &NamespaceRef| {
        let flags = ns.flags & !NAMESPACE_READ_ONLY;
        (ns.sharing, ns.nsid, ns.block_shift, ns.page_shift, flags, ns.crdt, ns.zeroes_blocks)
    };
    let may_write = |ns: &NamespaceRef| ns.flags & NAMESPACE_READ_ONLY == 0;
    alike(part) == alike(whole)
        && (may_write(whole) || !may_write(part))
        && part.blocks <= whole.blocks
        && part.max_blocks <= whole.max_blocks
        && part.warps <= whole.warps
        && inside(&lbas(part), &lbas(whole))
        && inside(&iovas(part), &iovas(whole))
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
        let span = Span::new("ns", memory.range().start, 64);
        assert!(regions.check("k", &span).is_ok());
        for holds in [Holds::Queues, Holds::Buffers] {
            let forged = Span { holds, ..span };
            assert!(regions.check("k", &forged).is_err(), "what stands there is the caller's");
        }
    }

    #[test]
    fn a_part_of_a_buffer_has_its_addresses() {
        let whole = BufferRef {
            data: 0x1000,
            iova: 0x9000,
            bytes: 0x4000,
            prp_iova: 0x70000,
            page_shift: 12,
            ..BufferRef::new()
        };
        let later = BufferRef { data: 0x3000, iova: 0xb000, bytes: 0x2000, prp_iova: 0, ..whole };
        assert!(is_part(&whole, &whole) && is_part(&later, &whole));
        let skipped = BufferRef { data: 0x1200, iova: 0x9200, bytes: 0x3e00, ..whole };
        assert!(is_part(&skipped, &whole), "of the same page");
        let forged = [
            BufferRef { iova: 0x8000, ..whole },
            BufferRef { bytes: 0x4001, ..whole },
            BufferRef { data: 0x800, iova: 0x8800, ..whole },
            BufferRef { prp_iova: 0x71000, ..whole },
            BufferRef { prp_iova: whole.prp_iova, ..later },
            BufferRef { page_shift: 13, ..whole },
        ];
        assert!(forged.iter().all(|forged| !is_part(forged, &whole)));
    }

    #[test]
    fn a_namespace_is_only_narrowed() {
        let whole = NamespaceRef {
            blocks: 100,
            nsid: 1,
            block_shift: 12,
            max_blocks: 8,
            warps: 4,
            ..NamespaceRef::unleased()
        };
        let narrower = NamespaceRef {
            lease_first: 5,
            lease_end: 9,
            warps: 1,
            flags: whole.flags | NAMESPACE_READ_ONLY,
            ..whole
        };
        assert!(is_narrower(&whole, &whole) && is_narrower(&narrower, &whole));
        assert!(!is_narrower(&whole, &narrower));
        let forged = [
            (NamespaceRef { block_shift: 9, ..whole }, whole),
            (NamespaceRef { blocks: 101, ..whole }, whole),
            (NamespaceRef { nsid: 2, ..whole }, whole),
            (NamespaceRef { max_blocks: 9, ..whole }, whole),
            (NamespaceRef { warps: 5, ..whole }, whole),
            (NamespaceRef { sharing: 9, ..whole }, whole),
            (NamespaceRef { lease_first: 4, ..narrower }, narrower),
            (NamespaceRef { flags: whole.flags, ..narrower }, narrower),
            (whole, NamespaceRef { lease_iova: 1, ..whole }),
        ];
        for (part, whole) in &forged {
            assert!(!is_narrower(part, whole), "{part:?}");
        }
    }
}
