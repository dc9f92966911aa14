//! A client over a socket that is connected already.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use warpbell_hw::Endpoint;

use super::session::Session;
use super::{Ended, ServerOptions, SessionCounts};
use crate::user::socket::Socket;

/// One client, served as its owner says, where [`Server`](super::Server) listens for clients and serves them by itself.
/// When it is dropped the connection ends, and what the client left is cleaned up.
pub struct Visit(Session);

impl Visit {
    /// Agrees on the protocol with the client at the other end, whose first message has as long to come as any.
    pub fn begin(
        stream: UnixStream,
        endpoint: Arc<dyn Endpoint>,
        options: &ServerOptions,
    ) -> Result<Visit, Ended> {
        let mut session = Session::new(Socket::new(stream), endpoint, options);
        session.negotiate()?;
        Ok(Visit(session))
    }

    /// Serves the next message, if one comes by `deadline`; false if none does. An error is the end of the visit.
    pub fn serve(&mut self, deadline: Instant) -> Result<bool, Ended> {
        let ready = self.0.wait(deadline)?;
        if ready {
            self.0.serve()?;
        }
        Ok(ready)
    }

    /// What the client did so far.
    pub fn counts(&self) -> SessionCounts {
        self.0.counts
    }
}

impl std::fmt::Debug for Visit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Visit").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
