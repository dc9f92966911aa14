//! Queues that stand in for one another, on pages that the test writes as a host would.

use std::mem::offset_of;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell::{KernelMemory, SharedMemory, Sharing};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Launch, Module};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::cpu_launch;
use warpbell_sim::simulation::{Moment, Outcome, Simulation};
use warpbell_sim::{Case, Schedule, TestVariant};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};
use zerocopy::IntoBytes;

/// For a submission and for a wait.
pub const DEADLINE: Duration = Duration::from_millis(10);
/// For the successor.
pub const PATIENCE: Duration = Duration::from_millis(4);
/// Commands of a lane: enough to be at work on each of the queues.
pub const COMMANDS: u32 = 4;
/// One after the other in the place of one.
pub const QUEUES: usize = 3;

/// `mode`: who calls together.
pub const BY_WARP: u32 = 0;
pub const BY_HALVES: u32 = 1;
pub const BY_LANE: u32 = 2;
/// `flags`: goes without having detached.
pub const BY_DESTRUCTOR: u32 = 1;

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/recovery.cu");
    Variant::file(&source).expect("the kernel").quick()
}

pub fn module() -> Module {
    source().loaded().expect("compiles")
}

/// References and pages of queues that stand in for one another.
pub struct Queues {
    pub refs: KernelMemory,
    pub pages: SharedMemory,
    pub masks: SharedMemory,
    pub hazards: SharedMemory,
    pub lanes: usize,
}

impl Queues {
    /// The attachment's queues with pages of our own.
    pub fn new(simulation: &Simulation) -> Queues {
        let attachment = &simulation.rig.attachment;
        let lanes = attachment.queue(0).expect("a queue").warp_slots as usize * 32;
        let shared = |bytes: usize| attachment.target().shared(bytes).expect("memory");
        let queues = Queues {
            refs: attachment.target().memory(QUEUES * size_of::<abi::QueueRef>()).expect("memory"),
            pages: shared(QUEUES * size_of::<abi::QueueHost>()),
            masks: shared(QUEUES * lanes * 4),
            hazards: shared(QUEUES * lanes * 4),
            lanes,
        };
        for at in 0..QUEUES {
            let quarantine = queues.masks.address() + (at * lanes * 4) as u64;
            let hazards = queues.hazards.address() + (at * lanes * 4) as u64;
            let page = abi::QueueHost { quarantine, hazards, ..abi::QueueHost::new() };
            let page_at = at * size_of::<abi::QueueHost>();
            queues.pages.window().write(page_at, page.as_bytes()).expect("a page");
            let queue = abi::QueueRef {
                host: queues.pages.address() + page_at as u64,
                quarantine,
                epoch: at as u32,
                ..attachment.queue(at).expect("a queue")
            };
            queues.refs.write(at * size_of::<abi::QueueRef>(), queue.as_bytes()).expect("a reference");
        }
        queues
    }

    pub fn set_state(&self, queue: usize, state: u32) {
        let at = queue * size_of::<abi::QueueHost>() + offset_of!(abi::QueueHost, state);
        self.pages.window().store_u32(at, state, Ordering::SeqCst);
    }

    pub fn set_successor(&self, queue: usize, successor: Option<usize>) {
        let at = queue * size_of::<abi::QueueHost>() + offset_of!(abi::QueueHost, successor);
        let address =
            successor.map_or(0, |at| self.refs.address() + (at * size_of::<abi::QueueRef>()) as u64);
        self.pages.window().store_u64(at, address, Ordering::Release);
    }

    pub fn hazards(&self, queue: usize) -> Vec<u32> {
        let hazard = |lane| self.hazards.window().load_u32((queue * self.lanes + lane) * 4, Ordering::SeqCst);
        (0..self.lanes).map(hazard).collect()
    }

    /// Whether no lane may touch more of the queue than its page.
    pub fn is_quiet(&self, queue: usize) -> bool {
        self.hazards(queue).iter().all(|hazard| *hazard != abi::HAZARD_TAKEN)
    }

    pub fn all_free(&self) -> bool {
        (0..QUEUES).all(|queue| self.hazards(queue).iter().all(|hazard| *hazard == abi::HAZARD_FREE))
    }
}

/// Who runs, and how.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub sharing: Sharing,
    pub warps: u32,
    pub mode: u32,
    pub flags: u32,
    pub seed: u64,
    pub store_buffer: u32,
}

pub const fn setting(sharing: Sharing, warps: u32, mode: u32) -> Setting {
    Setting { sharing, warps, mode, flags: 0, seed: 1, store_buffer: 0 }
}

/// Every way in which lanes call together.
pub const SETTINGS: [Setting; 5] = [
    setting(Sharing::Exclusive, 1, BY_WARP),
    setting(Sharing::Shared, 1, BY_WARP),
    setting(Sharing::Shared, 2, BY_WARP),
    setting(Sharing::Shared, 1, BY_HALVES),
    setting(Sharing::Shared, 2, BY_LANE),
];

