//! Where blocks lie, by which queue warps go there, and the example of the documentation.

use warpbell::{MemberReport, Module, Sharing, VolumeLayout};
use warpbell_kernels::abi;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::{TestVariant, on_cpu, seeds};
use warpbell_tests::{documented, documented_part};
use zerocopy::{Immutable, IntoBytes};

use crate::fixture::*;
use warpbell_sim::TestLaunch;

#[test]
fn a_stripe_over_four_ssds_gives_each_the_same_bytes_within_one_chunk() {
    for (sharing, map) in MODES.iter().flat_map(|sharing| MAPS.map(|map| (*sharing, map))) {
        if sharing == Sharing::Exclusive && map > HASHED {
            continue; // as built into the kernel
        }
        for seed in seeds(SEEDS) {
            let whole = seed % 2 == 0;
            let disks = vec![Disk { queues: 2, ..Disk::new(1 << 20, 512) }; 4];
            let made = Fixture { map, whole, ..Fixture::new(disks, sharing, VolumeLayout::Stripe) }.open();
            let chunk = made.fixture.spec.chunk_bytes / 512;
            made.write_and_read(seed, |block| {
                let number = block / chunk;
                vec![((number % 4) as usize, number / 4 * chunk + block % chunk)]
            });
            let report = made.report();
            let total = made.units() * u64::from(made.fixture.unit_blocks) * 512;
            for bytes in [|m: &MemberReport| m.bytes_read, |m: &MemberReport| m.bytes_written] {
                let (least, most) = (report.iter().map(bytes).min(), report.iter().map(bytes).max());
                let spread = most.unwrap_or(0) - least.unwrap_or(0);
                assert!(spread <= made.fixture.spec.chunk_bytes, "{sharing:?}, map {map}: {report:?}");
                assert_eq!(report.iter().map(bytes).sum::<u64>(), total, "{report:?}");
            }
        }
    }
}

/// Three SSDs that have nothing in common.
pub fn unlike() -> Vec<Disk> {
    vec![
        Disk { queues: 3, ..Disk::new(300 << 10, 512) },
        Disk { queues: 1, sgl: false, ..Disk::new(200 << 10, 4096) },
        Disk { queues: 2, ..Disk::new(130 << 10, 512) },
    ]
}

/// As `Fixture::new` has it, in blocks of 4096 bytes.
const CHUNK: u64 = 3;

#[test]
fn three_ssds_of_different_sizes_blocks_and_queues_are_striped_to_their_ends() {
    // 25, 16 and 10 chunks: three a row, then two, then one.
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let made = Fixture::new(unlike(), sharing, VolumeLayout::Stripe).open();
        assert_eq!(made.volume.blocks(), (25 + 16 + 10) * CHUNK);
        assert_eq!(made.volume.block_bytes(), 4096);
        made.write_and_read(seed, |block| {
            let (chunk, within) = (block / CHUNK, block % CHUNK);
            // By size: SSD 2, SSD 1, SSD 0.
            let (member, row) = match chunk {
                0..30 => ([2, 1, 0][(chunk % 3) as usize], chunk / 3),
                30..42 => ([1, 0][(chunk % 2) as usize], 10 + (chunk - 30) / 2),
                _ => (0, 16 + chunk - 42),
            };
            let unit = if member == 1 { 1 } else { 8 };
            vec![(member, (row * CHUNK + within) * unit)]
        });
    }
}

#[test]
fn three_ssds_one_after_the_other() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let made =
            Fixture { whole: seed % 2 == 0, ..Fixture::new(unlike(), sharing, VolumeLayout::Concatenate) }
                .open();
        assert_eq!(made.volume.blocks(), (25 + 16 + 10) * CHUNK);
        made.write_and_read(seed, |block| match block / CHUNK {
            0..25 => vec![(0, block * 8)],
            25..41 => vec![(1, block - 25 * CHUNK)],
            _ => vec![(2, (block - 41 * CHUNK) * 8)],
        });
    }
}

#[test]
fn three_ssds_each_with_everything() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let made =
            Fixture { whole: seed % 2 == 0, ..Fixture::new(unlike(), sharing, VolumeLayout::Replicate) }
                .open();
        assert_eq!(made.volume.blocks(), 10 * CHUNK);
        made.write_and_read(seed, |block| vec![(0, block * 8), (1, block), (2, block * 8)]);
        let report = made.report();
        let bytes = made.units() * u64::from(made.fixture.unit_blocks) * 4096;
        assert!(report.iter().all(|member| member.bytes_written == bytes && member.present), "{report:?}");
        assert_eq!(report.iter().map(|member| member.bytes_read).sum::<u64>(), bytes);
    }
}

