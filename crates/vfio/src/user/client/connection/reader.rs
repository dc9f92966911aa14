//! The thread that receives what the server sends.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pending::Settled;
use super::{LIMITS, Shared};
use crate::user::socket::{Message, SocketError};

/// The longest sleep: the end of the connection wakes the thread.
const IDLE: Duration = Duration::from_secs(60);

pub(super) fn start(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("vfio-user".to_owned()).spawn(move || {
        let reason = shared.receive_all();
        shared.end(reason);
    })
}

/// What ends a connection.
#[derive(Debug, thiserror::Error)]
enum Strange {
    #[error("answering the server: {0}")]
    Unanswered(SocketError),
    #[error("a message that is neither command nor reply (flags {flags:#x})")]
    Neither { flags: u32 },
    #[error("the server sent {what}")]
    Unexpected { what: String },
}

impl Shared {
    /// Receives until the connection ends; returns why it did.
    fn receive_all(&self) -> String {
        loop {
            let message = match self.receive() {
                Ok(Some(message)) => message,
                Ok(None) => continue,
                Err(error) => return error.to_string(),
            };
            if let Err(error) = self.take(message) {
                return error.to_string();
            }
        }
    }

    fn receive(&self) -> Result<Option<Message>, SocketError> {
        if !self.socket.wait_readable(Instant::now() + IDLE)? {
            return Ok(None);
        }
        self.socket.receive(LIMITS, Instant::now() + self.timeout).map(Some)
    }

    /// What to do with a message; the reason if it ends the connection.
    fn take(&self, message: Message) -> Result<(), Strange> {
        let header = message.header;
        if header.is_request() {
            return self.answer(&message).map_err(Strange::Unanswered);
        }
        if !header.is_reply() {
            return Err(Strange::Neither { flags: header.flags });
        }
        let settled = self.pending.lock().settle(message);
        match settled {
            Settled::Delivered => {}
            Settled::Posted { errno: None, .. } => {}
            Settled::Posted { object, errno: Some(errno) } => {
                let error = self.refused(crate::user::wire::Command::RegionWrite, object, errno);
                tracing::warn!(%error, "a write that nobody waits for");
            }
            Settled::Late { command, object } => {
                tracing::warn!(socket = %self.name.display(), %command, %object, "a reply after its deadline");
            }
            Settled::Unexpected(what) => return Err(Strange::Unexpected { what }),
        }
        self.changed.notify_all();
        Ok(())
    }
}
