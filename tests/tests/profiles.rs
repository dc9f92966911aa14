//! Tier S: what a benchmark measures of a profile in virtual time is what the profile says, by kernels and by the host.

use std::io::Write;
use std::time::Duration;

use warpbell::{DeviceName, OpenOptions, Ssd, Target};
use warpbell_softctl::{Percentiles, Profile};
use warpbell_workload::{
    Access, Api, BenchOptions, ByteSize, ClockKind, Control, Latency, Run, bench, resolve,
};

const APIS: [Api; 2] = [Api::Io, Api::Host];

/// What is run, and on what.
struct Point<'a> {
    profile: &'a str,
    api: Api,
    rw: Access,
    bs: u64,
    depth: u32,
    ios: u64,
}

fn run_at(point: &Point<'_>, time: &str) -> Run {
    let name: DeviceName =
        format!("soft:size=256m,profile={},time={time}", point.profile).parse().expect("a device name");
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("open");
    let options = BenchOptions {
        rw: point.rw,
        bs: ByteSize(point.bs),
        iodepth: point.depth,
        api: point.api,
        io_limit: Some(ByteSize(point.bs * point.ios)),
        rwmixread: (point.rw == Access::RandRw).then_some(70),
        ..BenchOptions::default()
    };
    let job = resolve(&ssd, &options).expect("a job");
    let run = bench(&ssd, Target::Cpu, &job, &Control::new()).expect("a run");
    assert!(run.clean() && !run.partial, "{run:#?}");
    assert_eq!(run.total.ios, point.ios);
    run
}

fn run(point: &Point<'_>) -> Run {
    let run = run_at(point, "virtual");
    assert_eq!(run.clock, ClockKind::Virtual);
    run
}

/// Fails unless `got` is within `percent` of `want`.
fn expect_near(what: &str, got: f64, want: f64, percent: f64) {
    let off = (got / want - 1.0) * 100.0;
    println!("{what}: {got:.0}, the profile says {want:.0} ({off:+.2} %)");
    assert!(off.abs() <= percent, "{what}: {got} is not within {percent} % of {want}");
}

fn expect_percentiles(what: &str, got: &Latency, want: &Percentiles) {
    let pairs = [
        ("p50", got.p50, want.p50),
        ("p90", got.p90, want.p90),
        ("p99", got.p99, want.p99),
        ("p99.9", got.p99_9, want.p99_9),
    ];
    for (name, got, want) in pairs {
        expect_near(&format!("{what} {name} ns"), got as f64, want.as_nanos() as f64, 5.0);
    }
}

#[test]
fn random_reads_at_depth_1_have_the_profiles_percentiles() {
    for (name, profile) in [("optane", Profile::optane()), ("tlc", Profile::tlc())] {
        for api in APIS {
            let point = Point { profile: name, api, rw: Access::RandRead, bs: 4096, depth: 1, ios: 50_000 };
            let latency = run(&point).read_lat_ns.expect("latencies");
            expect_percentiles(&format!("{name} {api} read"), &latency, &profile.read.latency);
        }
    }
}

#[test]
fn random_writes_at_depth_1_have_the_profiles_percentiles() {
    for (name, profile) in [("optane", Profile::optane()), ("tlc", Profile::tlc())] {
        let rw = Access::RandWrite;
        let point = Point { profile: name, api: Api::Host, rw, bs: 4096, depth: 1, ios: 50_000 };
        let latency = run(&point).write_lat_ns.expect("latencies");
        expect_percentiles(&format!("{name} write"), &latency, &profile.write.latency);
    }
}

#[test]
fn a_run_repeats_exactly() {
    for api in APIS {
        let point = Point { profile: "tlc", api, rw: Access::RandRw, bs: 4096, depth: 8, ios: 2000 };
        let (one, other) = (run(&point), run(&point));
        assert_eq!((one.runtime_ns, &one.lat_ns), (other.runtime_ns, &other.lat_ns));
        assert_eq!((one.read.ios, one.counters), (other.read.ios, other.counters));
    }
}

