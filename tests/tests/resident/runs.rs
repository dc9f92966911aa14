//! Whole runs, as `warpbell bench` makes them.

use std::time::Duration;

use warpbell::Target;
use warpbell_workload::resident::{ResidentSpec, bench, resolve};
use warpbell_workload::{Api, BenchOptions, ByteSize, Control, Run, Sharing};

use crate::fixture::{options, spec};
use warpbell_hw::Nsid;

fn run(spec: &ResidentSpec, options: &BenchOptions) -> Run {
    let job = resolve(spec, options).unwrap();
    bench(Target::Cpu, spec, &job, &Control::new()).unwrap()
}

/// Runs so many commands and expects each to be answered once, with its own status.
fn expect_clean(what: &str, commands: u64, options: BenchOptions) {
    let options = BenchOptions { io_limit: Some(ByteSize(commands * 512)), ..options };
    let run = run(&spec(what), &options);
    assert!(run.clean(), "{what}: {:?} {:?}", run.failures, run.violation_examples);
    assert_eq!((run.total.ios, run.resident.unwrap().commands), (commands, commands), "{what}");
}

#[test]
fn exclusive_queues_answer_each_command_once() {
    for (what, iodepth, queues) in
        [("", 32, 1), ("batch=1", 7, 3), ("batch=5,controllers=2", 128, 2), ("controllers=1", 1, 33)]
    {
        let api = if queues == 1 { Api::Raw } else { Api::Io };
        // As many queues as one warp of the controller can watch, and one more, need two warps.
        let what = if queues > 32 { "controllers=2" } else { what };
        expect_clean(what, 3001, BenchOptions { iodepth, queues, api, ..options() });
    }
}

#[test]
fn shared_queues_answer_each_command_once() {
    for (what, iodepth, queues, warps) in
        [("", 32, 1, 4), ("batch=3,block=2", 100, 2, 5), ("block=8,controllers=9", 64, 3, 9), ("", 5, 1, 8)]
    {
        let options =
            BenchOptions { iodepth, queues, warps: Some(warps), sharing: Sharing::Shared, ..options() };
        expect_clean(what, 4001, options);
    }
}

#[test]
fn a_delay_holds_every_completion_back() {
    let delay = Duration::from_micros(200);
    let options = BenchOptions { io_limit: Some(ByteSize(640 * 512)), ..options() };
    let run = run(&spec("delay=200us,wait=each"), &options);
    assert!(run.clean(), "{:?} {:?}", run.failures, run.violation_examples);
    let latency = run.lat_ns.unwrap();
    // Histograms keep five bits of a latency.
    assert!(u128::from(latency.min) >= delay.as_nanos() * 31 / 32, "{latency:?}");
    assert_eq!(run.total.ios, 640);
}

#[test]
fn delayed_commands_are_answered_once() {
    for (what, sharing, warps) in
        [("delay=20us", Sharing::Exclusive, 1), ("delay=1us,batch=9", Sharing::Shared, 3)]
    {
        let options = BenchOptions { iodepth: 96, warps: Some(warps), sharing, ..options() };
        expect_clean(what, 5003, options);
    }
}

#[test]
fn threads_wait_for_their_own_commands() {
    for (what, sharing, warps) in [
        ("wait=each", Sharing::Exclusive, 1),
        ("wait=each", Sharing::Shared, 3),
        ("wait=thread", Sharing::Shared, 2),
    ] {
        let options = BenchOptions { iodepth: 64, warps: Some(warps), sharing, ..options() };
        expect_clean(what, 1000, options);
    }
}

#[test]
fn several_threads_run_controllers_and_clients() {
    let options = BenchOptions { threads: Some(2), queues: 3, ..options() };
    expect_clean("controllers=2", 6000, options);
}

#[test]
fn clients_cost_what_the_library_promises() {
    let run = run(&spec(""), &BenchOptions { io_limit: Some(ByteSize(3200 * 512)), ..options() });
    // The controller's own accesses are not the clients' costs: exclusive queues need no atomics but one to end.
    let counters = run.counters.unwrap();
    assert_eq!(counters.rmw, 1);
    assert_eq!((counters.sqes, counters.cqes), (3200, 3200));
    assert!(run.per_io.sq_doorbells_per_io.unwrap() <= 1.5 / 32.0, "{:?}", run.per_io);
    // Each lane's hazard slot; F1 of each batch; and one at the end.
    assert_eq!(counters.fences, 32 + counters.sq_doorbells + 1, "{counters:?}");
    assert_eq!(run.total.bytes, 0, "no data moves");
}

#[test]
fn a_run_ends_with_its_time() {
    let options = BenchOptions {
        runtime: Some(Duration::from_millis(20)),
        ramp: Duration::from_millis(5),
        ..options()
    };
    let run = run(&spec(""), &options);
    assert!(run.clean() && !run.partial, "{:?}", run.failures);
    assert!(run.total.ios > 0 && run.runtime_ns >= 20_000_000);
}

#[test]
fn a_wish_to_stop_ends_the_run() {
    let spec = spec("");
    let options = BenchOptions { runtime: Some(Duration::from_secs(3600)), ..options() };
    let job = resolve(&spec, &options).unwrap();
    let control = Control::new();
    control.stop();
    let run = bench(Target::Cpu, &spec, &job, &control).unwrap();
    assert!(run.clean() && run.partial, "{:?}", run.failures);
}

#[test]
fn what_has_no_meaning_is_refused_by_name() {
    use warpbell_workload::{Access, Verify};
    let base = options;
    for (what, options, start) in [
        ("", BenchOptions { rw: Access::Write, ..base() }, "--rw write: "),
        ("", BenchOptions { verify: Some(Verify::Crc32c), ..base() }, "--verify crc32c: "),
        ("", BenchOptions { api: Api::Host, ..base() }, "--api host: "),
        ("wait=each", BenchOptions { api: Api::Raw, ..base() }, "--api raw: "),
        ("wait=thread", base(), "--sharing exclusive: "),
        ("", BenchOptions { size: Some(ByteSize(512)), ..base() }, "--size 512: "),
        ("", BenchOptions { nsid: Nsid(2), ..base() }, "--nsid 2: "),
        ("", BenchOptions { iodepth: 129, ..base() }, "--iodepth 129: must be at most 128"),
        ("", BenchOptions { bs: ByteSize(2 << 20), ..base() }, "--bs 2097152: must be at most 1048576"),
    ] {
        let text = resolve(&spec(what), &options).unwrap_err().to_string();
        assert!(text.starts_with(start), "{text}");
    }
    let job = resolve(&spec(""), &BenchOptions { queues: 33, ..base() }).unwrap();
    let error = bench(Target::Cpu, &spec("controllers=1"), &job, &Control::new()).unwrap_err().to_string();
    assert!(error.starts_with("--queues 33: ") && error.ends_with("use controllers=2"), "{error}");
}
