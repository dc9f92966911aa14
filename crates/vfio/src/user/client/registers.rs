//! Registers by message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpbell_hw::{DoorbellProxy, Registers};

use super::connection::Connection;
use super::error::UserError;
use super::wire::region_index::BAR0;

/// BAR 0 below the doorbells. An access that fails reads as all ones and writes nothing; the log says why.
pub(super) struct UserRegisters {
    connection: Arc<Connection>,
    /// Doorbells that kernels stored, where those go by message too.
    proxy: Option<Arc<DoorbellProxy>>,
    /// The end of the connection was told.
    told: AtomicBool,
}

impl UserRegisters {
    pub(super) fn new(connection: Arc<Connection>, proxy: Option<Arc<DoorbellProxy>>) -> UserRegisters {
        UserRegisters { connection, proxy, told: AtomicBool::new(false) }
    }

    fn read<const N: usize>(&self, offset: u32) -> [u8; N] {
        self.connection.read(BAR0, offset.into()).unwrap_or_else(|error| {
            self.tell(&error);
            [0xff; N]
        })
    }

    fn write(&self, offset: u32, bytes: &[u8]) {
        // A doorbell that was written before a reset must not come after it. One that cannot be sent was told of.
        let _ = self.proxy.as_ref().map(|proxy| proxy.forward());
        if let Err(error) = self.connection.write(BAR0, offset.into(), bytes) {
            self.tell(&error);
        }
    }

    fn tell(&self, error: &UserError) {
        if !error.is_gone() || !self.told.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "register access failed: it reads as all ones");
        }
    }
}

impl Registers for UserRegisters {
    fn read32(&self, offset: u32) -> u32 {
        u32::from_le_bytes(self.read(offset))
    }

    fn read64(&self, offset: u32) -> u64 {
        u64::from_le_bytes(self.read(offset))
    }

    fn write32(&self, offset: u32, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }

    fn write64(&self, offset: u32, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }
}
