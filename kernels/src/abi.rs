//! The Rust mirror of `abi.h`: what the host and kernels share.
//!
//! Pointers are plain `u64` addresses; every struct is plain bytes without padding. [`check`] compares
//! the mirror with the table of sizes and offsets that a compiled module carries: a launch across a
//! mismatch is refused.

mod arguments;
#[cfg(feature = "bench")]
mod bench;
mod cache;
#[cfg(feature = "checks")]
mod check;
mod constants;
mod file;
mod kernel_args;
mod memory;
mod stream;
mod table;
mod trace;
mod volume;

pub use arguments::{check_arguments, check_size, check_taken};
#[cfg(feature = "bench")]
pub use bench::*;
pub use cache::*;
#[cfg(feature = "checks")]
pub use check::*;
pub use constants::*;
pub use file::*;
pub use kernel_args::{Grid, Holds, KernelArgs, Span};
pub use memory::*;
pub use stream::*;
pub use table::{Mismatch, Row, check};
pub use trace::*;
pub use volume::*;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One field of a struct of `abi.h`, as Rust lays it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// A struct of `abi.h`: plain bytes that may be copied to and from kernels.
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + Sync + 'static {
    /// The C name.
    const NAME: &'static str;
    /// All fields, in order.
    const FIELDS: &'static [Field];
    /// Of structs that begin with `abi_version` and `size`: the version.
    const VERSION: Option<u32>;
}

/// The layout of one mirrored struct.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The C name.
    pub name: &'static str,
    /// Bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// All fields, in order.
    pub fields: &'static [Field],
}

impl Layout {
    const fn of<T: Plain>() -> Layout {
        Layout { name: T::NAME, size: size_of::<T>(), align: align_of::<T>(), fields: T::FIELDS }
    }
}

// `attached_queue` of queue.cuh copies this part of a reference in a row.
const _: () = assert!(
    std::mem::offset_of!(QueueRef, timeout_ns) - std::mem::offset_of!(QueueRef, sq) == size_of::<[u64; 8]>()
);

/// Every mirrored struct of the device ABI. [`check`] compares them with each module.
pub const STRUCTS: &[Layout] = &[
    Layout::of::<QueueState>(),
    Layout::of::<QueueHost>(),
    Layout::of::<QueueRef>(),
    Layout::of::<NamespaceRef>(),
    Layout::of::<BufferRef>(),
    Layout::of::<Mailbox>(),
    Layout::of::<TraceEvent>(),
    Layout::of::<TraceLane>(),
    Layout::of::<VolumeMember>(),
    Layout::of::<VolumeCounts>(),
    Layout::of::<VolumeState>(),
    Layout::of::<VolumeRef>(),
    Layout::of::<VolumeBufferRef>(),
    Layout::of::<FileExtent>(),
    Layout::of::<FileRef>(),
    Layout::of::<CacheLine>(),
    Layout::of::<CacheReport>(),
    Layout::of::<CacheRef>(),
    Layout::of::<TileStep>(),
    Layout::of::<ScheduleRef>(),
];

/// Declares a mirrored struct and its layout. `versioned` structs, of the device ABI, and `bench` structs begin with
/// `abi_version` and `size`, which `new` fills in.
macro_rules! mirror {
    ($(#[$doc:meta])* versioned $name:ident = $c:literal { $($fields:tt)* }) => {
        mirror! { @versioned ($crate::abi::ABI_VERSION) $(#[$doc])* $name = $c { $($fields)* } }
    };
    ($(#[$doc:meta])* bench $name:ident = $c:literal { $($fields:tt)* }) => {
        mirror! { @versioned ($crate::abi::BENCH_ABI_VERSION) $(#[$doc])* $name = $c { $($fields)* } }
    };
    (@versioned ($version:expr) $(#[$doc:meta])* $name:ident = $c:literal { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* }) => {
        mirror! { @define (Some($version)) $(#[$doc])* $name = $c {
            /// Version of the interface that the struct belongs to.
            abi_version: u32,
            /// Size of the struct in bytes.
            size: u32,
            $($(#[$fdoc])* $field: $type,)*
        } }

        impl $name {
            /// All zero but for version and size.
            pub const fn new() -> $name {
                let mut value: $name = zerocopy::transmute!([0u8; size_of::<$name>()]);
                value.abi_version = $version;
                value.size = size_of::<$name>() as u32;
                value
            }
        }
    };
    ($(#[$doc:meta])* plain $name:ident = $c:literal { $($fields:tt)* }) => {
        mirror! { @define (None) $(#[$doc])* $name = $c { $($fields)* } }

        impl $name {
            /// All zero.
            pub const fn new() -> $name {
                zerocopy::transmute!([0u8; size_of::<$name>()])
            }
        }
    };
    (@define ($version:expr) $(#[$doc:meta])* $name:ident = $c:literal { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable, zerocopy::KnownLayout)]
        #[repr(C)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new()
            }
        }

        impl $crate::abi::Plain for $name {
            const NAME: &'static str = $c;
            const VERSION: Option<u32> = $version;
            const FIELDS: &'static [$crate::abi::Field] = &[$($crate::abi::Field {
                name: stringify!($field),
                offset: std::mem::offset_of!($name, $field),
                size: size_of::<$type>(),
            },)*];
        }
    };
}
use mirror;