#[test]
fn deep_reads_are_as_fast_as_the_way_to_the_client() {
    for (name, profile) in [("optane", Profile::optane()), ("tlc", Profile::tlc())] {
        for (bs, depth, ios) in [(4096, 512, 100_000), (128 << 10, 64, 16_384)] {
            for api in APIS {
                let run = run(&Point { profile: name, api, rw: Access::RandRead, bs, depth, ios });
                let what = format!("{name} {api} {bs} bytes/s");
                expect_near(&what, run.read.bytes_per_s, profile.read.bandwidth as f64, 5.0);
            }
        }
    }
}

/// A profile file with four slow units and plenty of bandwidth.
fn few_units() -> tempfile::TempPath {
    let table = |us: u32| {
        let keys = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"];
        let figures: Vec<_> = keys.iter().map(|key| format!("{key}='{us}us'")).collect();
        format!("latency = {{ {} }}", figures.join(", "))
    };
    let text = format!(
        "name = 'few units'\n[read]\n{}\nbandwidth='10GB/s'\nbusy='80us'\n[write]\n{}\nbandwidth='10GB/s'\n[flush]\n{}\n\
         [media]\nunits=4\nstripe='4k'\nprogram='500us'\nprogram_size='64k'\nerase='2ms'\nerase_every='1m'\n\
         [buffer]\nbytes='1m'\n",
        table(100),
        table(10),
        table(10)
    );
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file.into_temp_path()
}

#[test]
fn deep_reads_are_as_fast_as_the_units() {
    let file = few_units();
    let profile = file.to_str().expect("a path");
    for (rw, depth) in [(Access::Read, 64), (Access::RandRead, 512)] {
        let run = run(&Point { profile, api: Api::Host, rw, bs: 4096, depth, ios: 40_000 });
        expect_near(&format!("{rw} IOPS of four units"), run.read.iops, 4.0 / 80e-6, 5.0);
    }
}

#[test]
fn long_writing_is_as_fast_as_the_units_program_and_erase() {
    let file = few_units();
    let point = |bs| Point {
        profile: file.to_str().expect("a path"),
        api: Api::Host,
        rw: Access::RandWrite,
        bs,
        depth: 64,
        ios: (256 << 20) / bs,
    };
    // Sixteen pieces between erasures: 16 * 0.5 ms + 2 ms for 1 MiB, in each of four units.
    let rate = 4.0 * f64::from(1 << 20) / 10e-3;
    for bs in [4096, 128 << 10] {
        expect_near(&format!("{bs} bytes/s written"), run(&point(bs)).write.bytes_per_s, rate, 5.0);
    }
}

#[test]
fn writes_make_reads_wait() {
    for name in ["optane", "tlc"] {
        let p99 = |rw| {
            let point = Point { profile: name, api: Api::Host, rw, bs: 4096, depth: 16, ios: 50_000 };
            run(&point).read_lat_ns.expect("latencies").p99
        };
        let (alone, mixed) = (p99(Access::RandRead), p99(Access::RandRw));
        println!("{name}: read p99 {alone} ns alone, {mixed} ns among writes");
        if name == "tlc" {
            assert!(mixed * 10 > alone * 13, "{name}: {alone} and {mixed}");
        }
    }
}

#[test]
fn real_time_is_never_faster_than_the_profile() {
    let profile = Profile::tlc();
    for api in APIS {
        let point = Point { profile: "tlc", api, rw: Access::RandRead, bs: 4096, depth: 1, ios: 500 };
        let run = run_at(&point, "real");
        assert_eq!(run.clock, ClockKind::Monotonic);
        let latency = run.read_lat_ns.expect("latencies");
        // Kernels count in buckets, up to 1.6 % beside the value.
        let least = profile.read.latency.min.as_nanos() as u64 * 98 / 100;
        assert!(latency.min >= least, "{latency:?}");
        assert!(latency.p50 >= profile.read.latency.p50.as_nanos() as u64 * 98 / 100, "{latency:?}");
        assert!(run.runtime_ns >= Duration::from_micros(65 * 500).as_nanos() as u64);
    }
}
