//! The vfio-user server, with a soft controller behind it, and a client that says anything: messages of any kind, whole,
//! cut off or spoilt, with any descriptors. The server does not panic or hang, answers every request once, keeps no
//! descriptor of a client that is gone, and serves the next client as if nothing had been.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpbell_hw::{Device, Endpoint};
use warpbell_nvme::register::{Aqa, Cc, offset};
use warpbell_softctl::{DoorbellBufferMode, NamespaceConfig, SoftConfig, SoftDevice};
use warpbell_vfio::user::socket::Socket;
use warpbell_vfio::user::wire::{
    Capabilities, Command, DmaFlags, DmaMap, DmaUnmap, Header, IrqSet, IrqSetFlags, RegionAccess, Version,
    region_index,
};
use warpbell_vfio::user::{DoorbellMode, Ended, ServerOptions, Visit};
use zerocopy::{FromZeros, IntoBytes};

use crate::choices::Choices;
use crate::files;

/// How long the server waits for the rest of a message.
const PATIENCE: Duration = Duration::from_millis(3);
/// Messages of one client.
const MESSAGES: usize = 60;
/// Where the client's memory lies, and how long it is.
const MEMORY: (u64, u64) = (0x10_0000, 0x1_0000);

/// A client of the vfio-user server that the input makes up.
pub fn vfio_user_server(input: &[u8]) {
    let before = files::open_files();
    let mut choices = Choices::new(input);
    let device = device(&mut choices);
    if let Some(mut client) = Client::come(&mut choices, device.clone()) {
        for _ in 0..MESSAGES {
            if choices.is_spent() || client.say(&mut choices).is_err() {
                break;
            }
            (0..choices.byte() % 32).for_each(|_| _ = device.step());
        }
    }
    next_client(device.clone());
    drop(device);
    let after = files::open_files();
    assert_eq!(after, before, "descriptors are open that were not before");
}

fn device(choices: &mut Choices) -> Arc<SoftDevice> {
    let on = choices.byte();
    SoftDevice::stepped(
        SoftConfig::new()
            .namespaces(vec![NamespaceConfig::memory(64 << 10, 512)])
            .queue_pairs(4)
            .controller_memory(if on & 1 == 1 { 64 << 10 } else { 0 })
            .doorbell_buffer(if on & 2 == 2 { DoorbellBufferMode::On } else { DoorbellBufferMode::Off })
            .stride(on >> 2 & 3),
    )
    .expect("a valid configuration")
}

fn options(choices: &mut Choices) -> ServerOptions {
    let doorbells = if choices.one_in(3) { DoorbellMode::Message } else { DoorbellMode::Mapped };
    ServerOptions::new().doorbells(doorbells).patience(PATIENCE).clients(None)
}

/// A well behaved client is served, and finds the registers as after a reset.
fn next_client(device: Arc<SoftDevice>) {
    let mut choices = Choices::new(&[]);
    let mut client = Client::come(&mut choices, device.clone()).expect("the next client is let in");
    let access = RegionAccess { offset: 0, region: region_index::BAR0, count: 8 };
    let reply = client.ask(Command::RegionRead, access.as_bytes(), &[]).expect("the next client is answered");
    let cap = device.registers().read64(offset::CAP);
    assert_eq!(reply.get(16..), Some(&cap.to_le_bytes()[..]), "CAP, as the next client reads it");
    let cc = device.registers().read32(offset::CC);
    assert_eq!(cc & 1, 0, "the controller is still enabled for the next client");
}

/// A client and its server, in one thread.
struct Client {
    stream: UnixStream,
    socket: Socket,
    visit: Visit,
    memory: OwnedFd,
    next: u16,
    doorbell: u64,
}

