//! Seeded schedules, with and without store buffers; counters that start anywhere.

use warpbell_kernels::cpu::Module;
use warpbell_workload::{BenchOptions, Sharing};

use crate::fixture::{Fixture, options, spec};

const COMMANDS: u64 = 300;

fn expect_right(what: &str, options: &BenchOptions, start: u64, seed: u64, store_buffer: u32) {
    let fixture = Fixture::new(&spec(what), options, start);
    let args = fixture.args(COMMANDS);
    let launch = fixture.launch(&Module::builtin().unwrap(), &args).seed(seed).store_buffer(store_buffer);
    let ended = fixture.run(&launch).map(drop);
    let found = (ended, fixture.findings(COMMANDS));
    assert_eq!(found, (Ok(()), vec![]), "{what}, start {start:#x}, seed {seed}, buffer {store_buffer}");
}

#[test]
fn any_schedule_is_right() {
    for seed in 1..=12 {
        for store_buffer in [0, 8] {
            let exclusive = BenchOptions { iodepth: 5, queues: 2, ..options() };
            expect_right("controllers=2", &exclusive, 0, seed, store_buffer);
            let warps = Some(3);
            let shared = BenchOptions { iodepth: 9, warps, sharing: Sharing::Shared, ..options() };
            expect_right("batch=4", &shared, 0, seed, store_buffer);
            expect_right("wait=thread", &shared, 0, seed, store_buffer);
        }
    }
}

#[test]
fn a_delay_is_right_under_any_schedule() {
    for seed in 1..=8 {
        let options = BenchOptions { iodepth: 9, warps: Some(2), sharing: Sharing::Shared, ..options() };
        expect_right("delay=5us", &options, 0, seed, 4);
    }
}

#[test]
fn counters_may_start_anywhere() {
    for start in [3, 6, 7, 8, 0xfffe, 0xffff_fffe, 0x1_0000_0001, 1 << 62] {
        for (what, sharing, warps) in
            [("", Sharing::Exclusive, 1), ("batch=7", Sharing::Shared, 2), ("delay=1us", Sharing::Shared, 2)]
        {
            let options = BenchOptions { iodepth: 7, warps: Some(warps), sharing, ..options() };
            expect_right(what, &options, start, start | 1, 0);
        }
    }
}

#[test]
fn one_launch_goes_on_where_another_ended() {
    let fixture = Fixture::new(&spec("delay=1us"), &BenchOptions { iodepth: 5, ..options() }, 0);
    let module = Module::builtin().unwrap();
    let mut digest = 0u64;
    for launch in 1..=3 {
        let args = fixture.args(COMMANDS);
        fixture.run(&fixture.launch(&module, &args)).unwrap();
        digest = digest.wrapping_add(fixture.memory.digests().get(0).unwrap());
        let queue = fixture.memory.queues().get(0).unwrap();
        assert_eq!((queue.commands, queue.digest), (launch * COMMANDS, digest));
        assert_eq!(fixture.memory.results().get(0).unwrap().reads, COMMANDS);
    }
}
