use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use warpbell_hw::{DmaAccess, Window};

use super::super::fake::{Peer, impatient, scripted, unscripted};
use super::super::memory::{Mapping, Source};
use super::super::wire::DmaTransfer;
use super::*;

fn reset(connection: &Connection) -> Result<Reply, UserError> {
    connection.request(Command::DeviceReset, Object::Device, &[], &[])
}

/// Why opening fails at a server that answers VERSION so.
fn refused_version(answer: impl FnOnce(&Peer, &Message) + Send + 'static) -> String {
    let (result, server) = unscripted(&impatient(), move |peer| {
        let message = peer.expect(Command::Version);
        answer(&peer, &message);
        // Keeps the connection until the client leaves.
        let _ = peer.receive();
    });
    let text = result.err().expect("refused").to_string();
    server.join().unwrap();
    text
}

#[test]
fn nobody_listening_is_an_error_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none");
    let text = Connection::open(&path, &impatient()).err().unwrap().to_string();
    assert!(text.contains("No such file") && text.contains("warpbell serve --size 1g --socket"), "{text}");
    let long = dir.path().join("x".repeat(200));
    let text = Connection::open(&long, &impatient()).err().unwrap().to_string();
    assert!(text.ends_with("choose a path of at most 107 bytes"), "{text}");
}

#[test]
fn a_server_that_takes_nobody_is_an_error_at_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("full");
    let listener = UnixListener::bind(&path).unwrap();
    // Room for one that waits, as with libvfio-user.
    rustix::net::listen(&listener, 0).unwrap();
    let _first = UnixStream::connect(&path).unwrap();
    let text = Connection::open(&path, &impatient()).err().unwrap().to_string();
    assert!(text.contains("other clients wait for this server"), "{text}");
}

#[test]
fn versions_must_fit() {
    let version = |major, minor| {
        move |peer: &Peer, message: &Message| {
            let capabilities = Capabilities::default();
            peer.reply(message, &Version { major, minor, capabilities }.encode());
        }
    };
    let text = refused_version(version(1, 0));
    assert_eq!(text, "vfio-user:/test.sock: the server's major version is 1; it must be 0");
    let text = refused_version(version(0, 2));
    assert_eq!(text, "vfio-user:/test.sock: the server's minor version is 2; it must be at most 1");
    let text = refused_version(|peer, message| peer.refuse(message, 22));
    assert!(text.contains("VERSION of the device was refused: Invalid argument"), "{text}");
    let text = refused_version(|peer, message| peer.reply(message, b"\0\0\0\0nonsense\0"));
    assert!(text.contains("version data 'nonsense'"), "{text}");
    let text = refused_version(|peer, _| peer.0.shut_down());
    assert!(text.contains("the peer closed the connection"), "{text}");
    let text = refused_version(|_, _| {});
    assert!(text.contains("VERSION of the device: no reply within 50ms"), "{text}");
}

#[test]
fn limits_of_the_server_are_kept() {
    let (connection, server) = scripted(&impatient(), |peer| drop(peer.receive()));
    assert_eq!(connection.peer().message_fds(), 8);
    drop(connection);
    server.join().unwrap();
}

#[test]
fn a_refusal_says_which_message_of_what_and_why() {
    let (connection, server) = scripted(&UserOptions::default(), |peer| {
        peer.refuse(&peer.expect(Command::RegionRead), 5);
        peer.refuse(&peer.expect(Command::DmaMap), 17);
        peer.refuse(&peer.expect(Command::DeviceReset), 0);
        peer.reply(&peer.expect(Command::DeviceReset), &[]);
    });
    let text = connection.read::<4>(0, 0x14).unwrap_err().to_string();
    let wanted =
        "vfio-user:/test.sock: REGION_READ of 4 bytes of region 0 at 0x14 was refused: Input/output error";
    assert!(text.starts_with(wanted), "{text}");
    let object = Object::Dma { iova: 0x1000, len: 4096 };
    let text = connection.request(Command::DmaMap, object, &[], &[]).unwrap_err().to_string();
    assert!(text.contains("DMA_MAP of 4096 bytes at iova 0x1000 was refused: File exists"), "{text}");
    let text = reset(&connection).unwrap_err().to_string();
    assert!(text.contains("DEVICE_RESET of the device was refused: the server did not say why"), "{text}");
    reset(&connection).unwrap();
    server.join().unwrap();
}

#[test]
fn replies_that_do_not_fit_their_request_are_refused() {
    let (connection, server) = scripted(&UserOptions::default(), |peer| {
        let access = |offset, count| RegionAccess { offset, region: 0, count };
        let replies: [Vec<u8>; 4] = [
            access(0x18, 4).as_bytes().to_vec(),
            access(0x14, 8).as_bytes().to_vec(),
            [access(0x14, 4).as_bytes(), &[1, 2, 3]].concat(),
            vec![0; 15],
        ];
        for reply in replies {
            peer.reply(&peer.expect(Command::RegionRead), &reply);
        }
    });
    for wanted in
        ["the place in the reply is 0x18", "the byte count in the reply is 0x8", "3 bytes", "15 bytes"]
    {
        let text = connection.read::<4>(0, 0x14).unwrap_err().to_string();
        assert!(text.contains(wanted) && text.contains("REGION_READ of 4 bytes"), "{text}");
    }
    server.join().unwrap();
}