impl Client {
    /// Connects, and says which version it speaks, or something else.
    fn come(choices: &mut Choices, device: Arc<SoftDevice>) -> Option<Client> {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        ours.set_nonblocking(true).expect("a socket that does not block");
        let socket = Socket::new(ours.try_clone().expect("one more descriptor"));
        let minor = u16::from(choices.byte() % 3);
        let capabilities = Capabilities { write_multiple: Some(true), ..Capabilities::default() };
        let mut payload = Version { major: 0, minor, capabilities }.encode();
        let mut header = Header::request(1, Command::Version, payload.len());
        let wrong = choices.one_in(16);
        if wrong {
            spoil(choices, &mut header, &mut payload);
        }
        let options = options(choices);
        send(&socket, &ours, header, &payload, &[]);
        let doorbell = 4 << device.doorbells().stride();
        let endpoint: Arc<dyn Endpoint> = device;
        let visit = match Visit::begin(theirs, endpoint, &options) {
            Ok(visit) => visit,
            Err(ended) => {
                assert!(wrong, "a good client was turned away: {ended}");
                assert!(!ended.to_string().is_empty());
                return None;
            }
        };
        let mut client =
            Client { stream: ours, socket, visit, memory: files::memory(MEMORY.1), next: 1, doorbell };
        if !wrong {
            let (_, payload) = client.reply().expect("an answer to VERSION");
            Version::decode(&payload).expect("a version");
        } else {
            client.forget_replies();
        }
        (header.size as usize == 16 + payload.len()).then_some(client)
    }

    /// Says something.
    fn say(&mut self, choices: &mut Choices) -> Result<(), Ended> {
        match choices.byte() {
            0..20 => self.map(choices),
            20..40 => self.registers(choices),
            40..50 => self.bring_up(),
            50..90 => self.submit(choices),
            90..110 => self.interrupts(choices),
            _ => self.any(choices),
        }
    }

    /// Memory comes or goes, well formed.
    fn map(&mut self, choices: &mut Choices) -> Result<(), Ended> {
        let address = choices.pick(&[MEMORY.0, 0, 0x20_0000, MEMORY.0 + 0x1000, u64::MAX - 0xfff]);
        let size = choices.pick(&[MEMORY.1, 0x1000, 0x2000]);
        if choices.one_in(3) {
            let unmap = DmaUnmap { argsz: 24, flags: u32::from(choices.byte() & 2), address, size };
            return self.tell(Command::DmaUnmap, unmap.as_bytes(), &[]);
        }
        let flags = if choices.one_in(4) { DmaFlags::READ } else { DmaFlags::READ | DmaFlags::WRITE };
        let offset = choices.pick(&[0, 0x1000, 0x1_0000]);
        let map = DmaMap { argsz: 32, flags, offset, address, size };
        let files =
            if choices.one_in(6) { vec![] } else { vec![self.memory.try_clone().expect("a descriptor")] };
        self.tell(Command::DmaMap, map.as_bytes(), &files)
    }

    /// Reads or writes a region, well formed.
    fn registers(&mut self, choices: &mut Choices) -> Result<(), Ended> {
        let region = choices.pick(&[0, region_index::CONFIG, 2, 4]);
        let offset = choices.number(0x1100) & choices.pick(&[!3, !0, !7]);
        let count = choices.pick(&[4, 8, 1, 2, 16, 4096]);
        let access = RegionAccess { offset, region, count };
        if choices.one_in(2) {
            return self.tell(Command::RegionRead, access.as_bytes(), &[]);
        }
        let mut payload = access.as_bytes().to_vec();
        payload.extend(choices.take(count as usize));
        payload.resize(16 + count as usize, 0);
        self.tell(Command::RegionWrite, &payload, &[])
    }

    fn write(&mut self, region: u32, offset: u64, value: u64, count: u32) -> Result<(), Ended> {
        let access = RegionAccess { offset, region, count };
        let payload = [access.as_bytes(), &value.to_le_bytes()[..count as usize]].concat();
        self.tell(Command::RegionWrite, &payload, &[])
    }

