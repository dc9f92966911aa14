//! Benchmarks with verification, as users run them: large and small transfers, by the host and by kernels.

use warpbell::{Ssd, Target};
use warpbell_hw::{Lba, Nsid};
use warpbell_workload::{
    Access, Api, BenchOptions, ByteSize, Completion, Control, Policy, Protocol, Run, Sharing, Verify, bench,
    resolve,
};

/// Bytes of the namespace that a run uses.
pub const RANGE: u64 = 2 << 20;

fn run(target: Target, ssd: &Ssd, options: &BenchOptions) -> Run {
    let job = resolve(ssd, options).unwrap_or_else(|error| panic!("{}: {options:?}: {error}", ssd.name()));
    bench(ssd, target, &job, &Control::new())
        .unwrap_or_else(|error| panic!("{}: {options:?}: {error}", ssd.name()))
}

/// Mixed random I/O of one block, of 4 KiB, and larger than a command may be, over every interface; every block is
/// checked.
pub fn both_apis(ssd: &Ssd, nsid: u32) {
    apis_on(Target::Cpu, ssd, nsid, &[Api::Host, Api::Raw, Api::Io]);
}

/// The same on any target, over these interfaces.
pub fn apis_on(target: Target, ssd: &Ssd, nsid: u32, apis: &[Api]) {
    apis_within(RANGE, target, ssd, nsid, apis, None);
}

/// The same in so many bytes of the namespace, and with half as many read and written. `only`: one of the three sizes, which
/// are counted round.
pub fn apis_within(range: u64, target: Target, ssd: &Ssd, nsid: u32, apis: &[Api], only: Option<u64>) {
    let block = ssd.namespace(Some(warpbell_hw::Nsid(nsid))).expect("the namespace").block_size;
    let queues = ssd.granted_queues().min(2);
    for &api in apis {
        let sizes = [u64::from(block), 4096.max(u64::from(block)), 160 << 10];
        let chosen = |at: &usize| only.is_none_or(|only| only as usize % sizes.len() == *at);
        for bs in (0..sizes.len()).filter(chosen).map(|at| sizes[at]) {
            let most = ssd.max_transfer_bytes().unwrap_or(u64::MAX);
            // The queue alone splits nothing that is larger than a command may be.
            let splits = matches!(api, Api::Io | Api::Batch | Api::Agent);
            if bs > most && !splits {
                continue;
            }
            let sharing = if splits { Sharing::Shared } else { Sharing::Exclusive };
            let range = range.next_multiple_of(bs);
            let options = BenchOptions {
                rw: Access::RandRw,
                rwmixread: Some(50),
                bs: ByteSize(bs),
                iodepth: 32,
                queues,
                sharing,
                api,
                io_limit: Some(ByteSize(range / 2)),
                size: Some(ByteSize(range)),
                verify: Some(Verify::Crc32c),
                nsid: Nsid(nsid),
                threads: Some(1),
                ..BenchOptions::default()
            };
            let result = run(target, ssd, &options);
            let verify = result.verify.as_ref().expect("verified");
            assert_eq!((result.errors, verify.mismatches), (0, 0), "{api} {bs}: {result:?}");
            let polls = result.agents.and_then(|agents| agents.compute_polls);
            assert_eq!(polls.unwrap_or(0), 0, "{api} {bs}: compute warps look at no queue");
            assert!(verify.blocks >= range / u64::from(block), "{api} {bs}: {verify:?}");
        }
    }
    let names: Vec<&str> = apis.iter().map(|api| api.word()).collect();
    println!("{}: namespace {nsid}, blocks of {block}: {} verified", ssd.name(), names.join(", "));
}

/// So many words of an array over a page cache that is smaller than it, read and written by several warps, with each policy;
/// every block is checked.
pub fn arrays_on(target: Target, ssd: &Ssd, words: u64) -> String {
    let range = 512 << 10;
    for &policy in Policy::ALL {
        let options = BenchOptions {
            rw: Access::RandRw,
            rwmixread: Some(50),
            bs: ByteSize(4096),
            cache: Some(ByteSize(range / 4)),
            hit_rate: Some(25),
            policy: Some(policy),
            queues: ssd.granted_queues().min(2),
            warps: Some(4),
            sharing: Sharing::Shared,
            api: Api::Array,
            io_limit: Some(ByteSize(words * 8)),
            size: Some(ByteSize(range)),
            verify: Some(Verify::Crc32c),
            threads: Some(2),
            ..BenchOptions::default()
        };
        let result = run(target, ssd, &options);
        let verify = result.verify.as_ref().expect("verified");
        assert_eq!((result.errors, verify.mismatches), (0, 0), "{policy}: {result:?}");
        assert_eq!(verify.blocks, result.read.ios + range / 4096 * 8, "{policy}: {verify:?}");
        let array = result.array.expect("there is a cache");
        assert!(array.hits > 0 && array.write_backs > 0, "{policy}: {array:?}");
        assert_eq!((array.cached.accesses, array.plain.accesses), (words, words), "{policy}");
    }
    let names: Vec<&str> = Policy::ALL.iter().map(|policy| policy.word()).collect();
    format!("{words} words through a cache of a quarter of them by {}: verified", names.join(", "))
}

