//! What holds with any driver: a real one, or the fake driver. Where there is none, each test says that it was skipped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpbell_gpu::{DeviceMemory, Gpu, GpuError};
use warpbell_hw::{
    BASE_PAGE, CopyDirection, CopyQueue, HostMemory, RemoteCopy, RemoteMemory, Window, WordMemory,
};

/// The first GPU, if there is one.
fn gpu(test: &str) -> Option<Arc<Gpu>> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) if error.is_missing_requirement() => {
            println!("skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

macro_rules! gpu {
    ($test:literal) => {
        match gpu($test) {
            Some(gpu) => gpu,
            None => return,
        }
    };
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

#[test]
fn memory_is_zeroed_aligned_and_keeps_what_is_written() {
    let gpu = gpu!("memory_is_zeroed_aligned_and_keeps_what_is_written");
    let parts: Vec<DeviceMemory> = [1, 100, 65536, 3 << 20].map(|len| gpu.allocate(len).unwrap()).into();
    for memory in &parts {
        assert_eq!(memory.address() % 65536, 0);
        let mut bytes = vec![0xff; memory.len()];
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        let written = pattern(memory.len());
        memory.write(0, &written).unwrap();
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes == written);
        memory.fill(memory.len() - 1, 1, 0x5a).unwrap();
        memory.read(memory.len() - 1, &mut bytes[..1]).unwrap();
        assert_eq!(bytes[0], 0x5a);
        let error = memory.read(memory.len(), &mut [0]).unwrap_err().to_string();
        assert!(error.contains("is outside") && error.starts_with("cuda:0: memory"), "{error}");
    }
    assert!(matches!(gpu.allocate(0), Err(GpuError::Refused { .. })));
    let error = gpu.allocate(1 << 50).unwrap_err();
    assert!(error.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"), "{error}");
    assert!(!error.is_missing_requirement() && !error.is_context_lost());
}

#[test]
fn any_thread_may_call() {
    let gpu = gpu!("any_thread_may_call");
    let memory = gpu.allocate(4096).unwrap();
    std::thread::scope(|scope| {
        for byte in 0..4 {
            let memory = &memory;
            scope.spawn(move || {
                for _ in 0..20 {
                    memory.fill(usize::from(byte) * 1024, 1024, byte).unwrap();
                    let mut bytes = [9; 1024];
                    memory.read(usize::from(byte) * 1024, &mut bytes).unwrap();
                    assert_eq!(bytes, [byte; 1024]);
                }
            });
        }
    });
}

#[test]
fn host_memory_is_registered_once_however_often_it_is_asked_for() {
    let gpu = gpu!("host_memory_is_registered_once_however_often_it_is_asked_for");
    let window = Window::host(4 * BASE_PAGE).unwrap();
    let part = window.slice(BASE_PAGE + 64, 128).unwrap();
    let first = gpu.register(&part).unwrap();
    let second = gpu.register(&window).unwrap();
    assert_eq!(first.address(), second.address() + BASE_PAGE as u64 + 64);
    drop(second);
    let third = gpu.register(&window).unwrap();
    assert_eq!(first.address(), third.address() + BASE_PAGE as u64 + 64, "still the first");
    drop((first, third));
    assert!(gpu.register(&window).is_ok(), "once more after the last is gone");
}

#[test]
fn registrations_by_many_threads_are_counted() {
    let gpu = gpu!("registrations_by_many_threads_are_counted");
    let window = Window::host(BASE_PAGE).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    drop(gpu.register(&window).unwrap());
                }
            });
        }
    });
}

#[test]
fn memory_and_bars_are_told_apart() {
    let gpu = gpu!("memory_and_bars_are_told_apart");
    let memory = HostMemory::new(BASE_PAGE).unwrap();
    let bar = Window::whole(WordMemory::new(memory.clone()));
    let error = gpu.register(&bar).unwrap_err().to_string();
    assert!(error.contains("pages of a BAR"), "{error}");
    let error = gpu.register_io(&Window::whole(memory)).unwrap_err().to_string();
    assert!(error.contains("ordinary memory"), "{error}");
}

#[test]
fn images_that_are_none_are_refused_with_a_reason() {
    let gpu = gpu!("images_that_are_none_are_refused_with_a_reason");
    let error = gpu.load("text", b"not a module").unwrap_err().to_string();
    assert_eq!(error, "cuda:0: module text: neither PTX text nor a cubin nor a fat binary");
    let future = b".version 99.9\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n";
    let error = gpu.load("future", future).unwrap_err();
    assert!(error.is_missing_requirement(), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("cuda:0: module future: cuModuleLoadDataEx: "), "{text}");
    assert!(text.contains("driver 580"), "{text}");
}