    /// Maps its memory and enables the controller, as a driver would.
    fn bring_up(&mut self) -> Result<(), Ended> {
        let flags = DmaFlags::READ | DmaFlags::WRITE;
        let map = DmaMap { argsz: 32, flags, offset: 0, address: MEMORY.0, size: MEMORY.1 };
        let file = self.memory.try_clone().expect("a descriptor");
        self.tell(Command::DmaMap, map.as_bytes(), &[file])?;
        let aqa = Aqa::new().with_asqs_z(15).with_acqs_z(15);
        let cc = Cc::new().with_iosqes(6).with_iocqes(4).with_en(true);
        for (at, value, count) in [
            (offset::AQA, u64::from(aqa.into_bits()), 4),
            (offset::ASQ, MEMORY.0, 8),
            (offset::ACQ, MEMORY.0 + 0x1000, 8),
            (offset::CC, cc.into_bits().into(), 4),
        ] {
            self.write(region_index::BAR0, at.into(), value, count)?;
        }
        Ok(())
    }

    /// A command in the memory, and a doorbell.
    fn submit(&mut self, choices: &mut Choices) -> Result<(), Ended> {
        let slot = u64::from(choices.below(16));
        let mut entry = [0u8; 64];
        entry[0] = choices.pick(&[6, 2, 0, 1, 5, 9, 10, 4, 8, 12, 0x7c, 0x80]);
        entry[2] = choices.byte();
        entry[4] = choices.byte() & 1;
        entry[24..32].copy_from_slice(&(MEMORY.0 + u64::from(choices.below(16)) * 0x1000).to_le_bytes());
        entry[40..48].copy_from_slice(&choices.u64().to_le_bytes());
        let written = rustix::io::pwrite(&self.memory, &entry, slot * 64);
        written.expect("a file in memory takes bytes");
        let doorbell = choices.pick(&[0, 1, 2, 3]) * self.doorbell;
        self.write(region_index::BAR0, 0x1000 + doorbell, (slot + 1) % 16, 4)
    }

    fn interrupts(&mut self, choices: &mut Choices) -> Result<(), Ended> {
        let flags = choices.pick(&[0b10_0100, 0b10_0001, 0b00_1001, 0b01_0001, 0b10_0010, 0b00_1010]);
        let count = choices.below(4);
        let set = IrqSet {
            argsz: 20,
            flags: IrqSetFlags::from_bits_retain(flags),
            index: choices.pick(&[2, 0, 3, 4]),
            start: choices.below(6),
            count,
        };
        let files = if flags & 4 == 4 { (0..count).map(|_| files::any(choices)).collect() } else { vec![] };
        let mut payload = set.as_bytes().to_vec();
        if flags & 2 == 2 {
            payload.extend(choices.take(count as usize));
        }
        self.tell(Command::DeviceSetIrqs, &payload, &files)
    }

    /// A message of any kind, most often with something wrong.
    fn any(&mut self, choices: &mut Choices) -> Result<(), Ended> {
        let command = choices.pick(&Command::ALL);
        let len = choices.pick(&[32, 24, 16, 20, 0, 40, 8, 64]);
        let mut payload = choices.take(len).to_vec();
        let mut header = Header::request(choices.u16(), command, payload.len());
        if choices.one_in(2) {
            spoil(choices, &mut header, &mut payload);
        }
        let files: Vec<_> = (0..choices.pick(&[0, 0, 0, 1, 2, 17])).map(|_| files::any(choices)).collect();
        if choices.one_in(12) {
            // Cut off: the server waits for the rest, and not for long.
            let bytes = [header.as_bytes(), &payload].concat();
            let end = choices.below(bytes.len() as u32 + 1) as usize;
            let _ = (&self.stream).write(&bytes[..end]);
            self.visit.serve(Instant::now())?;
            return Err(Ended::Left);
        }
        send(&self.socket, &self.stream, header, &payload, &files);
        drop(files);
        self.answered(header)?;
        // What is behind the end of a message begins another one: nobody knows any more where.
        if header.size as usize == 16 + payload.len() { Ok(()) } else { Err(Ended::Left) }
    }

