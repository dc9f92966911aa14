use super::*;
use warpbell_hw::Nsid;

fn limits() -> Limits {
    Limits {
        nsid: Nsid(1),
        blocks: 2048,
        block_size: 512,
        exact_bytes: None,
        max_transfer_bytes: Some(128 << 10),
        max_entries: 65_536,
        queues: 64,
        wide_cids: false,
        trim_blocks: None,
    }
}

fn resolve(change: impl FnOnce(&mut BenchOptions)) -> Result<Job, JobError> {
    let mut options = BenchOptions::default();
    change(&mut options);
    Job::resolve(&options, &limits())
}

fn refusal(change: impl FnOnce(&mut BenchOptions)) -> String {
    resolve(change).unwrap_err().to_string()
}

#[test]
fn defaults_fill_the_namespace() {
    let job = resolve(|_| {}).unwrap();
    assert_eq!((job.offset_bytes, job.size_bytes, job.io_slots()), (0, 1 << 20, 256));
    assert_eq!((job.warps, job.tokens_per_lane, job.commands_per_io), (1, 1, 1));
    assert_eq!((job.runtime, job.io_limit()), (Some(DEFAULT_RUNTIME), None));
    assert_eq!(job.ios_in_flight(), 32);
}

#[test]
fn a_size_alone_is_one_pass() {
    let job = resolve(|o| o.size = Some(ByteSize(64 << 10))).unwrap();
    assert_eq!((job.runtime, job.io_limit()), (None, Some(16)));
    let job =
        resolve(|o| (o.size, o.runtime) = (Some(ByteSize(64 << 10)), Some(Duration::from_secs(1)))).unwrap();
    assert_eq!(job.io_limit(), None);
    let job = resolve(|o| o.io_limit = Some(ByteSize(4097))).unwrap();
    assert_eq!(job.io_limit(), Some(2), "rounded up to whole I/Os");
}

#[test]
fn block_sizes() {
    assert_eq!(refusal(|o| o.bs = ByteSize(0)), "--bs 0: must be at least 512 bytes, one block");
    assert_eq!(
        refusal(|o| o.bs = ByteSize(513)),
        "--bs 513: must be a multiple of the block size, 512 bytes"
    );
    assert_eq!(
        refusal(|o| o.bs = ByteSize(2 << 20)),
        "--bs 2m: must be at most 1048576 bytes, the range in use"
    );
    let large = Limits { blocks: 1 << 30, ..limits() };
    let options = BenchOptions { bs: ByteSize(2 << 30), iodepth: 1, ..Default::default() };
    assert_eq!(
        Job::resolve(&options, &large).unwrap_err().to_string(),
        "--bs 2g: must be at most 1073741824 bytes"
    );
    let split = resolve(|o| o.bs = ByteSize(300 << 10)).unwrap();
    assert_eq!((split.commands_per_io, split.max_command_blocks, split.io_slots()), (3, 256, 3));
}

#[test]
fn ranges() {
    assert_eq!(refusal(|o| o.size = Some(ByteSize(0))), "--size 0: must be at least 512 bytes, one block");
    assert_eq!(
        refusal(|o| o.size = Some(ByteSize(1000))),
        "--size 1000: must be a multiple of the block size, 512 bytes"
    );
    assert_eq!(
        refusal(|o| o.offset = ByteSize(1 << 20)),
        "--offset 1m: must be at most 1048064 bytes, the last block of namespace 1"
    );
    assert_eq!(
        refusal(|o| (o.offset, o.size) = (ByteSize(512), Some(ByteSize(1 << 20)))),
        "--size 1m: must be at most 1048064 bytes from --offset 512 to the end of namespace 1"
    );
    assert_eq!(
        refusal(|o| o.offset = ByteSize(1)),
        "--offset 1: must be a multiple of the block size, 512 bytes"
    );
    assert_eq!(refusal(|o| o.io_limit = Some(ByteSize(0))), "--io-limit 0: must be at least 1 byte");
}

#[test]
fn writes_stay_clear_of_a_partial_block() {
    let tail = Limits { exact_bytes: Some((1 << 20) - 100), ..limits() };
    let mut options = BenchOptions { rw: Access::RandWrite, bs: ByteSize(512), ..Default::default() };
    assert_eq!(Job::resolve(&options, &tail).unwrap().size_bytes, (1 << 20) - 512);
    options.size = Some(ByteSize(1 << 20));
    assert_eq!(
        Job::resolve(&options, &tail).unwrap_err().to_string(),
        "--size 1048576: writes reach into the last block, of which the file has only 412 of 512 bytes; \
         at most 1048064 bytes from the start can be written"
    );
    options.rw = Access::RandRead;
    assert!(Job::resolve(&options, &tail).is_ok());
    let empty = Limits { exact_bytes: Some(0), blocks: 1, ..limits() };
    let write = BenchOptions { rw: Access::Write, bs: ByteSize(512), ..Default::default() };
    assert!(matches!(Job::resolve(&write, &empty), Err(JobError::Tail { flag: "offset", .. })));
}

