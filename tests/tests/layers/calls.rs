//! The calls of each part of the library, on threads.

use warpbell::test_hooks::TestSsd;
use warpbell::{DeviceName, OpenOptions, Ssd, Target};
use warpbell_tests::suite::{Calls, calls_on};

fn right(calls: Calls) {
    let name = DeviceName::Soft("size=8m,cache=volatile,order=shuffled:8".to_owned());
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("opens");
    println!("{}", calls_on(Target::Cpu, &ssd, calls).unwrap_or_else(|error| panic!("{error:#}")));
    assert_eq!(ssd.violations(), []);
}

#[test]
fn reads_and_writes_of_lanes_groups_and_one_thread() {
    right(Calls::Each);
}

#[test]
fn several_commands_of_a_lane() {
    right(Calls::Outstanding);
}

#[test]
fn commands_without_data_and_forced_ones() {
    right(Calls::Commands);
}

#[test]
fn commands_with_tokens() {
    right(Calls::Tokens);
}

#[test]
fn neighbours_as_one_command() {
    right(Calls::Coalesced);
}

#[test]
fn requests_of_any_size() {
    right(Calls::Requests);
}

#[test]
fn requests_in_an_order() {
    right(Calls::Order);
}

#[test]
fn batches_of_blocks_and_warps() {
    right(Calls::Batches);
}

#[test]
fn agents_with_request_queues_in_shared_memory() {
    right(Calls::Mail);
}

#[test]
fn tiles_in_shared_memory() {
    right(Calls::Stream);
}
