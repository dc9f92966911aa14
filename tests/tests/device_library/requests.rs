//! Requests: the examples that are made of a session.

use std::time::Duration;

use warpbell::{AttachOptions, Attachment, Buffer, DeviceName, Error, LeaseSpec, OpenOptions, Sharing, Ssd};
use warpbell_kernels::abi::{BufferRef, NamespaceRef};
use warpbell_nvme::{Status, status::StatusCodeType};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};
use zerocopy::{Immutable, IntoBytes};

use crate::example::{AS_IT_IS, Examples, LANES, MODES};
use warpbell::test_hooks::TestSsd;
use warpbell_hw::Lba;
use warpbell_sim::TestLaunch;

/// As in the page's frame.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ExampleArgs {
    ns: NamespaceRef,
    data: BufferRef,
    answers: BufferRef,
}

/// A place that fails once, for a moment: Command Interrupted.
const FAILS_ONCE: u64 = 2000;

fn open() -> Ssd {
    let action = FaultAction::Fail { status: Status::new(StatusCodeType::GENERIC, 0x21) };
    let selector = Selector::new().lba(Some(Lba(FAILS_ONCE)..=Lba(FAILS_ONCE))).count(Some(1));
    let faults = FaultPlan::new().faults(vec![Fault::new(action, selector)]);
    let name: DeviceName = "soft:size=1m".parse().expect("a device");
    let options = OpenOptions::new().faults(Some(faults));
    Ssd::open(&name, &options).expect("an SSD")
}

/// Queues for two warps: one each, or one for both.
fn attach(ssd: &Ssd, sharing: Sharing) -> Attachment {
    let queues = if sharing == Sharing::Exclusive { 2 } else { 1 };
    let timeout = Duration::from_secs(10);
    let options = AttachOptions::new().queues(queues).warps(2).sharing(sharing).timeout(timeout);
    ssd.attach(&options).expect("queues")
}

/// Runs one example, with memory of its own: a cancelled command may still write to it. What its lanes answered.
fn run(examples: &Examples, queues: &Attachment, ns: NamespaceRef, kernel: &str) -> ([u32; LANES], Buffer) {
    let data = queues.buffer((LANES * 4) << ns.block_shift).expect("memory");
    let answers = queues.buffer(LANES * 4).expect("memory");
    let args = ExampleArgs { ns, data: data.as_ref(), answers: answers.as_ref() };
    answers.write(0, &[0xff; LANES * 4]).expect("memory");
    // An `io_batch` of 100 requests, for those that have one.
    let launch = queues
        .launch_bytes(&examples.module, kernel, args.as_bytes())
        .map(|launch| launch.shared_bytes(84 * 100 + 128));
    let run = launch.and_then(|launch| launch.start());
    run.and_then(|run| run.join()).unwrap_or_else(|error| panic!("{kernel}: {error}"));
    let mut found = [0u32; LANES];
    answers.read(0, found.as_mut_bytes()).expect("memory");
    (found, data)
}

#[test]
fn every_example_compiles_and_runs() {
    let examples = Examples::compile("", &["", " retry"], "", AS_IT_IS);
    for (mode, sharing) in MODES {
        let ssd = open();
        let queues = attach(&ssd, sharing);
        let mut kept = Vec::new();
        for (kernel, text) in examples.of(mode, 0) {
            let (found, data) = run(&examples, &queues, queues.namespace(), kernel);
            assert_eq!(found, [0; LANES], "{mode}:\n{text}");
            kept.push(data);
        }
        assert!(kept.len() >= 18, "{} examples", kept.len());
        assert!(ssd.violations().is_empty(), "{:?}", ssd.violations());
    }
}

#[test]
fn a_kernel_goes_on_after_its_queue_was_lost() {
    let examples = Examples::compile("", &[" lost"], "", AS_IT_IS);
    for (mode, sharing) in MODES {
        let ssd = open();
        let queues = attach(&ssd, sharing);
        for (kernel, text) in examples.of(mode, 0) {
            // As the kernel was handed it, before the host gave it up.
            let ns = queues.namespace();
            queues.declare_lost(0);
            let (found, _data) = run(&examples, &queues, ns, kernel);
            assert_eq!(found, [0; LANES], "{mode}:\n{text}");
            assert_eq!(ssd.recovery_counters().queues_replaced, 1, "{mode}");
        }
    }
}

/// As the page has it: the test below compares.
fn narrowed(queues: &Attachment) -> Result<warpbell::Lease, Error> {
    let lease = queues.lease(&LeaseSpec::new().lbas(Some(Lba(0)..Lba(64))).read_only(true))?;
    let lease = lease.lease(&LeaseSpec::new().lbas(Some(Lba(4)..Lba(8))))?;
    Ok(lease)
}

#[test]
fn a_kernel_with_a_lease_is_refused_everything_else() {
    crate::calls::expect_rust_of_page("rust lease", include_str!("requests.rs"));
    let examples = Examples::compile("", &[" lease"], "", AS_IT_IS);
    for (mode, sharing) in MODES {
        let ssd = open();
        let queues = attach(&ssd, sharing);
        let lease = narrowed(&queues).expect("a lease");
        assert_eq!(lease.lbas(), Lba(4)..Lba(8));
        for (kernel, text) in examples.of(mode, 0) {
            let (found, _data) = run(&examples, &queues, lease.namespace(), kernel);
            assert_eq!(found, [0; LANES], "{mode}:\n{text}");
        }
        let sent = ssd.soft().expect("soft").statistics();
        assert_eq!(sent.total_commands(), 4, "what is refused is not sent");
    }
}