#[test]
fn depths() {
    assert_eq!(refusal(|o| o.iodepth = 0), "--iodepth 0: must be at least 1");
    assert_eq!(refusal(|o| o.iodepth = 65_536), "--iodepth 65536: must be at most 65535");
    for depth in [1, 2, 65_535] {
        assert_eq!(resolve(|o| (o.iodepth, o.api) = (depth, Api::Host)).unwrap().iodepth, depth);
        assert_eq!(resolve(|o| (o.iodepth, o.sharing) = (depth, Sharing::Shared)).unwrap().iodepth, depth);
    }
    assert_eq!(
        refusal(|o| o.iodepth = 65_535),
        "--iodepth 65535: must be at most 1024, the command identifiers of --warps 1 on --queues 1; --sharing shared has more"
    );
    let small = Limits { max_entries: 1024, ..limits() };
    let options = BenchOptions { iodepth: 1024, ..Default::default() };
    assert_eq!(
        Job::resolve(&options, &small).unwrap_err().to_string(),
        "--iodepth 1024: must be at most 1023, the controller's rings have 1024 entries"
    );
    assert_eq!(refusal(|o| o.queues = 0), "--queues 0: must be at least 1");
    assert_eq!(refusal(|o| o.queues = 65), "--queues 65: must be at most 64, what the controller granted");
}

#[test]
fn warps_and_tokens() {
    assert_eq!(refusal(|o| (o.warps, o.api) = (Some(1), Api::Host)), "--warps 1: --api host runs no kernels");
    assert_eq!(
        refusal(|o| (o.warps, o.queues) = (Some(3), 4)),
        "--warps 3: must be at least 4, one for each of --queues 4"
    );
    assert_eq!(
        refusal(|o| (o.warps, o.queues) = (Some(8), 4)),
        "--warps 8: must be at most 4: with --sharing exclusive each warp has one of --queues 4"
    );
    assert_eq!(
        refusal(|o| (o.warps, o.queues, o.sharing) = (Some(4097), 2, Sharing::Shared)),
        "--warps 4097: must be at most 4096 on --queues 2: each takes 32 of a queue's command identifiers"
    );
    assert_eq!(
        refusal(|o| (o.warps, o.sharing) = (Some(u32::MAX), Sharing::Shared)),
        "--warps 4294967295: must be at most 2048 on --queues 1: each takes 32 of a queue's command identifiers"
    );
    let wide = Limits { wide_cids: true, ..limits() };
    let mut options =
        BenchOptions { warps: Some(4097), queues: 2, sharing: Sharing::Shared, ..Default::default() };
    options.iodepth = 4097;
    assert_eq!(Job::resolve(&options, &wide).unwrap().warps, 4097, "32-bit identifiers name more warps");
    let job = resolve(|o| o.iodepth = 128).unwrap();
    assert_eq!((job.warps, job.tokens_per_lane, job.ios_in_flight()), (1, 4, 128));
    let job = resolve(|o| (o.iodepth, o.sharing) = (128, Sharing::Shared)).unwrap();
    assert_eq!((job.warps, job.tokens_per_lane), (4, 1));
    let job = resolve(|o| (o.sharing, o.warps, o.iodepth) = (Sharing::Shared, Some(2048), 65_535)).unwrap();
    assert_eq!(job.tokens_per_lane, 1, "2048 warps leave each lane one CID");
    let job = resolve(|o| (o.iodepth, o.sharing) = (65_535, Sharing::Shared)).unwrap();
    assert_eq!((job.warps, job.tokens_per_lane), (64, 32));
    let job = resolve(|o| (o.iodepth, o.api) = (65_535, Api::Host)).unwrap();
    assert_eq!((job.warps, job.ios_in_flight()), (0, 65_535));
}

#[test]
fn warps_share_the_depth_of_their_queue() {
    let job = |iodepth, queues, warps| {
        resolve(|o| {
            (o.iodepth, o.queues, o.warps, o.sharing) = (iodepth, queues, Some(warps), Sharing::Shared)
        })
        .unwrap()
    };
    assert_eq!(job(128, 1, 4).largest_share(), 32);
    assert_eq!(job(10, 2, 7).largest_share(), 4);
    assert_eq!(job(2, 2, 7).largest_share(), 1, "some warps have nothing to do");
}

