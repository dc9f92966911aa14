//! Support for tests that cross crates. What runs cases and judges them is [`warpbell_sim`].

mod apart;
pub mod cached;
mod disk;
mod documented;
mod frames;
pub mod suite;
mod variant;

pub use apart::each_apart;
pub use disk::Disk;
pub use documented::{documented, documented_of_caches};
pub use frames::{Framed, PAGE, blocks_of, documented_blocks, documented_part, frame_of, framed, in_frame};
pub use variant::queue_test_without;
