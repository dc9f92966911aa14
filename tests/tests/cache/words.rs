//! Cached arrays against a model on the host: what lanes load, and every byte that lies on the SSDs after a flush.

use std::sync::LazyLock;

use warpbell::{Module, Sharing, VolumeLayout};
use warpbell_hw::Lba;
use warpbell_nvme::{NvmOpcode, Status, status::StatusCodeType};
use warpbell_sim::{TestVariant, on_cpu};
use warpbell_softctl::{FaultAction, Selector};
use warpbell_tests::Disk;
use warpbell_tests::cached::{CHUNK, Cached, Contents, Kind, Shape, judge, source};

pub static MODULE: LazyLock<Module> = LazyLock::new(|| Module::from(source().loaded().expect("compiles")));

pub const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
const LAYOUTS: [Option<VolumeLayout>; 4] =
    [None, Some(VolumeLayout::Stripe), Some(VolumeLayout::Replicate), Some(VolumeLayout::Concatenate)];

/// Launches over one cache, until there were so many operations. How many there were.
pub fn play(module: &Module, shape: &Shape, seed: u64, steps: u32, operations: u64) -> Result<u64, String> {
    let several = shape.several();
    let cached = Cached::new(shape, &several.queues);
    let contents = Contents::new(shape, several.softs.iter().map(|soft| &**soft).collect());
    let mut words = contents.fill(seed);
    for launch in 0.. {
        let seed = seed * 1000 + launch;
        let launched = cached.words(&several.queues, module, seed, steps);
        let on_cpu = on_cpu(&launched.launch).expect("the CPU target");
        several.run(on_cpu, seed, |_| ()).map_err(|error| error.to_string())?;
        let digests = words.play(seed, steps);
        judge(&launched.notes(), &digests).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
        contents.check(&words).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
        if words.operations >= operations {
            break;
        }
    }
    let (report, found) = (cached.report(), several.violations());
    if report.error.is_some() || report.write_backs == 0 || !found.is_empty() {
        return Err(format!("seed {seed}: {report:?}, violations: {found:?}"));
    }
    Ok(words.operations)
}

/// An array about twice as large as the cache, on SSDs that are no larger than it needs.
pub fn roomy(shape: Shape) -> Shape {
    let cache = u64::from(shape.spec.lines) * u64::from(shape.spec.page_bytes);
    let lanes = u64::from(shape.warps) * 32;
    let words_of_lane = cache * 2 / (8 * lanes) + 2;
    let first = shape.spec.first_block.get() * u64::from(shape.disks[0].block) + shape.first_byte;
    let array = first + (words_of_lane * lanes + 64) * 8 + 2 * u64::from(shape.spec.page_bytes);
    let parts = match shape.layout {
        Some(VolumeLayout::Stripe | VolumeLayout::Concatenate) => shape.disks.len() as u64,
        _ => 1,
    };
    let bytes = array.div_ceil(parts).next_multiple_of(CHUNK) + CHUNK;
    let disks = shape.disks.into_iter().map(|disk| Disk { bytes, ..disk }).collect();
    Shape { disks, words_of_lane, ..shape }
}

fn laid(shape: Shape, layout: Option<VolumeLayout>) -> Shape {
    match layout {
        None => shape,
        Some(VolumeLayout::Stripe) => shape.over(VolumeLayout::Stripe, 3),
        Some(layout) => shape.over(layout, 2),
    }
}

fn small(block: u32, lines: u32) -> Shape {
    Shape::new(Disk { sgl: block == 512, ..Disk::new(0, block) }, lines)
}

#[test]
fn arrays_over_ssds_and_volumes_hold_what_was_stored() {
    for (number, layout) in (0..).zip(LAYOUTS) {
        for (sharing, block) in MODES.iter().flat_map(|mode| [512, 4096].map(|block| (*mode, block))) {
            for first_byte in [0, 13] {
                let shape = Shape { sharing, first_byte, ..laid(small(block, 5), layout) };
                let played = play(&MODULE, &roomy(shape), 7 + number, 12, 1);
                assert!(played.is_ok(), "{layout:?}, {sharing:?}, {block}, {first_byte}: {played:?}");
            }
        }
    }
}

#[test]
fn arrays_hold_what_was_stored_by_any_policy_in_pages_of_several_blocks() {
    for kind in [Kind::Clock, Kind::Pinned, Kind::Lru] {
        let shape = Shape { kind, ..small(512, 6) };
        let kept = if kind == Kind::Pinned { 1..3 } else { 0..0 };
        let spec = shape.spec.clone().page_bytes(2048).first_block(Lba(24)).kept(kept);
        let played = play(&MODULE, &roomy(Shape { spec, ..shape }), 3, 20, 10_000);
        assert!(played.is_ok(), "{kind:?}: {played:?}");
    }
}

#[test]
fn an_array_over_replicas_does_not_mind_one_that_fails() {
    let status = Status::new(StatusCodeType::GENERIC, 0x06).with_dnr(true);
    for opcode in [NvmOpcode::READ, NvmOpcode::WRITE] {
        let only = Selector::new().opcodes(vec![opcode]).after(30);
        let mut shape = roomy(laid(small(512, 5), Some(VolumeLayout::Replicate)));
        shape.disks[0] = shape.disks[0].clone().failing(FaultAction::Fail { status }, only);
        let several = shape.several();
        let cached = Cached::new(&shape, &several.queues);
        // What the good one has.
        let good = Shape { disks: vec![shape.disks[1].clone()], layout: None, ..shape.clone() };
        let contents = Contents::new(&shape, several.softs.iter().map(|soft| &**soft).collect());
        let mut words = contents.fill(5);
        let launched = cached.words(&several.queues, &MODULE, 5, 60);
        several.run(on_cpu(&launched.launch).expect("the CPU target"), 5, |_| ()).expect("a run");
        assert_eq!(judge(&launched.notes(), &words.play(5, 60)), Ok(()), "{opcode:?}");
        assert_eq!(Contents::new(&good, vec![&several.softs[1]]).check(&words), Ok(()), "{opcode:?}");
        assert_eq!(cached.report().error, None);
        assert!(!several.softs[0].faults().is_empty(), "{opcode:?}: nothing failed");
    }
}

/// Loads, stores, additions and flushes, a sixth each over shared and exclusive queues and volumes of each layout.
fn million(lines: u32, warps: u32) {
    let mut operations = 0;
    for (number, (layout, sharing, block)) in (0..).zip([
        (LAYOUTS[0], Sharing::Shared, 512),
        (LAYOUTS[0], Sharing::Exclusive, 4096),
        (LAYOUTS[0], Sharing::Shared, 4096),
        (LAYOUTS[1], Sharing::Shared, 512),
        (LAYOUTS[2], Sharing::Shared, 4096),
        (LAYOUTS[3], Sharing::Exclusive, 4096),
    ]) {
        let shape = roomy(Shape { sharing, warps, ..laid(small(block, lines), layout) });
        let played = play(&MODULE, &shape, 100 + number, 300, 1_000_000 / 6 + 1);
        operations +=
            played.unwrap_or_else(|wrong| panic!("{lines} lines, {layout:?}, {sharing:?}: {wrong}"));
    }
    println!("{lines} lines: {operations} operations, every byte as in the model");
    assert!(operations >= 1_000_000, "{operations} operations");
}

#[test]
fn a_million_operations_at_one_line_lose_nothing() {
    million(1, 2);
}

#[test]
fn a_million_operations_at_seven_lines_lose_nothing() {
    million(7, 4);
}

#[test]
fn a_million_operations_at_64_lines_lose_nothing() {
    million(64, 4);
}
