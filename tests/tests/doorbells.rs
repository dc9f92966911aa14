//! Tier S: how kernels of a GPU, played by the fake driver, ring doorbells that are no ordinary memory: mapped where a
//! command proves it, else forwarded, with the reason.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fake_cuda::harness::{self, FakeDriver, Log};
use warpbell::test_hooks::TestSsd;
use warpbell::{
    AttachOptions, DataPlacement, DoorbellChoice, ForeignMemory, OpenOptions, OrderPolicy, Ssd, Target,
};
use warpbell_driver::DoorbellBuffer;
use warpbell_hw::{
    BASE_PAGE, Clock, Device, DeviceInfo, DmaSpace, Doorbell, DoorbellError, DoorbellKind, DoorbellLost,
    DoorbellPath, DoorbellProxy, DoorbellSink, DoorbellWriter, Doorbells, Interrupts, ProxySlot, Qid,
    Registers, Reset, Window, WordMemory,
};
use warpbell_softctl::{SoftConfig, SoftDevice};
use warpbell_tests::suite;
use warpbell_workload::Api;

/// What the proof itself gives a mapped doorbell.
const LIMIT: Duration = Duration::from_millis(100);
/// Whatever takes longer does not end. A machine that is busy may hold the rest up for much of it.
const HANGS: Duration = Duration::from_secs(60);
const GPU: Target = Target::Cuda(0);

/// A soft controller as a PCI function: its doorbells are accessed by words, and kernels that cannot are forwarded for.
struct Function {
    soft: Arc<SoftDevice>,
    page: Window,
    /// What kernels find at its registers.
    registers: Window,
    proxy: Arc<ProxySlot>,
    /// Whether what is forwarded is lost.
    deaf: bool,
}

/// Loses doorbells.
struct Nowhere;

impl DoorbellWriter for Nowhere {
    fn write(&self, _: usize, _: u32) -> Result<(), DoorbellLost> {
        Ok(())
    }
}

impl Function {
    fn new(config: &str) -> Function {
        let soft = SoftDevice::threaded(SoftConfig::parse(config).expect("options")).expect("a controller");
        let own = soft.doorbells().window();
        let page = Window::whole(WordMemory::new(own.memory().clone()));
        let page = page.slice(own.offset_in_memory(), own.len()).expect("the same part");
        let registers = Window::host(BASE_PAGE).expect("memory").memory().clone();
        let registers = Window::whole(WordMemory::new(registers));
        Function { soft, page, registers, proxy: Arc::default(), deaf: false }
    }

    fn open(self, options: OpenOptions) -> Arc<Ssd> {
        let soft = self.soft.clone();
        let name = "0000:41:00.0".parse().expect("a name");
        Arc::new(Ssd::over_device(name, Arc::new(self), Some(soft), &options).expect("opens"))
    }
}

impl Doorbells for Function {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Mapped
    }
    fn stride(&self) -> u8 {
        self.soft.doorbells().stride()
    }
    fn window(&self) -> Window {
        self.page.clone()
    }
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        None
    }
    fn doorbell(&self, qid: Qid, kind: DoorbellKind) -> Result<Doorbell, DoorbellError> {
        let (offset, len) = (self.offset(qid, kind), self.page.len());
        let doorbell = match offset {
            0 => self.proxy.admin_doorbell(&self.page),
            _ => Doorbell::new(&self.page, offset),
        };
        doorbell.ok_or(DoorbellError::Outside { qid, offset, len })
    }
}

impl Device for Function {
    fn info(&self) -> DeviceInfo {
        self.soft.info()
    }
    fn registers(&self) -> &dyn Registers {
        self.soft.registers()
    }
    fn register_page(&self) -> Option<Window> {
        Some(self.registers.clone())
    }
    fn doorbells(&self) -> &dyn Doorbells {
        self
    }
    fn forwarded_doorbells(&self) -> Option<io::Result<Arc<DoorbellProxy>>> {
        Some(match self.deaf {
            true => DoorbellProxy::new(self.page.len(), self.stride(), Box::new(Nowhere)).map(Arc::new),
            false => self.proxy.get(self),
        })
    }
    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.soft.dma()
    }
    fn interrupts(&self) -> &dyn Interrupts {
        self.soft.interrupts()
    }
    fn reset(&self) -> &dyn Reset {
        self.soft.reset()
    }
    fn clock(&self) -> &dyn Clock {
        self.soft.clock()
    }
}

fn choice(choice: DoorbellChoice) -> OpenOptions {
    OpenOptions::new().doorbells(choice)
}

