//! The server that the input makes up: a thread that answers what comes, as the input wants it.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use warpbell_nvme::register::Cap;
use warpbell_vfio::user::socket::{Limits, Message, Socket};
use warpbell_vfio::user::wire::{
    Capabilities, Command, DeviceFlags, DeviceInfo, DmaMap, DmaTransfer, Header, IrqFlags, IrqInfo,
    RegionAccess, RegionDescription, RegionFlags, RegionInfo, SparseArea, Version, irq, region_index, take,
};
use zerocopy::{FromZeros, IntoBytes};

use crate::choices::Choices;
use crate::files;

/// How long it waits for the client. It always ends before: the client closes the connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Answers that are not given: each holds the client up for a while.
const MOST_SWALLOWED: u32 = 2;
/// Bytes of BAR 0 and of BAR 2.
const BARS: [u64; 2] = [0x4000, 0x1_0000];

/// The thread.
pub(super) struct Server {
    thread: JoinHandle<()>,
}

impl Server {
    pub(super) fn start(stream: UnixStream, input: &[u8]) -> Server {
        let choices = Choices::new(input);
        let thread = std::thread::spawn(move || Answering::new(stream, choices).run());
        Server { thread }
    }

    /// The client has closed the connection.
    pub(super) fn end(self) {
        self.thread.join().expect("the server that the target plays");
    }
}

struct Answering {
    choices: Choices,
    stream: UnixStream,
    socket: Socket,
    /// The last mapping that it was told of.
    mapped: (u64, u64),
    swallowed: u32,
    /// The registers, by bytes.
    registers: Vec<u8>,
}

impl Answering {
    fn new(stream: UnixStream, mut choices: Choices) -> Answering {
        let socket = Socket::new(stream.try_clone().expect("one more descriptor"));
        stream.set_nonblocking(true).expect("a socket that does not block");
        let mut registers = vec![0; BARS[0] as usize];
        let cap = Cap::new().with_mqes_z(63).with_cqr(true).with_css(1).with_cmbs(choices.one_in(2));
        registers[..8]
            .copy_from_slice(&cap.with_dstrd(choices.pick(&[0, 0, 4, 15])).into_bits().to_le_bytes());
        // CMBLOC and CMBSZ: in BAR 2, of 16 pages.
        registers[0x38..0x40].copy_from_slice(&[2, 0, 0, 0, 1, 0, 1, 0]);
        Answering { choices, stream, socket, mapped: (0x10_0000, 4096), swallowed: 0, registers }
    }

    /// Answers until the connection ends.
    fn run(mut self) {
        let limits = Limits { payload: 2 << 20, fds: 16 };
        while let Ok(message) = self.socket.receive(limits, Instant::now() + PATIENCE) {
            if self.take(message).is_none() {
                self.socket.shut_down();
                break;
            }
        }
    }

    /// Takes one message; `None` ends the connection.
    fn take(&mut self, message: Message) -> Option<()> {
        if message.header.is_reply() {
            return Some(());
        }
        let (header, (mut payload, mut files)) = (message.header, self.good(&message));
        let mut reply = header.reply(payload.len());
        match self.choices.byte() {
            160..168 => {
                let errno = self.choices.pick(&[22, 0, u32::MAX, 1]);
                self.send(header.refusal(errno), &[], &[]);
                return Some(());
            }
            168..186 => self.spoil_payload(&mut payload, &mut reply),
            186..196 => self.spoil_header(&mut reply),
            196..210 => self.ask(),
            210..214 => {
                self.send(reply, &payload, &[]);
            }
            214..220 if self.swallowed < MOST_SWALLOWED => {
                self.swallowed += 1;
                return Some(());
            }
            220..224 => return None,
            224..230 => {
                let noise = self.choices.take(40).to_vec();
                let _ = (&self.stream).write(&noise);
            }
            230..240 => files = (0..self.choices.below(4)).map(|_| files::any(&mut self.choices)).collect(),
            240..244 => {
                // Cut off: the rest never comes.
                let bytes = [reply.as_bytes(), &payload].concat();
                let end = self.choices.below(bytes.len() as u32) as usize;
                let _ = (&self.stream).write(&bytes[..end]);
                return None;
            }
            244..248 => {
                let reply = Header { id: reply.id.wrapping_add(1), ..reply };
                self.send(reply, &payload, &[]);
            }
            _ => {}
        }
        if header.wants_reply() {
            self.send(reply, &payload, &files);
        }
        Some(())
    }

    fn send(&mut self, header: Header, payload: &[u8], files: &[OwnedFd]) {
        if header.size as usize == 16 + payload.len() {
            let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
            let _ = self.socket.send(header, &[payload], &files, Instant::now() + Duration::from_millis(200));
        } else {
            let _ = (&self.stream).write(&[header.as_bytes(), payload].concat());
        }
    }

    fn spoil_payload(&mut self, payload: &mut Vec<u8>, reply: &mut Header) {
        match self.choices.below(5) {
            0 => payload.truncate(self.choices.below(64) as usize),
            1 => payload.extend(self.choices.bytes::<16>()),
            2 => *payload = self.choices.take(64).to_vec(),
            _ => {
                for _ in 0..=self.choices.below(4) {
                    let (at, byte) = (self.choices.below(80) as usize, self.choices.byte());
                    payload.get_mut(at).into_iter().for_each(|slot| *slot = byte);
                }
            }
        }
        reply.size = 16 + payload.len() as u32;
    }

