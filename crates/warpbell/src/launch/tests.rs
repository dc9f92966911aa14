// UNSAFETY: kernels of these tests' own.
#![expect(unsafe_code, reason = "launches of kernels that are no part of Warpbell")]
//! What kernels of users do, and which launches are refused.

use std::path::Path;

use warpbell_files::FileMap;
use warpbell_kernels::abi::{
    self, BenchArgs, BenchVolumeArgs, BufferRef, DigestArgs, FileRef, Mailbox, NamespaceRef, VolumeBufferRef,
    VolumeRef, WarpResult,
};
use zerocopy::{Immutable, IntoBytes};

use crate::{
    AttachOptions, Attachment, Buffer, Code, CompileOptions, Error, FileTable, KernelMemory, Launch, Lba,
    LeaseSpec, OpenOptions, Program, Regions, SharedMemory, Sharing, Ssd, Target, Volume, VolumeSpec,
};

const COUNT: &str = "#include <warpbell/warpbell.cuh>
    using namespace warpbell;
    struct count_args { warpbell_buffer_ref out; uint64_t first; };
    WARPBELL_KERNEL(count, count_args) {
        dma_span(args.out).data<uint64_t>()[port::lane()] = args.first + STEP * port::lane();
    }";

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct CountArgs {
    out: BufferRef,
    first: u64,
}

fn compile(cache: &Path) -> Program {
    let options = CompileOptions::default().define("STEP=3").cache(cache);
    // SAFETY: the source has no initialisers but those of its kernels.
    unsafe { Program::compile(&Target::Cpu.open().unwrap(), "count.cu", COUNT, &options) }.unwrap()
}

fn attach() -> Attachment {
    let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap();
    ssd.attach(&AttachOptions::default()).unwrap()
}

#[test]
fn a_users_kernel_runs_with_arguments_of_the_users() {
    let cache = tempfile::tempdir().unwrap();
    let program = compile(cache.path());
    assert_eq!(program.kernels().collect::<Vec<_>>(), [("count", size_of::<CountArgs>() as u64)]);
    assert_eq!((program.target(), program.code()), (Target::Cpu, Code::Host));
    let queues = attach();
    let out = queues.buffer(32 * 8).unwrap();
    let args = CountArgs { out: out.as_ref(), first: 100 };
    // SAFETY: the kernel writes to `out` alone, which is the attachment's.
    let launch = unsafe { program.launch(&queues, "count", &args) };
    launch.unwrap().start().unwrap().join().unwrap();
    let mut found = [0u64; 32];
    out.read(0, found.as_mut_bytes()).unwrap();
    assert!(found.iter().zip((100..).step_by(3)).all(|(found, expected)| *found == expected), "{found:?}");

    let entries: Vec<_> = std::fs::read_dir(cache.path()).unwrap().flatten().collect();
    let module = entries.iter().find(|entry| entry.path().extension().is_some_and(|end| end == "so"));
    // SAFETY: just compiled, from the text above.
    let loaded = unsafe { Program::load(&Target::Cpu.open().unwrap(), &module.unwrap().path()) };
    assert_eq!(loaded.unwrap().kernels().count(), 1);
}

#[test]
fn a_block_above_the_bound_of_kernels_is_refused_on_every_target() {
    let cache = tempfile::tempdir().unwrap();
    let (program, queues) = (compile(cache.path()), attach());
    let out = queues.buffer(4096).unwrap();
    let args = CountArgs { out: out.as_ref(), first: 0 };
    // SAFETY: the kernel writes to `out` alone, which is the attachment's.
    let launch = unsafe { program.launch(&queues, "count", &args) }.unwrap();
    for block in [0, 257, 512, 1024] {
        let error = launch.clone().block(block).start().unwrap_err();
        assert_eq!(error.to_string(), format!("block {block}: kernel count: must be 1 to 256 threads"));
        assert_eq!(error.exit_code(), 2);
    }
    launch.block(256).start().unwrap().join().unwrap();
}

