//! Tier S, on threads: every call of the device library beside those of queues, as sanitizers watch it.

use warpbell::test_hooks::TestSsd;
use warpbell::{DeviceName, OpenOptions, Ssd, Target};
use warpbell_tests::suite;
use warpbell_workload::Api;

mod cache;
mod calls;
mod coalescing;
mod prefetching;

#[test]
fn agents_do_the_io_of_compute_warps() {
    let name = DeviceName::Soft("size=4m".to_owned());
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("opens");
    suite::apis_on(Target::Cpu, &ssd, 1, &[Api::Agent]);
    assert_eq!(ssd.violations(), []);
}

#[test]
fn blocks_of_threads_send_their_io_together() {
    let name = DeviceName::Soft("size=4m".to_owned());
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("opens");
    suite::apis_on(Target::Cpu, &ssd, 1, &[Api::Batch]);
    assert_eq!(ssd.violations(), []);
}

#[test]
fn the_protocols_of_the_laboratory() {
    let name = DeviceName::Soft("size=4m".to_owned());
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("opens");
    println!("{}", suite::protocols_on(Target::Cpu, &ssd));
    assert_eq!(ssd.violations(), []);
}

#[test]
fn a_stripe_over_four_ssds() {
    println!("{}", suite::striped_on(Target::Cpu).unwrap_or_else(|error| panic!("{error:#}")));
}

#[test]
fn replicas_of_which_one_fails() {
    println!("{}", suite::replicated_on(Target::Cpu).unwrap_or_else(|error| panic!("{error:#}")));
}

#[test]
fn three_unlike_ssds_one_after_the_other() {
    println!("{}", suite::concatenated_on(Target::Cpu).unwrap_or_else(|error| panic!("{error:#}")));
}
