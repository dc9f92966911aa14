//! The vfio-user client, against a server that says anything: answers that are right, spoilt, late, twice or for another
//! request, requests of its own for the client's memory, noise, any descriptors. The client does not panic or hang, each
//! call ends within the time that it was given, and no descriptor or thread is left at the end.

mod server;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::{Device, DmaAccess, DmaSource, DoorbellKind, Iova, Qid, ResetKind, Window};
use warpbell_nvme::register::offset;
use warpbell_vfio::user::{UserDevice, UserOptions};

use crate::choices::Choices;
use crate::files;
use server::Server;

/// How long the client waits for an answer. So long does every answer that is not given hold the target up.
const TIMEOUT: Duration = Duration::from_millis(60);
/// Calls of the client.
const CALLS: usize = 40;

thread_local! {
    /// Memory that is mapped: a file, as all host memory is.
    static MEMORY: Window = Window::host(64 << 10).expect("memory");
}

/// A server that the input makes up, for the vfio-user client. The first half of the input is what the server says, the
/// second what the client is asked to do.
pub fn vfio_user_client(input: &[u8]) {
    // It is a file, which stays open.
    MEMORY.with(|_| ());
    let before = files::open_files();
    let (servers, clients) = input.split_at(input.len() / 2);
    let (ours, theirs) = UnixStream::pair().expect("two sockets");
    let server = Server::start(theirs, servers);
    let mut choices = Choices::new(clients);
    let options = UserOptions::new().timeout(TIMEOUT).message_doorbells(choices.one_in(2));
    match UserDevice::connected(ours, Path::new("fuzz"), &options) {
        Ok(device) => Client { device, mapped: Vec::new() }.run(&mut choices),
        Err(error) => assert!(!error.to_string().is_empty(), "an error that says nothing"),
    }
    server.end();
    let after = files::open_files();
    assert_eq!(after, before, "descriptors are open that were not before");
}

/// Who calls the client.
struct Client {
    device: Arc<UserDevice>,
    mapped: Vec<(Iova, u64)>,
}

impl Client {
    fn run(mut self, choices: &mut Choices) {
        for _ in 0..CALLS {
            if choices.is_spent() || self.device.ended().is_some() {
                break;
            }
            self.call(choices);
        }
        let space = self.device.dma();
        for (iova, len) in self.mapped.drain(..) {
            let _ = space.unmap(iova, len);
        }
    }

    fn call(&mut self, choices: &mut Choices) {
        let registers = self.device.registers();
        match choices.byte() {
            0..30 => drop(registers.read32(choices.u16().into())),
            30..50 => drop(registers.read64(choices.pick(&[offset::CAP, offset::ASQ, 0x1000]))),
            50..80 => registers.write32(choices.pick(&[offset::CC, offset::AQA, 0x3000]), choices.u32()),
            80..90 => registers.write64(offset::ASQ, choices.u64()),
            90..130 => self.map(choices),
            130..150 => self.unmap(choices),
            150..170 => {
                let vector = choices.u16() % 80;
                let event: Result<OwnedFd, _> = self.device.interrupts().subscribe(vector);
                told(event);
            }
            170..180 => told(self.device.reset().reset(ResetKind::Function)),
            180..215 => self.ring(choices),
            215..235 => self.controller_memory(choices),
            _ => {
                assert!(self.device.info().name.starts_with("vfio-user:"));
                let _ = (self.device.pci_id(), self.device.why_forwarded(), self.device.interrupts().count());
            }
        }
    }

    fn map(&mut self, choices: &mut Choices) {
        let (space, access) = (self.device.dma(), choices.pick(&[DmaAccess::READ_WRITE, DmaAccess::READ]));
        let (from, len) = (choices.pick(&[0, 4096, 100, 8192]), choices.pick(&[4096, 8192, 0, 65536]));
        let window = MEMORY.with(|memory| memory.slice(from, len));
        let mapped = match window {
            Ok(window) if !choices.one_in(4) => space.map(DmaSource::Memory(&window), access),
            _ => {
                let (file, len) = (files::any(choices), len as u64);
                space.map(DmaSource::File { fd: file.as_fd(), offset: from as u64, len }, access)
            }
        };
        if let Ok(iova) = mapped.inspect_err(|error| assert!(!error.to_string().is_empty())) {
            let overlaps =
                |(other, bytes): &(Iova, u64)| iova.0 < other.0 + bytes && other.0 < iova.0 + len as u64;
            assert!(!self.mapped.iter().any(overlaps), "{iova} is mapped twice: {:x?}", self.mapped);
            self.mapped.push((iova, len as u64));
        }
    }

    fn unmap(&mut self, choices: &mut Choices) {
        let count = self.mapped.len() as u32;
        if count == 0 || choices.one_in(6) {
            let space = self.device.dma();
            assert!(space.unmap(Iova(choices.u64() | 1), 4096).is_err(), "nothing was mapped there");
            return;
        }
        let (iova, len) = self.mapped[choices.below(count) as usize];
        if self.device.dma().unmap(iova, len).is_ok() {
            self.mapped.retain(|(other, _)| *other != iova);
        }
    }

    fn ring(&mut self, choices: &mut Choices) {
        let (qid, value) = (Qid(choices.number(8) as u16), choices.u32());
        let kind = if choices.one_in(2) { DoorbellKind::CqHead } else { DoorbellKind::SqTail };
        match self.device.doorbells().doorbell(qid, kind) {
            Ok(doorbell) => drop(doorbell.ring(value)),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    fn controller_memory(&mut self, choices: &mut Choices) {
        let Some(window) = self.device.controller_memory() else { return };
        let at = choices.number(4096) as usize;
        let byte = window.slice(at, 1).map(|one| one.load_u8(0, std::sync::atomic::Ordering::Relaxed));
        assert_eq!(byte.is_ok(), at < window.len(), "the window says how long it is");
    }
}

fn told<T, E: std::fmt::Display>(result: Result<T, E>) {
    if let Err(error) = result {
        assert!(!error.to_string().is_empty(), "an error that says nothing");
    }
}
