//! Agents: the examples that are made of a compute warp's end of a request queue.

use warpbell::{AttachOptions, DeviceName, OpenOptions, Ssd};
use warpbell_kernels::abi::{BufferRef, NamespaceRef};
use zerocopy::{Immutable, IntoBytes};

use crate::example::{AS_IT_IS, Examples, LANES, MODES};
use warpbell::test_hooks::TestSsd;
use warpbell_sim::TestLaunch;

/// Warps of the block: an agent, and those that compute.
const WARPS: usize = 4;
/// `request_queue<2>`.
const REQUEST_QUEUE_BYTES: u32 = (1 + 9 * 2) * 128;

/// As in the page's frame.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct AgentArgs {
    ns: NamespaceRef,
    buffer: BufferRef,
    answers: u64,
    stop: u64,
}

#[test]
fn every_example_compiles_and_runs() {
    let examples = Examples::compile(" agent", &[""], "", AS_IT_IS);
    for (mode, sharing) in MODES {
        let name: DeviceName = "soft:size=1m".parse().expect("a device");
        let ssd = Ssd::open(&name, &OpenOptions::default()).expect("an SSD");
        let queues = ssd.attach(&AttachOptions::new().sharing(sharing)).expect("a queue");
        let ns = queues.namespace();
        let target = queues.target();
        let (answers, stop) =
            (target.memory(WARPS * LANES * 4).expect("memory"), target.shared(4).expect("memory"));
        for (kernel, text) in examples.of(mode, 0) {
            let before = ssd.soft().expect("soft").statistics().total_commands();
            let buffer = queues.buffer(((WARPS - 1) * LANES) << ns.block_shift).expect("memory");
            answers.fill(0, answers.len(), 0xff).expect("memory");
            let args =
                AgentArgs { ns, buffer: buffer.as_ref(), answers: answers.address(), stop: stop.address() };
            let launch = queues.launch_bytes(&examples.module, kernel, args.as_bytes()).expect("a launch");
            let launch =
                launch.block(WARPS as u32 * 32).shared_bytes((WARPS as u32 - 1) * REQUEST_QUEUE_BYTES);
            let run = launch.start().and_then(|run| run.join());
            run.unwrap_or_else(|error| panic!("{kernel}: {error}"));
            let mut found = [0u32; WARPS * LANES];
            answers.read(0, found.as_mut_bytes()).expect("memory");
            let (did, said) = found.split_at(LANES);
            assert_eq!(said, [0; (WARPS - 1) * LANES], "{mode}:\n{text}");
            let sent = ssd.soft().expect("soft").statistics().total_commands() - before;
            assert_eq!(did.iter().map(|count| u64::from(*count)).sum::<u64>(), sent, "{mode}:\n{text}");
            assert!(sent > 0, "{mode}:\n{text}");
        }
        assert!(ssd.violations().is_empty(), "{:?}", ssd.violations());
    }
}
