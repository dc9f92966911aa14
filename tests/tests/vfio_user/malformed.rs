//! Messages that no client of ours sends: each is refused or ends the connection, and the server goes on.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use warpbell_tests::suite;
use warpbell_vfio::user::ServerOptions;
use warpbell_vfio::user::socket::{Limits, Message, Socket, SocketError};
use warpbell_vfio::user::wire::*;
use zerocopy::IntoBytes;

use crate::served::Served;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A client that sends what it likes.
struct Raw(Socket);

impl Raw {
    fn connect(served: &Served) -> Raw {
        let stream = UnixStream::connect(served.socket()).expect("connects");
        Raw(Socket::new(stream))
    }

    fn negotiated(served: &Served) -> Raw {
        let raw = Raw::connect(served);
        let version = Version { major: 0, minor: 1, capabilities: Capabilities::default() };
        let reply = raw.ask(Command::Version, &version.encode()).expect("a version");
        assert_eq!(reply.header.refused(), None);
        raw
    }

    fn receive(&self) -> Result<Message, SocketError> {
        self.0.receive(Limits { payload: 2 << 20, fds: 16 }, soon())
    }

    fn ask(&self, command: Command, payload: &[u8]) -> Result<Message, SocketError> {
        let header = Header::request(7, command, payload.len());
        self.0.send(header, &[payload], &[], soon())?;
        self.receive()
    }

    /// The errno of a refusal, which must be a bare header.
    fn refused(&self, command: Command, payload: &[u8]) -> u32 {
        let reply = self.ask(command, payload).expect("an answer");
        assert_eq!((reply.header.id, reply.header.command()), (7, Some(command)));
        assert!(reply.payload.is_empty(), "{command}: {reply:?}");
        reply.header.refused().unwrap_or_else(|| panic!("{command} was accepted: {payload:?}"))
    }
}

const INVALID: u32 = 22;

#[test]
fn every_refusal_names_an_error_and_the_connection_goes_on() {
    let served = Served::new("size=1m", ServerOptions::default());
    let raw = Raw::negotiated(&served);
    for command in Command::ALL.into_iter().filter(|command| *command != Command::DeviceReset) {
        assert_ne!(raw.refused(command, &[1, 2, 3]), 0, "{command} with three bytes");
    }
    let access = |offset, region, count| RegionAccess { offset, region, count };
    for (what, wrong) in [
        ("behind the end", access(1 << 40, 0, 4)),
        ("around the end", access(u64::MAX - 1, 0, 4)),
        ("no such region", access(0, 99, 4)),
        ("more than a message holds", access(0, 7, u32::MAX)),
    ] {
        assert_ne!(raw.refused(Command::RegionRead, wrong.as_bytes()), 0, "{what}");
    }
    assert_eq!(raw.refused(Command::RegionWrite, access(0x14, 0, 4).as_bytes()), INVALID, "no data");
    let region = RegionInfo { argsz: 32, index: 99, ..RegionInfo::default() };
    assert_eq!(raw.refused(Command::DeviceGetRegionInfo, region.as_bytes()), INVALID);
    let map = DmaMap { argsz: 32, flags: DmaFlags::READ, offset: 0, address: 0x1000, size: 0 };
    assert_eq!(raw.refused(Command::DmaMap, map.as_bytes()), INVALID, "no bytes");
    // Where nothing is mapped there is nothing to refuse: QEMU clears ranges this way.
    let unmap = DmaUnmap { argsz: 24, flags: 0, address: 0x1000, size: 0 };
    assert_eq!(raw.refused(Command::DmaUnmap, unmap.as_bytes()), INVALID, "no bytes");
    let flags = IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_TRIGGER;
    let set = IrqSet { argsz: 20, flags, index: irq::MSIX, start: 60_000, count: 1 };
    assert_eq!(raw.refused(Command::DeviceSetIrqs, set.as_bytes()), INVALID);
    assert_ne!(raw.refused(Command::DmaRead, DmaTransfer::default().as_bytes()), 0, "not for clients");
    // After all that it answers.
    let cap = raw.ask(Command::RegionRead, access(0, 0, 8).as_bytes()).unwrap();
    assert_eq!((cap.header.refused(), cap.payload.len()), (None, 24));
    drop(raw);
    served.wait_for("1 gone: it left");
    suite::works(&served.open());
}

/// How the server takes leave of a client that sends this first.
fn dismissed(served: &Served, bytes: &[u8]) {
    let mut stream = UnixStream::connect(served.socket()).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    stream.write_all(bytes).expect("the socket takes it");
    // It may have closed already.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    // It closes, with or without having read everything.
    let closed = stream.read_to_end(&mut Vec::new());
    assert!(!closed.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "it does not close");
}