#[test]
fn a_late_reply_is_dropped_and_the_connection_goes_on() {
    let (connection, server) = scripted(&impatient(), |peer| {
        let first = peer.expect(Command::DeviceReset);
        let second = peer.expect(Command::DeviceReset);
        peer.reply(&first, &[]);
        peer.reply(&second, &[]);
    });
    let text = reset(&connection).unwrap_err().to_string();
    assert!(text.contains("no reply within 50ms"), "{text}");
    reset(&connection).unwrap();
    server.join().unwrap();
}

/// What ends the connection, as a request in flight and the next one tell it.
fn broken(script: impl FnOnce(Peer, Message) + Send + 'static) -> String {
    let (connection, server) = scripted(&UserOptions::default(), |peer| {
        let message = peer.expect(Command::DeviceReset);
        script(peer, message);
    });
    let first = reset(&connection).unwrap_err();
    let second = reset(&connection).unwrap_err();
    assert!(first.is_gone() && second.is_gone(), "{first}; {second}");
    assert!(connection.ended().is_some());
    server.join().unwrap();
    first.to_string()
}

#[test]
fn a_server_that_breaks_the_protocol_or_dies_ends_the_connection() {
    let text = broken(|peer, _| drop(peer));
    assert!(text.contains("the connection has ended: the peer closed the connection"), "{text}");
    let text = broken(|peer, message| {
        let header = Header { id: message.header.id.wrapping_add(9), ..message.header };
        peer.send(header.reply(0), &[], &[]);
        let _ = peer.receive();
    });
    assert!(text.contains("to nothing"), "{text}");
    let text = broken(|peer, message| {
        let header = Header { number: Command::DmaMap as u16, ..message.header };
        peer.send(header.reply(0), &[], &[]);
        let _ = peer.receive();
    });
    assert!(text.contains("a reply to DMA_MAP where one to DEVICE_RESET was due"), "{text}");
    let text = broken(|peer, message| {
        peer.send(Header { flags: 7, ..message.header }, &[], &[]);
        let _ = peer.receive();
    });
    assert!(text.contains("neither command nor reply (flags 0x7)"), "{text}");
    let text = broken(|peer, message| {
        let header = Header { size: 1 << 30, ..message.header.reply(0) };
        let mut stream = UnixStream::from(peer.0.as_fd().try_clone_to_owned().unwrap());
        stream.write_all(header.as_bytes()).unwrap();
        let _ = peer.receive();
    });
    assert!(text.contains("1073741824 bytes"), "{text}");
}

#[test]
fn too_many_descriptors_end_the_connection() {
    let text = broken(|peer, message| {
        let file = tempfile::tempfile().unwrap();
        peer.send(message.header.reply(0), &[], &[file.as_fd(); LIMITS.fds + 1]);
        let _ = peer.receive();
    });
    assert!(text.contains("more than 16 file descriptors"), "{text}");
}

#[test]
fn threads_share_a_connection_and_replies_may_change_places() {
    let (connection, server) = scripted(&UserOptions::default(), |peer| {
        let answer = |message: &Message| {
            let access: RegionAccess = fixed("request", &message.payload).unwrap();
            let data = (access.offset as u32).to_le_bytes();
            peer.reply(message, &[access.as_bytes(), &data].concat());
        };
        let mut swapped = 0;
        while let Ok(first) = peer.receive() {
            // The next one first, if there is one.
            if peer.0.wait_readable(Instant::now() + Duration::from_millis(1)).unwrap()
                && let Ok(second) = peer.receive()
            {
                answer(&second);
                swapped += 1;
            }
            answer(&first);
        }
        assert!(swapped > 0, "replies changed places");
    });
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let connection = &connection;
            scope.spawn(move || {
                for index in 0..250u64 {
                    let offset = thread << 16 | index << 2;
                    let value = connection.read::<4>(0, offset).unwrap();
                    assert_eq!(u64::from(u32::from_le_bytes(value)), offset);
                }
            });
        }
    });
    drop(connection);
    server.join().unwrap();
}