/// The same I/Os by each protocol of the laboratory, of lanes of some warps on shared queues.
pub fn protocols_on(target: Target, ssd: &Ssd) -> String {
    let queues = ssd.granted_queues().min(2);
    for &protocol in Protocol::ALL {
        let options = BenchOptions {
            rw: Access::RandRw,
            rwmixread: Some(50),
            bs: ByteSize(512),
            iodepth: 4 * 32,
            queues,
            warps: Some(4 * u32::from(queues)),
            sharing: Sharing::Shared,
            api: Api::Raw,
            protocol: Some(protocol),
            size: Some(ByteSize(RANGE / 4)),
            io_limit: Some(ByteSize(RANGE / 2)),
            verify: Some(Verify::Crc32c),
            threads: Some(2),
            ..BenchOptions::default()
        };
        let result = run(target, ssd, &options);
        let verify = result.verify.as_ref().expect("verified");
        assert_eq!((result.errors, verify.mismatches), (0, 0), "{protocol}: {result:?}");
        assert_eq!(result.total.ios, RANGE / 2 / 512, "{protocol}");
        assert_eq!(verify.blocks, result.read.ios + RANGE / 4 / 512, "{protocol}: {verify:?}");
    }
    let names: Vec<String> = Protocol::ALL.iter().map(ToString::to_string).collect();
    format!("{} by {}: verified", RANGE / 2 / 512, names.join(", "))
}

/// The last blocks can be read, and the one behind them is refused before or by the controller.
pub fn boundaries(ssd: &Ssd, nsid: u32) {
    use warpbell_sim::Blocks;
    let namespace = ssd.namespace(Some(warpbell_hw::Nsid(nsid))).expect("the namespace").clone();
    let block = namespace.block_size as usize;
    let mut bytes = vec![0x5a; 2 * block];
    ssd.store(Nsid(nsid), Lba(namespace.blocks - 2), &bytes).expect("the last blocks are written");
    bytes.fill(0);
    ssd.load(Nsid(nsid), Lba(namespace.blocks - 2), &mut bytes).expect("the last blocks are read");
    assert!(bytes.iter().all(|byte| *byte == 0x5a), "{}: the last blocks hold what was written", ssd.name());
    let text = ssd.load(Nsid(nsid), Lba(namespace.blocks - 1), &mut bytes).expect_err("past the end");
    assert!(format!("{text:#}").contains(&(namespace.blocks - 1).to_string()), "{text:#}");
}

/// Reads of a range in which one block is broken: the statuses say so, and no other command fails.
pub fn read_errors(ssd: &Ssd, nsid: u32, range: u64) {
    read_errors_on(Target::Cpu, ssd, nsid, range);
}

/// The same on any target.
pub fn read_errors_on(target: Target, ssd: &Ssd, nsid: u32, range: u64) {
    for api in [Api::Host, Api::Raw, Api::Io] {
        let options = BenchOptions {
            rw: Access::Read,
            bs: ByteSize(512),
            iodepth: 16,
            api,
            io_limit: Some(ByteSize(range)),
            size: Some(ByteSize(range)),
            nsid: Nsid(nsid),
            threads: Some(1),
            ..BenchOptions::default()
        };
        let result = run(target, ssd, &options);
        assert_eq!(result.errors, 1, "{api}: {:?}", result.failures);
        let failure = result.failures.first().expect("it is told");
        assert_eq!(failure.op, "read", "{failure:?}");
        assert!(failure.status.contains("Unrecovered Read Error"), "{api}: {failure:?}");
        println!("{}: {api}: LBA {:?}: {}", ssd.name(), failure.lba, failure.status);
    }
}

/// Host queues that sleep until an interrupt, host queues that poll, and kernels, all on one controller at once.
pub fn interrupts_and_polling(ssd: &Ssd) {
    let kinds =
        [(Api::Io, Completion::Poll), (Api::Host, Completion::Interrupt), (Api::Host, Completion::Poll)];
    std::thread::scope(|scope| {
        for (number, (api, completion)) in kinds.into_iter().enumerate() {
            scope.spawn(move || verified(ssd, api, completion, number as u64));
        }
    });
    println!("{}: kernels, and host queues by interrupt and by polling, at once", ssd.name());
}

/// Writes and reads half a megabyte at megabyte `place`, and checks every block at the end.
pub fn verified(ssd: &Ssd, api: Api, completion: Completion, place: u64) {
    let options = BenchOptions {
        rw: Access::RandRw,
        bs: ByteSize(4096),
        iodepth: 16,
        queues: 2,
        api,
        completion,
        offset: ByteSize(place << 20),
        size: Some(ByteSize(512 << 10)),
        io_limit: Some(ByteSize(2 << 20)),
        verify: Some(Verify::Crc32c),
        ..BenchOptions::default()
    };
    let result = run(Target::Cpu, ssd, &options);
    let checked = result.verify.as_ref().expect("verified");
    assert_eq!((result.errors, checked.mismatches), (0, 0), "{api} {completion}: {result:?}");
    assert!(checked.blocks > (512 << 10) / 512, "{checked:?}");
}