const SUM: &str = "#include <warpbell/warpbell.cuh>
    using namespace warpbell;
    struct lease_args { warpbell_namespace_ref ns; warpbell_buffer_ref data; };
    WARPBELL_KERNEL(of_lease, lease_args) {
        session<sharing::exclusive> ssd(this_warp(), args.ns, 0);
        const dma_span mine = dma_span(args.data).subspan(port::lane() * 512u, 512);
        const status s = read_each(this_warp(), ssd, extent{lba(port::lane()), 1}, mine);
        mine.data<uint64_t>()[0] = s.bits;
        ssd.detach(this_warp());
    }
    struct volume_args { warpbell_volume_ref volume; warpbell_volume_buffer_ref data; };
    WARPBELL_KERNEL(of_volume, volume_args) {
        volume<sharing::exclusive, 2> v(this_warp(), args.volume, 0);
        const volume_span mine = volume_span(args.data).subspan(port::lane() * 512u, 512);
        // Lane 31 crosses a chunk of 8 blocks.
        const extent from{lba(port::lane() * 8u), port::lane() == 31u ? 9u : 1u};
        const volume_span into = port::lane() == 31u ? volume_span(args.data) : mine;
        volume_token token = submit_read_each(this_warp(), v, optional<extent>(from), into);
        const status s = wait_each(this_warp(), v, move(token));
        mine.data<uint64_t>()[1] = s.bits;
        v.detach(this_warp());
    }";

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct LeaseArgs {
    ns: NamespaceRef,
    data: BufferRef,
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct VolumeArgs {
    volume: VolumeRef,
    data: VolumeBufferRef,
}

fn compile_sum(cache: &Path) -> Program {
    let options = CompileOptions::default().cache(cache);
    // SAFETY: as above.
    unsafe { Program::compile(&Target::Cpu.open().unwrap(), "sum.cu", SUM, &options) }.unwrap()
}

#[test]
fn a_program_runs_over_a_lease_and_stays_in_it() {
    let cache = tempfile::tempdir().unwrap();
    let (program, queues) = (compile_sum(cache.path()), attach());
    let lease = queues.lease(&LeaseSpec { lbas: Some(Lba(0)..Lba(16)), ..LeaseSpec::default() }).unwrap();
    let buffer = queues.buffer(32 * 512).unwrap();
    let args = LeaseArgs { ns: lease.namespace(), data: buffer.as_ref() };
    // SAFETY: the kernel touches queues and buffer of the lease's attachment alone.
    let launch = unsafe { program.launch(&lease, "of_lease", &args) }.unwrap();
    drop((lease, queues));
    launch.start().unwrap().join().unwrap();
    let mut found = [0u64; 32 * 64];
    buffer.read(0, found.as_mut_bytes()).unwrap();
    let out_of_lease = u64::from(abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_LEASE);
    let expected = |lane: usize| if lane < 16 { 0 } else { out_of_lease };
    assert!((0..32).all(|lane| found[lane * 64] == expected(lane)), "{found:x?}");
}

#[test]
fn a_program_reads_a_volume_asynchronously() {
    let cache = tempfile::tempdir().unwrap();
    let program = compile_sum(cache.path());
    let ssds = [0; 2].map(|_| Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap());
    for (index, ssd) in ssds.iter().enumerate() {
        for chunk in 0..16u64 {
            // Chunk k of the volume is chunk k / 2 of SSD k mod 2.
            let number = chunk * 2 + index as u64 + 100;
            let block: Vec<u8> = number.to_le_bytes().repeat(64);
            ssd.write(None, Lba(chunk * 8), &block).unwrap();
        }
    }
    let queues = ssds.each_ref().map(|ssd| ssd.attach(&AttachOptions::default()).unwrap());
    let spec = VolumeSpec { chunk_bytes: 4096, ..VolumeSpec::default() };
    let volume = Volume::new(&queues.each_ref(), &spec).unwrap();
    let buffer = volume.buffer(32 * 512).unwrap();
    let args = VolumeArgs { volume: volume.as_ref().unwrap(), data: buffer.as_ref() };
    // SAFETY: the kernel touches queues and buffer of the volume alone.
    let launch = unsafe { program.launch(&volume, "of_volume", &args) }.unwrap();
    launch.start().unwrap().join().unwrap();
    let mut found = [0u64; 32 * 64];
    buffer.buffer().read(0, found.as_mut_bytes()).unwrap();
    for lane in 0..31 {
        assert_eq!(found[lane * 64..][..2], [lane as u64 + 100, 0], "lane {lane}");
    }
    assert_eq!(found[31 * 64 + 1], u64::from(abi::STATUS_LIBRARY | abi::STATUS_TOO_LARGE));
    assert_eq!(volume.report().unwrap().iter().map(|each| each.bytes_read).sum::<u64>(), 31 * 512);
}

#[test]
fn what_does_not_fit_the_program_is_refused_by_name() {
    let cache = tempfile::tempdir().unwrap();
    let program = compile(cache.path());
    let queues = attach();
    let error = |kernel: &str, args: &u64| {
        // SAFETY: nothing is launched.
        let launch = unsafe { program.launch(&queues, kernel, args) };
        launch.unwrap_err().to_string()
    };
    assert_eq!(error("cuont", &0), "kernel 'cuont': module count.cu -DSTEP=3 has count");
    let size = size_of::<CountArgs>();
    assert_eq!(error("count", &0), format!("kernel count: arguments of 8 bytes, but it takes {size}"));
    let none = "#include <warpbell/warpbell.cuh>\n";
    let options = CompileOptions::default().cache(cache.path());
    // SAFETY: there is nothing in it.
    let compiled = unsafe { Program::compile(&Target::Cpu.open().unwrap(), "none.cu", none, &options) };
    let error = compiled.unwrap_err();
    assert_eq!(error.to_string(), "none.cu: it has no kernel that WARPBELL_KERNEL(name, args) defined");
    // Without the macro that it needs.
    // SAFETY: as above.
    let compiled = unsafe { Program::compile(&Target::Cpu.open().unwrap(), "count.cu", COUNT, &options) };
    let error = compiled.unwrap_err();
    assert!(error.to_string().contains("count.cu:5:") && error.to_string().contains("STEP"), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn blocks_that_are_to_meet_are_all_there_or_refused() {
    let cache = tempfile::tempdir().unwrap();
    let (program, queues) = (compile(cache.path()), attach());
    let out = queues.buffer(32 * 8).unwrap();
    let args = CountArgs { out: out.as_ref(), first: 100 };
    // SAFETY: the kernel writes to `out` alone, which is the attachment's.
    let launch = unsafe { program.launch(&queues, "count", &args) }.unwrap().grid(1056).block(256);
    launch.clone().cooperative(true).start().unwrap().join().unwrap();
    launch.clone().grid(1057).start().unwrap().join().unwrap();
    let error = launch.clone().grid(1057).cooperative(true).start().unwrap_err();
    let said = "kernel count: 1057 blocks of 256 threads at the same time: at most 1056 on target cpu";
    assert_eq!((error.to_string().as_str(), error.exit_code()), (said, 2));
    assert!(launch.grid(1057).cooperative(true).worker().is_err(), "stepped by hand, too");
}

/// Arguments of kernel `digest` over the whole of a small SSD.
fn digest_args(
    queues: &Attachment,
    buffer: &Buffer,
    (mailbox, memory): (&SharedMemory, &KernelMemory),
    table: &FileTable,
) -> DigestArgs {
    DigestArgs {
        ns: queues.namespace(),
        buffer: buffer.as_ref(),
        mailbox: mailbox.address(),
        results: memory.address(),
        chunks: memory.address() + 4096,
        crc_tables: memory.address() + 8192,
        file: table.reference(queues).unwrap(),
        chunk_blocks: 8,
        ..DigestArgs::new()
    }
}

#[test]
fn our_kernels_reach_memory_of_their_launch_alone() {
    let queues = attach();
    let (mailbox, memory) = (queues.target().shared(4096).unwrap(), queues.target().memory(1 << 20).unwrap());
    mailbox.window().write(0, Mailbox::new().as_bytes()).unwrap();
    let buffer = queues.buffer(32 * 4096).unwrap();
    let table = FileTable::new(&queues, &FileMap::whole(1 << 20)).unwrap();
    let args = digest_args(&queues, &buffer, (&mailbox, &memory), &table);
    let regions = Regions::new().with(&mailbox).with(&memory).with(&table.memory());
    // SAFETY: the tables are a `FileTable`'s.
    let over = |args: &DigestArgs, regions| unsafe { queues.launch("digest", args, regions) };
    let launch = |args: &DigestArgs| over(args, regions.clone()).unwrap();
    launch(&args).start().unwrap().join().unwrap();

    let refused = |launch: Launch| match launch.start().unwrap_err() {
        Error::Unowned { field, .. } => field,
        error => panic!("{error}"),
    };
    assert_eq!(refused(launch(&args).grid(2)), "buffer", "32 chunks for each warp");
    let elsewhere = queues.target().memory(4096).unwrap();
    assert_eq!(refused(launch(&DigestArgs { results: elsewhere.address(), ..args })), "results");
    assert_eq!(refused(launch(&DigestArgs { mailbox: 0, ..args })), "mailbox");
    let file = |file| launch(&DigestArgs { file, ..args });
    assert_eq!(refused(file(FileRef { bytes: u64::MAX, ..args.file })), "chunks");
    assert_eq!(refused(file(FileRef { extents: elsewhere.address(), ..args.file })), "file.extents");
    assert_eq!(refused(file(FileRef { bucket_count: 1 << 20, ..args.file })), "file.buckets");
    let more = NamespaceRef { queue_count: 1000, ..args.ns };
    assert_eq!(refused(launch(&DigestArgs { ns: more, ..args })), "ns");
    assert!(launch(&DigestArgs { chunks: 8, ..args }).worker().is_err(), "stepped by hand, too");
    // What the SSD is told, too: it writes where these say.
    let sent = |buffer| launch(&DigestArgs { buffer, ..args });
    assert_eq!(refused(sent(BufferRef { iova: args.buffer.iova - 4096, ..args.buffer })), "buffer");
    assert_eq!(refused(sent(BufferRef { prp_iova: 8, ..args.buffer })), "buffer");
    let other = attach();
    let foreign = other.buffer(32 * 4096).unwrap();
    let lent = regions.clone().with(&foreign);
    let of_other = DigestArgs { buffer: foreign.as_ref(), ..args };
    assert_eq!(refused(over(&of_other, lent).unwrap()), "buffer", "of another SSD");
    let finer = NamespaceRef { block_shift: args.ns.block_shift - 1, ..args.ns };
    assert_eq!(refused(launch(&DigestArgs { ns: finer, ..args })), "ns");

    // SAFETY: it is refused.
    let error = unsafe { queues.launch("gauge", &args, regions.clone()) }.unwrap_err().to_string();
    assert_eq!(error, "kernel gauge: takes no warpbell_digest_args; kernels that do: digest");
}

#[test]
fn our_kernels_reach_a_volume_and_its_buffers() {
    let options = AttachOptions { warps: 2, sharing: Sharing::Shared, ..AttachOptions::default() };
    let ssds = [0; 2].map(|_| Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap());
    let queues = ssds.each_ref().map(|ssd| ssd.attach(&options).unwrap());
    let volume = Volume::new(&queues.each_ref(), &VolumeSpec::default()).unwrap();
    let buffer = volume.buffer(8 * 512).unwrap();
    let target = queues[0].target();
    let (mailbox, memory) = (target.shared(4096).unwrap(), target.memory(4096).unwrap());
    mailbox.window().write(0, Mailbox::new().as_bytes()).unwrap();
    let bench = BenchArgs {
        ns: queues[0].namespace(),
        mailbox: mailbox.address(),
        results: memory.address(),
        units: volume.blocks(),
        io_limit: 100,
        timeout_ns: 10_000_000_000,
        blocks_per_io: 1,
        iodepth: 8,
        units_per_warp: 8,
        read_percent: 100,
        pattern: abi::PATTERN_RANDOM,
        ..BenchArgs::new()
    };
    let volume_ref = volume.as_ref().unwrap();
    let args =
        BenchVolumeArgs { bench, volume: volume_ref, buffer: buffer.as_ref(), ..BenchVolumeArgs::new() };
    let regions = Regions::new().with(&mailbox).with(&memory);
    // SAFETY: the tables are the volume's.
    let launch =
        |args: &BenchVolumeArgs| unsafe { volume.launch("bench_volume", args, regions.clone()) }.unwrap();
    launch(&args).start().unwrap().join().unwrap();
    let mut did = WarpResult::new();
    memory.read(0, did.as_mut_bytes()).unwrap();
    assert_eq!((did.reads, did.errors, did.bytes_read), (100, 0, 100 * 512));
    let moved: u64 = volume.report().unwrap().iter().map(|each| each.bytes_read).sum();
    assert_eq!(moved, did.bytes_read);

    let refused = |args: BenchVolumeArgs| match launch(&args).start().unwrap_err() {
        Error::Unowned { field, .. } => field,
        error => panic!("{error}"),
    };
    // Memory of the launch names no queues.
    let forged = VolumeRef { members: memory.address(), ..volume_ref };
    assert_eq!(refused(BenchVolumeArgs { volume: forged, ..args }), "volume.members");
    let forged = VolumeRef { counts: 8, ..volume_ref };
    assert_eq!(refused(BenchVolumeArgs { volume: forged, ..args }), "volume.counts");
    let more = BenchArgs { iodepth: 9, ..bench };
    assert_eq!(refused(BenchVolumeArgs { bench: more, ..args }), "buffer");
    let parts = VolumeBufferRef { parts: 8, ..args.buffer };
    assert_eq!(refused(BenchVolumeArgs { buffer: parts, ..args }), "buffer.parts");
    // Only what stands in our tables, from the beginning of each reference on.
    let table = args.buffer.parts;
    for address in [memory.address(), table + 8, table + size_of::<BufferRef>() as u64] {
        let parts = VolumeBufferRef { parts: address, ..args.buffer };
        assert_eq!(refused(BenchVolumeArgs { buffer: parts, ..args }), "buffer.parts");
    }
    let shifted = VolumeRef { members: volume_ref.members + 8, ..volume_ref };
    assert_eq!(refused(BenchVolumeArgs { volume: shifted, ..args }), "volume.members");
    // Tables are no memory to write to.
    for results in [volume_ref.members, table] {
        let over = BenchArgs { results, ..bench };
        assert_eq!(refused(BenchVolumeArgs { bench: over, ..args }), "results");
    }
    // What is of one SSD is no launch over both.
    // SAFETY: it is not started.
    let alone = unsafe { queues[0].launch("bench_volume", &args, regions.clone()) }.unwrap();
    assert!(matches!(alone.start().unwrap_err(), Error::Unowned { field: "volume.members", .. }));
}