#[test]
fn the_server_may_ask_for_memory_at_any_time() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let (asked, quiet_part) = std::sync::mpsc::channel();
    let (connection, server) = scripted(&UserOptions::default(), move |peer| {
        receiver.recv().unwrap();
        let ask = |command: Command, address: u64, count: u64, data: &[u8]| {
            let transfer = DmaTransfer { address, count };
            let header = Header::request(0x77, command, 16 + data.len());
            peer.send(header, &[transfer.as_bytes(), data].concat(), &[]);
            peer.receive().unwrap()
        };
        // While nobody waits for anything.
        let reply = ask(Command::DmaWrite, 0x10_0010, 5, b"hello");
        assert_eq!((reply.header.id, reply.header.refused()), (0x77, None));
        assert_eq!(reply.payload, DmaTransfer { address: 0x10_0010, count: 5 }.as_bytes());
        let reply = ask(Command::DmaRead, 0x10_0011, 4, &[]);
        assert_eq!(&reply.payload[16..], b"ello");
        // What must be refused: outside, against the rights, too long, lengths that differ, what clients do not do.
        assert_eq!(ask(Command::DmaRead, 0x10_0fff, 2, &[]).header.refused(), Some(14));
        assert_eq!(ask(Command::DmaRead, u64::MAX, 2, &[]).header.refused(), Some(14));
        assert_eq!(ask(Command::DmaWrite, 0x20_0000, 1, b"x").header.refused(), Some(13));
        assert_eq!(ask(Command::DmaRead, 0x10_0000, u64::MAX, &[]).header.refused(), Some(22));
        assert_eq!(ask(Command::DmaWrite, 0x10_0000, 9, b"x").header.refused(), Some(22));
        assert_eq!(ask(Command::DmaMap, 0, 0, &[]).header.refused(), Some(95));
        asked.send(()).unwrap();
        // While a reply is waited for, which then comes.
        peer.send(Header::request(1, Command::DeviceReset, 0).without_reply(), &[], &[]);
        let request = peer.expect(Command::DeviceReset);
        assert_eq!(&ask(Command::DmaRead, 0x10_0010, 5, &[]).payload[16..], b"hello");
        peer.reply(&request, &[]);
    });
    let window = Window::host(4096).unwrap();
    let source = Source::Window(window.clone());
    connection.memory().insert(0x10_0000, Mapping { len: 4096, access: DmaAccess::READ_WRITE, source });
    let source = Source::Window(window.clone());
    connection.memory().insert(0x20_0000, Mapping { len: 4096, access: DmaAccess::READ, source });
    sender.send(()).unwrap();
    // No request of the client's may come between the server's requests and their replies.
    quiet_part.recv().unwrap();
    assert_eq!(window.to_vec(0x10, 5).unwrap(), b"hello");
    reset(&connection).unwrap();
    server.join().unwrap();
}

#[test]
fn posted_writes_do_not_wait_and_their_refusals_do_no_harm() {
    let (connection, server) = scripted(&UserOptions::default(), |peer| {
        for _ in 0..3 * MAX_POSTED {
            peer.refuse(&peer.expect(Command::RegionWrite), 22);
        }
        peer.reply(&peer.expect(Command::DeviceReset), &[]);
    });
    for value in 0..3 * MAX_POSTED as u32 {
        connection.post_write(0, 0x1000, &value.to_le_bytes()).unwrap();
    }
    reset(&connection).unwrap();
    assert_eq!(connection.shared.pending.lock().posted(), 0);
    server.join().unwrap();
}

#[test]
fn posted_writes_that_nobody_takes_end_at_the_deadline() {
    let done = Arc::new(AtomicBool::new(false));
    let finished = done.clone();
    let (connection, server) = scripted(&impatient(), move |peer| {
        while !finished.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        drop(peer);
    });
    let result = (0..=MAX_POSTED).try_for_each(|_| connection.post_write(0, 0x1000, &[0; 4]));
    done.store(true, Ordering::Release);
    let text = result.unwrap_err().to_string();
    assert!(text.contains("no reply within 50ms"), "{text}");
    server.join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever a server sends, the client neither hangs nor panics, and what it was not told it does not believe.
    #[test]
    fn arbitrary_bytes_of_a_server_end_in_an_error(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        command in proptest::option::of(proptest::sample::select(&Command::ALL[..])),
        flags in 0u32..0x40,
        negotiated in any::<bool>(),
    ) {
        let payload = bytes.clone();
        let (result, server) = unscripted(&impatient(), move |peer| {
            if negotiated {
                peer.negotiate();
            }
            let message = peer.receive().unwrap();
            let mut stream = UnixStream::from(peer.0.as_fd().try_clone_to_owned().unwrap());
            // As they are, or behind a header that is right so far.
            if let Some(command) = command {
                let header = Header { flags, ..Header::request(message.header.id, command, payload.len()) };
                let _ = stream.write_all(header.as_bytes());
            }
            let _ = stream.write_all(&payload);
        });
        if let Ok(connection) = result {
            let read = connection.read::<8>(0, 0);
            if let Ok(value) = read {
                prop_assert_eq!(&bytes[16..], &value[..]);
            }
        }
        server.join().unwrap();
    }
}

#[test]
fn requests_in_flight_end_when_this_side_closes() {
    let (told, asked) = std::sync::mpsc::channel();
    let (connection, server) = scripted(&UserOptions::default(), move |peer| {
        let _ = peer.expect(Command::DeviceReset);
        told.send(()).unwrap();
        assert!(matches!(peer.receive(), Err(crate::user::socket::SocketError::Closed)));
    });
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| reset(&connection));
        asked.recv().unwrap();
        connection.shared.end("test".to_owned());
        assert!(waiting.join().unwrap().unwrap_err().to_string().contains("ended: test"));
    });
    server.join().unwrap();
}