    /// Sends a well formed request; the answer, or nothing where it was refused.
    fn ask(&mut self, command: Command, payload: &[u8], files: &[OwnedFd]) -> Option<Vec<u8>> {
        self.next = self.next.wrapping_add(1);
        let header = Header::request(self.next, command, payload.len());
        send(&self.socket, &self.stream, header, payload, files);
        let served = self.visit.serve(Instant::now());
        assert!(matches!(served, Ok(true)), "{command}: {served:?}");
        let (reply, payload) = self.reply().unwrap_or_else(|| panic!("no reply to {command}"));
        assert_eq!((reply.id, reply.number), (header.id, header.number), "a reply to another message");
        (reply.refused().is_none()).then_some(payload)
    }

    fn tell(&mut self, command: Command, payload: &[u8], files: &[OwnedFd]) -> Result<(), Ended> {
        self.ask(command, payload, files);
        Ok(())
    }

    /// The server takes a message, and answers as its header asks.
    fn answered(&mut self, header: Header) -> Result<(), Ended> {
        let served = self.visit.serve(Instant::now());
        if let Err(ended) = &served {
            assert!(!ended.to_string().is_empty());
        }
        served?;
        match self.reply() {
            Some((reply, _)) => {
                assert!(header.wants_reply(), "a reply that nobody wanted");
                assert_eq!(
                    (reply.id, reply.number),
                    (header.id, header.number),
                    "a reply to another message"
                );
            }
            None => assert!(!header.wants_reply(), "no reply to {}", header.number),
        }
        Ok(())
    }

    /// The next reply, if one is there: all of it.
    fn reply(&mut self) -> Option<(Header, Vec<u8>)> {
        let mut header = Header::new_zeroed();
        if !matches!((&self.stream).read(header.as_mut_bytes()), Ok(16)) {
            return None;
        }
        let mut payload = vec![0; header.payload_bytes()];
        (&self.stream).read_exact(&mut payload).expect("the rest of a reply");
        assert!(header.is_reply(), "the server asks: flags {:#x}", header.flags);
        assert!(header.refused().is_none_or(|errno| errno != 0 && payload.is_empty()), "{header:?}");
        Some((header, payload))
    }

    fn forget_replies(&mut self) {
        let mut bytes = [0; 4096];
        while (&self.stream).read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

/// Changes something about a message.
fn spoil(choices: &mut Choices, header: &mut Header, payload: &mut Vec<u8>) {
    match choices.below(8) {
        0 => header.number = choices.u16(),
        1 => header.size = choices.pick(&[0, 15, 16, 17, 1 << 20, (1 << 20) + 64, u32::MAX]),
        2 => header.flags = choices.u32(),
        3 => header.flags = choices.pick(&[0x10, 0x1, 0x20, 0x2]),
        4 => {
            payload.extend(choices.bytes::<9>());
            header.size = 16 + payload.len() as u32;
        }
        5 => {
            payload.pop();
            header.size = 16 + payload.len() as u32;
        }
        _ => {
            let (at, byte) = (choices.below(64) as usize, choices.byte());
            payload.get_mut(at).into_iter().for_each(|slot| *slot = byte);
        }
    }
}

/// Sends header, payload and descriptors, whatever they say.
fn send(socket: &Socket, stream: &UnixStream, header: Header, payload: &[u8], files: &[OwnedFd]) {
    let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let deadline = Instant::now() + PATIENCE;
    if header.size as usize == 16 + payload.len() {
        // A full socket is the client's own fault.
        let _ = socket.send(header, &[payload], &files, deadline);
        return;
    }
    let _ = (&*stream).write(&[header.as_bytes(), payload].concat());
}

const _: () = assert!(size_of::<Header>() == 16);