#[test]
fn other_versions_and_other_beginnings_are_dismissed() {
    let served = Served::new("size=1m", ServerOptions::default());
    for (major, minor, accepted) in [(0, 0, true), (0, 9, true), (1, 0, false)] {
        let raw = Raw::connect(&served);
        let version = Version { major, minor, capabilities: Capabilities::default() };
        let reply = raw.ask(Command::Version, &version.encode()).unwrap();
        assert_eq!(reply.header.refused().is_none(), accepted, "{major}.{minor}");
        if accepted {
            let ours = Version::decode(&reply.payload).unwrap();
            assert!(ours.major == 0 && ours.minor <= minor.min(1), "{ours:?}");
        }
    }
    let raw = Raw::connect(&served);
    assert_eq!(raw.ask(Command::DeviceGetInfo, &[0; 16]).unwrap().header.refused(), Some(INVALID));
    assert!(matches!(raw.receive(), Err(SocketError::Closed)));
    dismissed(&served, &[0; 16]);
    dismissed(&served, b"GET / HTTP/1.1\r\n\r\n");
    suite::works(&served.open());
}

#[test]
fn too_many_descriptors_end_a_connection_and_leak_nothing() {
    let served = Served::new("size=1m", ServerOptions::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    let held = || {
        let path = file.path().canonicalize().unwrap();
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to == path)).count()
    };
    let before = held();
    let raw = Raw::negotiated(&served);
    let header = Header::request(7, Command::DeviceSetIrqs, 0);
    raw.0.send(header, &[], &[file.as_file().as_fd(); 17], soon()).unwrap();
    assert!(matches!(raw.receive(), Err(SocketError::Closed)));
    served.wait_for("1 gone: a message came with more than 16 file descriptors");
    assert_eq!(held(), before);
    // With a message that has no use for them they are closed, too.
    let raw = Raw::negotiated(&served);
    let header = Header::request(7, Command::DeviceReset, 0);
    raw.0.send(header, &[], &[file.as_file().as_fd(); 3], soon()).unwrap();
    assert_eq!(raw.receive().unwrap().header.refused(), None);
    assert_eq!(held(), before);
    drop(raw);
    suite::works(&served.open());
}

#[test]
fn half_a_message_does_not_hold_the_server() {
    let options = ServerOptions::new().patience(Duration::from_millis(100));
    let served = Served::new("size=1m", options);
    let raw = Raw::negotiated(&served);
    let mut stream = UnixStream::from(raw.0.as_fd().try_clone_to_owned().unwrap());
    stream.write_all(&Header::request(1, Command::DmaMap, 32).as_bytes()[..9]).unwrap();
    served.wait_for("1 gone: deadline passed receiving a message");
    suite::works(&served.open());
}

/// A message, right so far, or bytes.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let command = proptest::sample::select(&Command::ALL[..]);
    let payload = proptest::collection::vec(any::<u8>(), 0..80);
    let right = (command, payload, any::<u16>(), 0i32..40).prop_map(|(command, payload, id, lie)| {
        let mut header = Header::request(id, command, payload.len());
        // Now and then the size is not the size, or the flags are not those of a command.
        match lie {
            0..4 => header.size = header.size.wrapping_add_signed(lie - 2),
            4 => header.size = u32::MAX,
            5..8 => header.flags = lie as u32,
            _ => {}
        }
        [header.as_bytes(), &payload[..]].concat()
    });
    prop_oneof![4 => right, 1 => proptest::collection::vec(any::<u8>(), 0..100)]
}

#[test]
fn arbitrary_messages_do_no_harm() {
    let options = ServerOptions::new().patience(Duration::from_millis(30));
    // One server for all cases: it must survive them all.
    let served = Served::new("size=1m", options);
    let cases = (proptest::collection::vec(message(), 1..8), proptest::bool::weighted(0.9));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(64));
    let result = runner.run(&cases, |(messages, negotiated)| {
        let raw = if negotiated { Raw::negotiated(&served) } else { Raw::connect(&served) };
        let mut stream = UnixStream::from(raw.0.as_fd().try_clone_to_owned().unwrap());
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        for message in messages {
            // The server may have had enough.
            let _ = stream.write_all(&message);
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let closed = stream.read_to_end(&mut Vec::new());
        prop_assert!(!closed.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "it hangs");
        // The next client finds a controller that answers.
        let next = Raw::negotiated(&served);
        let read = RegionAccess { offset: 0, region: 0, count: 8 };
        let cap = next.ask(Command::RegionRead, read.as_bytes()).unwrap();
        prop_assert_eq!(cap.header.refused(), None);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
