//! A part of a namespace that a kernel is handed: which blocks, whether they may be written, through which queues, and
//! with data in which memory.
//!
//! The device library refuses what a lease does not allow before it is submitted. That is a safety net for kernels
//! that are wrong, not a wall against kernels that are hostile: docs/volumes.md says what the IOMMU and the SSD
//! enforce.

use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;

use warpbell_hw::Lba;
use warpbell_kernels::abi::{self, NamespaceRef};

use crate::{Attachment, Buffer, Error};

warpbell_base::options! {
    /// What a lease allows. What is left open stays as the giver has it.
    #[derive(Clone, Debug, Default)]
    pub struct LeaseSpec<'a> {
        /// Logical blocks of the namespace, counted from its first.
        pub lbas: Option<Range<Lba>>,
        /// Refuses commands that change blocks. A lease of a read-only lease is so in any case.
        pub read_only: bool,
        /// Queues of the attachment, counted from its first. Kernels that run at the same time need queues of their own.
        pub queues: Option<Range<u32>>,
        /// The only buffer that commands may move data to and from: one of the attachment's.
        pub buffer: Option<&'a Buffer>,
        /// Bytes of `buffer` that they may move alone, counted from its first: of memory that was registered, whose pages
        /// hold more. None: all of them.
        pub buffer_bytes: Option<Range<u64>>,
    }
}

/// A part of an attachment for kernels to use. A clone is the same lease. What it names stays for as long as it, or a
/// lease or a launch made of it, does.
#[derive(Clone)]
pub struct Lease {
    attachment: Arc<Attachment>,
    namespace: NamespaceRef,
    queues: Range<u32>,
    /// Of this lease, and of those that it was taken from.
    buffers: Vec<Buffer>,
}

impl Attachment {
    /// A lease of all that this attachment has, narrowed as `spec` says.
    pub fn lease(&self, spec: &LeaseSpec<'_>) -> Result<Lease, Error> {
        let (mut namespace, queues) = (self.namespace(), 0..self.layout().queues);
        namespace.lease_end = namespace.lease_end.min(namespace.blocks);
        let whole = Lease { attachment: Arc::new(self.share()), namespace, queues, buffers: Vec::new() };
        whole.narrowed(spec, "the attachment")
    }
}

impl Lease {
    /// A lease of a part of this one: it allows nothing that this one does not.
    pub fn lease(&self, spec: &LeaseSpec<'_>) -> Result<Lease, Error> {
        self.clone().narrowed(spec, "the lease that it is taken from")
    }

    /// The kernel argument that names the namespace as far as it is leased. Valid while the lease lives.
    pub fn namespace(&self) -> NamespaceRef {
        self.namespace
    }

    /// The attachment whose queues it has.
    pub fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    /// Its blocks.
    pub fn lbas(&self) -> Range<Lba> {
        Lba(self.namespace.lease_first)..Lba(self.namespace.lease_end)
    }

    /// Its queues, as the attachment counts them.
    pub fn queues(&self) -> Range<u32> {
        self.queues.clone()
    }

    /// Whether commands that change blocks are refused.
    pub fn is_read_only(&self) -> bool {
        self.namespace.flags & abi::NAMESPACE_READ_ONLY != 0
    }

    fn narrowed(mut self, spec: &LeaseSpec<'_>, giver: &str) -> Result<Lease, Error> {
        if let Some(lbas) = &spec.lbas {
            let lbas = lbas.start.get()..lbas.end.get();
            let whole = self.namespace.lease_first..self.namespace.lease_end;
            inside("lease of LBAs", &lbas, &whole, giver)?;
            (self.namespace.lease_first, self.namespace.lease_end) = (lbas.start, lbas.end);
        }
        if let Some(queues) = &spec.queues {
            inside("lease of queues", queues, &self.queues, giver)?;
            self.take_queues(queues.clone());
        }
        if let Some(buffer) = spec.buffer {
            self.take_buffer(buffer, spec.buffer_bytes.clone(), giver)?;
        } else if let Some(bytes) = &spec.buffer_bytes {
            return Err(Error::Argument {
                object: "lease of a buffer's bytes",
                value: format!("{}..{}", bytes.start, bytes.end),
                limit: "needs the buffer".to_owned(),
            });
        }
        if spec.read_only {
            self.namespace.flags |= abi::NAMESPACE_READ_ONLY;
        }
        Ok(self)
    }

    fn take_queues(&mut self, queues: Range<u32>) {
        let (namespace, count) = (&mut self.namespace, queues.end - queues.start);
        let before = u64::from(queues.start - self.queues.start);
        namespace.queues += before * size_of::<abi::QueueRef>() as u64;
        namespace.queue_count = count;
        // Each queue has slots for as many warps as the attachment's busiest.
        namespace.warps = namespace.warps.min(count * self.attachment.layout().warp_slots);
        self.queues = queues;
    }

