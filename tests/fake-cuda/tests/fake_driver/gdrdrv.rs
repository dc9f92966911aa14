//! Memory by GDRCopy's kernel module, of each version that Warpbell speaks to.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use fake_cuda::harness::FakeDriver;
use parking_lot::Mutex;
use warpbell_gpu::Gpu;
use warpbell_gpu::routes::{self, MappedMemory, MemoryRoute, SpaceKind};
use warpbell_hw::{DmaAccess, DmaBuffer, DmaError, DmaLimits, DmaSource, DmaSpace, Iova};

#[test]
fn pinned_memory_is_mapped_and_taken_down_in_order() {
    for version in ["2.0", "2.3", "2.4", "2.5", "2.6"] {
        let log = FakeDriver::new("dma-buf=absent").gdrdrv(version).child(|| {
            let gpu = Gpu::open(0).unwrap();
            // Neither one GPU page nor whole ones.
            let memory = gpu.allocate(100_000).unwrap();
            memory.write(0, &7u32.to_ne_bytes()).unwrap();
            let window = memory.map_by_gdrdrv().unwrap();
            assert_eq!((window.len(), window.memory().is_ordinary()), (102_400, false));
            assert_eq!(window.load_u32(0, Ordering::Acquire), 7, "what was there before");
            window.store_u32(99_996, 8, Ordering::Release);
            let mut last = [0; 4];
            memory.read(99_996, &mut last).unwrap();
            assert_eq!(u32::from_ne_bytes(last), 8);
            drop(memory);
            assert_eq!(window.load_u32(0, Ordering::Acquire), 7, "the mapping keeps the memory");
        });
        log.assert_clean();
        let calls = ["gdrdrv-open", "gdrdrv-pin", "gdrdrv-unpin"].map(|name| log.calls(name));
        assert_eq!(calls, [1, 1, 1], "{version}");
    }
}

#[test]
fn memory_that_would_be_mapped_coherently_is_mapped_by_the_bar_or_not_at_all() {
    let log = FakeDriver::new("gdrdrv-cached=yes").gdrdrv("2.6").child(|| {
        Gpu::open(0).unwrap().allocate(1).unwrap().map_by_gdrdrv().unwrap();
    });
    log.assert_clean();
    assert_eq!((log.calls("gdrdrv-pin"), log.calls("gdrdrv-unpin")), (2, 2));
}

#[test]
fn an_older_module_that_maps_coherently_is_refused_by_name() {
    let log = FakeDriver::new("gdrdrv-cached=yes").gdrdrv("2.3").child(|| {
        let error = Gpu::open(0).unwrap().allocate(1).unwrap().map_by_gdrdrv().unwrap_err().to_string();
        assert!(error.contains("cuda:0: gdrdrv 2.3 maps the memory coherently"), "{error}");
    });
    log.assert_clean();
    assert_eq!((log.calls("gdrdrv-pin"), log.calls("gdrdrv-unpin")), (1, 1));
}

#[test]
fn versions_that_are_not_spoken_to_are_refused_before_anything_is_pinned() {
    for version in ["1.4", "3.0"] {
        let log = FakeDriver::new("").gdrdrv(version).child(|| {
            let error = Gpu::open(0).unwrap().allocate(1).unwrap().map_by_gdrdrv().unwrap_err().to_string();
            assert!(error.contains("Warpbell speaks to 2.0 and newer of major version 2"), "{error}");
        });
        log.assert_clean();
        assert_eq!((log.calls("gdrdrv-version"), log.calls("gdrdrv-pin")), (1, 0));
    }
}

#[test]
fn without_the_module_the_way_says_what_to_load() {
    let log = FakeDriver::new("").child(|| {
        let error = Gpu::open(0).unwrap().allocate(1).unwrap().map_by_gdrdrv().unwrap_err().to_string();
        for words in ["no /dev/gdrdrv", "GDRCopy 2.0", "modprobe gdrdrv"] {
            assert!(error.contains(words), "{error}");
        }
    });
    log.assert_clean();
}

/// Maps all that it is asked to, but no files.
#[derive(Default)]
struct Space(Mutex<Vec<Iova>>);

impl DmaSpace for Space {
    fn map(&self, source: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
        if matches!(source, DmaSource::File { .. }) {
            return Err(DmaError::Unsupported { reason: "no files".to_owned() });
        }
        let mut mapped = self.0.lock();
        let iova = Iova((mapped.len() as u64 + 1) << 32);
        mapped.push(iova);
        Ok(iova)
    }
    fn unmap(&self, iova: Iova, _: u64) -> Result<(), DmaError> {
        self.0.lock().retain(|at| *at != iova);
        Ok(())
    }
    fn limits(&self) -> DmaLimits {
        DmaLimits { ranges: vec![0..=u64::MAX], page_size: 4096, mappings: 16 }
    }
}

#[test]
fn the_module_is_the_way_where_dma_bufs_cannot_be_mapped() {
    let log = FakeDriver::new("dma-buf=opaque").gdrdrv("2.6").child(|| {
        let memory = Gpu::open(0).unwrap().allocate(1 << 20).unwrap();
        let space = Arc::new(Space::default());
        let shared: Arc<dyn DmaSpace> = space.clone();
        let (mapped, probes) = routes::map_memory(&memory, &shared, SpaceKind::Type1);
        let Some(MappedMemory::Window(window)) = mapped else { panic!("{probes:?}") };
        assert_eq!(probes.last().unwrap().route, MemoryRoute::Gdrdrv);
        assert!(probes[1].outcome.as_ref().unwrap_err().to_string().contains("mmap of the dma-buf"));
        let mapped = DmaBuffer::map(shared, window, DmaAccess::READ_WRITE).unwrap();
        drop(memory);
        mapped.window().store_u32(0, 1, Ordering::Release);
        assert_eq!(space.0.lock().len(), 1);
        drop(mapped);
        assert!(space.0.lock().is_empty());
    });
    log.assert_clean();
}
