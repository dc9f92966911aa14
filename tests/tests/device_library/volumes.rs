//! Volumes: the examples that are made of one, with each layout and each mapping.

use std::sync::Arc;

use warpbell::{
    AttachOptions, DeviceName, Error, Lba, OpenOptions, Sharing, Ssd, Volume, VolumeIo, VolumeIoSpec,
    VolumeLayout, VolumeSpec,
};
use warpbell_kernels::abi::{VolumeBufferRef, VolumeRef};
use warpbell_tests::documented_part;
use zerocopy::{Immutable, IntoBytes};

use crate::example::{Examples, LANES, MAPPINGS, MODES};
use warpbell::test_hooks::TestSsd;
use warpbell_sim::TestLaunch;

/// Blocks of a launch, of a warp each.
const WARPS: usize = 2;

/// As in the page's frame.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct VolumeArgs {
    volume: VolumeRef,
    buffer: VolumeBufferRef,
    answers: u64,
}

/// As the page has it: the test below compares.
fn moved(volume: &Volume) -> Result<u64, Error> {
    let mut moved = 0;
    for member in volume.report()? {
        assert!(member.present && member.errors == 0, "{}: {:#x}", member.name, member.error_status);
        moved += member.bytes_read + member.bytes_written;
    }
    Ok(moved)
}

/// As the page has it: the test below compares.
fn by_the_host(volume: Volume, ssds: &[Ssd]) -> Result<(), Error> {
    let volume = Arc::new(volume);
    let buffer = Arc::new(volume.buffer(128 * 512)?);
    let ssds: Vec<&Ssd> = ssds.iter().collect();
    let mut io = VolumeIo::new(&volume, &VolumeIoSpec::default())?.allow_write(&ssds)?;
    let (write, flush) = (io.write(&buffer, 0, Lba(0), 64)?, io.flush()?);
    let requests = [write, flush, io.read(&buffer, 64 * 512, Lba(64), 64)?];
    for request in requests {
        io.wait(request)?;
    }
    Ok(())
}

/// Each replica gets what is written, and one is read.
fn expected_bytes(layout: VolumeLayout, examples: usize) -> Option<u64> {
    let copies = if layout == VolumeLayout::Replicate { 3 } else { 1 };
    // Two examples write and read a block for each lane, one writes it and compares it three times, one moves nothing.
    (examples == 4).then_some((WARPS * LANES * 512 * (2 * (copies + 1) + copies + 3)) as u64)
}

#[test]
fn every_example_compiles_and_runs_with_each_mapping() {
    crate::calls::expect_rust_of_page("rust volume", include_str!("volumes.rs"));
    crate::calls::expect_rust_of_page("rust host volume", include_str!("volumes.rs"));
    let own = documented_part("struct chunk_after_chunk");
    let examples = Examples::compile(" volume", &[""], &own, &MAPPINGS.map(|name| ("round_robin", name)));
    for (mode, sharing) in MODES {
        for layout in [VolumeLayout::Stripe, VolumeLayout::Replicate, VolumeLayout::Concatenate] {
            (0..MAPPINGS.len()).for_each(|mapping| run(&examples, mode, sharing, mapping, layout));
        }
    }
}

fn run(examples: &Examples, mode: &str, sharing: Sharing, change: usize, layout: VolumeLayout) {
    let name: DeviceName = "soft:size=1m".parse().expect("a device");
    let ssds = [(); 3].map(|()| Ssd::open(&name, &OpenOptions::default()).expect("an SSD"));
    let queues = WARPS as u32;
    let options = AttachOptions::new().queues(queues).warps(queues).sharing(sharing);
    let each = ssds.each_ref().map(|ssd| ssd.attach(&options).expect("queues"));
    let spec = VolumeSpec::new().layout(layout).chunk_bytes(4096).distances(vec![2, 1, 3]);
    let volume = Volume::new(&each.each_ref(), &spec).expect("a volume");
    let mut ran = 0;
    for (kernel, text) in examples.of(mode, change) {
        let buffer = volume.buffer(WARPS * LANES * volume.block_bytes() as usize).expect("memory");
        let answers = each[0].target().memory(WARPS * LANES * 4).expect("memory");
        answers.fill(0, answers.len(), 0xff).expect("memory");
        let args = VolumeArgs {
            volume: volume.as_ref().expect("a volume"),
            buffer: buffer.as_ref(),
            answers: answers.address(),
        };
        let launch = volume.launch_bytes(&examples.module, kernel, args.as_bytes()).expect("a launch");
        let run = launch.grid(WARPS as u32).start().and_then(|run| run.join());
        run.unwrap_or_else(|error| panic!("{kernel}: {error}"));
        let mut found = [0u32; WARPS * LANES];
        answers.read(0, found.as_mut_bytes()).expect("memory");
        assert_eq!(found, [0; WARPS * LANES], "{mode}, {layout:?}:\n{text}");
        ran += 1;
    }
    assert_eq!(moved(&volume).ok(), expected_bytes(layout, ran), "{mode}, {layout:?}");
    by_the_host(volume, &ssds).expect("I/O by the host");
    assert!(ssds.iter().all(|ssd| ssd.violations().is_empty()));
}
