//! A soft controller on a socket, served by a thread of this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tempfile::TempDir;
use warpbell::{DeviceName, OpenOptions, Ssd};
use warpbell_softctl::{FaultPlan, SoftConfig, SoftDevice};
use warpbell_vfio::user::{Server, ServerEvent, ServerOptions, UserOptions};

/// Longer than anything takes that ends at all.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A server until it is dropped.
pub struct Served {
    pub soft: Arc<SoftDevice>,
    /// What happened, a line each.
    pub events: Arc<Mutex<Vec<String>>>,
    directory: TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Serves a controller of that configuration.
    pub fn new(config: &str, options: ServerOptions) -> Served {
        Served::of(SoftConfig::parse(config).expect("a configuration"), options)
    }

    /// A controller so slow, after a while, that nothing long ends before it is disturbed.
    pub fn slow(options: ServerOptions) -> Served {
        Served::delayed("20ms", options)
    }

    /// A controller that after a while does not answer before it is killed, however long that takes.
    pub fn stalled(options: ServerOptions) -> Served {
        Served::delayed("3600s", options)
    }

    fn delayed(by: &str, options: ServerOptions) -> Served {
        let plan = format!("[[fault]]\nkind = \"delay\"\nby = \"{by}\"\nopcode = \"read\"\nafter = 5000\n");
        let mut config = SoftConfig::parse("size=16m").expect("a configuration");
        config.faults = FaultPlan::from_toml(&plan).expect("a plan");
        Served::of(config, options)
    }

    fn of(config: SoftConfig, options: ServerOptions) -> Served {
        let soft = SoftDevice::threaded(config).expect("starts");
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::bind(&directory.path().join("sock"), soft.clone(), options).expect("listens");
        let (stop, events) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (told, log) = (stop.clone(), events.clone());
        let thread = std::thread::spawn(move || {
            let watch = |event| match event {
                ServerEvent::Come { client } => log.lock().push(format!("{client} came")),
                ServerEvent::Gone { client, ended, .. } => log.lock().push(format!("{client} gone: {ended}")),
                ServerEvent::Tick | ServerEvent::Unreachable { .. } => {}
            };
            server.run(&told, watch).expect("serves");
        });
        Served { soft, events, directory, stop, thread: Some(thread) }
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("sock")
    }

    /// A client with the default options.
    pub fn open(&self) -> Arc<Ssd> {
        Arc::new(open(&self.socket(), &UserOptions::default()).expect("opens"))
    }

    /// Waits for an event.
    pub fn wait_for(&self, event: &str) {
        until(event, || self.events.lock().iter().any(|line| line.starts_with(event)));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(
            std::thread::panicking() || ended.is_some_and(|result| result.is_ok()),
            "the server ended well"
        );
    }
}

/// Opens whatever serves on a socket.
pub fn open(socket: &Path, vfio_user: &UserOptions) -> Result<Ssd, warpbell::Error> {
    let options = OpenOptions::new().vfio_user(vfio_user.clone());
    Ssd::open(&DeviceName::VfioUser(socket.to_owned()), &options)
}

/// Waits for what another thread or process does.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < LIMIT, "waited {LIMIT:?} for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
