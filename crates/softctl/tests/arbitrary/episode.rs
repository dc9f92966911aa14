//! One episode: a controller, so many things done to it, and what must hold at its end.

use std::time::Duration;

use rand::RngExt;
use warpbell_hw::{Device, DmaAccess, Lba, Nsid};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::identify::{Cns, IdentifyNamespace};
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::register::{CmbMsc, offset};
use warpbell_softctl::{
    CompletionOrder, DoorbellBufferMode, FaultKind, FaultPlan, NamespaceConfig, Profile, Rule, SoftConfig,
};

use zerocopy::FromBytes;

use super::commands::BLOCKS;
use super::memory::{PAGE, leaks};
use super::random::Random;
use super::world::{Tally, World};

/// Things done in an episode.
const STEPS: u64 = 3000;
/// Namespace identifiers that may be in use at the end.
const NAMESPACES: u32 = 4;
/// Most bits that the fault plan flips in one read.
const CORRUPTED: usize = 3;
/// Faults of media and payload, which a controller reports as it should.
const GOOD: [FaultKind; 2] = [FaultKind::Fail, FaultKind::Corrupt];
/// Steps between two checks of all memory.
const CHECK: u64 = 500;

/// Bytes of the controller memory buffer: a page for each submission queue.
const BUFFER: u64 = 8 * PAGE as u64;
/// The address that it is given, behind all that can be mapped.
const BUFFER_AT: u64 = 1 << 60;

/// What an episode did.
pub struct Outcome {
    pub steps: u64,
    pub tally: Tally,
    pub rules: Vec<Rule>,
}

fn config(random: &mut Random) -> SoftConfig {
    let namespace = |block: u32| NamespaceConfig::memory(BLOCKS * u64::from(block), block);
    let order = match random.random_range(0..3) {
        0 => CompletionOrder::Immediate,
        _ => CompletionOrder::Shuffled { window: random.random_range(1..20) },
    };
    let faults = match random.random_range(0..6) {
        0 | 1 => FaultPlan::from_toml(FAULTS).expect("a valid plan"),
        2 => FaultPlan::from_toml(&faults_of_the_controller(random)).expect("a valid plan"),
        _ => FaultPlan::default(),
    };
    let profile = match random.random_range(0..5) {
        0 => Some(Profile::optane()),
        1 => Some(Profile::tlc()),
        _ => None,
    };
    SoftConfig::new()
        .namespaces(vec![namespace(512), namespace(4096)])
        .queue_pairs(random.random_range(1..6))
        .max_entries([2, 8, 64, 65536][random.random_range(0..4)])
        .mdts(random.random_range(0..6))
        .sgl(random.random())
        .stride(random.random_range(0..5))
        .weighted_round_robin(random.random())
        .volatile_cache(random.random())
        .doorbell_buffer(if random.random() { DoorbellBufferMode::On } else { DoorbellBufferMode::Off })
        .poison_fetched(random.random())
        .seed(random.random())
        .capacity([0, 1 << 20][random.random_range(0..2)])
        .controller_memory([0, BUFFER][random.random_range(0..2)])
        .profile(profile)
        .order(order)
        .faults(faults)
}

const FAULTS: &str = r#"
[[fault]]
kind = "fail"
status = "Unrecovered Read Error"
opcode = ["read", "compare"]
probability = 0.05

[[fault]]
kind = "corrupt"
bits = 3
opcode = "read"
probability = 0.05
"#;

/// Faults after which nothing is as a good controller would have it.
fn faults_of_the_controller(random: &mut Random) -> String {
    const KINDS: [&str; 11] = [
        "kind = 'drop'",
        "kind = 'duplicate'",
        "kind = 'delay'\nby = '30us'",
        "kind = 'reorder'\nby = 3",
        "kind = 'torn'\nby = '2us'",
        "kind = 'late_payload'\nby = '20us'",
        "kind = 'stuck_doorbell'\nby = '50us'",
        "kind = 'slow'\nby = '10us'\nlasting = '200us'",
        "kind = 'fatal'",
        "kind = 'reset'",
        "kind = 'power_loss'\nkeep = 0.5",
    ];
    let mut plan = String::new();
    for _ in 0..3 {
        let kind = KINDS[random.random_range(0..KINDS.len())];
        plan += &format!("[[fault]]\n{kind}\nprobability = 0.03\ncount = 12\n\n");
    }
    plan
}

/// Runs the episode with this seed. It panics where the controller does wrong.
pub fn run(seed: u64, history: bool) -> Outcome {
    let config = config(&mut Random::seeded(seed));
    let world = world(config, Random::seeded(seed.rotate_left(32)), history);
    play(world)
}

