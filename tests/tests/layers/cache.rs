//! Cached arrays and pages on threads: kernel `cache_test`, which sanitizers watch.

use std::sync::LazyLock;
use std::time::Duration;

use warpbell::test_hooks::TestSsd;
use warpbell::{Attachment, DeviceName, Module, OpenOptions, Sharing, Ssd, VolumeLayout};
use warpbell_kernels::cpu::{Idle, Threads};
use warpbell_nvme::NvmOpcode;
use warpbell_sim::TestVariant;
use warpbell_sim::threaded::{sanitizer, sized};
use warpbell_softctl::SoftDevice;
use warpbell_tests::Disk;
use warpbell_tests::cached::{Cached, Contents, FLUSHES, Launched, Note, Pages, Shape, judge, source};

static MODULE: LazyLock<Module> =
    LazyLock::new(|| Module::from(source().quick().loaded().expect("compiles")));
const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];
/// Longer than any run takes, under any sanitizer.
const LIMIT: Duration = Duration::from_secs(100);

/// SSDs whose controllers complete out of order.
fn open(shape: &Shape) -> (Vec<Ssd>, Vec<Attachment>) {
    let ssd = |disk: &Disk| {
        let sgl = if disk.sgl { "" } else { ",sgl=off" };
        let name = format!("size={},block={},order=shuffled:8{sgl}", disk.bytes, disk.block);
        Ssd::open(&DeviceName::Soft(name), &OpenOptions::default()).expect("opens")
    };
    let ssds: Vec<Ssd> = shape.disks.iter().map(ssd).collect();
    let attach = |(ssd, disk): (&Ssd, &Disk)| {
        let options = shape.attach(disk).timeout(LIMIT);
        ssd.attach(&options).expect("queues")
    };
    let queues = ssds.iter().zip(&shape.disks).map(attach).collect();
    (ssds, queues)
}

fn softs(ssds: &[Ssd]) -> Vec<&SoftDevice> {
    ssds.iter().map(|ssd| &**ssd.soft().expect("a soft controller")).collect()
}

fn run(launched: Launched) -> Vec<Note> {
    let threads = Threads::new().workers(2).idle(Idle::YieldAfter(8));
    let launch = launched.launch.clone().threads(threads);
    launch.start().expect("starts").join().expect("ends");
    launched.notes()
}

/// An SSD takes a page that is flushed while others store to it, which makes it dirty again: no race that counts.
fn arrays(shape: &Shape) {
    let watched = sanitizer().as_deref() == Some("thread");
    let shape = &Shape { flushes_apart: watched, ..shape.clone() };
    let (ssds, queues) = open(shape);
    let cached = Cached::new(shape, &queues);
    let contents = Contents::new(shape, softs(&ssds));
    let mut words = contents.fill(3);
    for seed in 0..2 {
        let steps = sized(40);
        let notes = run(cached.words(&queues, &MODULE, seed, steps));
        assert_eq!(judge(&notes, &words.play(seed, steps)), Ok(()));
        if shape.flushes_apart {
            let flush = Pages { flags: FLUSHES, ..Pages::default() };
            let flushed = run(cached.pages(&queues, &MODULE, flush));
            assert!(flushed.iter().all(|note| note.status == 0), "{flushed:x?}");
        }
        assert_eq!(contents.check(&words), Ok(()));
    }
    ssds.iter().for_each(|ssd| assert_eq!(ssd.violations(), []));
    println!("{:?}", cached.report());
}

#[test]
fn cached_arrays_over_an_ssd() {
    for (sharing, lines) in MODES.iter().flat_map(|mode| [1, 7, 64].map(|lines| (*mode, lines))) {
        let disk = Disk { sgl: lines != 7, ..Disk::new(64 << 10, if lines == 7 { 4096 } else { 512 }) };
        arrays(&Shape { sharing, words_of_lane: 9, ..Shape::new(disk, lines) });
    }
}

#[test]
fn cached_arrays_over_volumes() {
    for layout in [VolumeLayout::Stripe, VolumeLayout::Replicate, VolumeLayout::Concatenate] {
        let shape = Shape { words_of_lane: 30, ..Shape::new(Disk::new(48 << 10, 512), 7) };
        arrays(&shape.over(layout, 2));
    }
}

#[test]
fn a_cached_page_that_many_warps_want_is_read_once() {
    for sharing in MODES {
        let shape = Shape { sharing, warps: 16, ..Shape::new(Disk::new(64 << 10, 512), 4) };
        let (ssds, queues) = open(&shape);
        let cached = Cached::new(&shape, &queues);
        let reads = || softs(&ssds)[0].statistics().commands(NvmOpcode::READ);
        let before = reads();
        let notes = run(cached.pages(&queues, &MODULE, Pages { page: 5, steps: 1, ..Pages::default() }));
        assert!(notes.iter().step_by(2).all(|note| note.status == 0 && note.digest == notes[0].digest));
        assert_eq!((reads() - before, cached.report().hits), (1, 15), "{sharing:?}");
    }
}
