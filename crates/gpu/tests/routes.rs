//! Each route by itself, with a driver; where there is none, each test says that it was skipped.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use warpbell_gpu::Gpu;
use warpbell_gpu::routes::{self, DoorbellRoute, MappedMemory, MemoryRoute, SpaceKind};
use warpbell_hw::{
    BASE_PAGE, Clock, Device, DeviceInfo, DeviceKind, DmaAccess, DmaBuffer, DmaError, DmaLimits, DmaSource,
    DmaSpace, DoorbellKind, DoorbellPath, DoorbellProxy, DoorbellSink, Doorbells, HostMemory, Interrupts,
    Iova, Qid, Registers, Reset, Window, WordMemory,
};

fn gpu(test: &str) -> Option<Arc<Gpu>> {
    match Gpu::open(0) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            println!("skipped: {test}: {error}");
            assert!(error.is_missing_requirement(), "{error}");
            None
        }
    }
}

/// Maps what it is asked to, and keeps what is mapped. `files`: whether it takes dma-bufs.
#[derive(Default)]
struct Space {
    files: bool,
    mapped: Mutex<Vec<Iova>>,
}

impl DmaSpace for Space {
    fn map(&self, source: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
        if matches!(source, DmaSource::File { .. }) && !self.files {
            return Err(DmaError::Unsupported { reason: "no foreign dma-bufs".to_owned() });
        }
        let mut mapped = self.mapped.lock();
        let iova = Iova(0x1_0000_0000 + ((mapped.len() as u64) << 21));
        mapped.push(iova);
        Ok(iova)
    }
    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let mut mapped = self.mapped.lock();
        let at = mapped.iter().position(|at| *at == iova).ok_or(DmaError::NotMapped { iova, len })?;
        mapped.remove(at);
        Ok(())
    }
    fn limits(&self) -> DmaLimits {
        DmaLimits { ranges: vec![0..=u64::MAX], page_size: 4096, mappings: 9 }
    }
}

#[test]
fn each_way_to_memory_is_tried_and_says_why_not() {
    let Some(gpu) = gpu("each_way_to_memory_is_tried_and_says_why_not") else { return };
    let space = Arc::new(Space::default());
    let shared: Arc<dyn DmaSpace> = space.clone();
    let probes = routes::probe_memory(&gpu, &shared, SpaceKind::Type1).unwrap();
    for probe in &probes {
        println!("{probe}");
    }
    assert_eq!(probes.iter().map(|probe| probe.route).collect::<Vec<_>>(), MemoryRoute::ALL);
    assert!(probes[0].outcome.as_ref().unwrap_err().to_string().contains("not opened through iommufd"));
    let module = probes[2].outcome.as_ref().map_err(ToString::to_string);
    assert!(module.is_ok() || module.unwrap_err().contains("gdrdrv"), "{probes:?}");
    assert!(probes[3].outcome.is_ok());
    assert!(space.mapped.lock().is_empty(), "probes undo what they did");

    let probes = routes::probe_memory(&gpu, &shared, SpaceKind::Iommufd).unwrap();
    let reason = probes[0].outcome.as_ref().unwrap_err().to_string();
    assert!(reason.contains("no foreign dma-bufs") || !gpu.info().dma_buf, "{reason}");
}

#[test]
fn the_first_way_that_works_is_taken_and_taken_down_in_order() {
    let Some(gpu) = gpu("the_first_way_that_works_is_taken_and_taken_down_in_order") else { return };
    let memory = gpu.allocate(100_000).unwrap();
    let space = Arc::new(Space { files: true, ..Space::default() });
    let shared: Arc<dyn DmaSpace> = space.clone();
    let (mapped, probes) = routes::map_memory(&memory, &shared, SpaceKind::Iommufd);
    if probes[0].outcome.is_ok() {
        let Some(MappedMemory::File(mapping)) = mapped else { panic!("{mapped:?}") };
        assert_eq!((mapping.len(), probes.len(), space.mapped.lock().len()), (102_400, 1, 1));
        drop(mapping);
        assert!(space.mapped.lock().is_empty());
    }
    let (mapped, probes) = routes::map_memory(&memory, &shared, SpaceKind::Type1);
    match mapped {
        Some(MappedMemory::Window(window)) => {
            assert_eq!(probes.last().unwrap().route, MemoryRoute::DmaBuf);
            let buffer = DmaBuffer::map(shared, window, DmaAccess::READ_WRITE).unwrap();
            drop(memory);
            buffer.window().store_u32(0, 5, Ordering::Release);
            drop(buffer);
            assert!(space.mapped.lock().is_empty());
        }
        other => {
            assert!(other.is_none(), "{other:?}");
            assert_eq!(probes.last().unwrap().route, MemoryRoute::Host);
        }
    }
    let (mapped, probes) = routes::map_memory(&gpu.allocate(1).unwrap(), &shared_other(), SpaceKind::Other);
    assert!(mapped.is_none() && probes.len() == 4 && probes[3].outcome.is_ok(), "{probes:?}");
}

fn shared_other() -> Arc<dyn DmaSpace> {
    Arc::new(Space::default())
}