    fn take_buffer(&mut self, buffer: &Buffer, bytes: Option<Range<u64>>, giver: &str) -> Result<(), Error> {
        if !self.attachment.has(buffer) {
            return Err(Error::Argument {
                object: "lease of buffer",
                value: format!("{:#x}", buffer.iova().get()),
                limit: "must be a buffer of the same attachment (Attachment::buffer, Attachment::register)"
                    .to_owned(),
            });
        }
        let (first, whole) = (buffer.iova().get(), 0..buffer.len() as u64);
        let bytes = bytes.unwrap_or(whole.clone());
        inside("lease of a buffer's bytes", &bytes, &whole, "the buffer")?;
        let iovas = first + bytes.start..first + bytes.end;
        inside("lease of IOVAs", &iovas, &(self.namespace.lease_iova..self.namespace.lease_iova_end), giver)?;
        (self.namespace.lease_iova, self.namespace.lease_iova_end) = (iovas.start, iovas.end);
        self.buffers.push(buffer.clone());
        Ok(())
    }
}

/// Whether `part` is a range, and one of `whole`.
fn inside<T: Copy + Display + PartialOrd>(
    object: &'static str,
    part: &Range<T>,
    whole: &Range<T>,
    giver: &str,
) -> Result<(), Error> {
    let limit = match () {
        () if part.start >= part.end => "must begin before it ends".to_owned(),
        () if part.start < whole.start || part.end > whole.end => {
            format!("must lie in {}..{}, which is what {giver} has", whole.start, whole.end)
        }
        () => return Ok(()),
    };
    Err(Error::Argument { object, value: format!("{}..{}", part.start, part.end), limit })
}

#[cfg(test)]
mod tests {
    use warpbell_hw::{ClientMemory, DmaAccess};

    use super::*;
    use crate::{AttachOptions, OpenOptions, Sharing, Ssd};

    /// Five warps on three shared queues over 2048 blocks.
    fn attach() -> Attachment {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap();
        let options =
            AttachOptions { queues: 3, warps: 5, sharing: Sharing::Shared, ..AttachOptions::default() };
        ssd.attach(&options).unwrap()
    }

    fn refusal(lease: Result<Lease, Error>) -> String {
        lease.err().expect("refused").to_string()
    }

    #[test]
    fn a_lease_of_nothing_in_particular_is_all_of_it() {
        let attachment = attach();
        let (lease, whole) = (attachment.lease(&LeaseSpec::default()).unwrap(), attachment.namespace());
        assert_eq!(NamespaceRef { lease_end: u64::MAX, ..lease.namespace() }, whole);
        assert_eq!((lease.lbas(), lease.queues(), lease.is_read_only()), (Lba(0)..Lba(2048), 0..3, false));
    }

    #[test]
    fn what_it_names_is_in_the_kernels_argument() {
        let attachment = attach();
        let buffer = attachment.buffer(8192).unwrap();
        let spec = LeaseSpec {
            lbas: Some(Lba(8)..Lba(16)),
            read_only: true,
            queues: Some(1..3),
            buffer: Some(&buffer),
            buffer_bytes: None,
        };
        let (namespace, whole) = (attachment.lease(&spec).unwrap().namespace(), attachment.namespace());
        assert_eq!((namespace.lease_first, namespace.lease_end), (8, 16));
        assert_eq!(namespace.flags, whole.flags | abi::NAMESPACE_READ_ONLY);
        assert_eq!(namespace.queues, whole.queues + size_of::<abi::QueueRef>() as u64);
        // Two warps fit on each queue.
        assert_eq!((namespace.queue_count, namespace.warps), (2, 4));
        let iova = buffer.iova().get();
        assert_eq!((namespace.lease_iova, namespace.lease_iova_end), (iova, iova + 8192));
        assert_eq!((namespace.blocks, namespace.nsid), (whole.blocks, whole.nsid));
    }

