use std::io::Write;

use zerocopy::IntoBytes;

use super::*;

const LIMITS: Limits = Limits { payload: 64, fds: 2 };

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn now() -> Instant {
    Instant::now() + Duration::from_millis(5)
}

fn pair() -> (Socket, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    (Socket::new(one), other)
}

/// How many descriptors of this process lead to the file.
fn open_count(file: &tempfile::NamedTempFile) -> usize {
    let path = file.path().canonicalize().unwrap();
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    all.filter(|entry| std::fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to == path)).count()
}

#[test]
fn messages_arrive_with_their_descriptors() {
    let (one, other) = pair();
    let other = Socket::new(other);
    let file = tempfile::NamedTempFile::new().unwrap();
    let header = Header::request(7, Command::DmaMap, 5);
    one.send(header, &[b"ab", b"cde"], &[file.as_file().as_fd()], soon()).unwrap();
    one.send(Header::request(8, Command::DeviceReset, 0), &[], &[], soon()).unwrap();
    let first = other.receive(LIMITS, soon()).unwrap();
    assert_eq!((first.header, &first.payload[..], first.fds.len()), (header, &b"abcde"[..], 1));
    let flags = rustix::io::fcntl_getfd(&first.fds[0]).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    let second = other.receive(LIMITS, soon()).unwrap();
    assert_eq!((second.header.id, second.fds.len()), (8, 0));
}

#[test]
fn messages_that_come_in_pieces_are_put_together() {
    let (one, mut other) = pair();
    let header = Header::request(1, Command::RegionWrite, 3);
    let bytes = [header.as_bytes(), b"xyz"].concat();
    let writer = std::thread::spawn(move || {
        for byte in bytes {
            other.write_all(&[byte]).unwrap();
            std::thread::yield_now();
        }
        other
    });
    assert_eq!(one.receive(LIMITS, soon()).unwrap().payload, b"xyz");
    drop(writer.join().unwrap());
    assert!(matches!(one.receive(LIMITS, soon()), Err(SocketError::Closed)));
}

#[test]
fn nothing_and_half_a_message_end_at_the_deadline() {
    let (one, mut other) = pair();
    assert!(!one.wait_readable(now()).unwrap());
    let error = one.receive(LIMITS, now()).unwrap_err().to_string();
    assert_eq!(error, "deadline passed receiving a message: 0 of 16 bytes done");
    other.write_all(&[0; 10]).unwrap();
    let error = one.receive(LIMITS, now()).unwrap_err().to_string();
    assert_eq!(error, "deadline passed receiving a message: 10 of 16 bytes done");
}

#[test]
fn a_peer_that_does_not_read_ends_sending_at_the_deadline() {
    let (one, _other) = pair();
    let payload = vec![0; 8 << 20];
    let header = Header::request(1, Command::RegionWrite, payload.len());
    let error = one.send(header, &[&payload], &[], now()).unwrap_err().to_string();
    assert!(error.starts_with("deadline passed sending a message: "), "{error}");
}

#[test]
fn a_peer_that_is_gone_is_told_apart() {
    let (one, mut other) = pair();
    other.write_all(Header::request(1, Command::RegionWrite, 3).as_bytes()).unwrap();
    other.write_all(b"x").unwrap();
    drop(other);
    let error = one.receive(LIMITS, soon()).unwrap_err().to_string();
    assert_eq!(error, "the peer closed the connection after 17 of 19 bytes of a message");
    let header = Header::request(1, Command::DeviceReset, 0);
    assert!(matches!(one.send(header, &[], &[], soon()), Err(SocketError::Closed)));
}

#[test]
fn sizes_are_checked_before_anything_is_allocated() {
    for size in [0, 15, 81, u32::MAX] {
        let (one, mut other) = pair();
        let header = Header { size, ..Header::request(1, Command::DmaMap, 0) };
        other.write_all(header.as_bytes()).unwrap();
        let error = one.receive(LIMITS, soon()).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("message DMA_MAP says that it has {size} bytes; it may have from 16 to 80")
        );
    }
}

#[test]
fn too_many_descriptors_are_refused_and_closed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let before = open_count(&file);
    // More than the limit, and more than there is room for at all.
    for count in [3, MAX_FDS + 20] {
        let (one, other) = pair();
        let fds = vec![file.as_file().as_fd(); count];
        let header = Header::request(1, Command::DeviceSetIrqs, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS + 20))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        let bytes = [IoSlice::new(header.as_bytes())];
        rustix::net::sendmsg(&other, &bytes, &mut control, SendFlags::empty()).unwrap();
        let error = one.receive(LIMITS, soon()).unwrap_err().to_string();
        assert_eq!(error, "a message came with more than 2 file descriptors");
        assert_eq!(open_count(&file), before, "{count}");
    }
}

#[test]
#[ignore = "run by a_process_that_may_have_no_more_descriptors_is_told_so"]
fn child_may_have_no_more_descriptors() {
    let (one, other) = pair();
    let header = Header::request(1, Command::DmaMap, 0);
    Socket::new(other).send(header, &[], &[one.as_fd()], soon()).unwrap();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let none = rustix::process::Rlimit { current: Some(0), ..limit };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, none).unwrap();
    assert!(matches!(one.receive(LIMITS, soon()), Err(SocketError::NoRoomForFds)));
}

#[test]
fn a_process_that_may_have_no_more_descriptors_is_told_so() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "--ignored", "user::socket::tests::child_may_have_no_more_descriptors"]);
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn descriptors_of_a_message_that_fails_are_closed() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let before = open_count(&file);
    let (one, other) = pair();
    let header = Header { size: 500, ..Header::request(1, Command::DmaMap, 0) };
    let sender = Socket::new(other);
    sender.send_some(header.as_bytes(), &[file.as_file().as_fd()]).unwrap();
    assert!(matches!(one.receive(LIMITS, soon()), Err(SocketError::Size { .. })));
    assert_eq!(open_count(&file), before);
}