    fn spoil_header(&mut self, reply: &mut Header) {
        match self.choices.below(6) {
            0 => reply.id = self.choices.u16(),
            1 => reply.number = self.choices.u16(),
            2 => reply.size = self.choices.pick(&[0, 16, 17, 1 << 21, u32::MAX]),
            3 => reply.flags = self.choices.u32(),
            4 => reply.flags = self.choices.pick(&[0, 0x21, 0x2, 0x11]),
            _ => reply.error = self.choices.u32(),
        }
    }

    /// A request of its own, for the client's memory.
    fn ask(&mut self) {
        let command =
            self.choices.pick(&[Command::DmaRead, Command::DmaWrite, Command::DmaRead, Command::RegionRead]);
        let base = if self.choices.one_in(4) { self.choices.u64() } else { self.mapped.0 };
        let address = base.wrapping_add(self.choices.number(70_000));
        let count = self.choices.number(5000);
        let mut payload = DmaTransfer { address, count }.as_bytes().to_vec();
        if command == Command::DmaWrite {
            let data = if self.choices.one_in(4) { 7 } else { count.min(100_000) };
            payload.resize(16 + data as usize, 0x5a);
        }
        let header = Header::request(self.choices.u16(), command, payload.len());
        let header = if self.choices.one_in(8) { header.without_reply() } else { header };
        self.send(header, &payload, &[]);
    }

    /// What a good server would answer.
    fn good(&mut self, message: &Message) -> (Vec<u8>, Vec<OwnedFd>) {
        let payload = &message.payload[..];
        let mut files = Vec::new();
        let answer = match message.header.command() {
            Some(Command::Version) => {
                let capabilities = Capabilities {
                    max_msg_fds: Some(16),
                    max_dma_maps: Some(self.choices.pick(&[65_535, 1, 0])),
                    pgsizes: Some(self.choices.pick(&[4096, 4096, 0, 65536, 1, 1 << 40, 1 << 63])),
                    ..Capabilities::default()
                };
                Version { major: 0, minor: 1, capabilities }.encode()
            }
            Some(Command::DeviceGetInfo) => {
                let flags = DeviceFlags::RESET | DeviceFlags::PCI;
                let info = DeviceInfo { argsz: 16, flags, regions: region_index::COUNT, irqs: irq::COUNT };
                info.as_bytes().to_vec()
            }
            Some(Command::DeviceGetRegionInfo) => self.region(payload, &mut files),
            Some(Command::DeviceGetIrqInfo) => {
                let index = take::<IrqInfo>("", payload).map_or(0, |(info, _)| info.index);
                let count = self.choices.pick(&[4, 0, 2048, u32::MAX]);
                IrqInfo { argsz: 16, flags: IrqFlags::EVENTFD, index, count }.as_bytes().to_vec()
            }
            Some(Command::RegionRead) => self.read(payload),
            Some(Command::RegionWrite) => payload.get(..16).unwrap_or_default().to_vec(),
            Some(Command::DmaMap) => {
                let map = take::<DmaMap>("", payload).map_or(DmaMap::new_zeroed(), |(map, _)| map);
                self.mapped = (map.address, map.size);
                Vec::new()
            }
            Some(Command::DmaUnmap) => payload.to_vec(),
            _ => Vec::new(),
        };
        (answer, files)
    }

    fn region(&mut self, payload: &[u8], files: &mut Vec<OwnedFd>) -> Vec<u8> {
        let asked = take::<RegionInfo>("", payload).map_or(RegionInfo::new_zeroed(), |(info, _)| info);
        let (index, argsz) = (asked.index, asked.argsz);
        let size = match index {
            0 => BARS[0],
            2 => BARS[1],
            region_index::CONFIG => 256,
            _ => 0,
        };
        let mut region = RegionDescription { index, size, ..RegionDescription::default() };
        region.flags = RegionFlags::READ | RegionFlags::WRITE;
        if index == 0 || index == 2 {
            region.flags |= RegionFlags::MMAP;
            files.push(files::memory(size));
            let first = if index == 0 { 0x1000 } else { 0 };
            region.sparse = vec![SparseArea { offset: first, size: size - first }];
            if self.choices.one_in(3) {
                region.sparse[0].offset = self.choices.number(0x5000);
                region.sparse[0].size = self.choices.number(0x5000);
                region.offset = self.choices.number(0x5000);
            }
        }
        if self.choices.one_in(12) {
            region.size = self.choices.u64();
        }
        region.encode(argsz)
    }

    fn read(&mut self, payload: &[u8]) -> Vec<u8> {
        let access =
            take::<RegionAccess>("", payload).map_or(RegionAccess::new_zeroed(), |(access, _)| access);
        let (at, count) = (access.offset as usize, access.count as usize);
        let data = match access.region {
            0 => self.registers.get(at..at.saturating_add(count)).map(<[u8]>::to_vec),
            region_index::CONFIG => Some(self.config(at, count)),
            _ => None,
        };
        [access.as_bytes(), &data.unwrap_or(vec![0; count.min(1 << 16)])].concat()
    }

    /// Configuration space: a command register that takes what it is told, and MSI-X.
    fn config(&mut self, at: usize, count: usize) -> Vec<u8> {
        let mut config = vec![0u8; 256];
        config[..8].copy_from_slice(&[0x42, 0x57, 1, 0, 6, 4, 0x10, 0]);
        config[0x34] = 0x40;
        config[0x40..0x48].copy_from_slice(&[0x11, 0, 3, 0, 4, 0, 0, 0]);
        if self.choices.one_in(20) {
            let (at, byte) = (usize::from(self.choices.byte()), self.choices.byte());
            config[at] = byte;
        }
        config.get(at..at.saturating_add(count)).map_or(vec![0; count.min(256)], <[u8]>::to_vec)
    }
}
