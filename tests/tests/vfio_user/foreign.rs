//! Servers of others, as libvfio-user and SPDK's target are on the wire: 16 DMA regions and no more, an MSI-X table that
//! cannot be read or written, answers with more room than they need.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::io::Errno;
use warpbell::Ssd;
use warpbell_hw::Window;
use warpbell_tests::suite;
use warpbell_vfio::user::socket::{Limits, Message, Socket};
use warpbell_vfio::user::wire::{Capabilities, Command, Header, RegionAccess, Version, fixed};
use warpbell_vfio::user::{ServerOptions, UserOptions};

use crate::served::{LIMIT, Served, open};

/// DMA regions that the server takes.
const REGIONS: usize = 16;
/// Where the MSI-X table lies.
const TABLE: u32 = 4;
/// Bytes behind what each answer needs.
const PADDING: usize = 512;
const MOST: Limits = Limits { payload: 2 << 20, fds: 16 };

/// What the client did.
#[derive(Clone, Debug, Default)]
struct Seen {
    regions: usize,
    refused_regions: usize,
    refused_table: usize,
}

/// Stands between our client and our server, and makes of the server what others are.
struct Foreign {
    seen: Arc<Mutex<Seen>>,
    socket: PathBuf,
    thread: Option<JoinHandle<()>>,
    served: Served,
    _directory: tempfile::TempDir,
}

impl Foreign {
    /// In front of a controller of that configuration, for one client.
    fn new(config: &str) -> Foreign {
        let served = Served::new(config, ServerOptions::default());
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("sock");
        let listener = UnixListener::bind(&socket).expect("listens");
        let (seen, inner) = (Arc::new(Mutex::new(Seen::default())), served.socket());
        let told = seen.clone();
        let thread = thread::spawn(move || {
            let client = Socket::new(listener.accept().expect("a client").0);
            let server = Socket::new(UnixStream::connect(inner).expect("the server"));
            while let Ok(message) = client.receive(MOST, Instant::now() + LIMIT) {
                let answer = answer(&mut told.lock(), &server, &message);
                send(&client, answer.header, &answer.payload, &answer.fds);
            }
        });
        Foreign { seen, socket, thread: Some(thread), served, _directory: directory }
    }

    fn open(&self) -> Arc<Ssd> {
        Arc::new(open(&self.socket, &UserOptions::default()).expect("opens"))
    }

    fn seen(&self) -> Seen {
        self.seen.lock().clone()
    }

    /// The client is gone: nothing of it is left, and it broke no rule.
    fn end(mut self) -> Seen {
        self.thread.take().expect("once").join().expect("ended well");
        assert_eq!(self.served.soft.violations(), []);
        self.seen()
    }
}

fn send(to: &Socket, header: Header, payload: &[u8], fds: &[OwnedFd]) {
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    // A peer that is gone ends the loop at the next receive.
    let _ = to.send(header, &[payload], &fds, Instant::now() + LIMIT);
}

/// The answer of the server that is shown.
fn answer(seen: &mut Seen, server: &Socket, request: &Message) -> Message {
    let command = request.header.command();
    let refused = |errno: Errno| Message {
        header: request.header.refusal(errno.raw_os_error().unsigned_abs()),
        payload: Vec::new(),
        fds: Vec::new(),
    };
    if command == Some(Command::DmaMap) && seen.regions == REGIONS {
        seen.refused_regions += 1;
        return refused(Errno::INVAL);
    }
    if matches!(command, Some(Command::RegionRead | Command::RegionWrite)) {
        let access: RegionAccess = fixed("access", &request.payload).expect("an access");
        if access.region == TABLE {
            seen.refused_table += 1;
            return refused(Errno::INVAL);
        }
    }
    send(server, request.header, &request.payload, &request.fds);
    let reply = server.receive(MOST, Instant::now() + LIMIT).expect("an answer");
    if reply.header.refused().is_some() {
        return reply;
    }
    match command {
        Some(Command::DmaMap) => seen.regions += 1,
        Some(Command::DmaUnmap) => seen.regions -= 1,
        _ => {}
    }
    padded(command, request.header, reply)
}

/// An answer with room behind it, and an `argsz` that counts that too.
fn padded(command: Option<Command>, request: Header, reply: Message) -> Message {
    let Message { mut payload, fds, .. } = reply;
    let sized = matches!(
        command,
        Some(Command::DeviceGetInfo | Command::DeviceGetRegionInfo | Command::DeviceGetIrqInfo)
    );
    if command == Some(Command::Version) {
        let version = Version::decode(&payload).expect("a version");
        // libvfio-user says nothing of how many regions there may be.
        let capabilities = Capabilities { max_dma_maps: None, ..version.capabilities };
        payload = Version { capabilities, ..version }.encode();
    }
    payload.resize(payload.len() + PADDING, 0);
    if sized {
        // The first field of each of them.
        let argsz = payload.len() as u32 + 0x1_0000;
        payload[..4].copy_from_slice(&argsz.to_ne_bytes());
    }
    Message { header: request.reply(payload.len()), payload, fds }
}

#[test]
fn eight_host_queues_and_eight_of_kernels_fit_into_sixteen_regions() {
    let foreign = Foreign::new("size=32m");
    let ssd = foreign.open();
    suite::host_queues_and_those_of_kernels(&ssd);
    drop(ssd);
    let seen = foreign.end();
    assert_eq!((seen.refused_regions, seen.regions), (0, 0), "{seen:?}");
}

#[test]
fn a_table_that_takes_no_writes_is_no_reason_to_go_without_interrupts() {
    let foreign = Foreign::new("size=16m");
    let ssd = foreign.open();
    suite::interrupts_and_polling(&ssd);
    ssd.controller().reset().expect("resets");
    suite::works(&ssd);
    drop(ssd);
    assert!(foreign.end().refused_table > 0, "it was tried");
}

#[test]
fn what_a_server_refuses_is_named_with_socket_message_and_errno() {
    let foreign = Foreign::new("size=16m");
    let ssd = foreign.open();
    // Memory of the user's lies where it lies: it has a region of its own.
    let mut held = Vec::new();
    let text = loop {
        match ssd.register(Window::host(4096).expect("memory")) {
            Ok(buffer) => held.push(buffer),
            Err(error) => break error.to_string(),
        }
        assert!(held.len() < REGIONS);
    };
    let socket = foreign.socket.display().to_string();
    for part in [&socket, "DMA_MAP of 4096 bytes", "Invalid argument", "16 DMA regions"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(held);
    suite::works(&ssd);
    drop(ssd);
    assert_eq!(foreign.end().refused_regions, 1);
}