#[test]
fn times_and_mixes() {
    assert_eq!(refusal(|o| o.runtime = Some(Duration::ZERO)), "--runtime 0ns: must be at least 1ns");
    assert_eq!(refusal(|o| o.timeout = Duration::ZERO), "--timeout 0ns: must be at least 1ns");
    assert_eq!(
        refusal(|o| o.rwmixread = Some(70)),
        "--rwmixread 70: only --rw randrw mixes, this is --rw randread"
    );
    assert_eq!(
        refusal(|o| (o.rw, o.rwmixread) = (Access::RandRw, Some(101))),
        "--rwmixread 101: must be at most 100"
    );
    assert_eq!(resolve(|o| (o.rw, o.rwmixread) = (Access::RandRw, Some(70))).unwrap().rwmixread, 70);
}

#[test]
fn buffers_have_a_limit() {
    let large = Limits { blocks: 1 << 30, ..limits() };
    let bs = ByteSize(256 << 10);
    let options = BenchOptions { iodepth: 65_535, queues: 2, bs, api: Api::Host, ..Default::default() };
    assert_eq!(
        Job::resolve(&options, &large).unwrap_err().to_string(),
        "--bs 262144: 65536 I/Os in flight need 16g of buffers, the limit is 8g"
    );
    // The passes of --verify are the same kernel's, and take the same buffers.
    let many = Limits { queues: 64, ..large };
    for verify in [None, Some(Verify::Crc32c)] {
        let options =
            BenchOptions { iodepth: 1, queues: 64, bs: ByteSize(8 << 20), verify, ..Default::default() };
        assert!(Job::resolve(&options, &many).is_ok(), "{verify:?}");
        let options = BenchOptions { iodepth: 32, ..options };
        assert_eq!(
            Job::resolve(&options, &many).unwrap_err().to_string(),
            "--bs 8388608: 2048 I/Os in flight need 16g of buffers, the limit is 8g"
        );
    }
    // Latencies are counted by lane: with many warps the histograms are the larger part.
    let options = BenchOptions {
        iodepth: 2047,
        queues: 64,
        warps: Some(64 * 512),
        sharing: Sharing::Shared,
        ..Default::default()
    };
    let text = Job::resolve(&options, &many).map(drop).unwrap_err().to_string();
    assert_eq!(text, "--warps 32768: their latency histograms need 8g of memory, the limit is 4g");
}

#[test]
fn waiting_by_interrupt_takes_a_thread_for_each_queue_of_the_host() {
    let options = |api, threads| BenchOptions {
        api,
        threads,
        queues: 3,
        completion: crate::Completion::Interrupt,
        ..Default::default()
    };
    assert_eq!(Job::resolve(&options(Api::Host, None), &limits()).unwrap().threads, 3);
    assert_eq!(Job::resolve(&options(Api::Host, Some(8)), &limits()).unwrap().threads, 3);
    let refusal = |options| Job::resolve(&options, &limits()).unwrap_err().to_string();
    assert_eq!(
        refusal(options(Api::Host, Some(2))),
        "--threads 2: with --completion interrupt each queue needs a thread, which sleeps for it"
    );
    assert_eq!(
        refusal(options(Api::Io, None)),
        "--completion interrupt: kernels poll; it goes with --api host"
    );
    let gathered = |completion| BenchOptions {
        api: Api::Host,
        completion,
        coalescing: Some("8/100us".parse().unwrap()),
        ..Default::default()
    };
    let job = Job::resolve(&gathered(crate::Completion::Interrupt), &limits()).unwrap();
    let written = serde_json::to_value(&job).unwrap();
    assert_eq!(written["coalescing"], "8/100us");
    assert_eq!(serde_json::from_value::<Job>(written).unwrap().coalescing, job.coalescing);
    assert_eq!(
        refusal(gathered(crate::Completion::Poll)),
        "--coalescing 8/100us: it gathers interrupts, and nobody waits for any; it goes with --completion interrupt"
    );
}

/// What `--protocol marks` refuses of a job that it would take but for `change`.
fn unfit(change: impl FnOnce(&mut BenchOptions)) -> String {
    refusal(|o| {
        (o.protocol, o.api, o.sharing) = (Some(crate::Protocol::Marks), Api::Raw, Sharing::Shared);
        change(o);
    })
}

#[test]
fn lanes_wait_for_each_other_where_they_are_asked_to_and_can() {
    assert_eq!(resolve(|_| {}).unwrap().gather, None);
    assert_eq!(resolve(|o| o.gather = Some(32)).unwrap().gather, Some(32));
    let refused = |change: fn(&mut BenchOptions)| {
        resolve(|o| {
            o.gather = Some(8);
            change(o);
        })
        .unwrap_err()
        .to_string()
    };
    assert_eq!(refused(|o| o.gather = Some(33)), "--gather 33: must be 1 to 32, the lanes of a warp");
    assert_eq!(
        refused(|o| o.api = Api::Batch),
        "--gather 8: it goes with --api io, raw and host, and without --replay"
    );
    assert_eq!(refused(|o| (o.api, o.iodepth) = (Api::Host, 4)), "--gather 8: must be 1 to 4, the --iodepth");
    assert_eq!(
        refused(
            |o| (o.protocol, o.api, o.sharing) = (Some(crate::Protocol::Marks), Api::Raw, Sharing::Shared)
        ),
        "--gather 8: each thread of --protocol marks begins its own"
    );
}