/// All tags that come until `count` have.
fn collect(queue: &mut dyn CopyQueue, count: usize) -> Vec<u64> {
    let (mut tags, started) = (Vec::new(), Instant::now());
    while tags.len() < count {
        assert!(started.elapsed() < Duration::from_secs(60), "{} of {count} came", tags.len());
        match queue.finished() {
            Some((tag, result)) => {
                result.expect("copied");
                tags.push(tag);
            }
            None => std::thread::yield_now(),
        }
    }
    tags.sort_unstable();
    tags
}

#[test]
fn batches_of_copies_go_both_ways() {
    let gpu = gpu!("batches_of_copies_go_both_ways");
    const PIECE: usize = 8192;
    const PIECES: usize = 16;
    let memory = gpu.allocate(PIECE * PIECES).unwrap();
    let (source, target) = (Window::host(PIECE * PIECES).unwrap(), Window::host(PIECE * PIECES).unwrap());
    let _pinned = memory.pin(&source).unwrap();
    source.write(0, &pattern(PIECE * PIECES)).unwrap();
    let mut queue = memory.queue().unwrap();
    assert!(queue.finished().is_none());
    queue.submit().unwrap();
    // One side is pinned, and the other is not.
    for (direction, host) in [(CopyDirection::ToRemote, &source), (CopyDirection::FromRemote, &target)] {
        for tag in 0..PIECES {
            let host = host.slice(tag * PIECE, PIECE).unwrap();
            // Each piece to the place of its opposite, and back.
            let at = ((PIECES - 1 - tag) * PIECE) as u64;
            queue.push(RemoteCopy { direction, at, host }, tag as u64).unwrap();
            if tag % 5 == 0 {
                queue.submit().unwrap();
            }
        }
        queue.submit().unwrap();
        assert_eq!(collect(&mut *queue, PIECES), (0..PIECES as u64).collect::<Vec<_>>());
    }
    assert!(target.to_vec(0, PIECE * PIECES).unwrap() == pattern(PIECE * PIECES));
    let mut last = vec![0; PIECE];
    memory.read(0, &mut last).unwrap();
    assert!(last == pattern(PIECE * PIECES)[(PIECES - 1) * PIECE..], "pieces lie in reverse");
}

#[test]
fn copies_outside_are_refused_and_a_dropped_queue_leaves_nothing_in_flight() {
    let gpu = gpu!("copies_outside_are_refused_and_a_dropped_queue_leaves_nothing_in_flight");
    let memory = gpu.allocate(1 << 20).unwrap();
    let host = Window::host(1 << 20).unwrap();
    let mut queue = memory.queue().unwrap();
    let mut push = |at, len| {
        let host = host.slice(0, len).unwrap();
        queue.push(RemoteCopy { direction: CopyDirection::FromRemote, at, host }, 1)
    };
    for (at, len) in [(1 << 20, 1), (1, 1 << 20), (u64::MAX, 1)] {
        let error = push(at, len).unwrap_err().to_string();
        assert!(error.contains(&format!("out of remote memory at {at:#x}")), "{error}");
    }
    memory.fill(0, 1 << 20, 7).unwrap();
    push(0, 1 << 20).unwrap();
    queue.submit().unwrap();
    drop(queue);
    assert_eq!((host.load_u8(0, Ordering::Acquire), host.load_u8((1 << 20) - 1, Ordering::Acquire)), (7, 7));
}

#[test]
fn exported_memory_is_reached_by_its_mapping_or_says_why_not() {
    let gpu = gpu!("exported_memory_is_reached_by_its_mapping_or_says_why_not");
    let memory = gpu.allocate(5000).unwrap();
    let window = match memory.map() {
        Ok(window) => window,
        Err(error) => {
            println!("not mapped: {error}");
            assert!(error.to_string().starts_with("cuda:0: ") || error.to_string().contains("dma-buf"));
            return;
        }
    };
    assert_eq!((window.len(), window.memory().is_ordinary()), (8192, false));
    let flags = rustix::io::fcntl_getfd(memory.dma_buf().unwrap()).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "{flags:?}");
    window.store_u32(4996, 0x1234_5678, Ordering::Release);
    // The window keeps the memory; whoever has only that still reads what was written.
    let mut bytes = [0; 4];
    memory.read(4996, &mut bytes).unwrap();
    assert_eq!(u32::from_le_bytes(bytes), 0x1234_5678);
    memory.write(0, b"gpu!").unwrap();
    drop(memory);
    assert_eq!(window.to_vec(0, 4).unwrap(), b"gpu!");
}
