//! The GPU-resident controller stops when asked to, whatever its clients do.

use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell_kernels::abi::{Mailbox, ResidentArgs};
use warpbell_kernels::cpu::Module;
use warpbell_workload::{BenchOptions, Sharing};

use crate::fixture::{Fixture, options, spec};

/// One client more than was launched: one that never leaves.
fn with_a_stranger(args: ResidentArgs) -> ResidentArgs {
    ResidentArgs { clients: args.clients + 1, ..args }
}

#[test]
fn a_controller_whose_client_never_leaves_stops_on_the_flag() {
    for text in ["batch=3", "delay=1us,wait=each"] {
        let options = BenchOptions {
            timeout: Duration::from_millis(50),
            iodepth: 8,
            warps: Some(2),
            sharing: Sharing::Shared,
            ..options()
        };
        let fixture = Fixture::new(&spec(text), &options, 0);
        let args = with_a_stranger(fixture.args(400));
        fixture.memory.mailbox().window().store_u32(offset_of!(Mailbox, stop), 1, Ordering::Release);
        fixture.run(&fixture.launch(&Module::builtin().unwrap(), &args)).unwrap();
        let results = fixture.memory.results().all().unwrap();
        assert!(results.iter().all(|warp| warp.errors == 0), "{text}: commands of clients were given up");
    }
}
