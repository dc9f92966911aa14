//! Messages over a stream socket: framing, file descriptors, limits and deadlines.

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use zerocopy::{FromZeros, IntoBytes};

use super::wire::{Command, HEADER_BYTES, Header};

/// Most file descriptors that any message here may carry.
pub const MAX_FDS: usize = 64;
/// How long a client that found no room to wait for its server sleeps before it tries again.
const KNOCK: Duration = Duration::from_millis(5);

/// What a receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of payload in a message.
    pub payload: usize,
    /// Most file descriptors with a message, at most [`MAX_FDS`].
    pub fds: usize,
}

/// Why a message could not be sent or received. After any of them the stream has lost its place: the connection is
/// of no more use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The peer closed the connection, or died.
    #[error("the peer closed the connection")]
    Closed,
    /// It did so within a message.
    #[error("the peer closed the connection after {got} of {size} bytes of a message")]
    Truncated {
        /// Bytes that came.
        got: usize,
        /// Bytes that were to come.
        size: usize,
    },
    /// Nothing moved until the deadline.
    #[error("deadline passed {doing} a message: {done} of {size} bytes done")]
    Timeout {
        /// Sending or receiving.
        doing: &'static str,
        /// Bytes that moved.
        done: usize,
        /// Bytes of the part at hand.
        size: usize,
    },
    /// A message shorter than its header, or longer than we take.
    #[error("message {command} says that it has {size} bytes; it may have from {HEADER_BYTES} to {max}")]
    Size {
        /// Which command.
        command: CommandNumber,
        /// What its header says.
        size: u32,
        /// The limit.
        max: usize,
    },
    /// More file descriptors than we take. All were closed.
    #[error("a message came with more than {limit} file descriptors")]
    TooManyFds {
        /// The limit.
        limit: usize,
    },
    /// Descriptors that came were closed by the system, as this process may have no more.
    #[error(
        "a message came with file descriptors for which this process has no room: raise its limit (ulimit -n)"
    )]
    NoRoomForFds,
    /// The system refused.
    #[error("cannot {step} a message: {source}")]
    System {
        /// Send, receive, or wait for.
        step: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A command's number, which shows as its name if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandNumber(pub u16);

impl fmt::Display for CommandNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Command::from_number(self.0) {
            Some(command) => command.fmt(f),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A message that was received.
#[derive(Debug)]
pub struct Message {
    /// Its header; the size is checked.
    pub header: Header,
    /// What follows the header.
    pub payload: Vec<u8>,
    /// Descriptors that came with it; close-on-exec.
    pub fds: Vec<OwnedFd>,
}

/// Connects to a server. One with so many waiting clients that there is no room for another is asked again until the
/// deadline; then the error is [`std::io::ErrorKind::WouldBlock`].
pub fn connect(path: &Path, deadline: Instant) -> std::io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(KNOCK),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// One end of a connection. Sending and receiving are independent; each is for one thread at a time.
#[derive(Debug)]
pub struct Socket {
    stream: UnixStream,
}

impl Socket {
    /// Takes a connected socket.
    pub fn new(stream: UnixStream) -> Socket {
        Socket { stream }
    }

    /// Sends a message whose payload is the concatenation of `parts`. The header's size must say so.
    pub fn send(
        &self,
        header: Header,
        parts: &[&[u8]],
        fds: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<(), SocketError> {
        let bytes = [&[header.as_bytes()], parts].concat().concat();
        debug_assert_eq!(bytes.len(), header.size as usize);
        let mut sent = 0;
        while sent < bytes.len() {
            // Descriptors travel with the first byte.
            let fds = if sent == 0 { fds } else { &[] };
            match self.send_some(&bytes[sent..], fds) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let timeout = SocketError::Timeout { doing: "sending", done: sent, size: bytes.len() };
                    self.wait(PollFlags::OUT, deadline)?.then_some(()).ok_or(timeout)?;
                }
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(SocketError::Closed),
                Err(error) => return Err(SocketError::System { step: "send", source: error.into() }),
            }
        }
        Ok(())
    }

    fn send_some(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::TOOMANYREFS);
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, flags)
    }

    /// Receives the next message.
    pub fn receive(&self, limits: Limits, deadline: Instant) -> Result<Message, SocketError> {
        let mut fds = Vec::new();
        let mut header = Header::new_zeroed();
        self.fill(header.as_mut_bytes(), 0, &mut fds, limits.fds, deadline)?;
        let max = HEADER_BYTES + limits.payload;
        if !(HEADER_BYTES..=max).contains(&(header.size as usize)) {
            let command = CommandNumber(header.number);
            return Err(SocketError::Size { command, size: header.size, max });
        }
        let mut payload = vec![0; header.payload_bytes()];
        self.fill(&mut payload, HEADER_BYTES, &mut fds, limits.fds, deadline)?;
        Ok(Message { header, payload, fds })
    }

    /// Receives until `into` is full; `before` bytes of the message came already.
    fn fill(
        &self,
        into: &mut [u8],
        before: usize,
        fds: &mut Vec<OwnedFd>,
        limit: usize,
        deadline: Instant,
    ) -> Result<(), SocketError> {
        let (mut got, size) = (0, into.len());
        while got < size {
            match self.receive_some(&mut into[got..], fds) {
                // Cut off although there was room for more: the system had none.
                Ok((_, true)) if fds.len() < limit => return Err(SocketError::NoRoomForFds),
                Ok((_, true)) => return Err(SocketError::TooManyFds { limit }),
                Ok((0, _)) | Err(Errno::CONNRESET) if before + got == 0 => return Err(SocketError::Closed),
                Ok((0, _)) | Err(Errno::CONNRESET) => {
                    return Err(SocketError::Truncated { got: before + got, size: before + size });
                }
                Ok((count, false)) => got += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let timeout = SocketError::Timeout { doing: "receiving", done: got, size };
                    self.wait(PollFlags::IN, deadline)?.then_some(()).ok_or(timeout)?;
                }
                Err(error) => return Err(SocketError::System { step: "receive", source: error.into() }),
            }
            if fds.len() > limit {
                return Err(SocketError::TooManyFds { limit });
            }
        }
        Ok(())
    }

    /// The bytes that are there, and whether descriptors were cut off (the kernel closed those).
    fn receive_some(&self, into: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<(usize, bool), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let result = rustix::net::recvmsg(&self.stream, &mut [IoSliceMut::new(into)], &mut control, flags)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        Ok((result.bytes, result.flags.contains(ReturnFlags::CTRUNC)))
    }

    /// Waits until something can be received (or the peer is gone, which receiving then tells); false at the deadline.
    pub fn wait_readable(&self, deadline: Instant) -> Result<bool, SocketError> {
        self.wait(PollFlags::IN, deadline)
    }

    fn wait(&self, events: PollFlags, deadline: Instant) -> Result<bool, SocketError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match rustix::event::poll(&mut [PollFd::new(&self.stream, events)], Some(&timespec(left))) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(SocketError::System { step: "wait for", source: error.into() }),
            }
        }
    }

    /// Ends the connection in both directions; a thread that waits on it returns.
    pub fn shut_down(&self) {
        // It fails only where the peer has ended it already.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().min(i64::MAX as u64) as i64, tv_nsec: time.subsec_nanos().into() }
}

#[cfg(test)]
mod tests;
