//! Tier S, simulation: what kernels do when the host gives a queue up. The test is the host: it writes the queues' pages
//! by hand. Lanes release their hazard slots on every way out, move on to the successor, and stop where none will come.

mod bench;
mod harness;
mod resume;
mod retries;
mod rules;
