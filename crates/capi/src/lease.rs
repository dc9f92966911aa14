//! Leases that a C program gives to its kernels.

use std::sync::Arc;

use warpbell::LeaseSpec;
use warpbell_kernels::abi::NamespaceRef;

use crate::buffer::BUFFERS;
use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::queues::{QUEUES, Queues};
use crate::scope::User;
use crate::types::LeaseOptions;
use warpbell_hw::Lba;

pub(crate) static LEASES: Table<Lease> = Table::new(Kind::Lease);

/// A lease of a C program's.
pub(crate) struct Lease {
    lease: warpbell::Lease,
    queues: Arc<Queues>,
    /// Keep buffers open: its own, and those of the leases that it was taken from.
    buffers: Vec<Arc<User>>,
}

impl Lease {
    pub(crate) fn of_queues(queues: u64, options: &LeaseOptions) -> Answer<u64> {
        let queues = QUEUES.get(queues)?;
        Lease::make(queues.clone(), Vec::new(), options, |spec| queues.attachment.lease(spec))
    }

    pub(crate) fn of_lease(lease: u64, options: &LeaseOptions) -> Answer<u64> {
        let giver = LEASES.get(lease)?;
        Lease::make(giver.queues.clone(), giver.buffers.clone(), options, |spec| giver.lease.lease(spec))
    }

    fn make(
        queues: Arc<Queues>,
        mut buffers: Vec<Arc<User>>,
        options: &LeaseOptions,
        take: impl FnOnce(&LeaseSpec<'_>) -> Result<warpbell::Lease, warpbell::Error>,
    ) -> Answer<u64> {
        if options.pad0 != 0 {
            return Err(Failure::invalid(format!("pad0 {}: must be 0", options.pad0)));
        }
        let lbas = range("first_lba", options.first_lba, "blocks", options.blocks)?;
        let queue_range = range("first_queue", options.first_queue.into(), "queues", options.queues.into())?;
        let buffer = options.buffer as usize as u64;
        let buffer = if buffer == 0 { None } else { Some(BUFFERS.get(buffer)?) };
        // Held until the lease is in the table: whoever closes the queues finds it there.
        let open = queues.open.lock();
        if !*open {
            return Err(Failure::new(Code::Handle, "queues: closed meanwhile by another thread"));
        }
        if let Some(buffer) = &buffer {
            buffers.push(Arc::new(buffer.leases.enter(|| ())?));
        }
        let lease = take(
            &LeaseSpec::new()
                .lbas(lbas.map(|range| Lba(range.start)..Lba(range.end)))
                .read_only(options.read_only != 0)
                .queues(queue_range.map(|range| narrow(range.start)..narrow(range.end)))
                .buffer(buffer.as_ref().map(|buffer| &buffer.buffer)),
        )?;
        Ok(LEASES.add(Lease { lease, queues: queues.clone(), buffers }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        LEASES.close(handle, |_| Ok(())).map(drop)
    }

    pub(crate) fn belongs_to(&self, queues: &Arc<Queues>) -> bool {
        Arc::ptr_eq(&self.queues, queues)
    }

    pub(crate) fn namespace_ref(&self) -> NamespaceRef {
        self.lease.namespace()
    }
}

/// So many from the first on; none: all that there are.
fn range(first_name: &str, first: u64, count_name: &str, count: u64) -> Answer<Option<std::ops::Range<u64>>> {
    match (first, count) {
        (0, 0) => Ok(None),
        (first, 0) => {
            let rule = format!("with {count_name} 0, which is all that there are, it must be 0");
            Err(Failure::invalid(format!("{first_name} {first}: {rule}")))
        }
        (first, count) => match first.checked_add(count) {
            Some(end) => Ok(Some(first..end)),
            None => Err(Failure::invalid(format!("{count_name} {count}: beyond the last number there is"))),
        },
    }
}

/// Of two 32-bit numbers, their sum may need one bit more: then it is beyond every queue.
fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
