//! Several SSDs that kernels use as one (`volume.cuh`): what of it is on the host's side.

mod io;
mod parts;
mod places;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use warpbell_hw::{BASE_PAGE, Window};
use warpbell_kernels::abi;
use zerocopy::IntoBytes;

use crate::queues::attach::prepare;
use crate::{Attachment, Buffer, Error, IoMemory, KernelMemory, Launch, Module, OpenTarget, Regions};
pub use io::{VolumeIo, VolumeIoSpec, VolumeRequest};
pub use parts::{VolumeLeft, VolumePart};
pub use places::{VolumePiece, VolumePlace};

/// How the blocks of a volume lie on its SSDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeLayout {
    /// Chunk after chunk goes to SSD after SSD. Where the smaller ones end, it goes on over the others.
    Stripe,
    /// Each SSD has everything; the smallest says how much that is.
    Replicate,
    /// One SSD after the other.
    Concatenate,
}

warpbell_base::options! {
    /// What kind of volume to make.
    #[derive(Clone, Debug)]
    pub struct VolumeSpec {
        /// How its blocks lie on the SSDs.
        pub layout: VolumeLayout,
        /// Bytes of a chunk: any number of whole blocks. An SSD holds whole chunks, and no command crosses one.
        pub chunk_bytes: u64,
        /// How far each SSD is from whoever runs the kernels, for those that read from the `nearest` replica; empty: alike.
        pub distances: Vec<u32>,
    }
}

impl Default for VolumeSpec {
    /// Striped, by 128 KiB.
    fn default() -> VolumeSpec {
        VolumeSpec { layout: VolumeLayout::Stripe, chunk_bytes: 128 << 10, distances: Vec::new() }
    }
}

/// What kernels did on one SSD of a volume, and what became of it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The SSD's name.
    pub name: String,
    /// Bytes read by warps that have detached.
    pub bytes_read: u64,
    /// Bytes written by them.
    pub bytes_written: u64,
    /// Commands whose status was not success.
    pub errors: u64,
    /// The status of one of the last of them, as in `status.cuh`.
    pub error_status: u32,
    /// Whether it has everything that was written. A replica that does not is not read from any more.
    pub present: bool,
    /// Whether reads go to other replicas, because it did not answer one in time.
    pub avoided: bool,
}

/// Queues of several SSDs as one volume. What is on the SSDs is not looked at, and nothing is written there: the same SSDs
/// in the same order, with the same layout and chunks, are the same volume. A replica that was dropped stays out as long as
/// this lives; do not make another volume of it before its blocks were copied from one that is present.
pub struct Volume {
    members: Vec<Member>,
    layout: VolumeLayout,
    shape: abi::VolumeRef,
    /// `VolumeMember`s, then counts, then the state.
    memory: KernelMemory,
    /// What kernels read of the volume's buffers: like their memory, as long as there are queues.
    buffers: Mutex<Vec<KernelMemory>>,
}

struct Member {
    queues: Attachment,
    /// Its place among those that the volume was made of.
    given: usize,
    name: String,
    reference: abi::VolumeMember,
}

impl Volume {
    /// Makes a volume of these queues. They must have been attached for kernels on one target, and be shared, or
    /// exclusive, all of them.
    pub fn new(queues: &[&Attachment], spec: &VolumeSpec) -> Result<Volume, Error> {
        check_members(queues, spec)?;
        let block_shift = queues.iter().map(|each| each.namespace().block_shift).max().unwrap_or_default();
        let chunk_blocks = chunk_blocks(spec.chunk_bytes, block_shift)?;
        let distance = |index: usize| spec.distances.get(index).copied().unwrap_or_default();
        let mut members = Vec::new();
        for (index, each) in queues.iter().enumerate() {
            members.push(Member::new((index, each), (block_shift, chunk_blocks), distance(index))?);
        }
        let chunks = members.iter().map(|member| member.reference.chunks);
        let (chunks, layout) = match spec.layout {
            VolumeLayout::Stripe => (chunks.sum(), abi::VOLUME_STRIPE),
            VolumeLayout::Replicate => (chunks.min().unwrap_or(0), abi::VOLUME_REPLICATE),
            VolumeLayout::Concatenate => (chunks.sum(), abi::VOLUME_CONCATENATE),
        };
        if spec.layout == VolumeLayout::Stripe {
            members.sort_by_key(|member| member.reference.chunks);
        }
        let pieces =
            members.iter().map(|member| member.reference.ns.max_blocks >> member.reference.unit_shift);
        let shape = abi::VolumeRef {
            blocks: chunks * u64::from(chunk_blocks),
            member_count: members.len() as u32,
            layout,
            block_shift,
            chunk_blocks,
            piece_blocks: pieces.min().unwrap_or(1),
            ..abi::VolumeRef::new()
        };
        let bytes = state_offset(members.len()) + size_of::<abi::VolumeState>();
        let memory = queues[0].target().memory(bytes)?;
        let volume = Volume { members, layout: spec.layout, shape, memory, buffers: Mutex::default() };
        let all = u64::MAX >> (64 - volume.members.len());
        let state = abi::VolumeState { present: all, ..abi::VolumeState::new() };
        volume.memory.write(state_offset(volume.members.len()), state.as_bytes())?;
        Ok(volume)
    }

