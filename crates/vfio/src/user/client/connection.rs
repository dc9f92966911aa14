//! The client's end of a connection: requests of any number of threads, replies matched to them by a thread that
//! receives everything, and requests of the server answered from mapped memory.

mod answer;
mod pending;
mod reader;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use zerocopy::{FromBytes, IntoBytes};

use super::UserOptions;
use super::error::{Object, UserError};
use super::memory::Mappings;
use super::socket::{Limits, Message, Socket, connect};
use super::wire::{
    Capabilities, Command, Header, MAJOR, MINOR, RegionAccess, Version, WireError, fixed, take,
};
use pending::{Outcome, Pending};

/// What we take in one message.
const LIMITS: Limits = Limits { payload: DATA_BYTES as usize + 64, fds: 16 };
/// Most bytes of data in a message to us.
const DATA_BYTES: u64 = 1 << 20;
/// Writes that may wait for their replies while nobody waits for them.
const MAX_POSTED: usize = 256;

/// A successful reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) payload: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// A connection that has agreed on a version. Its memory mappings live as long as it does.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

/// What requesters and the receiving thread share.
struct Shared {
    name: PathBuf,
    socket: Socket,
    timeout: Duration,
    /// Held while a message is sent: one at a time.
    sending: Mutex<()>,
    pending: Mutex<Pending>,
    changed: Condvar,
    peer: OnceLock<Version>,
    memory: Mappings,
}

impl Connection {
    /// Connects and negotiates.
    pub(crate) fn open(path: &Path, options: &UserOptions) -> Result<Connection, UserError> {
        let stream = connect(path, Instant::now() + options.timeout);
        let stream = stream.map_err(|source| UserError::Connect { socket: path.to_owned(), source })?;
        Connection::over(stream, path, options)
    }

    /// Negotiates over a connected socket.
    pub(crate) fn over(
        stream: UnixStream,
        path: &Path,
        options: &UserOptions,
    ) -> Result<Connection, UserError> {
        let shared = Arc::new(Shared {
            name: path.to_owned(),
            socket: Socket::new(stream),
            timeout: options.timeout,
            sending: Mutex::new(()),
            pending: Mutex::new(Pending::new()),
            changed: Condvar::new(),
            peer: OnceLock::new(),
            memory: Mappings::default(),
        });
        let reader = reader::start(shared.clone());
        let reader = reader.map_err(|source| shared.system("start a thread", source))?;
        let connection = Connection { shared, reader: Some(reader) };
        connection.negotiate()?;
        Ok(connection)
    }

    fn negotiate(&self) -> Result<(), UserError> {
        let capabilities = Capabilities {
            max_msg_fds: Some(LIMITS.fds as u64),
            max_data_xfer_size: Some(DATA_BYTES),
            ..Capabilities::default()
        };
        let payload = Version { major: MAJOR, minor: MINOR, capabilities }.encode();
        let reply = self.request(Command::Version, Object::Device, &[&payload], &[])?;
        let theirs = Version::decode(&reply.payload);
        let theirs = theirs.map_err(|source| self.malformed(Command::Version, Object::Device, source))?;
        let refused = |what, value: u16, need| {
            let (socket, value) = (self.name().to_owned(), value.to_string());
            Err(UserError::Unsupported { socket, what, value, need })
        };
        if theirs.major != MAJOR {
            return refused("the server's major version", theirs.major, MAJOR.to_string());
        }
        if theirs.minor > MINOR {
            return refused("the server's minor version", theirs.minor, format!("at most {MINOR}"));
        }
        tracing::debug!(socket = %self.name().display(), ?theirs, "vfio-user version");
        self.shared.peer.get_or_init(|| theirs);
        Ok(())
    }

    /// The socket's path.
    pub(crate) fn name(&self) -> &Path {
        &self.shared.name
    }

    /// What the server said that it can take.
    pub(crate) fn peer(&self) -> Capabilities {
        self.shared.peer.get().map(|version| version.capabilities).unwrap_or_default()
    }

