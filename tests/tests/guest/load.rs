//! Kernels at work on an SSD while something happens to it, and what it says of that.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use warpbell::{RecoveryEvent, Ssd, SsdEvent, SsdEventKind, Target};
use warpbell_workload::{
    Access, Api, BenchOptions, ByteSize, Control, Run, RunError, Sharing, Verify, bench, resolve,
};

/// Longer than anything takes here, on a machine with other things to do.
const LIMIT: Duration = Duration::from_secs(60);
/// Of the load, before it counts as being at work.
const COMMANDS: u128 = 500;

/// Reads and writes of kernels, whose data is checked. A command may take as long as on any SSD: what is shown of failures
/// does not depend on deadlines, and the machine may have other things to do.
pub fn checked(api: Api, sharing: Sharing, runtime: Duration) -> BenchOptions {
    let warps = if sharing == Sharing::Shared { Some(4) } else { None };
    BenchOptions {
        rw: Access::RandRw,
        api,
        sharing,
        warps,
        queues: 2,
        iodepth: 16,
        size: Some(ByteSize(1 << 20)),
        runtime: Some(runtime),
        verify: Some(Verify::Crc32c),
        retries: 16,
        recover: true,
        threads: Some(1),
        ..BenchOptions::default()
    }
}

/// Waits until an SSD has carried out more commands: whoever uses it is at work.
pub fn await_commands(ssd: &Ssd) {
    let done = || {
        let log = ssd.controller().smart_log().unwrap_or_else(|error| panic!("{}: {error}", ssd.name()));
        log.host_reads.get() + log.host_writes.get()
    };
    let (begin, before) = (Instant::now(), done());
    while done() < before + COMMANDS {
        assert!(begin.elapsed() < LIMIT, "{}: nobody is at work", ssd.name());
        thread::sleep(Duration::from_millis(20));
    }
}

/// A bench that runs.
pub struct Load {
    thread: JoinHandle<Result<Run, RunError>>,
    control: Control,
    name: String,
}

impl Load {
    pub fn start(ssd: &Arc<Ssd>, options: &BenchOptions) -> Load {
        let (control, ssd) = (Control::new(), ssd.clone());
        let (watched, name) = (control.clone(), ssd.name().to_string());
        let job = resolve(&ssd, options).unwrap_or_else(|error| panic!("{name}: {error}"));
        Load { thread: thread::spawn(move || bench(&ssd, Target::Cpu, &job, &watched)), control, name }
    }

    /// Asks it to end soon.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// How it ended, which it must have done within the limit: nothing in it may wait for ever.
    pub fn ended(self) -> Result<Run, RunError> {
        let begin = Instant::now();
        while !self.thread.is_finished() {
            assert!(begin.elapsed() < LIMIT, "{}: the bench does not come back", self.name);
            thread::sleep(Duration::from_millis(5));
        }
        self.thread.join().expect("no panic")
    }

    /// The same for one that must have ended well: nothing was lost, and all data was right.
    pub fn ended_well(self) -> Run {
        let name = self.name.clone();
        let run = self.ended().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(run.errors, 0, "{name}: {:?}", run.failures);
        let verify = run.verify.as_ref().expect("it was checked");
        assert!(verify.blocks > 0 && verify.mismatches == 0, "{name}: {verify:?}");
        println!("{name}: {} reads, {} writes, {:?}", run.read.ios, run.write.ios, run.recovery);
        run
    }
}

/// What an SSD said since it was watched.
#[derive(Clone, Default)]
pub struct Diary(Arc<(Mutex<Vec<SsdEvent>>, Condvar)>);

impl Diary {
    pub fn of(ssd: &Ssd) -> Diary {
        let diary = Diary::default();
        let pages = diary.0.clone();
        ssd.on_event(move |event| {
            pages.0.lock().push(event.clone());
            pages.1.notify_all();
        });
        diary
    }

    /// Waits until the SSD has said something like this.
    pub fn wait_for(&self, what: &str, wanted: impl Fn(&SsdEventKind) -> bool) {
        self.wait_for_count(what, 1, wanted);
    }

    /// The same for so many times.
    pub fn wait_for_count(&self, what: &str, count: usize, wanted: impl Fn(&SsdEventKind) -> bool) {
        let (pages, changed) = &*self.0;
        let (mut pages, until) = (pages.lock(), Instant::now() + LIMIT);
        while pages.iter().filter(|event| wanted(&event.kind)).count() < count {
            let late = changed.wait_until(&mut pages, until).timed_out();
            assert!(!late, "no word of {what}: {}", lines(&pages));
        }
    }

    /// Waits for a step of recovery.
    pub fn wait_for_step(&self, what: &str, wanted: impl Fn(&RecoveryEvent) -> bool) {
        self.wait_for(what, |kind| matches!(kind, SsdEventKind::Recovery(event) if wanted(event)));
    }

    pub fn count(&self, wanted: impl Fn(&SsdEventKind) -> bool) -> usize {
        self.0.0.lock().iter().filter(|event| wanted(&event.kind)).count()
    }

    pub fn print(&self, name: &str) {
        println!("{name} said:\n{}", lines(&self.0.0.lock()));
    }
}

fn lines(events: &[SsdEvent]) -> String {
    events.iter().map(|event| format!("  {:.3} s: {event}\n", event.at.as_secs_f64())).collect()
}