    /// The kernel argument that names this volume. Valid while it lives.
    pub fn as_ref(&self) -> Result<abi::VolumeRef, Error> {
        let mut flags = 0;
        for (index, member) in self.members.iter().enumerate() {
            let reference = abi::VolumeMember { ns: member.queues.namespace(), ..member.reference };
            flags |= missing_commands(&reference);
            self.memory.write(index * size_of::<abi::VolumeMember>(), reference.as_bytes())?;
        }
        let (base, count) = (self.memory.address(), self.members.len());
        Ok(abi::VolumeRef {
            flags,
            members: base,
            counts: base + counts_offset(count) as u64,
            state: base + state_offset(count) as u64,
            ..self.shape
        })
    }

    /// Blocks of it.
    pub fn blocks(&self) -> u64 {
        self.shape.blocks
    }

    /// Bytes of a block: the largest of its SSDs'.
    pub fn block_bytes(&self) -> u32 {
        1 << self.shape.block_shift
    }

    /// Bytes that one command moves at most, on each SSD.
    pub fn command_bytes(&self) -> u64 {
        u64::from(self.shape.piece_blocks) << self.shape.block_shift
    }

    /// A buffer of at least `bytes` zeroed bytes that all SSDs have mapped. Host memory only.
    pub fn buffer(&self, bytes: usize) -> Result<VolumeBuffer, Error> {
        let own = self.members[0].queues.buffer(bytes)?;
        let window = own.window().cloned().ok_or_else(|| Error::Argument {
            object: "buffer of a volume, for SSDs whose data lies in",
            value: "the memory of a GPU".to_owned(),
            limit: "must lie in host memory, which several SSDs can map; open them with data in host memory"
                .to_owned(),
        })?;
        let bytes = own.len();
        self.mapped(own, &window, (0, bytes))
    }

    /// Memory of the caller's as a buffer, as [`Attachment::register`] has it: `bytes` bytes from byte `skip` of its first
    /// page on.
    pub fn register(&self, window: Window, (skip, bytes): (usize, usize)) -> Result<VolumeBuffer, Error> {
        if skip >= BASE_PAGE || !skip.is_multiple_of(4) || bytes == 0 || bytes > window.len() - skip {
            return Err(Error::Argument {
                object: "memory to register",
                value: format!("{bytes} bytes from byte {skip} on"),
                limit: format!(
                    "must begin at a multiple of 4 in the first page, and lie in {}",
                    window.len()
                ),
            });
        }
        let own = self.members[0].queues.register(window.clone())?;
        self.mapped(own, &window, (skip, bytes))
    }

    /// A buffer of the first SSD's, mapped for the others.
    fn mapped(
        &self,
        own: Buffer,
        window: &Window,
        (skip, bytes): (usize, usize),
    ) -> Result<VolumeBuffer, Error> {
        let mut parts = vec![own];
        for member in &self.members[1..] {
            parts.push(member.queues.register(window.clone())?);
        }
        let refs = self.members[0].queues.target().memory(parts.len() * size_of::<abi::BufferRef>())?;
        let buffer = VolumeBuffer { parts, skip, bytes, refs, lost: Arc::default() };
        let named: Vec<_> = buffer.parts.iter().map(|part| buffer.part_of(part)).collect();
        buffer.refs.write(0, named.as_bytes())?;
        self.buffers.lock().push(buffer.refs.clone());
        Ok(buffer)
    }

