//! Servers for tests of the client: a script that sends what it likes, and a small function with configuration space
//! and registers.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use zerocopy::IntoBytes;

use super::connection::Connection;
use super::socket::{Limits, Message, Socket, SocketError};
use super::wire::*;
use super::{UserError, UserOptions};

/// The server's end of a connection.
pub(super) struct Peer(pub(super) Socket);

pub(super) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A client's options with a deadline that tests can wait for.
pub(super) fn impatient() -> UserOptions {
    UserOptions { timeout: Duration::from_millis(50), ..UserOptions::default() }
}

impl Peer {
    pub(super) fn receive(&self) -> Result<Message, SocketError> {
        self.0.receive(Limits { payload: 1 << 21, fds: 16 }, soon())
    }

    /// The next message, which must be this.
    pub(super) fn expect(&self, command: Command) -> Message {
        let message = self.receive().unwrap();
        assert_eq!(message.header.command(), Some(command));
        message
    }

    pub(super) fn send(&self, header: Header, payload: &[u8], fds: &[BorrowedFd<'_>]) {
        // A client that is gone is the test's business.
        let _ = self.0.send(header, &[payload], fds, soon());
    }

    pub(super) fn reply(&self, to: &Message, payload: &[u8]) {
        self.send(to.header.reply(payload.len()), payload, &[]);
    }

    pub(super) fn refuse(&self, to: &Message, errno: u32) {
        self.send(to.header.refusal(errno), &[], &[]);
    }

    /// Answers VERSION as most servers do.
    pub(super) fn negotiate(&self) {
        let message = self.expect(Command::Version);
        let capabilities = Capabilities { max_msg_fds: Some(8), ..Capabilities::default() };
        self.reply(&message, &Version { major: 0, minor: 1, capabilities }.encode());
    }
}

/// A connection to a server that does what `script` says, after negotiation.
pub(super) fn scripted(
    options: &UserOptions,
    script: impl FnOnce(Peer) + Send + 'static,
) -> (Connection, JoinHandle<()>) {
    let (result, server) = unscripted(options, |peer| {
        peer.negotiate();
        script(peer);
    });
    (result.unwrap(), server)
}

/// The same without negotiation.
pub(super) fn unscripted(
    options: &UserOptions,
    script: impl FnOnce(Peer) + Send + 'static,
) -> (Result<Connection, UserError>, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || script(Peer(Socket::new(theirs))));
    (Connection::over(ours, Path::new("/test.sock"), options), server)
}

/// What a small server has and has seen.
#[derive(Default)]
pub(super) struct Model {
    pub(super) config: Vec<u8>,
    /// Registers in units of 4 bytes by offset.
    pub(super) registers: HashMap<u64, u32>,
    pub(super) regions: Vec<RegionDescription>,
    /// The file of region 0.
    pub(super) file: Option<OwnedFd>,
    pub(super) flags: DeviceFlags,
    pub(super) vectors: u32,
    /// Commands to refuse, and with what.
    pub(super) refuse: HashMap<Command, u32>,
    /// Writes to region 0, in order.
    pub(super) writes: Vec<(u64, Vec<u8>)>,
    pub(super) events: HashMap<u32, OwnedFd>,
    pub(super) mappings: Vec<DmaMap>,
    pub(super) resets: u32,
    /// Bytes behind what each reply needs, which `argsz` counts too.
    pub(super) padding: usize,
    /// Accesses of BAR 0 from here on are refused.
    pub(super) no_access_from: Option<u64>,
    /// DMA regions that it takes.
    pub(super) most_mappings: Option<usize>,
}

impl Model {
    /// An NVMe function as QEMU has it: BARs have no place, MSI-X is off and masked. BAR 0 cannot be mapped.
    pub(super) fn new() -> Model {
        let access = RegionFlags::READ | RegionFlags::WRITE;
        let mut regions: Vec<RegionDescription> =
            (0..9).map(|index| RegionDescription { index, ..RegionDescription::default() }).collect();
        (regions[0].flags, regions[0].size) = (access, 0x4000);
        (regions[7].flags, regions[7].size) = (access, 256);
        let mut config = vec![0; 256];
        config[..4].copy_from_slice(&[0x36, 0x1b, 0x10, 0x00]);
        config[6] = 0x10;
        config[0x10] = 0x04;
        config[0x34] = 0x40;
        config[0x40..0x4c].copy_from_slice(&[0x11, 0, 7, 0, 0, 0x20, 0, 0, 0, 0x30, 0, 0]);
        let flags = DeviceFlags::PCI | DeviceFlags::RESET;
        let registers = HashMap::from([(0, 0x0f01_07ff), (4, 0x20)]);
        Model { config, registers, regions, flags, vectors: 8, ..Model::default() }
    }

