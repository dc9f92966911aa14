//! Clients with a rule of the queue protocol switched off: the controller, or the sums, must show it.

use std::path::Path;

use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::TestVariant;
use warpbell_workload::{BenchOptions, Sharing};

use crate::fixture::{Fixture, options, spec};

const COMMANDS: u64 = 400;

fn without(rule: &str) -> Module {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
    Variant::ours().only("resident").quick().mutate(rule).cache(&cache).loaded().unwrap()
}

/// Whether one of some seeds shows it: what was found first.
fn caught(rule: &str, what: &str, options: &BenchOptions, store_buffer: u32) -> Option<String> {
    let module = without(rule);
    (1..=20).find_map(|seed| {
        let options = BenchOptions { timeout: std::time::Duration::from_millis(200), ..options.clone() };
        let fixture = Fixture::new(&spec(what), &options, 0);
        let args = fixture.args(COMMANDS);
        let launch = fixture.launch(&module, &args).seed(seed).store_buffer(store_buffer);
        let ended = fixture.run(&launch);
        let found = fixture.findings(COMMANDS);
        ended.err().or_else(|| found.into_iter().last())
    })
}

fn shared() -> BenchOptions {
    BenchOptions { iodepth: 9, warps: Some(3), sharing: Sharing::Shared, ..options() }
}

#[test]
fn broken_clients_are_caught() {
    let exclusive = || BenchOptions { iodepth: 5, ..options() };
    for (rule, options, store_buffer, sign) in [
        ("NO_FENCE_DOORBELL", exclusive(), 8, "entry"),
        ("DOORBELL_UNMASKED", exclusive(), 0, "DoorbellRange"),
        ("NO_TURN", shared(), 0, ""),
        ("STATUS_OF_NEIGHBOUR", exclusive(), 0, ""),
        ("SQE_UNDEFINED_DWORD", exclusive(), 0, ""),
    ] {
        let found = caught(rule, "batch=3", &options, store_buffer);
        assert!(found.as_ref().is_some_and(|found| found.contains(sign)), "{rule}: {found:?}");
    }
}

#[test]
fn an_identifier_reused_at_its_deadline_is_caught() {
    // Commands take longer than clients wait, and there is room for those of the next turn.
    let options = BenchOptions { timeout: std::time::Duration::from_millis(2), iodepth: 127, ..options() };
    let fixture = Fixture::new(&spec("delay=30ms,wait=each"), &options, 0);
    let args = fixture.args(96);
    fixture.run(&fixture.launch(&without("REUSE_AT_TIMEOUT"), &args)).unwrap();
    let found = fixture.findings(96);
    assert!(found.iter().any(|found| found.starts_with("CidInFlight")), "{found:?}");
}

#[test]
fn commands_given_up_break_no_rule() {
    let options = BenchOptions { timeout: std::time::Duration::from_millis(2), iodepth: 3, ..options() };
    let fixture = Fixture::new(&spec("delay=30ms"), &options, 0);
    let args = fixture.args(40);
    fixture.run(&fixture.launch(&Module::builtin().unwrap(), &args)).unwrap();
    let result = fixture.memory.results().get(0).unwrap();
    assert!(result.errors > 0 && result.error_status & 0xff == warpbell_kernels::abi::STATUS_TIMED_OUT);
    assert_eq!(fixture.memory.queues().get(0).unwrap().first_rule, 0);
}
