//! What a user of the driver does, as the input wants it.

use std::time::Duration;

use warpbell_driver::{
    Controller, Data, IoQueue, IoQueueOptions, NamespaceSpec, Notification, Outcome, QueuePair, QueueSpec,
    ResetMethod, RetryPolicy, RingMemory, Token,
};
use warpbell_hw::{Cid, Clock, Nsid, Qid};
use warpbell_nvme::command::{self, CommitAction, SecureErase, Sqe};
use warpbell_nvme::feature::{FeatureId, FeatureSelect};
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::opcode::AdminOpcode;

use super::{Bench, CHANGE};
use crate::choices::Choices;

/// Things done with one controller.
const STEPS: usize = 60;
/// Deadline of I/O commands.
const DEADLINE: Duration = Duration::from_millis(5);

/// An I/O queue, and the commands that are still to be reported.
struct Queue {
    queue: IoQueue,
    open: Vec<Token>,
}

/// A controller and its queues.
pub(super) struct Calls<'a> {
    bench: &'a Bench,
    controller: Option<Controller>,
    pairs: Vec<QueuePair>,
    queues: Vec<Queue>,
}

impl<'a> Calls<'a> {
    pub(super) fn new(bench: &'a Bench, controller: Controller) -> Calls<'a> {
        Calls { bench, controller: Some(controller), pairs: Vec::new(), queues: Vec::new() }
    }

    /// A choice of the input, which the controller has too.
    fn choose<T>(&self, how: impl FnOnce(&mut Choices) -> T) -> T {
        how(&mut self.bench.device.controller.lock().choices)
    }

    pub(super) fn run(mut self) {
        for _ in 0..STEPS {
            if self.choose(|choices| choices.is_spent()) {
                break;
            }
            let Some(controller) = self.controller.take() else { break };
            let kind = self.choose(Choices::byte);
            match kind {
                0..30 => self.make_pair(&controller),
                30..100 => self.use_queue(),
                100..115 => self.give_up_queue(&controller),
                115..120 => self.reset(&controller),
                120..122 => {
                    self.bench.call("shutdown", || controller.shutdown());
                    continue;
                }
                122 => {
                    self.bench.timed("drop", Duration::from_secs(10), || drop(controller));
                    continue;
                }
                123..140 => self.bench.device.pause(Duration::from_micros(self.choose(Choices::u16).into())),
                140..190 => self.ask(&controller),
                _ => self.manage(&controller),
            }
            self.bench.check("between calls");
            self.controller = Some(controller);
        }
        self.end();
    }

    /// Controller and queues go, in either order.
    fn end(mut self) {
        let controller_first = self.choose(|choices| choices.one_in(2));
        if controller_first {
            let controller = self.controller.take();
            self.bench.timed("drop", Duration::from_secs(10), || drop(controller));
        }
        self.queues.clear();
        self.pairs.clear();
        let controller = self.controller.take();
        self.bench.timed("drop", Duration::from_secs(10), || drop(controller));
    }

    fn make_pair(&mut self, controller: &Controller) {
        let mut spec =
            QueueSpec::new(self.choose(|choices| choices.pick(&[4, 2, 8, 64, 3, 0, 1024, 1 << 17])));
        (spec.sq_memory, spec.notification) = self.choose(|choices| {
            let memory = if choices.one_in(6) { RingMemory::Controller } else { RingMemory::Host };
            let vector = choices.byte();
            let notification = match vector {
                0..160 => Notification::Polled,
                160..220 => Notification::Interrupt,
                _ => Notification::Vector(u16::from(vector) - 220),
            };
            (memory, notification)
        });
        let Some(pair) = self.bench.call("create a queue pair", || controller.create_queue_pair(spec)) else {
            return;
        };
        if self.pairs.len() + self.queues.len() > 8 || self.choose(|choices| choices.one_in(4)) {
            return self.pairs.push(pair);
        }
        let mut options = self.choose(|choices| {
            IoQueueOptions::new()
                .timeout(DEADLINE)
                .sq_batch(choices.pick(&[1, 0, 32, 4]))
                .cq_batch(choices.pick(&[1, 0, 32, 4]))
                .flush(choices.one_in(5))
                .retry(RetryPolicy::default())
        });
        if options.cq_batch == 4 {
            options.retry = controller.retry_policy(2);
        }
        if let Some(queue) = self.bench.call("take a queue over", || IoQueue::new(pair, options)) {
            self.queues.push(Queue { queue, open: Vec::new() });
        }
    }

    fn use_queue(&mut self) {
        let count = self.queues.len();
        let Some(index) = (count > 0).then(|| self.choose(|choices| choices.below(count as u32))) else {
            return;
        };
        let (kind, sqe) = self.choose(|choices| (choices.byte(), io_command(choices)));
        let mut one = self.queues.swap_remove(index as usize);
        let Queue { queue, open } = &mut one;
        let bench = self.bench;
        match kind {
            0..120 => {
                let tokens =
                    (0..=kind / 24).map_while(|_| bench.timed("push", Duration::ZERO, || queue.push(&sqe)));
                open.extend(tokens);
                bench.timed("ring", Duration::ZERO, || queue.ring());
            }
            120..180 => {
                let limit = Duration::from_micros(u64::from(kind - 120) * 200);
                let done = bench.timed("wait", limit, || queue.wait(limit));
                done.into_iter().for_each(|done| reported(open, done.token, done.outcome));
            }
            180..220 => {
                let mut done = Vec::new();
                bench.timed("poll", Duration::ZERO, || queue.poll(|completion| done.push(completion)));
                done.iter().for_each(|done| reported(open, done.token, done.outcome));
            }
            220..240 => {
                // Reports what was open by itself, if nothing is: it refuses otherwise.
                let limit = DEADLINE * 2;
                let done = bench.timed("execute", limit, || queue.execute(&sqe));
                assert!(open.is_empty() || done.is_err(), "a busy queue executed a command by itself");
            }
            _ => {
                let start = self.choose(|choices| choices.number(5000));
                if open.is_empty() {
                    bench.timed("advance", DEADLINE * 20_000, || {
                        drop(queue.advance_to(start % (1 << 40), Nsid(1)))
                    });
                }
            }
        }
        let room = queue.room();
        assert!(
            room <= queue.depth() && open.len() as u32 <= queue.depth(),
            "{room} of {} rooms",
            queue.depth()
        );
        self.queues.push(one);
    }

    fn give_up_queue(&mut self, controller: &Controller) {
        let kind = self.choose(Choices::byte);
        if let Some(one) = self.queues.pop() {
            self.pairs.push(one.queue.into_pair());
        }
        let Some(pair) = self.pairs.pop() else { return };
        match kind {
            0..120 => drop(self.bench.call("delete a queue pair", || controller.delete_queue_pair(pair))),
            120..200 => {
                let limit = Duration::from_millis(u64::from(kind) - 120);
                self.bench.call("retire a queue pair", || controller.retire_queue_pair_within(&pair, limit));
                self.pairs.insert(0, pair);
            }
            200..220 => {
                drop(pair);
                let limit = Duration::from_millis(20);
                self.bench.timed("reclaim queues", limit, || controller.reclaim_queues(limit));
            }
            _ => drop(pair),
        }
    }

    fn reset(&mut self, controller: &Controller) {
        let (method, limit) = self.choose(|choices| {
            let methods = [ResetMethod::Controller, ResetMethod::Function, ResetMethod::Subsystem];
            (choices.pick(&methods), Duration::from_millis(choices.pick(&[1000, 10, 0, 60_000])))
        });
        if self.choose(|choices| choices.one_in(2)) {
            // A controller that is still to become ready is waited for before CC is written.
            self.bench.call_within("reset", CHANGE, || controller.reset());
        } else {
            let begun = self.bench.device.now();
            self.bench.call_within("reset within a limit", limit, || controller.reset_within(method, limit));
            // The delays of some known controllers come on top.
            let (took, most) =
                (self.bench.device.now() - begun, limit + limit / 100 + Duration::from_secs(3));
            assert!(took <= most, "a reset that had {limit:?} took {took:?}");
        }
        for one in &mut self.queues {
            // Whatever was open never comes.
            one.open.clear();
        }
        self.pairs.extend(self.queues.drain(..).map(|one| one.queue.into_pair()));
    }

    /// What only asks.
    fn ask(&mut self, controller: &Controller) {
        let (kind, nsid, bytes) = self.choose(|choices| {
            (choices.below(16), Nsid(choices.number(4) as u32), choices.number(9000) as usize)
        });
        let bench = self.bench;
        match kind {
            0..4 => drop(bench.call("poll events", || controller.poll_events())),
            4 => drop(
                bench.call("log page", || controller.log_page(LogPageId::SMART, nsid, bytes.min(1 << 20))),
            ),
            5 => drop(bench.call("error log", || controller.error_log(bytes as u32))),
            6 => drop(bench.call("smart log", || controller.smart_log())),
            7 => drop(bench.call("changed namespaces", || controller.changed_namespaces())),
            8 => drop(bench.call("sanitize status", || controller.sanitize_status())),
            9 => drop(bench.call("current namespaces", || controller.current_namespaces())),
            10 => drop(bench.call("health", || controller.check_health())),
            11 => drop(bench.call("abort", || {
                let limit = Duration::from_millis(bytes as u64 & 15);
                controller.abort_within(Qid(nsid.0 as u16), Cid(bytes as u16), limit)
            })),
            12 => drop(bench.call("effects", || controller.command_effects())),
            13 => drop(bench.call("feature", || {
                controller.get_feature(FeatureId(bytes as u8), FeatureSelect::CURRENT, Some(nsid))
            })),
            14 => {
                let _ = (controller.admin_counters(), controller.max_entries(), controller.granted_queues());
                assert!(controller.identify().model().len() <= 40 && format!("{controller:?}").len() > 10);
            }
            _ => drop(bench.call("firmware log", || controller.firmware_log())),
        }
    }

    /// What changes something.
    fn manage(&mut self, controller: &Controller) {
        let (kind, value) = self.choose(|choices| (choices.below(12), choices.number(5000)));
        let (bench, nsid) = (self.bench, Nsid(value as u32));
        match kind {
            0 => drop(bench.call("set a feature", || {
                controller.set_feature(FeatureId(value as u8), (value >> 8) as u32, None)
            })),
            1 => drop(bench.call("keep alive", || controller.keep_alive())),
            2 => drop(bench.call("keep alive timer", || {
                controller.set_keep_alive(Some(Duration::from_millis(value)).filter(|_| value % 3 > 0))
            })),
            3 => drop(
                bench.call("firmware", || controller.download_firmware(&vec![0; (value % 40_000) as usize])),
            ),
            4 => drop(bench.call("commit", || controller.commit_firmware(1, CommitAction::REPLACE))),
            5 => drop(bench.call("format", || {
                controller.format(nsid, value as u8 & 15, SecureErase::NONE, Duration::from_millis(100))
            })),
            6 => {
                let spec = NamespaceSpec::new(value).format_index(value as u8 & 63);
                bench.call("create a namespace", || controller.create_namespace(spec));
            }
            7 => drop(bench.call("attach", || controller.attach_namespace(nsid))),
            8 => drop(bench.call("delete", || controller.delete_namespace(nsid))),
            9 => {
                let mut into = vec![0; (value % 300_000) as usize];
                let sqe = command::get_log_page(LogPageId(value as u8), 0, 0, 0, false);
                bench.call("any command in", || controller.admin(sqe, Data::In(&mut into)));
            }
            // Memory that a caller tells the controller of by himself is his to keep.
            _ if value as u8 == AdminOpcode::DBBUF_CONFIG.0 => {}
            _ => {
                let sqe = Sqe::new(value as u8, 0);
                let bytes = vec![7; (value % 20_000) as usize];
                bench.call("any command out", || controller.admin(sqe, Data::Out(&bytes)));
            }
        }
    }
}

fn io_command(choices: &mut Choices) -> Sqe {
    match choices.below(3) {
        0 => command::flush(1),
        1 => command::read(1, choices.number(100), 0).with_prp(1 << 20, 0),
        _ => command::write(1, choices.number(100), 0).with_prp(1 << 20, 0),
    }
}

/// Each command is reported once.
fn reported(open: &mut Vec<Token>, token: Token, outcome: Outcome) {
    let index = open.iter().position(|other| *other == token);
    let index = index.unwrap_or_else(|| panic!("{token:?} is reported, {outcome:?}, and was not open"));
    open.swap_remove(index);
}