#[test]
fn protocols_have_the_names_of_the_systems_they_are_after() {
    for (alias, word) in
        [("bam", "marks"), ("xnvme", "lockstep"), ("agile", "service"), ("marks-own", "marks-own")]
    {
        let protocol: crate::Protocol = alias.parse().unwrap();
        assert_eq!(protocol.word(), word);
        assert_eq!(serde_json::from_str::<crate::Protocol>(&format!("\"{alias}\"")).unwrap(), protocol);
    }
    let unknown = "spdk".parse::<crate::Protocol>().unwrap_err().to_string();
    assert_eq!(
        unknown,
        "'spdk': expected one of turns, turns-alone, marks, bam, marks-own, lockstep, xnvme, service, agile"
    );
}

#[test]
fn protocols_take_one_command_of_each_lane_and_nothing_of_the_librarys_queues() {
    let marks = |o: &mut BenchOptions| {
        (o.protocol, o.api, o.sharing) = (Some(crate::Protocol::Marks), Api::Raw, Sharing::Shared);
    };
    let job = resolve(|o| {
        marks(o);
        (o.iodepth, o.queues) = (256, 2);
    });
    let job = job.unwrap();
    assert_eq!((job.warps, job.tokens_per_lane, job.recover), (16, 1, false), "a lane for each command");
    assert_eq!(
        unfit(|o| o.api = Api::Io),
        "--api io: --protocol marks (bam) has a loop of its own that writes entries; use --api raw"
    );
    assert_eq!(
        unfit(|o| o.sharing = Sharing::Exclusive),
        "--sharing exclusive: --protocol marks (bam) is for queues that warps share, and each of these has 1 warp; use \
         --sharing shared"
    );
    assert_eq!(
        unfit(|o| o.retries = 2),
        "--retries 2: --protocol marks (bam) submits no command again; use 0"
    );
    assert!(unfit(|o| o.trace_events = Some(9)).ends_with("without --trace"));
    assert_eq!(
        unfit(|o| (o.iodepth, o.warps) = (65, Some(2))),
        "--iodepth 65: must be at most 64: --protocol marks (bam) has one command of each lane in flight, and a queue has \
         2 warps (--warps)"
    );
    assert_eq!(
        unfit(|o| (o.queues, o.warps) = (2, Some(3))),
        "--warps 3: --protocol marks (bam) takes as many warps for each of --queues 2"
    );
}

#[test]
fn blocks_have_whole_warps_and_batches_a_command_of_each_lane() {
    let batch = |o: &mut BenchOptions| o.api = Api::Batch;
    let job = resolve(batch).unwrap();
    assert_eq!((job.block, job.warps, job.submitters(128), job.all_warps()), (Some(128), 1, 1, 4));
    assert_eq!(
        (job.queue_warps(), job.tokens_per_lane),
        (1, 4),
        "identifiers to spare, for those of lost commands"
    );
    let shaped = |block, warps| {
        resolve(|o| {
            (o.api, o.sharing, o.iodepth) = (Api::Batch, Sharing::Shared, 64);
            (o.block, o.warps) = (Some(block), Some(warps));
        })
        .unwrap()
    };
    // Warps that submit, and all of the launch: as many in each block.
    for (block, warps, submitters, all) in [(128, 8, 4, 8), (128, 6, 3, 8), (256, 6, 6, 8), (64, 7, 1, 14)] {
        let job = shaped(block, warps);
        assert_eq!(
            (job.submitters(block), job.all_warps()),
            (submitters, all),
            "{warps} in blocks of {block}"
        );
    }
    let job =
        resolve(|o| (o.api, o.sharing, o.iodepth, o.queues) = (Api::Batch, Sharing::Shared, 100, 2)).unwrap();
    assert_eq!((job.warps, job.largest_share()), (8, 25), "as many warps as take the depth");
    let refused = |block| refusal(|o| (o.api, o.block) = (Api::Batch, Some(block)));
    assert_eq!(refused(31), "--block 31: must be at least 32 threads, one warp");
    assert_eq!(refused(33), "--block 33: must be a multiple of 32, whole warps");
    assert_eq!(refused(1024), "--block 1024: must be at most 256 threads");
    assert_eq!(
        refusal(|o| (o.api, o.sharing, o.warps) = (Api::Batch, Sharing::Shared, Some(513))),
        "--warps 513: a lane of a batch takes 4 CIDs, but has 2 with --queues 1"
    );
    assert!(resolve(|o| o.api = Api::Io).unwrap().block.is_none());
}
