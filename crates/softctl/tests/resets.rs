//! Resets, shutdowns and queue deletions at every point of a queue's and a command's life.

mod client;

use std::sync::Arc;

use client::{Client, Pair, configuration, csts, memory, set_admin_queue, wait_csts};
use warpbell_hw::{Device, ResetKind};
use warpbell_nvme::command;
use warpbell_nvme::queue_command;
use warpbell_nvme::register::{NSSR_MAGIC, Shn, Shst, offset};
use warpbell_nvme::{Cqe, Status};
use warpbell_softctl::{CompletionOrder, Rule, SoftDevice};

/// A client somewhere in its life.
#[derive(Default)]
struct Scene {
    client: Option<Client>,
    admin: Option<Pair>,
    pair: Option<Pair>,
}

impl Scene {
    fn pair(&mut self) -> &mut Pair {
        self.pair.as_mut().expect("this scene has a queue pair")
    }

    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("this scene has a client")
    }
}

/// Where a controller can be when something happens to it.
type Point = (&'static str, fn(&Arc<SoftDevice>) -> Scene);

fn ready(device: &Arc<SoftDevice>) -> Scene {
    Scene { client: Some(Client::start(device.clone())), ..Scene::default() }
}

fn idle(device: &Arc<SoftDevice>) -> Scene {
    let mut client = Client::start(device.clone());
    let pair = client.pair(1, 4);
    Scene { client: Some(client), pair: Some(pair), admin: None }
}

/// Three reads in the ring.
fn written(device: &Arc<SoftDevice>) -> Scene {
    let mut scene = idle(device);
    let at = scene.client().buffer.iova().0;
    for cid in 0..3 {
        scene.pair().push(&command::read(1, 0, 0).with_prp(at, 0).with_cid(cid));
    }
    scene
}

fn rung(device: &Arc<SoftDevice>) -> Scene {
    let scene = written(device);
    scene.pair.iter().for_each(Pair::ring);
    scene
}

/// Some of the three are fetched: with so many held back, no step completes one for long.
fn stepped(device: &Arc<SoftDevice>, steps: usize) -> Scene {
    let scene = rung(device);
    (0..steps).for_each(|_| _ = device.step());
    scene
}

fn full(device: &Arc<SoftDevice>) -> Scene {
    let mut scene = rung(device);
    scene.client().settle();
    scene
}

fn events(device: &Arc<SoftDevice>) -> Scene {
    let mut scene = idle(device);
    for cid in 50..54 {
        scene.client().admin.push(&command::async_event_request().with_cid(cid));
    }
    scene.client().admin.ring();
    scene.client().settle();
    scene
}

fn with_cc(device: &Arc<SoftDevice>, enable: bool, shn: Shn) {
    device.registers().write32(offset::CC, configuration().with_en(enable).with_shn(shn).into_bits());
}

const POINTS: &[Point] = &[
    ("not enabled", |_| Scene::default()),
    ("becoming ready", |device| {
        let admin = Pair::new(device, 0, 16);
        set_admin_queue(device, &admin);
        with_cc(device, true, Shn::NONE);
        Scene { admin: Some(admin), ..Scene::default() }
    }),
    ("ready without queues", ready),
    ("a completion queue alone", |device| {
        let mut scene = ready(device);
        let pair = Pair::new(device, 1, 4);
        scene.client().admin_ok(queue_command::create_io_cq(1, 3, pair.cq_memory.iova().0, None));
        scene.pair = Some(pair);
        scene
    }),
    ("an idle pair", idle),
    ("commands written", written),
    ("commands rung", rung),
    ("a command fetched", |device| stepped(device, 1)),
    ("commands fetched", |device| stepped(device, 2)),
    ("commands fetched and some complete", |device| stepped(device, 4)),
    ("a full completion queue", full),
    ("event requests waiting", events),
    ("a deletion rung", |device| {
        let mut scene = rung(device);
        scene.client().admin.push(&queue_command::delete_io_sq(1).with_cid(60));
        scene.client().admin.ring();
        scene
    }),
    ("shutting down", |device| {
        let scene = stepped(device, 2);
        with_cc(device, true, Shn::NORMAL);
        scene
    }),
    ("shut down", |device| {
        let scene = stepped(device, 2);
        with_cc(device, true, Shn::ABRUPT);
        wait_csts(device, |csts| csts.shst() == Shst::COMPLETE);
        scene
    }),
    ("fatal", |device| {
        let scene = stepped(device, 2);
        device.fail_fatally();
        scene
    }),
    ("becoming disabled", |device| {
        let scene = stepped(device, 2);
        with_cc(device, false, Shn::NONE);
        scene
    }),
];

/// What resets a controller, and whether its admin queue registers keep their values.
type Action = (&'static str, bool, fn(&Arc<SoftDevice>));

const ACTIONS: &[Action] = &[
    ("controller reset", true, |device| with_cc(device, false, Shn::NONE)),
    ("function reset", false, |device| device.reset().reset(ResetKind::Function).expect("a function reset")),
    ("subsystem reset", false, |device| device.registers().write32(offset::NSSR, NSSR_MAGIC)),
    ("a reset by itself", false, |device| device.power_loss(1.0)),
    ("two function resets", false, |device| {
        (0..2).for_each(|_| device.reset().reset(ResetKind::Function).expect("a function reset"));
    }),
];

fn device(seed: u64) -> Arc<SoftDevice> {
    let order = CompletionOrder::Shuffled { window: 64 };
    SoftDevice::stepped(memory(1 << 20, 512).order(order).seed(seed)).expect("a valid configuration")
}

/// What the client's rings hold.
fn rings(scene: &Scene) -> Vec<Vec<u8>> {
    let admin = scene.client.as_ref().map(|client| &client.admin);
    let pairs = admin.into_iter().chain(&scene.pair).chain(&scene.admin);
    pairs.map(|pair| pair.cq_memory.window().to_vec(0, pair.cq_memory.len()).expect("a ring")).collect()
}

#[test]
fn a_reset_ends_everything_at_any_point() {
    for (point, bring) in POINTS {
        for (action, keeps, act) in ACTIONS {
            for seed in 0..6 {
                let device = device(seed);
                let name = format!("{action} when {point}, seed {seed}");
                let mut scene = bring(&device);
                let asq = device.registers().read64(offset::ASQ);
                act(&device);
                let before = rings(&scene);
                (0..200).for_each(|_| _ = device.step());
                device.advance(std::time::Duration::from_secs(1));
                (0..200).for_each(|_| _ = device.step());
                assert_eq!(rings(&scene), before, "{name}: a completion after the reset");
                let now = csts(&device);
                assert!(!now.rdy() && !now.cfs() && now.shst() == Shst::NORMAL_OPERATION, "{name}: {now:?}");
                assert_eq!(device.registers().read64(offset::ASQ), if *keeps { asq } else { 0 }, "{name}");
                // The client's memory is its own again.
                scene.pair = None;
                scene.admin = None;
                scene.client = None;
                let transition = ["becoming ready", "becoming disabled"].contains(point);
                let unexpected = device
                    .violations()
                    .into_iter()
                    .filter(|violation| !(transition && violation.rule == Rule::EnableTransition));
                assert_eq!(unexpected.collect::<Vec<_>>(), [], "{name}");
                let mut client = Client::start(device.clone());
                let mut pair = client.pair(1, 4);
                assert!(client.io(&mut pair, command::read(1, 0, 0), 0).is_ok(), "{name}");
            }
        }
    }
}

/// Takes all completions of a pair that came so far.
fn taken(pair: &mut Pair) -> Vec<Cqe> {
    std::iter::from_fn(|| pair.poll()).collect()
}

#[test]
fn a_deletion_answers_what_was_fetched_and_forgets_the_rest() {
    let points = POINTS.iter().filter(|(name, _)| {
        ["idle", "written", "rung", "fetched", "full", "waiting"].iter().any(|part| name.contains(part))
            && !name.contains("deletion")
    });
    for (point, bring) in points {
        for seed in 0..20 {
            let device = device(seed);
            let name = format!("{point}, seed {seed}");
            let mut scene = bring(&device);
            let Scene { client: Some(client), pair: Some(pair), .. } = &mut scene else {
                panic!("{name}: no queues")
            };
            client.admin_ok(queue_command::delete_io_sq(1));
            let mut entries = taken(pair);
            assert!(entries.iter().all(|entry| {
                let status = entry.status();
                status.is_ok() || status == Status::ABORTED_SQ_DELETION
            }));
            client.settle();
            assert_eq!(taken(pair).len(), 0, "{name}: a completion after the deletion");
            entries.sort_unstable_by_key(|entry| entry.cid);
            entries.dedup_by_key(|entry| entry.cid);
            assert!(entries.len() <= 3, "{name}: {entries:?}");
            client.admin_ok(queue_command::delete_io_cq(1));
            let mut again = client.pair(1, 4);
            assert!(client.io(&mut again, command::read(1, 0, 0), 0).is_ok(), "{name}");
            client.assert_clean();
        }
    }
}

#[test]
fn a_shutdown_answers_what_was_fetched() {
    for (point, bring) in POINTS.iter().filter(|(name, _)| name.contains("fetched") || name.contains("full"))
    {
        for shn in [Shn::NORMAL, Shn::ABRUPT] {
            for seed in 0..10 {
                let device = device(seed);
                let mut scene = bring(&device);
                let fetched = device.step();
                with_cc(&device, true, shn);
                wait_csts(&device, |csts| csts.shst() == Shst::COMPLETE);
                let entries = taken(scene.pair());
                assert!(entries.iter().all(|entry| entry.status().is_ok()), "{point}: {entries:?}");
                assert!(!entries.is_empty() || !fetched, "{point}: what was fetched is complete");
                (0..100).for_each(|_| _ = device.step());
                assert_eq!(taken(scene.pair()).len(), 0, "{point}: nothing comes after the shutdown");
                scene.client().assert_clean();
            }
        }
    }
}

#[test]
fn an_abort_finds_a_command_that_is_held_and_nothing_else() {
    let mut aborted = 0;
    for seed in 0..40 {
        let device = device(seed);
        let mut scene = stepped(&device, 2);
        let Scene { client: Some(client), pair: Some(pair), .. } = &mut scene else { panic!("no queues") };
        for (sqid, cid) in [(1, 99), (9, 0), (0, 77)] {
            assert_eq!(
                client.admin_ok(queue_command::abort(sqid, cid)).dw0 & 1,
                1,
                "there is no such command"
            );
        }
        let not_aborted = client.admin_ok(queue_command::abort(1, 0)).dw0 & 1;
        let mut statuses = Vec::new();
        while statuses.len() < 3 {
            let entry = pair.wait(&device);
            statuses.push((entry.cid, entry.status()));
        }
        statuses.sort_unstable_by_key(|(cid, _)| *cid);
        let expected = if not_aborted == 0 { Status::ABORT_REQUESTED } else { Status::SUCCESS };
        assert_eq!(statuses[0], (0, expected));
        assert!(statuses[1].1.is_ok() && statuses[2].1.is_ok());
        assert_eq!(client.admin_ok(queue_command::abort(1, 0)).dw0 & 1, 1, "it is complete");
        client.settle();
        assert!(pair.poll().is_none());
        client.assert_clean();
        aborted += 1 - not_aborted;
    }
    assert!(aborted > 0, "some seed holds the command when the Abort comes");
}