/// Runs the episode that the input of a fuzzer describes. In half of them the controller is enabled, with queues, at the
/// start.
pub fn run_input(input: &[u8], history: bool) -> Outcome {
    let mut random = Random::of_input(input);
    let config = config(&mut random);
    let mut world = world(config, random, history);
    if world.random.random() && world.enable() {
        world.place_buffer();
        (0..world.random.random_range(1..4)).for_each(|_| world.ask_for_pair());
        world.settle();
    }
    play(world)
}

fn world(config: SoftConfig, random: Random, history: bool) -> World {
    let faulty = config.faults.faults.iter().any(|fault| !GOOD.contains(&fault.action.kind()));
    let described = format!("{config:?}");
    let mut world = World::new(config, random, history);
    world.note(|| described);
    world.faulty = faulty;
    world
}

fn play(mut world: World) -> Outcome {
    let mut steps = 0;
    while steps < STEPS && !world.random.is_spent() {
        world.act();
        if steps % CHECK == 0 {
            world.memory.check();
        }
        steps += 1;
    }
    world.settle();
    world.memory.check();
    world.recover();
    world.memory.check();
    let log = world.device.violations().into_iter().chain(world.device.refusals());
    let rules = log.map(|entry| entry.rule).collect();
    Outcome { steps, tally: world.tally, rules }
}

impl World {
    /// Does one thing.
    fn act(&mut self) {
        if !self.running() && self.random.random_range(0..10) == 0 {
            self.enable();
            self.place_buffer();
            return;
        }
        if self.queues.submission.len() < 3 && self.random.random_range(0..20) == 0 {
            self.ask_for_pair();
        }
        let what = self.random.random_range(0..1000);
        if what >= 880 && self.random.random_range(0..10) < self.calm {
            self.step();
            return;
        }
        match what {
            0..450 => drop(self.step()),
            450..600 => {
                let qid = match self.any_submission() {
                    0 => self.any_submission(),
                    qid => qid,
                };
                let sqe = self.command(qid == 0);
                self.push(qid, &sqe);
            }
            600..620 => {
                let sqe = self.command(true);
                self.push(0, &sqe);
            }
            620..760 => {
                let qid = self.any_submission();
                self.submit(qid);
            }
            760..880 => {
                let qid = self.any_completion();
                if self.random.random_range(0..50) == 0 {
                    self.free(qid);
                } else {
                    self.free_if_needed(qid);
                }
            }
            880..900 => self.wild_doorbell(),
            900..930 => self.map(),
            930..955 => self.unmap(),
            955..965 => {
                let by = self.random.random_range(0..100);
                self.device.advance(Duration::from_micros(by));
            }
            965..985 => self.wild_register(),
            985..993 => self.scribble(),
            993..995 => self.settle(),
            995 => self.reset(),
            996 => self.shut_down(),
            _ => drop(self.device.violations()),
        }
    }

    fn wild_doorbell(&mut self) {
        let at = match self.random.random_range(0..8) {
            0 => self.random.random_range(0..1 << 20),
            1 => self.random.random_range(0..256),
            _ => self.random.random_range(0..32) * 4,
        };
        let value = if self.random.random_range(0..8) == 0 {
            self.random.random()
        } else {
            self.random.random_range(0..16)
        };
        self.ring(at, value);
        self.poll();
    }

    /// Gives the controller memory buffer an address, if there is one.
    fn place_buffer(&mut self) {
        let Some(buffer) = self.device.controller_memory() else { return };
        let control = CmbMsc::new().with_cre(true).with_cmse(true).with_cba(BUFFER_AT >> 12).into_bits();
        self.device.registers().write32(offset::CMBMSC, control as u32);
        self.device.registers().write32(offset::CMBMSC + 4, (control >> 32) as u32);
        self.memory.buffer = Some((BUFFER_AT, buffer));
    }

    fn wild_register(&mut self) {
        let (at, value) = (self.random.random_range(0..0x80u32), self.random.random());
        if self.memory.buffer.is_some() && (offset::CMBMSC..offset::CMBSTS).contains(&at) {
            // The client knows where it put the buffer.
            return;
        }
        let bit = 1 << self.random.random_range(0..32);
        let registers = self.device.registers();
        match self.random.random_range(0..6) {
            0 => drop((registers.read32(at), registers.read64(at))),
            1 => registers.write64(
                [offset::ASQ, offset::ACQ, at][self.random.random_range(0..3)],
                self.random.random(),
            ),
            2 => self.write_register(at & !3, bit),
            3 => {
                let cc = self.device.registers().read32(offset::CC) ^ bit;
                self.write_register(offset::CC, cc);
            }
            _ => self.write_register(at, value),
        }
        self.poll();
    }