/// Attached for a kernel of the GPU: how it rings.
fn attached(ssd: &Ssd) -> Result<(DoorbellPath, String), String> {
    let attachment = ssd.attach(&AttachOptions::new().target(GPU)).map_err(|error| error.to_string())?;
    let (path, refused) = attachment.doorbell_path();
    Ok((path, refused.unwrap_or_default().to_owned()))
}

/// Whether kernels of the GPU write and read what they should, and the controller found nothing wrong with its client.
fn works(ssd: &Ssd) {
    suite::apis_on(GPU, ssd, 1, &[Api::Io]);
    assert_eq!(ssd.violations(), []);
}

/// Whether nothing here compiles kernels for a GPU.
fn no_kernels() -> bool {
    harness::kernels("ring", 90).is_none() || harness::kernels("bench", 90).is_none()
}

fn played(options: &str, body: impl FnOnce(&FakeDriver) -> Log) {
    if no_kernels() {
        return;
    }
    let fake_driver = FakeDriver::new(options);
    body(&fake_driver).assert_clean();
}

#[test]
fn doorbells_that_a_command_proves_are_mapped() {
    played("", |fake_driver| {
        fake_driver.child(|| {
            let ssd = Function::new("size=8m").open(OpenOptions::new());
            // A machine this busy may leave its controller without a processor for longer than the proof waits.
            let mapped = (0..5).any(|_| attached(&ssd) == Ok((DoorbellPath::Mapped, String::new())));
            assert!(mapped, "{:?}", attached(&ssd));
            works(&ssd);
        })
    });
}

#[test]
fn a_registered_doorbell_that_is_dead_is_found_out_and_forwarded() {
    played("io-memory=dead", |fake_driver| {
        fake_driver.child(|| {
            // One queue is all there is: the proof leaves it for the kernels.
            let ssd = Function::new("size=8m,queues=1").open(OpenOptions::new().queues(Some(1)));
            let path = attached(&ssd).expect("attaches");
            let reason = "a kernel's store to the mapped doorbell brought no completion within 100ms";
            assert_eq!(path, (DoorbellPath::Forwarded, reason.to_owned()));
            // Kernels are loaded by now: what is left is the proof's own time.
            let begun = Instant::now();
            attached(&ssd).expect("attaches");
            let took = begun.elapsed();
            assert!(took >= LIMIT && took < HANGS, "{took:?}");
            let path = ssd.data_path();
            assert_eq!((path.doorbells_name(), path.refused.as_deref()), ("forwarded", Some(reason)));
            assert!(path.to_string().contains("doorbells forwarded (a kernel's store"), "{path}");
            works(&ssd);
        })
    });
}

#[test]
fn a_kernel_that_cannot_begin_holds_no_attachment_up() {
    if no_kernels() {
        return;
    }
    // As where another kernel fills the GPU for as long.
    let fake_driver = FakeDriver::new("kernel-delay=4000");
    let log = fake_driver.child(|| {
        let ssd = Function::new("size=8m,queues=2").open(OpenOptions::new().queues(Some(2)));
        let (path, refused) = attached(&ssd).expect("attaches");
        assert_eq!(path, DoorbellPath::Forwarded);
        assert_eq!(
            refused,
            "the kernel that was to prove them did not end within 2s: another may fill the GPU"
        );
        // It ends later, and rings then: the doorbell of a pair that is still there.
        let begun = Instant::now();
        let both = AttachOptions::new().queues(2).warps(2);
        while let Err(error) = ssd.attach(&both) {
            assert!(begun.elapsed() < HANGS, "the pair of the proof is never deleted: {error}");
            std::thread::sleep(LIMIT);
        }
        assert_eq!(ssd.violations(), []);
    });
    // Memory is registered and freed meanwhile, which a driver may let wait.
    for kind in ["violation", "leak", "kernel"] {
        assert!(log.of(kind).is_empty(), "{log:?}");
    }
    assert_eq!(
        log.calls("cuMemsetD8Async"),
        0,
        "a fill is a kernel of the driver, which finds no room either"
    );
}