    /// Serves one client until it goes.
    pub(super) fn serve(self) -> (UnixStream, Arc<Mutex<Model>>, JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let model = Arc::new(Mutex::new(self));
        let shared = model.clone();
        let thread = std::thread::spawn(move || {
            let peer = Peer(Socket::new(theirs));
            peer.negotiate();
            while let Ok(message) = peer.receive() {
                shared.lock().answer(&peer, message);
            }
        });
        (ours, model, thread)
    }

    fn answer(&mut self, peer: &Peer, mut message: Message) {
        let command = message.header.command().unwrap();
        if let Some(errno) = self.refuse.get(&command) {
            return peer.refuse(&message, *errno);
        }
        let payload = message.payload.clone();
        let padding = self.padding as u32;
        match command {
            Command::DeviceGetInfo => {
                let (argsz, regions) = (16 + padding, self.regions.len() as u32);
                let info = DeviceInfo { argsz, flags: self.flags, regions, irqs: irq::COUNT };
                self.reply(peer, &message, info.as_bytes());
            }
            Command::DeviceGetRegionInfo => {
                let request: RegionInfo = fixed("request", &payload).unwrap();
                let region = &self.regions[request.index as usize];
                let mut bytes = region.encode(request.argsz);
                let needed = region.payload_bytes() as u32;
                bytes[..4].copy_from_slice(&(needed + padding).to_ne_bytes());
                bytes.resize(bytes.len() + self.padding, 0);
                let fds: Vec<_> = self.file.iter().filter(|_| request.index == 0).map(AsFd::as_fd).collect();
                peer.send(message.header.reply(bytes.len()), &bytes, &fds);
            }
            Command::DeviceGetIrqInfo => {
                let request: IrqInfo = fixed("request", &payload).unwrap();
                let argsz = 16 + padding;
                let info = IrqInfo { argsz, flags: IrqFlags::EVENTFD, count: self.vectors, ..request };
                self.reply(peer, &message, info.as_bytes());
            }
            Command::DeviceSetIrqs => {
                let (set, _): (IrqSet, _) = take("request", &payload).unwrap();
                self.events.insert(set.start, message.fds.remove(0));
                self.reply(peer, &message, &[]);
            }
            Command::DmaMap => {
                if self.most_mappings.is_some_and(|most| self.mappings.len() >= most) {
                    return peer.refuse(&message, 22);
                }
                self.mappings.push(fixed("request", &payload).unwrap());
                self.reply(peer, &message, &[]);
            }
            Command::DmaUnmap => {
                let unmap: DmaUnmap = fixed("request", &payload).unwrap();
                self.mappings.retain(|map| map.address != unmap.address);
                self.reply(peer, &message, &payload);
            }
            Command::RegionRead => {
                let access: RegionAccess = fixed("request", &payload).unwrap();
                if self.refuses(&access) {
                    return peer.refuse(&message, 22);
                }
                let data = self.read(access);
                self.reply(peer, &message, &[access.as_bytes(), &data[..]].concat());
            }
            Command::RegionWrite => {
                let (access, data): (RegionAccess, _) = take("request", &payload).unwrap();
                if self.refuses(&access) {
                    return peer.refuse(&message, 22);
                }
                self.write(access, data);
                self.reply(peer, &message, access.as_bytes());
            }
            Command::DeviceReset => {
                self.resets += 1;
                self.config[4..6].fill(0);
                self.config[0x10..0x28].fill(0);
                self.config[0x10] = 4;
                self.reply(peer, &message, &[]);
            }
            other => panic!("{other}"),
        }
    }

    /// A reply with as much padding as this server likes.
    fn reply(&self, peer: &Peer, to: &Message, payload: &[u8]) {
        peer.reply(to, &[payload, &vec![0; self.padding]].concat());
    }

    fn refuses(&self, access: &RegionAccess) -> bool {
        access.region == 0 && self.no_access_from.is_some_and(|from| access.offset >= from)
    }

    fn read(&self, access: RegionAccess) -> Vec<u8> {
        let (at, count) = (access.offset, u64::from(access.count));
        if access.region == region_index::CONFIG {
            return self.config[at as usize..(at + count) as usize].to_vec();
        }
        // As QEMU does: nothing answers before BAR 0 has a place and memory decode is on.
        let decoded = self.config[4] & 2 != 0 && self.config[0x12..0x18].iter().any(|byte| *byte != 0);
        let word = |at| if decoded { self.registers.get(&at).copied().unwrap_or(0) } else { 0 };
        (at..at + count).step_by(4).flat_map(|at| word(at).to_le_bytes()).collect()
    }

    fn write(&mut self, access: RegionAccess, data: &[u8]) {
        if access.region == region_index::CONFIG {
            let at = access.offset as usize;
            self.config[at..at + data.len()].copy_from_slice(data);
        } else {
            self.writes.push((access.offset, data.to_vec()));
        }
    }
}
