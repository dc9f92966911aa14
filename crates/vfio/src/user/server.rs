//! The server: a controller on a socket, for one client after the other.

mod config_space;
mod function;
mod interrupts;
mod session;
#[cfg(test)]
mod tests;
mod visit;

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use warpbell_hw::Endpoint;

use super::socket::{Socket, SocketError, connect};
use super::wire::WireError;
use session::Session;

pub use session::SessionCounts;
pub use visit::Visit;

/// How long the server waits at a time before it checks whether it is to stop.
const TICK: Duration = Duration::from_millis(50);

/// How a client's doorbells come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoorbellMode {
    /// The client maps the doorbell page: a store to it is a doorbell.
    #[default]
    Mapped,
    /// There is no page to map: each doorbell is a message.
    Message,
}

warpbell_base::options! {
    /// How to serve.
    #[derive(Clone, Debug)]
    pub struct ServerOptions {
        /// How doorbells come.
        pub doorbells: DoorbellMode,
        /// How long the rest of a message, and room for a reply, may take to come. So long, at most, a client that no longer
        /// moves keeps the server from its end.
        pub patience: Duration,
        /// Ends after so many clients.
        pub clients: Option<u64>,
    }
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions { doorbells: DoorbellMode::Mapped, patience: Duration::from_secs(2), clients: None }
    }
}

/// Why a server did not start, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Another server listens there.
    #[error("{}: another server listens there; stop it, or choose another --socket", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket is there.
    #[error("{}: exists and is no socket; choose another --socket", path.display())]
    NotASocket {
        /// What is there.
        path: PathBuf,
    },
    /// The controller has memory that clients cannot map.
    #[error("{what} is not in a file that clients could map; serve it with --doorbells message")]
    NotMappable {
        /// Which memory.
        what: &'static str,
    },
    /// The system refused.
    #[error("cannot {step} socket {}: {source}", path.display())]
    System {
        /// What was attempted.
        step: &'static str,
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The client left.
    #[error("it left")]
    Left,
    /// The server was told to stop.
    #[error("the server stops")]
    Stopped,
    /// The connection broke.
    #[error("{0}")]
    Broken(SocketError),
    /// It does not keep to the protocol, so that nothing more can be said to it.
    #[error("it broke the protocol: {0}")]
    Protocol(String),
}

impl From<SocketError> for Ended {
    fn from(error: SocketError) -> Ended {
        match error {
            SocketError::Closed => Ended::Left,
            error => Ended::Broken(error),
        }
    }
}

/// A message that is answered by an error.
#[derive(Debug)]
struct Refused {
    errno: Errno,
    reason: String,
}

impl Refused {
    fn invalid(reason: String) -> Refused {
        Refused { errno: Errno::INVAL, reason }
    }

    fn unsupported(number: u16) -> Refused {
        Refused { errno: Errno::OPNOTSUPP, reason: format!("command {number} is not supported") }
    }

    fn system(what: &str, error: &io::Error) -> Refused {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        Refused { errno, reason: format!("{what}: {error}") }
    }
}

impl From<WireError> for Refused {
    fn from(error: WireError) -> Refused {
        Refused::invalid(error.to_string())
    }
}

/// What happens while a server runs.
#[derive(Debug)]
pub enum ServerEvent {
    /// A client has come, and has agreed on the protocol.
    Come {
        /// Counted from 1.
        client: u64,
    },
    /// A client mapped memory without a file: the controller cannot reach it. Told once a client, and not of what is
    /// too small to be its main memory.
    Unreachable {
        /// Counted from 1.
        client: u64,
        /// The first IOVA.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// A client is gone, and what it left has been cleaned up.
    Gone {
        /// Counted from 1.
        client: u64,
        /// How.
        ended: Ended,
        /// What it did.
        counts: SessionCounts,
    },
    /// Some time has passed.
    Tick,
}

/// A controller on a socket.
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket: what is removed at the end is ours.
    identity: (u64, u64),
    endpoint: Arc<dyn Endpoint>,
    options: ServerOptions,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("path", &self.path)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens on `path`. The socket of a server that is no more is replaced.
    pub fn bind(
        path: &Path,
        endpoint: Arc<dyn Endpoint>,
        options: ServerOptions,
    ) -> Result<Server, ServerError> {
        function::Function::new(endpoint.clone(), options.doorbells).check()?;
        let system = |step| {
            let path = path.to_owned();
            move |source| ServerError::System { step, path, source }
        };
        clear_the_way(path)?;
        let listener = UnixListener::bind(path).map_err(system("listen on"))?;
        listener.set_nonblocking(true).map_err(system("listen on"))?;
        let metadata = fs::symlink_metadata(path).map_err(system("look at"))?;
        let identity = (metadata.dev(), metadata.ino());
        Ok(Server { listener, path: path.to_owned(), identity, endpoint, options })
    }