    /// Lets go of a buffer while the queues go on: it is unmapped with the caller's last clone of its memory. No kernel may
    /// use it any more. Refused while a command waits for its completion: it may be one over this buffer.
    pub fn release(&self, buffer: &VolumeBuffer) -> Result<(), Error> {
        for (member, part) in self.members.iter().zip(&buffer.parts) {
            member.queues.release(part)?;
        }
        self.buffers.lock().retain(|refs| refs.address() != buffer.refs.address());
        Ok(())
    }

    /// Lets a launch have its tables, and its SSDs' queues and buffers, too.
    pub(crate) fn lend(&self, memory: Regions) -> Regions {
        let count = self.members.len();
        let memory = memory.with_members(&self.memory, counts_offset(count));
        let bytes = count * size_of::<abi::BufferRef>();
        let memory = self.buffers.lock().iter().fold(memory, |memory, refs| memory.with_buffers(refs, bytes));
        self.members.iter().fold(memory, |memory, member| member.queues.lend(memory))
    }

    pub(crate) fn target(&self) -> &OpenTarget {
        self.members[0].queues.target()
    }

    /// Whether its queues are attached for kernels of this module.
    pub(crate) fn on_this_target(&self, module: &Module) -> Result<(), Error> {
        self.members[0].queues.on_this_target(module)
    }

    /// A launch over this volume, whose buffers it keeps, too.
    pub(crate) fn prepared(&self, launch: Launch) -> Result<Launch, Error> {
        let queues: Vec<_> = self.members.iter().map(|member| member.queues.share()).collect();
        let launch = prepare(&queues, launch)?;
        Ok(launch.keep((self.memory.clone(), self.buffers.lock().clone())))
    }

    /// What kernels did on each SSD. Striped: by size, else in the order given.
    pub fn report(&self) -> Result<Vec<MemberReport>, Error> {
        let count = self.members.len();
        let mut counts = vec![abi::VolumeCounts::new(); count];
        self.memory.read(counts_offset(count), counts.as_mut_bytes())?;
        let state = self.state()?;
        let report = |(index, (member, counts)): (usize, (&Member, abi::VolumeCounts))| MemberReport {
            name: member.name.clone(),
            bytes_read: counts.bytes_read,
            bytes_written: counts.bytes_written,
            errors: counts.errors,
            error_status: counts.error_status as u32,
            present: state.present >> index & 1 != 0,
            avoided: state.avoided >> index & 1 != 0,
        };
        Ok(self.members.iter().zip(counts).enumerate().map(report).collect())
    }
}

impl Member {
    fn new(
        (given, queues): (usize, &Attachment),
        (block_shift, chunk_blocks): (u32, u32),
        distance: u32,
    ) -> Result<Member, Error> {
        let name = queues.device().info().name;
        let ns = queues.namespace();
        let unit_shift = block_shift - ns.block_shift;
        let chunks = (ns.blocks >> unit_shift) / u64::from(chunk_blocks);
        let argument = |object, value: u64, limit: String| Error::Argument {
            object,
            value: value.to_string(),
            limit: format!("SSD {name}: {limit}"),
        };
        if chunks == 0 {
            let size = ns.blocks << ns.block_shift;
            let limit = format!("must be at most its size, {size} bytes: choose smaller chunks");
            return Err(argument("chunk_bytes", u64::from(chunk_blocks) << block_shift, limit));
        }
        if ns.max_blocks >> unit_shift == 0 {
            let limit =
                format!("must be at most what it moves in one command, {} blocks of its own", ns.max_blocks);
            return Err(argument("block of the volume of bytes", 1 << block_shift, limit));
        }
        let reference = abi::VolumeMember { ns, chunks, unit_shift, distance, ..abi::VolumeMember::new() };
        Ok(Member { queues: queues.share(), given, name, reference })
    }
}

/// Memory that kernels and all SSDs of a volume reach. It stays mapped until the SSDs' queues are deleted.
pub struct VolumeBuffer {
    parts: Vec<Buffer>,
    /// Bytes of the parts before its first.
    skip: usize,
    bytes: usize,
    refs: KernelMemory,
    /// Parts of requests that are over, of which a controller may still execute commands.
    lost: Arc<AtomicUsize>,
}

/// Memory of such a part. It counts until the controller is disabled.
struct Lost {
    count: Arc<AtomicUsize>,
    _parts: Vec<Buffer>,
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Release);
    }
}

impl IoMemory for Arc<VolumeBuffer> {
    fn keep(self) -> Box<dyn Any + Send> {
        let (count, parts) = (self.lost.clone(), self.parts.clone());
        count.fetch_add(1, Ordering::Release);
        Box::new(Lost { count, _parts: parts })
    }
}