    /// The memory that the server may ask for.
    pub(crate) fn memory(&self) -> &Mappings {
        &self.shared.memory
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn ended(&self) -> Option<String> {
        self.shared.pending.lock().ended().map(str::to_owned)
    }

    /// Sends a command and waits for its reply.
    pub(crate) fn request(
        &self,
        command: Command,
        object: Object,
        parts: &[&[u8]],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Reply, UserError> {
        let shared = &self.shared;
        let deadline = Instant::now() + shared.timeout;
        let id = shared.begin(command, object, false, deadline)?;
        shared.send(id, command, object, parts, fds, deadline)?;
        let message = shared.wait(id, command, object, deadline)?;
        if let Some(errno) = message.header.refused() {
            return Err(shared.refused(command, object, errno));
        }
        Ok(Reply { payload: message.payload, fds: message.fds })
    }

    /// Sends a write to a region. Its reply is checked when it comes: a refusal shows in the log only, as nobody waits
    /// for it.
    pub(crate) fn post_write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), UserError> {
        let shared = &self.shared;
        let (command, object) = (Command::RegionWrite, Object::Access { region, offset, len: data.len() });
        let deadline = Instant::now() + shared.timeout;
        let id = shared.begin(command, object, true, deadline)?;
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        shared.send(id, command, object, &[access.as_bytes(), data], &[], deadline)
    }

    /// Writes to a region.
    pub(crate) fn write(&self, region: u32, offset: u64, data: &[u8]) -> Result<(), UserError> {
        let (command, object) = (Command::RegionWrite, Object::Access { region, offset, len: data.len() });
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        let reply = self.request(command, object, &[access.as_bytes(), data], &[])?;
        let (answer, _) = self.fixed::<RegionAccess>(command, object, &reply.payload)?;
        self.expect_same(command, object, &access, &answer)
    }

    /// Reads from a region.
    pub(crate) fn read<const N: usize>(&self, region: u32, offset: u64) -> Result<[u8; N], UserError> {
        let (command, object) = (Command::RegionRead, Object::Access { region, offset, len: N });
        let access = RegionAccess { offset, region, count: N as u32 };
        let reply = self.request(command, object, &[access.as_bytes()], &[])?;
        let (answer, data) = self.fixed::<RegionAccess>(command, object, &reply.payload)?;
        self.expect_same(command, object, &access, &answer)?;
        fixed("data of a region", data).map_err(|source| self.malformed(command, object, source))
    }

    fn expect_same(
        &self,
        command: Command,
        object: Object,
        asked: &RegionAccess,
        answer: &RegionAccess,
    ) -> Result<(), UserError> {
        let wrong = |what, value| {
            let rule = "the reply must repeat the request's";
            Err(self.malformed(command, object, WireError::Field { what, value, rule }))
        };
        if answer.offset != asked.offset || answer.region != asked.region {
            return wrong("the place in the reply", answer.offset);
        }
        if answer.count != asked.count {
            return wrong("the byte count in the reply", answer.count.into());
        }
        Ok(())
    }

    /// The fixed part of a reply, and what follows it.
    pub(crate) fn fixed<'a, T: FromBytes>(
        &self,
        command: Command,
        object: Object,
        payload: &'a [u8],
    ) -> Result<(T, &'a [u8]), UserError> {
        take(command.name(), payload).map_err(|source| self.malformed(command, object, source))
    }

    pub(crate) fn malformed(&self, command: Command, object: Object, source: WireError) -> UserError {
        UserError::Reply { socket: self.name().to_owned(), command, object, source }
    }

    pub(crate) fn system(&self, step: &'static str, source: io::Error) -> UserError {
        self.shared.system(step, source)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.end("this side closed it".to_owned());
        if self.reader.take().is_some_and(|reader| reader.join().is_err()) {
            tracing::error!("the thread that receives messages panicked");
        }
    }
}

impl Shared {
    fn system(&self, step: &'static str, source: io::Error) -> UserError {
        UserError::System { socket: self.name.clone(), step, source }
    }

    fn refused(&self, command: Command, object: Object, errno: u32) -> UserError {
        let source = match errno {
            0 => io::Error::other("the server did not say why"),
            errno => io::Error::from_raw_os_error(errno as i32),
        };
        UserError::Refused { socket: self.name.clone(), command, object, source }
    }

    fn gone(&self, command: Command, object: Object, reason: &str) -> UserError {
        UserError::Gone { socket: self.name.clone(), command, object, reason: reason.to_owned() }
    }

    fn late(&self, command: Command, object: Object) -> UserError {
        UserError::Timeout { socket: self.name.clone(), command, object, limit: self.timeout }
    }

    /// Takes an identifier for a request.
    fn begin(
        &self,
        command: Command,
        object: Object,
        posted: bool,
        deadline: Instant,
    ) -> Result<u16, UserError> {
        let mut pending = self.pending.lock();
        loop {
            if let Some(reason) = pending.ended() {
                return Err(self.gone(command, object, reason));
            }
            if (!posted || pending.posted() < MAX_POSTED)
                && let Some(id) = pending.begin(command, object, posted)
            {
                return Ok(id);
            }
            if self.changed.wait_until(&mut pending, deadline).timed_out() {
                return Err(self.late(command, object));
            }
        }
    }

    fn send(
        &self,
        id: u16,
        command: Command,
        object: Object,
        parts: &[&[u8]],
        fds: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<(), UserError> {
        let bytes = parts.iter().map(|part| part.len()).sum();
        let sending = self.sending.lock();
        let sent = self.socket.send(Header::request(id, command, bytes), parts, fds, deadline);
        drop(sending);
        sent.map_err(|source| {
            self.end(format!("{command} of {object}: {source}"));
            UserError::Broken { socket: self.name.clone(), command, object, source }
        })
    }

    /// Waits for the reply to a request.
    fn wait(
        &self,
        id: u16,
        command: Command,
        object: Object,
        deadline: Instant,
    ) -> Result<Message, UserError> {
        let mut pending = self.pending.lock();
        loop {
            match pending.outcome(id) {
                Outcome::Arrived(message) => return Ok(message),
                Outcome::Ended(reason) => return Err(self.gone(command, object, &reason)),
                Outcome::Waiting => {}
            }
            if self.changed.wait_until(&mut pending, deadline).timed_out() {
                // It may have come at the last moment.
                return match pending.give_up(id) {
                    Some(message) => Ok(message),
                    None => Err(self.late(command, object)),
                };
            }
        }
    }

    /// Ends the connection, for that reason if it is the first.
    fn end(&self, reason: String) {
        let first = self.pending.lock().end(reason.clone());
        if first {
            tracing::debug!(socket = %self.name.display(), reason, "connection ended");
        }
        self.socket.shut_down();
        self.changed.notify_all();
    }
}
