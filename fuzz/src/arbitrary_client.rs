//! The client of the soft controller that does anything: the one of its own test `arbitrary`, whose choices an input
//! makes, with all that this client knows about what must hold.

#[path = "../../crates/softctl/tests/arbitrary/commands.rs"]
#[doc(hidden)]
pub mod commands;
#[path = "../../crates/softctl/tests/arbitrary/episode.rs"]
#[doc(hidden)]
pub mod episode;
#[path = "../../crates/softctl/tests/arbitrary/memory.rs"]
#[doc(hidden)]
pub mod memory;
#[path = "../../crates/softctl/tests/arbitrary/queues.rs"]
#[doc(hidden)]
pub mod queues;
#[path = "../../crates/softctl/tests/arbitrary/random.rs"]
#[doc(hidden)]
pub mod random;
#[path = "../../crates/softctl/tests/arbitrary/world.rs"]
#[doc(hidden)]
pub mod world;
