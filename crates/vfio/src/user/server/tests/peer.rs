//! A client that says what a test wants it to say, and a server for it.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::fake::Fake;
use crate::user::socket::{Limits, Message, Socket};
use crate::user::wire::*;
use crate::user::{DoorbellMode, Server, ServerEvent, ServerOptions};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub struct Bench {
    pub fake: Arc<Fake>,
    pub path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub fn new(fake: Arc<Fake>, doorbells: DoorbellMode) -> Bench {
        let patience = Duration::from_millis(200);
        Bench::with(fake, ServerOptions { doorbells, patience, clients: None })
    }

    pub fn with(fake: Arc<Fake>, options: ServerOptions) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let server = Server::bind(&path, fake.clone(), options).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut events = Vec::new();
            let watch = |event| match event {
                ServerEvent::Tick => {}
                ServerEvent::Unreachable { client, address, size } => {
                    events.push(format!("{client} mapped {size:#x} at {address:#x} without a file"));
                }
                ServerEvent::Come { client } => events.push(format!("{client} came")),
                ServerEvent::Gone { client, ended, .. } => events.push(format!("{client} gone: {ended}")),
            };
            server.run(&flag, watch).unwrap();
            events
        });
        Bench { fake, path, stop, thread: Some(thread), _folder: folder }
    }

    /// A client that has not said anything.
    pub fn stranger(&self) -> Peer {
        Peer { socket: Socket::new(UnixStream::connect(&self.path).unwrap()), id: 7 }
    }

    /// A client that has agreed on the protocol.
    pub fn client(&self) -> Peer {
        let mut peer = self.stranger();
        let version = Version { major: 0, minor: 1, capabilities: Capabilities::default() };
        peer.ask(Command::Version, &version.encode()).unwrap();
        peer
    }

    /// Stops the server; says what happened.
    pub fn stop(mut self) -> Vec<String> {
        self.stop.store(true, Ordering::Release);
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until so many clients are gone.
    pub fn wait_gone(&self, count: u32) {
        let deadline = Instant::now() + PATIENCE;
        while self.fake.gone.load(Ordering::Acquire) < count {
            assert!(Instant::now() < deadline, "the client stays");
            std::thread::yield_now();
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// A client.
pub struct Peer {
    pub socket: Socket,
    id: u16,
}

impl Peer {
    pub fn send(&mut self, header: Header, payload: &[u8], fds: &[&OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.socket.send(header, &[payload], &fds, Instant::now() + PATIENCE).unwrap();
    }

    pub fn receive(&mut self) -> Message {
        let limits = Limits { payload: 2 << 20, fds: 16 };
        self.socket.receive(limits, Instant::now() + PATIENCE).unwrap()
    }

    /// Sends a command; its reply, or the errno of the refusal.
    pub fn ask_with(
        &mut self,
        command: Command,
        payload: &[u8],
        fds: &[&OwnedFd],
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), u32> {
        self.ask_number(command as u16, payload, fds)
    }

    pub fn ask_number(
        &mut self,
        number: u16,
        payload: &[u8],
        fds: &[&OwnedFd],
    ) -> Result<(Vec<u8>, Vec<OwnedFd>), u32> {
        self.id += 1;
        let header = Header { number, ..Header::request(self.id, Command::Version, payload.len()) };
        self.send(header, payload, fds);
        let reply = self.receive();
        assert!(reply.header.is_reply());
        assert_eq!((reply.header.id, reply.header.number), (self.id, number));
        match reply.header.refused() {
            None => Ok((reply.payload, reply.fds)),
            Some(errno) => {
                assert_eq!((reply.payload.len(), reply.fds.len()), (0, 0), "a refusal is a bare header");
                Err(errno)
            }
        }
    }

    pub fn ask(&mut self, command: Command, payload: &[u8]) -> Result<Vec<u8>, u32> {
        self.ask_with(command, payload, &[]).map(|(payload, _)| payload)
    }

    /// Sends a structure; the reply is one of the same kind.
    pub fn ask_for<T: IntoBytes + Immutable + FromBytes>(
        &mut self,
        command: Command,
        ask: &T,
    ) -> Result<T, u32> {
        let payload = self.ask(command, ask.as_bytes())?;
        Ok(T::read_from_bytes(&payload).expect("a reply of the right length"))
    }

    pub fn read(&mut self, region: u32, offset: u64, count: u32) -> Result<Vec<u8>, u32> {
        let access = RegionAccess { offset, region, count };
        let mut reply = self.ask(Command::RegionRead, access.as_bytes())?;
        let data = reply.split_off(16);
        assert_eq!((reply, data.len()), (access.as_bytes().to_vec(), count as usize));
        Ok(data)
    }

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), u32> {
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        let reply = self.ask(Command::RegionWrite, &[access.as_bytes(), data].concat())?;
        assert_eq!(reply, access.as_bytes());
        Ok(())
    }

    pub fn region(&mut self, index: u32) -> (RegionDescription, Vec<OwnedFd>) {
        let ask = RegionInfo { argsz: 4096, index, ..RegionInfo::default() };
        let (payload, fds) = self.ask_with(Command::DeviceGetRegionInfo, ask.as_bytes(), &[]).unwrap();
        (RegionDescription::decode(&payload).unwrap(), fds)
    }

    pub fn map(&mut self, address: u64, size: u64, offset: u64, fd: Option<&OwnedFd>) -> Result<(), u32> {
        let flags = DmaFlags::READ | DmaFlags::WRITE;
        let map = DmaMap { argsz: 32, flags, offset, address, size };
        let fds: Vec<_> = fd.into_iter().collect();
        self.ask_with(Command::DmaMap, map.as_bytes(), &fds).map(|(payload, _)| assert!(payload.is_empty()))
    }

    pub fn unmap(&mut self, address: u64, size: u64, flags: u32) -> Result<(), u32> {
        let unmap = DmaUnmap { argsz: 24, flags, address, size };
        assert_eq!(self.ask_for(Command::DmaUnmap, &unmap)?, unmap);
        Ok(())
    }

    pub fn irqs(
        &mut self,
        flags: IrqSetFlags,
        (index, start, count): (u32, u32, u32),
        data: &[u8],
        fds: &[&OwnedFd],
    ) -> Result<(), u32> {
        let set = IrqSet { argsz: (20 + data.len()) as u32, flags, index, start, count };
        self.ask_with(Command::DeviceSetIrqs, &[set.as_bytes(), data].concat(), fds).map(drop)
    }
}