// ---- mappings

#[test]
fn the_nearest_replica_is_read_and_blocks_keep_to_their_queues() {
    let disks = vec![Disk { queues: 2, ..Disk::new(512 << 10, 512) }; 3];
    let fixture = Fixture::new(disks, Sharing::Shared, VolumeLayout::Replicate);
    let near = fixture.spec.clone().distances(vec![2, 1, 3]);
    let made = Fixture { map: NEAREST, spec: near, ..fixture.clone() }.open();
    made.write_and_read(3, |block| vec![(0, block), (1, block), (2, block)]);
    let read: Vec<_> = made.report().iter().map(|member| member.bytes_read).collect();
    assert_eq!(read, [0, made.units() * 5 * 512, 0]);

    // Two blocks of two warps, which have 32 units each and end with a flush: of each SSD one queue for each.
    let fixture = Fixture { map: BY_CTA, warps_per_block: 2, unit_blocks: 4, most_units: 128, ..fixture };
    let made = fixture.open();
    let records = made.run(&MODULE, 5, true, |_| ());
    assert!(good(&records), "{records:?}");
    for queues in &made.several.queues {
        let commands: Vec<_> = (0..2).map(|queue| queues.counters(queue).expect("counters").ticket).collect();
        assert_eq!(commands, [66, 66]);
    }
}

// ---- the documentation's example

#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct ExampleArgs {
    volume: abi::VolumeRef,
    buffer: abi::VolumeBufferRef,
    answers: u64,
}

fn run_example(example: &str) {
    let module = Variant::text("volume_example", example).quick().loaded().expect("compiles");
    for layout in [VolumeLayout::Stripe, VolumeLayout::Replicate, VolumeLayout::Concatenate] {
        let made = Fixture::new(unlike(), Sharing::Shared, layout).open();
        let buffer = made.volume.buffer(64 * 4096).expect("a buffer");
        let answers = made.several.queues[0].target().memory(64 * 8).expect("memory");
        let args = ExampleArgs {
            volume: made.volume.as_ref().expect("a volume"),
            buffer: buffer.as_ref(),
            answers: answers.address(),
        };
        // The smallest volume has 30 blocks.
        let launch =
            made.volume.launch_bytes(&Module::from(module.clone()), "volume_example", args.as_bytes());
        let blocks = if layout == VolumeLayout::Replicate { 0..30 } else { 0..64 };
        let launch = on_cpu(&launch.expect("a launch").grid(2)).expect("the CPU target");
        made.several.run(launch, 3, |_| ()).expect("a run");
        let mut found = [0u64; 64];
        answers.read(0, found.as_mut_bytes()).expect("answers");
        assert!(blocks.clone().all(|number| found[number] == number as u64), "{layout:?}: {found:?}");
        let beyond = u64::from(abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_RANGE);
        assert!(found[blocks.end..].iter().all(|answer| *answer == beyond), "{layout:?}: {found:?}");
    }
}

#[test]
fn the_example_of_the_documentation_runs() {
    run_example(&documented("volume_example"));
}

#[test]
fn the_example_runs_with_the_mapping_of_the_documentation() {
    let mapping = documented_part("struct second_queue_last_replica");
    let example =
        documented("volume_example").replace("WARPBELL_KERNEL", &format!("{mapping}WARPBELL_KERNEL"));
    let mapped = example.replace("shared, 4>", "shared, 4, second_queue_last_replica>");
    assert_ne!(mapped, example);
    run_example(&mapped);
}

// ---- memory

#[test]
fn a_launch_keeps_what_kernels_read_of_buffers() {
    let made = Fixture::new(unlike(), Sharing::Shared, VolumeLayout::Stripe).open();
    let buffer = made.volume.buffer(4096).expect("a buffer");
    let args =
        ExampleArgs { volume: made.volume.as_ref().expect("a volume"), buffer: buffer.as_ref(), answers: 0 };
    let module = Variant::text("volume_example", &documented("volume_example")).quick().loaded();
    let module = Module::from(module.expect("compiles"));
    let launch = made.volume.launch_bytes(&module, "volume_example", args.as_bytes()).expect("a launch");
    drop((buffer, made.volume));
    // Nobody else gets that memory.
    let target = made.several.queues[0].target();
    let others: Vec<_> = (0..200).map(|_| target.memory(4096).expect("memory")).collect();
    for address in [args.buffer.parts, args.volume.state] {
        let taken = others.iter().find(|other| (other.address()..other.address() + 4096).contains(&address));
        assert!(taken.is_none(), "{address:x} is somebody else's");
    }
    drop(launch);
}
