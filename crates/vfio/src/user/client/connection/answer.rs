//! Requests of the server: it reads and writes our memory by message.

use std::time::Instant;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::{DATA_BYTES, Shared};
use crate::user::socket::{Message, SocketError};
use crate::user::wire::{Command, DmaTransfer, take};

impl Shared {
    /// Answers one, if the server wants an answer.
    pub(super) fn answer(&self, message: &Message) -> Result<(), SocketError> {
        let answer = match message.header.command() {
            Some(Command::DmaRead) => self.dma_read(&message.payload),
            Some(Command::DmaWrite) => self.dma_write(&message.payload),
            _ => Err(Errno::NOTSUP),
        };
        if let Err(errno) = answer {
            let command = crate::user::socket::CommandNumber(message.header.number);
            tracing::warn!(socket = %self.name.display(), %command, %errno, "refused the server's request");
        }
        if !message.header.wants_reply() {
            return Ok(());
        }
        let deadline = Instant::now() + self.timeout;
        let _sending = self.sending.lock();
        match answer {
            Ok(payload) => self.socket.send(message.header.reply(payload.len()), &[&payload], &[], deadline),
            Err(errno) => {
                let refusal = message.header.refusal(errno.raw_os_error() as u32);
                self.socket.send(refusal, &[], &[], deadline)
            }
        }
    }

    fn dma_read(&self, payload: &[u8]) -> Result<Vec<u8>, Errno> {
        let (transfer, _) = take::<DmaTransfer>("DMA_READ", payload).map_err(|_| Errno::INVAL)?;
        if transfer.count > DATA_BYTES {
            return Err(Errno::INVAL);
        }
        let mut reply = transfer.as_bytes().to_vec();
        let fixed = reply.len();
        reply.resize(fixed + transfer.count as usize, 0);
        self.memory.read(transfer.address, &mut reply[fixed..])?;
        Ok(reply)
    }

    fn dma_write(&self, payload: &[u8]) -> Result<Vec<u8>, Errno> {
        let (transfer, data) = take::<DmaTransfer>("DMA_WRITE", payload).map_err(|_| Errno::INVAL)?;
        if transfer.count != data.len() as u64 {
            return Err(Errno::INVAL);
        }
        self.memory.write(transfer.address, data)?;
        Ok(transfer.as_bytes().to_vec())
    }
}
