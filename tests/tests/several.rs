//! Tier S: several SSDs in one process, and queues of both kinds on one SSD.

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpbell::test_hooks::TestSsd;
use warpbell::{AttachOptions, DeviceName, HostQueueSpec, OpenOptions, Ssd};
use warpbell_driver::{IoQueueOptions, Notification, Outcome};
use warpbell_nvme::command;
use warpbell_tests::suite;
use warpbell_workload::{Api, Completion};

fn open(config: &str) -> Arc<Ssd> {
    let name: DeviceName = format!("soft:{config}").parse().expect("a name");
    Arc::new(Ssd::open(&name, &OpenOptions::default()).expect("opens"))
}

#[test]
fn host_queues_by_interrupt_and_polled_kernel_queues_work_on_one_controller_at_once() {
    let ssd = open("size=4m");
    let before = ssd.soft().expect("soft").statistics().interrupts;
    suite::interrupts_and_polling(&ssd);
    assert!(ssd.soft().expect("soft").statistics().interrupts > before);
    assert_eq!(ssd.violations(), []);
}

#[test]
fn four_ssds_run_kernels_and_host_queues_at_the_same_time() {
    let ssds: Vec<_> =
        ["size=4m", "size=16m,block=4096", "size=4m,sgl=off", "size=4m,cmb=1m"].map(open).into();
    std::thread::scope(|scope| {
        for ssd in &ssds {
            scope.spawn(|| suite::kernels(ssd, 1));
        }
    });
    std::thread::scope(|scope| {
        for ssd in ssds.iter().filter(|ssd| ssd.namespaces()[0].block_size == 512) {
            scope.spawn(|| suite::verified(ssd, Api::Io, Completion::Poll, 0));
            scope.spawn(|| suite::verified(ssd, Api::Host, Completion::Interrupt, 1));
        }
    });
    for ssd in ssds {
        assert_eq!(ssd.violations(), [], "{}", ssd.name());
    }
}

#[test]
fn a_removed_ssd_takes_none_of_the_others_with_it() {
    let (gone, stays) = (open("size=4m"), open("size=4m"));
    std::thread::scope(|scope| {
        let work = scope.spawn(|| suite::verified(&stays, Api::Host, Completion::Interrupt, 0));
        gone.soft().expect("soft").remove();
        work.join().expect("the other works on");
    });
    assert!(gone.controller().check_health().is_err());
    stays.controller().check_health().expect("healthy");
    drop(gone);
    suite::verified(&stays, Api::Io, Completion::Poll, 0);
}

#[test]
fn queues_of_a_removed_ssd_let_go_in_bounded_time() {
    let ssd = open("size=4m");
    let attachment = ssd.attach(&AttachOptions::new().queues(8).warps(8)).expect("attaches");
    let buffer = ssd.buffer(4096).expect("a buffer");
    let options = IoQueueOptions::new().timeout(Duration::from_millis(200));
    let spec = HostQueueSpec::new(16, options).notification(Notification::Interrupt);
    let mut queue = ssd.host_queue_with(spec, buffer).expect("a queue");
    ssd.soft().expect("soft").remove();
    (0..8).for_each(|_| assert!(queue.push(&command::flush(1)).is_some()));
    let mut ends = 0;
    while let Some(completion) = queue.wait(Duration::from_secs(20)) {
        assert_eq!(completion.outcome, Outcome::TimedOut);
        ends += 1;
    }
    assert_eq!(ends, 8);
    // Nine pairs, whose deletion each would take the admin timeout if it were waited for.
    let start = Instant::now();
    drop((queue, attachment, ssd));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