    /// Serves clients until `stop` is set, or as many as the options say have been served.
    pub fn run(&self, stop: &AtomicBool, mut watch: impl FnMut(ServerEvent)) -> Result<(), ServerError> {
        let mut client = 0;
        while !stop.load(Ordering::Acquire) && self.options.clients != Some(client) {
            watch(ServerEvent::Tick);
            let Some(stream) = self.accept()? else { continue };
            let mut session = Session::new(Socket::new(stream), self.endpoint.clone(), &self.options);
            match self.negotiate(&mut session, stop) {
                Ok(()) => {}
                // It only looked whether somebody listens.
                Err(Ended::Left) => continue,
                Err(ended) => {
                    tracing::warn!(%ended, "a client was turned away");
                    continue;
                }
            }
            client += 1;
            watch(ServerEvent::Come { client });
            let ended = serve(client, &mut session, stop, &mut watch);
            let counts = session.counts;
            drop(session);
            watch(ServerEvent::Gone { client, ended, counts });
        }
        Ok(())
    }

    /// The next connection, if one comes within a tick.
    fn accept(&self) -> Result<Option<UnixStream>, ServerError> {
        let system = |source| ServerError::System { step: "accept on", path: self.path.clone(), source };
        let tick = Timespec { tv_sec: 0, tv_nsec: i64::from(TICK.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&tick)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(system(error.into())),
        }
        match self.listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted) =>
            {
                Ok(None)
            }
            Err(error) => Err(system(error)),
        }
    }

    /// A client that connects and says nothing has as long as any message.
    fn negotiate(&self, session: &mut Session, stop: &AtomicBool) -> Result<(), Ended> {
        let deadline = Instant::now() + self.options.patience;
        while !session.wait(Instant::now() + TICK)? {
            if stop.load(Ordering::Acquire) {
                return Err(Ended::Stopped);
            }
            if Instant::now() >= deadline {
                return Err(Ended::Protocol("it said nothing".to_owned()));
            }
        }
        session.negotiate()
    }
}

/// Serves a client until it goes.
fn serve(
    client: u64,
    session: &mut Session,
    stop: &AtomicBool,
    watch: &mut impl FnMut(ServerEvent),
) -> Ended {
    let mut told = false;
    let mut next_tick = Instant::now() + TICK;
    loop {
        if stop.load(Ordering::Acquire) {
            return Ended::Stopped;
        }
        let now = Instant::now();
        if now >= next_tick {
            watch(ServerEvent::Tick);
            next_tick = now + TICK;
        }
        let step = session.wait(next_tick).and_then(|ready| if ready { session.serve() } else { Ok(()) });
        if let Err(ended) = step {
            return ended;
        }
        if let Some((address, size)) = session.unreachable.filter(|_| !told) {
            watch(ServerEvent::Unreachable { client, address, size });
            told = true;
        }
    }
}

/// Removes a socket that nobody listens on.
fn clear_the_way(path: &Path) -> Result<(), ServerError> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(ServerError::NotASocket { path: path.to_owned() });
    }
    let system = |step, source| ServerError::System { step, path: path.to_owned(), source };
    match connect(path, Instant::now()) {
        Ok(_) => Err(ServerError::InUse { path: path.to_owned() }),
        // It has so many clients that there is no room for another to wait.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(ServerError::InUse { path: path.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| system("replace", error))
        }
        Err(error) => Err(system("try", error)),
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}