impl VolumeBuffer {
    /// The kernel argument that names this buffer. Valid while it, its volume or a later launch of that lives.
    pub fn as_ref(&self) -> abi::VolumeBufferRef {
        abi::VolumeBufferRef {
            parts: self.refs.address(),
            data: self.part_of(&self.parts[0]).data,
            bytes: self.bytes as u64,
            member_count: self.parts.len() as u32,
            ..abi::VolumeBufferRef::new()
        }
    }

    /// The memory: whole pages, of which [`skip`](Self::skip) bytes come before its first.
    pub fn buffer(&self) -> &Buffer {
        &self.parts[0]
    }

    /// Bytes of the memory before its first.
    pub fn skip(&self) -> usize {
        self.skip
    }

    /// Parts of requests that are over, of which a controller may still execute commands: it did not delete their queue.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::Acquire)
    }

    /// A part as commands of its SSD name it.
    fn part_of(&self, part: &Buffer) -> abi::BufferRef {
        let (whole, skip) = (part.as_ref(), self.skip as u64);
        abi::BufferRef { data: whole.data + skip, iova: whole.iova + skip, bytes: self.bytes as u64, ..whole }
    }
}

/// The flags of commands that a member lacks, or by which it does not zero even one block of the volume.
fn missing_commands(member: &abi::VolumeMember) -> u32 {
    let all = abi::NAMESPACE_NO_COMPARE | abi::NAMESPACE_NO_WRITE_ZEROES | abi::NAMESPACE_NO_DEALLOCATE;
    let (ns, shift) = (&member.ns, member.unit_shift);
    let zeroes_none = ns.zeroes_blocks != 0 && ns.zeroes_blocks >> shift == 0;
    ns.flags & all | if zeroes_none { abi::NAMESPACE_NO_WRITE_ZEROES } else { 0 }
}

fn counts_offset(members: usize) -> usize {
    (members * size_of::<abi::VolumeMember>()).next_multiple_of(abi::LINE_BYTES as usize)
}

fn state_offset(members: usize) -> usize {
    counts_offset(members) + members * size_of::<abi::VolumeCounts>()
}

fn chunk_blocks(bytes: u64, block_shift: u32) -> Result<u32, Error> {
    let blocks = bytes >> block_shift;
    if blocks == 0 || blocks << block_shift != bytes || blocks > u64::from(u32::MAX) {
        return Err(Error::Argument {
            object: "chunk_bytes",
            value: bytes.to_string(),
            limit: format!(
                "must be a multiple of {}, the largest block of the volume's SSDs, and below 2^32 of them",
                1u64 << block_shift
            ),
        });
    }
    Ok(blocks as u32)
}

fn check_members(queues: &[&Attachment], spec: &VolumeSpec) -> Result<(), Error> {
    let argument = |object, value: String, limit: String| Err(Error::Argument { object, value, limit });
    let most = abi::VOLUME_MEMBERS_MAX;
    if queues.is_empty() || queues.len() > most as usize {
        return argument("SSDs of a volume", queues.len().to_string(), format!("must be 1 to {most}"));
    }
    let distances = spec.distances.len();
    if distances != 0 && distances != queues.len() {
        let limit = format!("must be one for each of the {} SSDs, or none", queues.len());
        return argument("distances", distances.to_string(), limit);
    }
    let (first, rest) = (queues[0], &queues[1..]);
    for each in rest {
        let (target, other) = (first.target().target(), each.target().target());
        if target != other {
            let limit = format!("SSD {}: must be {target}, as the first SSD's", each.device().info().name);
            return argument("target", other.to_string(), limit);
        }
        let (sharing, other) = (first.queues().sharing(), each.queues().sharing());
        if sharing != other {
            let limit = format!("SSD {}: must be {sharing:?}, as the first SSD's", each.device().info().name);
            return argument("sharing", format!("{other:?}"), limit);
        }
    }
    check_distinct(queues)
}

/// One SSD twice would be no second replica, and parts of a volume that lie in the same blocks.
fn check_distinct(queues: &[&Attachment]) -> Result<(), Error> {
    for (index, each) in queues.iter().enumerate() {
        if queues[..index].iter().any(|before| before.is_over_the_same(each)) {
            return Err(Error::Argument {
                object: "SSDs of a volume",
                value: format!("{} namespace {}", each.device().info().name, each.namespace().nsid),
                limit: "must each be another namespace: name this one once".to_owned(),
            });
        }
    }
    Ok(())
}