pub struct Ran {
    pub simulation: Simulation,
    pub queues: Queues,
    pub outcome: Outcome,
    pub setting: Setting,
}

/// The attachment's queues behind pages of our own, for a kernel that takes the first of them for its only one.
pub struct Fixture {
    pub simulation: Simulation,
    pub queues: Queues,
    pub setting: Setting,
}

impl Fixture {
    /// `commands`: of a lane, which say how long a run may take.
    pub fn new(module: &Module, setting: Setting, commands: u32, faults: FaultPlan) -> Fixture {
        let schedule = Schedule { random: true, store_buffer: setting.store_buffer, ..Schedule::default() };
        let case = Case {
            seed: setting.seed,
            sharing: setting.sharing,
            queues: QUEUES as u32,
            warps: setting.warps * QUEUES as u32,
            entries: 256,
            commands,
            timeout: DEADLINE,
            schedule,
            ..Case::new("recovery")
        };
        let config = case.soft_config().faults(faults).retry_delays([1, 0, 0]);
        let simulation = Simulation::with_config(&case, module, config).expect("a rig");
        let queues = Queues::new(&simulation);
        Fixture { simulation, queues, setting }
    }

    /// The namespace behind the first queue alone.
    pub fn namespace(&self) -> abi::NamespaceRef {
        let ns = self.simulation.rig.args().ns;
        abi::NamespaceRef { queues: self.queues.refs.address(), queue_count: 1, ..ns }
    }

    /// Runs a kernel; `host` acts between its steps, and says whether the controller acts too.
    pub fn run(&mut self, launch: Launch, mut host: impl FnMut(&Queues, &Moment) -> bool) -> Outcome {
        let queues = &self.queues;
        let launch = launch.grid(self.setting.warps).block(32);
        self.simulation.run_launch(launch, |_, moment| host(queues, moment)).expect("a run")
    }
}

/// Commands take so long that whoever waits looks at the host's page meanwhile.
fn slow_commands() -> FaultPlan {
    let action = FaultAction::Delay { by: Duration::from_micros(400) };
    let faults = vec![Fault::new(action, Selector::default())];
    FaultPlan::new().faults(faults)
}

/// Runs the kernel `recovery_test`.
pub fn run(module: &Module, setting: Setting, host: impl FnMut(&Queues, &Moment) -> bool) -> Ran {
    let mut fixture = Fixture::new(module, setting, COMMANDS, slow_commands());
    let args = abi::QueueTestArgs {
        ns: fixture.namespace(),
        mode: setting.mode,
        flags: setting.flags,
        submit_timeout_ns: PATIENCE.as_nanos() as u64,
        ..fixture.simulation.rig.args()
    };
    let launch = cpu_launch(module, "recovery_test", &args).expect("a launch");
    let outcome = fixture.run(launch, host);
    let Fixture { simulation, queues, setting } = fixture;
    Ran { simulation, queues, outcome, setting }
}

impl Ran {
    /// Records of each lane that ran.
    pub fn lanes(&self) -> Vec<Vec<abi::TestRecord>> {
        let records = self.simulation.rig.records().expect("records");
        let lanes = records.chunks(COMMANDS as usize).take(self.setting.warps as usize * 32);
        lanes.map(<[abi::TestRecord]>::to_vec).collect()
    }

    /// What the switch to a successor said, lane by lane, wherever it was asked.
    pub fn switched(&self) -> Vec<u32> {
        let asked = |record: &abi::TestRecord| (record.payload != 0).then_some(record.payload & 0xffff);
        self.lanes().iter().flatten().filter_map(asked).collect()
    }

    pub fn count(&self, status: u32) -> usize {
        self.lanes().iter().flatten().filter(|r| r.answers != 0 && r.status == status).count()
    }

    /// The epochs in which lanes ended.
    pub fn epochs(&self) -> Vec<u64> {
        self.lanes().iter().map(|records| records[COMMANDS as usize - 1].found).collect()
    }

    /// Nothing is wrong beside what a test looks for, and no lane has kept a hazard slot.
    pub fn expect_right(&self) {
        self.outcome.expect_right(&self.simulation.rig.case);
        assert!(self.queues.all_free(), "{:?}: hazards are taken after the end", self.setting);
        assert!(self.lanes().iter().flatten().all(|record| record.answers <= 1), "{:?}", self.setting);
    }
}

/// Loses the first queue once something was rung on it, and names its successor some time later.
pub fn replaced_after(delay: Duration) -> impl FnMut(&Queues, &Moment) -> bool {
    let (mut lost_at, mut replaced) = (None, false);
    move |queues, moment| {
        if moment.rung > 0 && lost_at.is_none() {
            queues.set_state(0, abi::QUEUE_LOST);
            lost_at = Some(moment.elapsed);
        }
        if !replaced && lost_at.is_some_and(|at| moment.elapsed >= at + delay) {
            assert!(delay < PATIENCE / 2 || queues.is_quiet(0), "hazards taken long after the loss");
            queues.set_successor(0, Some(1));
            replaced = true;
        }
        replaced
    }
}