    /// Changes what is in client memory, below whatever uses it.
    fn scribble(&mut self) {
        let mut bytes = [0; 64];
        self.random.fill(&mut bytes);
        let Some(mapping) = self.memory.mappings.first() else { return };
        let at = mapping.iova + self.random.random_range(0..(mapping.bytes() - bytes.len()) as u64);
        self.write(at, &bytes);
    }

    /// Lets the controller finish; then every command was answered.
    pub fn settle(&mut self) {
        for _ in 0..20_000 {
            let cqids: Vec<u16> = self.queues.completion.keys().copied().collect();
            for cqid in cqids {
                self.free_if_needed(cqid);
            }
            let worked = self.step();
            if !worked {
                break;
            }
        }
        if self.running() {
            self.check_answered();
        }
    }

    fn free_if_needed(&mut self, qid: u16) {
        let queue = self.queues.completion.get(&qid);
        if queue.is_some_and(|queue| queue.head() != queue.freed && !queue.stuck()) {
            self.free(qid);
        }
    }

    /// A reset brings the controller back, whatever happened before.
    fn recover(&mut self) {
        self.reset();
        self.settle_registers();
        assert!(self.enable(), "there is room for admin queues");
        if self.faulty {
            // Its plan may go on to lose what it is asked.
            return;
        }
        let data = self.memory.map(&mut self.random, 1, DmaAccess::READ_WRITE).expect("room for a page");
        self.must(0, command::identify(Cns::CONTROLLER, 0).with_prp(data, 0));
        let model = self.memory.window(data + 24, 8).expect("mapped").to_vec(0, 8).expect("8 bytes");
        assert_eq!(model, b"Warpbell", "Identify Controller");
        let [sq, cq] = [DmaAccess::READ, DmaAccess::WRITE]
            .map(|access| self.memory.map(&mut self.random, 1, access).expect("room for a ring"));
        self.must(0, queue_command::create_io_cq(1, 1, cq, None));
        self.must(0, queue_command::create_io_sq(1, 1, sq, 1, QueuePriority::URGENT));
        for nsid in 1..=NAMESPACES {
            if let Some(geometry) = self.geometry(nsid, data) {
                self.check_namespace(nsid, geometry, data);
            }
        }
    }

    /// Blocks and bytes of a block of a namespace; `None` if there is none, or the client detached it.
    fn geometry(&mut self, nsid: u32, data: u64) -> Option<(u64, usize)> {
        if !self.execute(0, command::identify(Cns::NAMESPACE, nsid).with_prp(data, 0)) {
            return None;
        }
        let page = self.memory.window(data, PAGE).expect("mapped").to_vec(0, PAGE).expect("a page");
        let page = IdentifyNamespace::read_from_bytes(&page).expect("4096 bytes");
        let block = page.block_bytes().unwrap_or(512) as usize;
        (page.nsze > 0).then_some((page.nsze, block))
    }

    /// A read gives what the namespace holds, and it holds nothing that the controller was not given.
    fn check_namespace(&mut self, nsid: u32, (blocks, block): (u64, usize), data: u64) {
        let mut contents = vec![0; blocks.min(BLOCKS) as usize * block];
        self.device.peek(Nsid(nsid), Lba(0), &mut contents).expect("blocks that exist");
        assert!(!leaks(&contents), "namespace {nsid} holds a canary: memory that was not mapped was read");
        let lba = self.random.random_range(0..blocks.min(BLOCKS));
        // Faults that the plan injects are no reason to give up.
        let good = (0..100).any(|_| self.execute(1, command::read(nsid, lba, 0).with_prp(data, 0)));
        assert!(good, "namespace {nsid}: block {lba} cannot be read");
        let expected = &contents[lba as usize * block..][..block];
        let actual = self.memory.window(data, block).expect("mapped").to_vec(0, block).expect("a block");
        let wrong = expected.iter().zip(&actual).filter(|(one, other)| one != other).count();
        assert!(
            wrong <= CORRUPTED,
            "{wrong} bytes of a read are wrong, more than the plan may have corrupted"
        );
    }

    fn must(&mut self, qid: u16, sqe: Sqe) {
        assert!(self.execute(qid, sqe), "opcode {:#x} failed after recovery", sqe.opcode());
    }

    /// Runs one command to its end; whether it succeeded.
    fn execute(&mut self, qid: u16, sqe: Sqe) -> bool {
        let (completed, failed) = (self.tally.completions, self.tally.failed);
        let cid = self.cid();
        assert!(self.push(qid, &sqe.with_cid(cid)), "queue {qid} has no room");
        self.submit(qid);
        for _ in 0..1000 {
            self.step();
            if self.tally.completions > completed {
                self.free(qid);
                return self.tally.failed == failed;
            }
        }
        panic!("queue {qid}: no completion after recovery");
    }
}