#[test]
fn mapped_doorbells_that_are_dead_are_an_error_of_one_line() {
    played("io-memory=dead", |fake_driver| {
        fake_driver.child(|| {
            let ssd = Function::new("size=8m,queues=1").open(choice(DoorbellChoice::Mapped));
            let error = attached(&ssd).expect_err("dead doorbells");
            let expected = "for kernels: mapped was asked for, and a kernel's store to the mapped doorbell brought no \
                            completion within 100ms";
            assert!(error.starts_with("doorbells of soft:") && error.ends_with(expected), "{error}");
            assert!(!error.contains('\n'));
            // Nothing of the Flush that was never rung is left: the only queue can be had again.
            ssd.attach(&AttachOptions::new()).expect("the processors store to the page itself");
            assert_eq!(ssd.violations(), []);
        })
    });
}

/// Data in a BAR, completions in host memory: what kernels read between the two is a register.
fn data_apart(choice: DoorbellChoice) -> Result<OrderPolicy, String> {
    let memory = ForeignMemory::new("bar:fake", Window::host(4 << 20).expect("memory"));
    let options = OpenOptions::new().doorbells(choice).data(DataPlacement::Foreign(memory));
    let ssd = Function::new("size=8m").open(options);
    let attachment = ssd.attach(&AttachOptions::new().target(GPU)).map_err(|error| error.to_string())?;
    Ok(attachment.order())
}

fn refused_for_its_registers(choice: DoorbellChoice) {
    let refused = data_apart(choice).expect_err("no order");
    assert!(refused.contains("kernels cannot read registers of the controller"), "{refused}");
}

#[test]
fn registers_behind_a_dead_bar_keep_no_order() {
    played("io-memory=dead", |fake_driver| {
        fake_driver.child(|| refused_for_its_registers(DoorbellChoice::Auto))
    });
}

#[test]
fn registers_that_nobody_has_proven_keep_no_order() {
    played("", |fake_driver| {
        fake_driver.child(|| {
            refused_for_its_registers(DoorbellChoice::Forwarded);
            // A busy machine may take longer for the proof than it has.
            let proven = |policy: Result<OrderPolicy, String>| match policy {
                Ok(OrderPolicy::Flush { data: true }) => true,
                Err(error) if error.contains("kernels cannot read registers") => false,
                wrong => panic!("{wrong:?}"),
            };
            assert!((0..5).any(|_| proven(data_apart(DoorbellChoice::Auto))));
        })
    });
}

#[test]
fn forwarded_doorbells_register_no_bar() {
    played("io-memory=no", |fake_driver| {
        fake_driver.child(|| {
            let ssd = Function::new("size=8m").open(choice(DoorbellChoice::Forwarded));
            assert_eq!(attached(&ssd), Ok((DoorbellPath::Forwarded, String::new())), "none was refused");
            works(&ssd);
        })
    });
}

#[test]
fn doorbells_that_no_way_reaches_are_told_with_both() {
    played("io-memory=dead", |fake_driver| {
        fake_driver.child(|| {
            let function = Function { deaf: true, ..Function::new("size=8m") };
            let ssd = function.open(OpenOptions::new());
            let error = attached(&ssd).expect_err("no way");
            for words in ["within 100ms; ", "forwarded by a CPU thread it was not answered within 5s either"]
            {
                assert!(error.contains(words), "{error}");
            }
        })
    });
}

#[test]
fn shadow_doorbells_hide_the_register_and_are_forwarded() {
    played("", |fake_driver| {
        fake_driver.child(|| {
            let function = Function::new("size=8m,dbbuf=on");
            let ssd = function.open(OpenOptions::new().doorbell_buffer(DoorbellBuffer::On));
            let (path, refused) = attached(&ssd).expect("attaches");
            assert_eq!(path, DoorbellPath::Forwarded);
            assert!(refused.contains("shadow doorbells hide"), "{refused}");
            works(&ssd);
        })
    });
}

#[test]
fn what_cannot_be_had_is_refused_by_name_when_the_ssd_is_opened() {
    let ssd = Ssd::open(&"soft:size=1m".parse().expect("a name"), &choice(DoorbellChoice::Forwarded));
    let error = ssd.err().expect("memory");
    let text = error.to_string();
    assert!(
        text.starts_with("doorbells forwarded: soft:size=1m: ") && text.contains("nothing forwards them"),
        "{text}"
    );
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn the_cpu_target_is_forwarded_for_where_it_is_asked_for() {
    let ssd = Function::new("size=8m").open(choice(DoorbellChoice::Forwarded));
    let attachment = ssd.attach(&AttachOptions::new()).expect("attaches");
    assert_eq!(attachment.doorbell_path(), (DoorbellPath::Forwarded, None));
    drop(attachment);
    suite::apis_on(Target::Cpu, &ssd, 1, &[Api::Io]);
    assert_eq!(ssd.violations(), []);
}