/// A function of which only doorbells and registers matter.
struct Function {
    page: Window,
    proxied: bool,
    registers: Option<Window>,
}

impl Doorbells for Function {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Mapped
    }
    fn stride(&self) -> u8 {
        0
    }
    fn window(&self) -> Window {
        self.page.clone()
    }
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        None
    }
}

impl Device for Function {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: "0000:01:00.0".to_owned(), kind: DeviceKind::Pcie }
    }
    fn register_page(&self) -> Option<Window> {
        self.registers.clone()
    }
    fn doorbells(&self) -> &dyn Doorbells {
        self
    }
    fn forwarded_doorbells(&self) -> Option<io::Result<Arc<DoorbellProxy>>> {
        self.proxied.then(|| DoorbellProxy::of(self).map(Arc::new))
    }
    fn registers(&self) -> &dyn Registers {
        unreachable!("only doorbells are asked for")
    }
    fn dma(&self) -> Arc<dyn DmaSpace> {
        unreachable!("only doorbells are asked for")
    }
    fn interrupts(&self) -> &dyn Interrupts {
        unreachable!("only doorbells are asked for")
    }
    fn reset(&self) -> &dyn Reset {
        unreachable!("only doorbells are asked for")
    }
    fn clock(&self) -> &dyn Clock {
        unreachable!("only doorbells are asked for")
    }
}

#[test]
fn doorbells_in_memory_are_registered_as_such() {
    let Some(gpu) = gpu("doorbells_in_memory_are_registered_as_such") else { return };
    let function = Function { page: Window::host(BASE_PAGE).unwrap(), proxied: false, registers: None };
    let (access, probes) = routes::doorbells(&gpu, &function, 3);
    let access = access.unwrap();
    assert_eq!(
        (access.route(), access.path(), probes.len()),
        (DoorbellRoute::Memory, DoorbellPath::Mapped, 1)
    );
    let address = |qid, kind| access.address(&function, Qid(qid), kind);
    let first = gpu.register(&function.page).unwrap().address();
    assert_eq!(address(0, DoorbellKind::SqTail).unwrap(), first);
    assert_eq!(address(3, DoorbellKind::CqHead).unwrap(), first + 28);
    assert!(address(512, DoorbellKind::SqTail).is_err());
}

#[test]
fn doorbells_of_a_bar_are_registered_or_forwarded() {
    let Some(gpu) = gpu("doorbells_of_a_bar_are_registered_or_forwarded") else { return };
    let memory = HostMemory::new(2 * BASE_PAGE).unwrap();
    let page = Window::whole(WordMemory::new(memory)).slice(BASE_PAGE, BASE_PAGE).unwrap();
    let function = Function { page: page.clone(), proxied: true, registers: None };
    let (access, probes) = routes::doorbells(&gpu, &function, 3);
    for probe in &probes {
        println!("{probe}");
    }
    let access = access.unwrap();
    assert_eq!(probes[0].route, DoorbellRoute::IoMemory);
    if access.route() == DoorbellRoute::IoMemory {
        assert!(access.address(&function, Qid(3), DoorbellKind::CqHead).is_ok());
        let error = access.address(&function, Qid(4), DoorbellKind::SqTail).unwrap_err().to_string();
        assert!(error.contains("only 0x20 bytes are mapped"), "no queue of these was granted: {error}");
        return;
    }
    // It is no BAR in truth, which a real driver finds out.
    assert!(probes[0].outcome.is_err() && probes[1].outcome.is_ok());
    assert_eq!((access.route(), access.path()), (DoorbellRoute::Proxy, DoorbellPath::Forwarded));
    assert!(access.address(&function, Qid(1), DoorbellKind::SqTail).is_ok());

    let (access, probes) = routes::doorbells(&gpu, &Function { page, proxied: false, registers: None }, 3);
    let error = access.unwrap_err().to_string();
    assert_eq!((error.as_str(), probes.len()), ("doorbells of 0000:01:00.0: they cannot be forwarded", 2));
}

#[test]
fn registers_are_registered_where_they_are_memory_and_refused_where_accesses_are_calls() {
    let name = "registers_are_registered_where_they_are_memory_and_refused_where_accesses_are_calls";
    let Some(gpu) = gpu(name) else { return };
    let page = Window::host(BASE_PAGE).unwrap();
    let with = |registers| Function { page: page.clone(), proxied: false, registers };
    let registers = Window::host(BASE_PAGE).unwrap();
    let registered = routes::registers(&gpu, &with(Some(registers.clone()))).unwrap();
    assert_eq!(registered.window().as_ptr(), registers.as_ptr());
    let error = routes::registers(&gpu, &with(None)).unwrap_err().to_string();
    assert_eq!(error, "registers of 0000:01:00.0: they are no memory that can be mapped");
    // Pages of a BAR go by the other call; this is none in truth, which a real driver finds out.
    let bar = Window::whole(WordMemory::new(HostMemory::new(BASE_PAGE).unwrap()));
    match routes::registers(&gpu, &with(Some(bar.clone()))) {
        Ok(registered) => assert_eq!(registered.window().as_ptr(), bar.as_ptr()),
        Err(error) => println!("{error}"),
    }
}