    #[test]
    fn a_lease_of_a_lease_allows_less_and_never_more() {
        let attachment = attach();
        let buffers = [attachment.buffer(4096).unwrap(), attachment.buffer(4096).unwrap()];
        let spec = LeaseSpec {
            lbas: Some(Lba(100)..Lba(200)),
            read_only: true,
            queues: Some(1..3),
            buffer: Some(&buffers[0]),
            buffer_bytes: None,
        };
        let lease = attachment.lease(&spec).unwrap();
        let part = LeaseSpec { lbas: Some(Lba(150)..Lba(151)), queues: Some(2..3), ..LeaseSpec::default() };
        let part = lease.lease(&part).unwrap();
        assert_eq!((part.lbas(), part.queues(), part.is_read_only()), (Lba(150)..Lba(151), 2..3, true));
        assert_eq!(part.namespace().lease_iova, buffers[0].iova().get());
        assert_eq!(
            part.namespace().queues,
            attachment.namespace().queues + 2 * size_of::<abi::QueueRef>() as u64
        );

        let of = |spec: LeaseSpec<'_>| refusal(lease.lease(&spec));
        let giver = "which is what the lease that it is taken from has";
        let lbas = |lbas: Range<u64>| LeaseSpec {
            lbas: Some(Lba(lbas.start)..Lba(lbas.end)),
            ..LeaseSpec::default()
        };
        for wider in [99..101, 199..201, 0..1, 0..u64::MAX] {
            let text = format!("lease of LBAs {}..{}: must lie in 100..200, {giver}", wider.start, wider.end);
            assert_eq!(of(lbas(wider)), text);
        }
        let queues = LeaseSpec { queues: Some(0..2), ..LeaseSpec::default() };
        assert_eq!(of(queues), format!("lease of queues 0..2: must lie in 1..3, {giver}"));
        let other = LeaseSpec { buffer: Some(&buffers[1]), ..LeaseSpec::default() };
        assert!(of(other).starts_with("lease of IOVAs"));
    }

    #[test]
    fn bytes_of_a_buffer_are_leased_alone() {
        let attachment = attach();
        let buffer = attachment.buffer(4096).unwrap();
        let (first, spec) = (buffer.iova().get(), LeaseSpec::new().buffer(Some(&buffer)));
        let lease = attachment.lease(&spec.clone().buffer_bytes(Some(1024..1536))).unwrap();
        let namespace = lease.namespace();
        assert_eq!((namespace.lease_iova, namespace.lease_iova_end), (first + 1024, first + 1536));
        let wider = lease.lease(&spec.clone().buffer_bytes(Some(1000..1536)));
        assert!(refusal(wider).starts_with("lease of IOVAs"));
        let beyond = attachment.lease(&spec.buffer_bytes(Some(4000..4097)));
        let text = "lease of a buffer's bytes 4000..4097: must lie in 0..4096, which is what the buffer has";
        assert_eq!(refusal(beyond), text);
        let of_none = attachment.lease(&LeaseSpec::new().buffer_bytes(Some(0..1)));
        assert_eq!(refusal(of_none), "lease of a buffer's bytes 0..1: needs the buffer");
    }

    #[test]
    fn ranges_of_nothing_and_beyond_the_end_are_refused_by_name() {
        let attachment = attach();
        let lbas = |lbas: Range<u64>| {
            let lbas = Some(Lba(lbas.start)..Lba(lbas.end));
            refusal(attachment.lease(&LeaseSpec { lbas, ..LeaseSpec::default() }))
        };
        let beyond = "lease of LBAs 2040..2049: must lie in 0..2048, which is what the attachment has";
        assert_eq!(lbas(2040..2049), beyond);
        assert_eq!(lbas(8..8), "lease of LBAs 8..8: must begin before it ends");
        let queues = LeaseSpec { queues: Some(3..4), ..LeaseSpec::default() };
        let beyond = "lease of queues 3..4: must lie in 0..3, which is what the attachment has";
        assert_eq!(refusal(attachment.lease(&queues)), beyond);
        let foreign = attach().buffer(4096).unwrap();
        let text = refusal(attachment.lease(&LeaseSpec { buffer: Some(&foreign), ..LeaseSpec::default() }));
        assert!(
            text.ends_with(
                "must be a buffer of the same attachment (Attachment::buffer, Attachment::register)"
            )
        );
    }

    #[test]
    fn a_lease_keeps_the_queues_and_its_buffer() {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap();
        let soft = ssd.soft().unwrap().clone();
        let attachment = ssd.attach(&AttachOptions::default()).unwrap();
        let [kept, other] = [4096, 4096].map(|bytes| attachment.buffer(bytes).unwrap());
        let lease = attachment.lease(&LeaseSpec { buffer: Some(&kept), ..LeaseSpec::default() }).unwrap();
        let part = lease.lease(&LeaseSpec { lbas: Some(Lba(0)..Lba(1)), ..LeaseSpec::default() }).unwrap();
        let (ring, iovas) = (attachment.pairs()[0].sq_iova(), [kept.iova(), other.iova()]);
        [&kept, &other].into_iter().for_each(|buffer| attachment.release(buffer).unwrap());
        drop((ssd, attachment, lease, kept, other));
        let mapped = |iova| soft.client_memory().slice(iova, 4096, DmaAccess::READ).is_ok();
        assert_eq!([iovas[0], iovas[1], ring].map(mapped), [true, false, true]);
        drop(part);
        assert_eq!([iovas[0], ring].map(mapped), [false, false]);
        assert_eq!(soft.violations(), []);
    }
}
