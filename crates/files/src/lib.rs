//! Files on SSDs that no kernel has mounted.
//!
//! Everything here reads a [`Source`]: a namespace of an SSD, or an image. A [`FileSystem`] finds a file by its path, and
//! answers with a [`FileMap`]: where the file's bytes lie. Kernels and the host read the file by that map.
//!
//! ```
//! use warpbell_files::{Extent, FileMap, Piece};
//!
//! // 10,000 bytes: a block at 1 MiB, a hole, and a block whose last 2,288 bytes belong to no file.
//! let extents = vec![
//!     Extent { offset: 0, at: 1 << 20, bytes: 4096 },
//!     Extent { offset: 8192, at: 4096, bytes: 4096 },
//! ];
//! let map = FileMap::new(10_000, extents)?;
//! let pieces: Vec<Piece> = map.pieces(4000, 5000)?.collect();
//! assert_eq!(pieces, [
//!     Piece::Data { at: (1 << 20) + 4000, bytes: 96 },
//!     Piece::Hole { bytes: 4096 },
//!     Piece::Data { at: 4096, bytes: 808 },
//! ]);
//! # Ok::<(), warpbell_files::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bytes;
pub mod catalogue;
mod error;
pub mod export;
mod ext4;
mod file_system;
pub mod import;
pub mod manifest;
mod map;
mod namespace;
mod open;
pub mod partition;
mod source;
mod writable;

pub use catalogue::Catalogue;
pub use error::Error;
pub use ext4::Ext4;
pub use file_system::{Entry, EntryKind, FileSystem};
pub use map::{Extent, FileMap, Piece};
pub use namespace::NamespaceId;
pub use open::{OpenOptions, found, member_of_array, open};
pub use partition::Partition;
pub use source::{Image, Source, Store, append_zeroes, read_file};
pub use writable::WritableFile;
