//! Fixed parts of payloads.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Regions of a PCI function.
pub mod region_index {
    /// BAR 0: registers and doorbells of an NVMe controller.
    pub const BAR0: u32 = 0;
    /// Configuration space.
    pub const CONFIG: u32 = 7;
    /// How many a PCI function has at least.
    pub const COUNT: u32 = 9;
}

/// Interrupt types of a PCI function.
pub mod irq {
    /// The pin.
    pub const INTX: u32 = 0;
    /// Message signaled interrupts.
    pub const MSI: u32 = 1;
    /// Their extended form.
    pub const MSIX: u32 = 2;
    /// How many types a PCI function has.
    pub const COUNT: u32 = 5;
}

macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($flags:tt)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(transparent)]
        pub struct $name(u32);

        bitflags! {
            impl $name: u32 {
                $($flags)*
                const _ = !0;
            }
        }
    };
}

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident, $bytes:expr, { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        const _: () = assert!(size_of::<$name>() == $bytes);
    };
}

flags! {
    /// What the server may do with client memory.
    DmaFlags {
        /// It may read.
        const READ = 1 << 0;
        /// It may write.
        const WRITE = 1 << 1;
        /// It may map the file that came with the message.
        const MMAP = 1 << 2;
        /// It may read and write that file.
        const FILE_IO = 1 << 3;
    }
}
flags! {
    /// What a device is.
    DeviceFlags {
        /// It knows DEVICE_RESET.
        const RESET = 1 << 0;
        /// It is a PCI function.
        const PCI = 1 << 1;
    }
}
flags! {
    /// What can be done with a region.
    RegionFlags {
        /// It can be read.
        const READ = 1 << 0;
        /// It can be written.
        const WRITE = 1 << 1;
        /// Its file descriptor can be mapped.
        const MMAP = 1 << 2;
        /// Capabilities follow.
        const CAPS = 1 << 3;
    }
}
flags! {
    /// What can be done with interrupts of a type.
    IrqFlags {
        /// They can signal eventfds.
        const EVENTFD = 1 << 0;
        /// They can be masked.
        const MASKABLE = 1 << 1;
        /// Each masks itself when it is triggered.
        const AUTOMASKED = 1 << 2;
        /// All must be set up at once.
        const NORESIZE = 1 << 3;
    }
}
flags! {
    /// What to do with interrupts: one kind of data, and one action.
    IrqSetFlags {
        /// No data: all of the range.
        const DATA_NONE = 1 << 0;
        /// One byte for each interrupt says whether.
        const DATA_BOOL = 1 << 1;
        /// File descriptors come with the message; none: disconnect.
        const DATA_EVENTFD = 1 << 2;
        /// Mask.
        const ACTION_MASK = 1 << 3;
        /// Unmask.
        const ACTION_UNMASK = 1 << 4;
        /// Trigger, or say what is signaled when it triggers.
        const ACTION_TRIGGER = 1 << 5;
    }
}

payload! {
    /// DMA_MAP. The reply has no payload.
    DmaMap, 32, {
        /// Bytes of this structure.
        argsz: u32,
        /// Access.
        flags: DmaFlags,
        /// First byte in the file that came with the message.
        offset: u64,
        /// First IOVA.
        address: u64,
        /// Bytes.
        size: u64,
    }
}
payload! {
    /// DMA_UNMAP, and its reply.
    DmaUnmap, 24, {
        /// Bytes that the reply's payload may have.
        argsz: u32,
        /// 0.
        flags: u32,
        /// First IOVA, as it was mapped.
        address: u64,
        /// Bytes, as they were mapped.
        size: u64,
    }
}
payload! {
    /// DEVICE_GET_INFO, and its reply.
    DeviceInfo, 16, {
        /// Bytes that the reply's payload may have; in the reply: needs.
        argsz: u32,
        /// What it is.
        flags: DeviceFlags,
        /// How many regions there are.
        regions: u32,
        /// How many interrupt types there are.
        irqs: u32,
    }
}
payload! {
    /// DEVICE_GET_REGION_INFO, and its reply, which capabilities may follow.
    RegionInfo, 32, {
        /// Bytes that the reply's payload may have; in the reply: needs.
        argsz: u32,
        /// What can be done with it.
        flags: RegionFlags,
        /// Which region.
        index: u32,
        /// Where the first capability is, from the start of this structure; 0: nowhere.
        cap_offset: u32,
        /// Bytes of the region.
        size: u64,
        /// Where the region begins in its file.
        offset: u64,
    }
}
payload! {
    /// DEVICE_GET_REGION_IO_FDS, and its reply, which `count` [`RegionIoFd`]s follow.
    RegionIoFds, 16, {
        /// Bytes that the reply's payload may have; in the reply: needs.
        argsz: u32,
        /// 0.
        flags: u32,
        /// Which region.
        index: u32,
        /// How many there are.
        count: u32,
    }
}
payload! {
    /// Writes to a part of a region signal this descriptor.
    RegionIoFd, 40, {
        /// First byte in the region.
        offset: u64,
        /// Bytes; 0: of any access.
        size: u64,
        /// Which of the descriptors that came with the message.
        fd_index: u32,
        /// 0: an eventfd; 1: an ioregionfd.
        kind: u32,
        /// Of the KVM interface of that kind.
        flags: u32,
        /// 0.
        padding: u32,
        /// The value that an eventfd waits for, or the user data of an ioregionfd.
        data: u64,
    }
}
payload! {
    /// DEVICE_GET_IRQ_INFO, and its reply.
    IrqInfo, 16, {
        /// Bytes that the reply's payload may have; in the reply: needs.
        argsz: u32,
        /// What can be done with them.
        flags: IrqFlags,
        /// Which type.
        index: u32,
        /// How many of that type there are.
        count: u32,
    }
}
payload! {
    /// DEVICE_SET_IRQS. The reply has no payload.
    IrqSet, 20, {
        /// Bytes of this structure and of the data behind it.
        argsz: u32,
        /// What to do.
        flags: IrqSetFlags,
        /// Which type.
        index: u32,
        /// The first interrupt.
        start: u32,
        /// How many interrupts.
        count: u32,
    }
}
payload! {
    /// REGION_READ, REGION_WRITE, and their replies. Data follows the request of a write and the reply to a read.
    RegionAccess, 16, {
        /// First byte in the region.
        offset: u64,
        /// Which region.
        region: u32,
        /// Bytes.
        count: u32,
    }
}
payload! {
    /// DMA_READ, DMA_WRITE, and their replies. Data follows the request of a write and the reply to a read.
    DmaTransfer, 16, {
        /// First IOVA.
        address: u64,
        /// Bytes.
        count: u64,
    }
}
payload! {
    /// REGION_WRITE_MULTI, which so many [`MultiWrite`]s follow; and its reply: so many were done.
    MultiWriteCount, 8, {
        /// Writes.
        count: u64,
    }
}
payload! {
    /// One write of REGION_WRITE_MULTI.
    MultiWrite, 24, {
        /// First byte in the region.
        offset: u64,
        /// Which region.
        region: u32,
        /// Bytes, at most 8.
        count: u32,
        /// What to write.
        data: [u8; 8],
    }
}
