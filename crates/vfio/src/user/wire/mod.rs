//! Messages of vfio-user 0.x: headers, commands, payloads. All numbers are in the byte order of the machine.

mod payload;
mod region;
#[cfg(test)]
mod tests;
mod version;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use payload::{
    DeviceFlags, DeviceInfo, DmaFlags, DmaMap, DmaTransfer, DmaUnmap, IrqFlags, IrqInfo, IrqSet, IrqSetFlags,
    MultiWrite, MultiWriteCount, RegionAccess, RegionFlags, RegionInfo, RegionIoFd, RegionIoFds, irq,
    region_index,
};
pub use region::{RegionDescription, SparseArea};
pub use version::{Capabilities, TwinSocket, Version};

/// Protocol version that client and server here speak.
pub const MAJOR: u16 = 0;
/// Highest minor version that client and server here speak.
pub const MINOR: u16 = 1;
/// Bytes of a message without payload.
pub const HEADER_BYTES: usize = size_of::<Header>();

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Command {
    /// The first message: versions and capabilities.
    Version = 1,
    /// Client memory that the server may access.
    DmaMap = 2,
    /// The end of that.
    DmaUnmap = 3,
    /// How many regions and interrupt types there are.
    DeviceGetInfo = 4,
    /// Size, access and mappable areas of a region.
    DeviceGetRegionInfo = 5,
    /// Event descriptors for parts of a region.
    DeviceGetRegionIoFds = 6,
    /// How many interrupts of a type there are.
    DeviceGetIrqInfo = 7,
    /// Connects, masks and triggers interrupts.
    DeviceSetIrqs = 8,
    /// Reads from a region.
    RegionRead = 9,
    /// Writes to a region.
    RegionWrite = 10,
    /// Server to client: reads client memory.
    DmaRead = 11,
    /// Server to client: writes client memory.
    DmaWrite = 12,
    /// Resets the function.
    DeviceReset = 13,
    /// Several small writes to regions.
    RegionWriteMulti = 15,
}

impl Command {
    /// All of them.
    pub const ALL: [Command; 14] = [
        Command::Version,
        Command::DmaMap,
        Command::DmaUnmap,
        Command::DeviceGetInfo,
        Command::DeviceGetRegionInfo,
        Command::DeviceGetRegionIoFds,
        Command::DeviceGetIrqInfo,
        Command::DeviceSetIrqs,
        Command::RegionRead,
        Command::RegionWrite,
        Command::DmaRead,
        Command::DmaWrite,
        Command::DeviceReset,
        Command::RegionWriteMulti,
    ];

    /// The command with that number.
    pub fn from_number(number: u16) -> Option<Command> {
        Command::ALL.into_iter().find(|command| *command as u16 == number)
    }

    /// Its name in the specification, without the prefix `VFIO_USER_`.
    pub fn name(self) -> &'static str {
        match self {
            Command::Version => "VERSION",
            Command::DmaMap => "DMA_MAP",
            Command::DmaUnmap => "DMA_UNMAP",
            Command::DeviceGetInfo => "DEVICE_GET_INFO",
            Command::DeviceGetRegionInfo => "DEVICE_GET_REGION_INFO",
            Command::DeviceGetRegionIoFds => "DEVICE_GET_REGION_IO_FDS",
            Command::DeviceGetIrqInfo => "DEVICE_GET_IRQ_INFO",
            Command::DeviceSetIrqs => "DEVICE_SET_IRQS",
            Command::RegionRead => "REGION_READ",
            Command::RegionWrite => "REGION_WRITE",
            Command::DmaRead => "DMA_READ",
            Command::DmaWrite => "DMA_WRITE",
            Command::DeviceReset => "DEVICE_RESET",
            Command::RegionWriteMulti => "REGION_WRITE_MULTI",
        }
    }
}

impl std::fmt::Display for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What stands before every payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// Chosen by the sender of a command, repeated in its reply.
    pub id: u16,
    /// The command's number, see [`Header::command`].
    pub number: u16,
    /// Bytes of the message with this header.
    pub size: u32,
    /// Type and bits, see the methods.
    pub flags: u32,
    /// In an error reply: the errno, or 0.
    pub error: u32,
}

const _: () = assert!(HEADER_BYTES == 16);

impl Header {
    const TYPE: u32 = 0xf;
    const REPLY: u32 = 0x1;
    const NO_REPLY: u32 = 1 << 4;
    const ERROR: u32 = 1 << 5;

    /// The header of a command with so many bytes of payload.
    pub fn request(id: u16, command: Command, payload: usize) -> Header {
        Header { id, number: command as u16, size: (HEADER_BYTES + payload) as u32, flags: 0, error: 0 }
    }

    /// The same, and the receiver need not answer.
    pub fn without_reply(self) -> Header {
        Header { flags: self.flags | Header::NO_REPLY, ..self }
    }

    /// The header of a successful reply to this command.
    pub fn reply(&self, payload: usize) -> Header {
        let size = (HEADER_BYTES + payload) as u32;
        Header { size, flags: Header::REPLY, error: 0, ..*self }
    }

    /// The header of a refusal of this command. It has no payload.
    pub fn refusal(&self, errno: u32) -> Header {
        let size = HEADER_BYTES as u32;
        Header { size, flags: Header::REPLY | Header::ERROR, error: errno, ..*self }
    }

    /// The command, if it is one that we know.
    pub fn command(&self) -> Option<Command> {
        Command::from_number(self.number)
    }

    /// Whether it is a command (and not a reply).
    pub fn is_request(&self) -> bool {
        self.flags & Header::TYPE == 0
    }

    /// Whether it is a reply.
    pub fn is_reply(&self) -> bool {
        self.flags & Header::TYPE == Header::REPLY
    }

    /// Whether the sender of a command waits for a reply.
    pub fn wants_reply(&self) -> bool {
        self.flags & Header::NO_REPLY == 0
    }

    /// In a reply: the errno of the refusal (0 where the sender did not say), or `None` for success.
    pub fn refused(&self) -> Option<u32> {
        (self.flags & Header::ERROR != 0).then_some(self.error)
    }

    /// Bytes of payload that follow. The header's size must have been checked.
    pub fn payload_bytes(&self) -> usize {
        (self.size as usize).saturating_sub(HEADER_BYTES)
    }
}

/// Why a payload is not what its command says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Fewer bytes than the fixed part.
    #[error("{what} has {len} bytes; it needs {need}")]
    Short {
        /// Which structure.
        what: &'static str,
        /// Bytes that are there.
        len: usize,
        /// Bytes that must be.
        need: usize,
    },
    /// A field that cannot be.
    #[error("{what} is {value:#x}; {rule}")]
    Field {
        /// Which field.
        what: &'static str,
        /// What it holds.
        value: u64,
        /// What it must hold.
        rule: &'static str,
    },
    /// Version data that is not what it must be.
    #[error("version data '{text}': {reason}")]
    Json {
        /// The text, shortened.
        text: String,
        /// Why it was refused.
        reason: String,
    },
}

/// The structure at the start of `bytes`, and what follows it.
pub fn take<'a, T: FromBytes>(what: &'static str, bytes: &'a [u8]) -> Result<(T, &'a [u8]), WireError> {
    let need = size_of::<T>();
    T::read_from_prefix(bytes).map_err(|_| WireError::Short { what, len: bytes.len(), need })
}

/// The structure at the start of `bytes`. What follows it is padding: senders may have room for more than they say.
pub fn fixed<T: FromBytes>(what: &'static str, bytes: &[u8]) -> Result<T, WireError> {
    take(what, bytes).map(|(value, _)| value)
}
