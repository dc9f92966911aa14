//! Doorbells: the server's page where it can be mapped, else messages, by way of a [`DoorbellProxy`].

use std::io;
use std::sync::Arc;

use warpbell_hw::{
    Doorbell, DoorbellError, DoorbellKind, DoorbellLost, DoorbellPath, DoorbellProxy, DoorbellSink,
    DoorbellWriter, Doorbells, Qid, Window,
};

use super::connection::Connection;
use super::wire::region_index::BAR0;

/// Where the doorbells begin in BAR 0.
pub(super) const FIRST: u64 = 0x1000;

/// The doorbells of a function behind a socket.
pub(super) enum UserDoorbells {
    /// The server's page.
    Mapped { page: Window, stride: u8 },
    /// Messages.
    Forwarded(Arc<DoorbellProxy>),
}

impl UserDoorbells {
    pub(super) fn mapped(page: Window, stride: u8) -> UserDoorbells {
        UserDoorbells::Mapped { page, stride }
    }

    /// `bytes` of doorbells that can only be written by message.
    pub(super) fn forwarded(
        connection: Arc<Connection>,
        bytes: usize,
        stride: u8,
    ) -> io::Result<UserDoorbells> {
        let proxy = DoorbellProxy::new(bytes, stride, Box::new(Messages(connection)))?;
        Ok(UserDoorbells::Forwarded(Arc::new(proxy)))
    }

    /// What forwards doorbells, where something does.
    pub(super) fn proxy(&self) -> Option<Arc<DoorbellProxy>> {
        match self {
            UserDoorbells::Mapped { .. } => None,
            UserDoorbells::Forwarded(proxy) => Some(proxy.clone()),
        }
    }

    fn inner(&self) -> Option<&DoorbellProxy> {
        match self {
            UserDoorbells::Mapped { .. } => None,
            UserDoorbells::Forwarded(proxy) => Some(proxy),
        }
    }

    /// After a reset: what was written and not sent is void.
    pub(super) fn clear(&self) {
        if let Some(proxy) = self.inner() {
            proxy.clear();
        }
    }
}

/// Writes registers by message. One that cannot be sent is told of.
struct Messages(Arc<Connection>);

impl DoorbellWriter for Messages {
    fn write(&self, offset: usize, value: u32) -> Result<(), DoorbellLost> {
        let sent = self.0.post_write(BAR0, FIRST + offset as u64, &value.to_le_bytes());
        sent.map_err(|error| {
            tracing::warn!(%error, value, "doorbell lost");
            if error.is_gone() { DoorbellLost::All } else { DoorbellLost::This }
        })
    }
}

impl Doorbells for UserDoorbells {
    fn path(&self) -> DoorbellPath {
        self.inner().map_or(DoorbellPath::Mapped, DoorbellProxy::path)
    }

    fn stride(&self) -> u8 {
        match self {
            UserDoorbells::Mapped { stride, .. } => *stride,
            UserDoorbells::Forwarded(proxy) => proxy.stride(),
        }
    }

    fn window(&self) -> Window {
        match self {
            UserDoorbells::Mapped { page, .. } => page.clone(),
            UserDoorbells::Forwarded(proxy) => proxy.window(),
        }
    }

    /// None: memory can be written in every case.
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        None
    }

    fn doorbell(&self, qid: Qid, kind: DoorbellKind) -> Result<Doorbell, DoorbellError> {
        match self {
            UserDoorbells::Mapped { page, .. } => {
                let (offset, len) = (self.offset(qid, kind), page.len());
                Doorbell::new(page, offset).ok_or(DoorbellError::Outside { qid, offset, len })
            }
            UserDoorbells::Forwarded(proxy) => proxy.doorbell(qid, kind),
        }
    }
}
