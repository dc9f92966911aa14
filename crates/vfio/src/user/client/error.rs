//! What can go wrong with a controller behind a socket.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use warpbell_base::Time;

use super::socket::SocketError;
use super::wire::{Command, WireError};

/// What a message was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The device as a whole.
    Device,
    /// A region.
    Region(u32),
    /// Bytes of a region.
    Access {
        /// Which region.
        region: u32,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// A DMA mapping.
    Dma {
        /// First IOVA.
        iova: u64,
        /// Bytes.
        len: u64,
    },
    /// Interrupts of a type.
    Irqs {
        /// Which type.
        index: u32,
        /// The first of them.
        start: u32,
    },
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Device => write!(f, "the device"),
            Object::Region(7) => write!(f, "configuration space"),
            Object::Region(region) => write!(f, "region {region}"),
            Object::Access { region: 7, offset, len } => {
                write!(f, "{len} bytes of configuration space at {offset:#x}")
            }
            Object::Access { region, offset, len } => {
                write!(f, "{len} bytes of region {region} at {offset:#x}")
            }
            Object::Dma { iova, len } => write!(f, "{len} bytes at iova {iova:#x}"),
            Object::Irqs { index, start } => write!(f, "interrupts of type {index} from {start} on"),
        }
    }
}

/// Why an operation over a vfio-user socket failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// Nobody listens there, or not for this user.
    #[error("vfio-user:{}: cannot connect: {source}; {}", socket.display(), remedy(socket, source))]
    Connect {
        /// The socket's path.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The connection broke at this message.
    #[error("vfio-user:{}: {command} of {object}: {source}", socket.display())]
    Broken {
        /// The socket's path.
        socket: PathBuf,
        /// The message.
        command: Command,
        /// What it was about.
        object: Object,
        /// What happened.
        source: SocketError,
    },
    /// The connection broke before.
    #[error("vfio-user:{}: {command} of {object}: the connection has ended: {reason}", socket.display())]
    Gone {
        /// The socket's path.
        socket: PathBuf,
        /// The message.
        command: Command,
        /// What it was about.
        object: Object,
        /// What ended it.
        reason: String,
    },
    /// No reply in time.
    #[error(
        "vfio-user:{}: {command} of {object}: no reply within {}; the server hangs, or serves another client",
        socket.display(),
        Time(*limit)
    )]
    Timeout {
        /// The socket's path.
        socket: PathBuf,
        /// The message.
        command: Command,
        /// What it was about.
        object: Object,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The server said no.
    #[error("vfio-user:{}: {command} of {object} was refused: {source}", socket.display())]
    Refused {
        /// The socket's path.
        socket: PathBuf,
        /// The message.
        command: Command,
        /// What it was about.
        object: Object,
        /// The server's errno.
        source: io::Error,
    },
    /// The server's reply makes no sense.
    #[error("vfio-user:{}: {command} of {object}: {source}", socket.display())]
    Reply {
        /// The socket's path.
        socket: PathBuf,
        /// The message.
        command: Command,
        /// What it was about.
        object: Object,
        /// What is wrong with it.
        source: WireError,
    },
    /// The server cannot do what is needed.
    #[error("vfio-user:{}: {what} is {value}; it must be {need}", socket.display())]
    Unsupported {
        /// The socket's path.
        socket: PathBuf,
        /// What.
        what: &'static str,
        /// What the server has.
        value: String,
        /// What is needed.
        need: String,
    },
    /// The system refused.
    #[error("vfio-user:{}: cannot {step}: {source}", socket.display())]
    System {
        /// The socket's path.
        socket: PathBuf,
        /// What was attempted.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// What helps against a connection that did not come about.
fn remedy(socket: &Path, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            let socket = socket.display();
            format!("run as the server's user, or give this one rights: chmod o+rw {socket}")
        }
        io::ErrorKind::InvalidFilename => "choose a path of at most 107 bytes".to_owned(),
        io::ErrorKind::WouldBlock => "other clients wait for this server: end them, or it hangs".to_owned(),
        _ => format!("start a server first, e.g. warpbell serve --size 1g --socket {}", socket.display()),
    }
}

impl UserError {
    /// The errno of a refusal, if the server said one.
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            UserError::Refused { source, .. } => Errno::from_io_error(source),
            _ => None,
        }
    }

    /// Whether the server did not answer the first message: it serves another client, or hangs.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, UserError::Timeout { command: Command::Version, .. })
    }

    /// Whether the connection has ended: nothing will work any more.
    pub fn is_gone(&self) -> bool {
        matches!(self, UserError::Broken { .. } | UserError::Gone { .. })
    }
}
