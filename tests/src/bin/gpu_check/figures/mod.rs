//! What is measured.

mod array;
pub mod gauge;
mod registers;
mod resident;
mod transfer;

use crate::run::Figure;

/// Every figure.
pub fn all() -> Vec<Figure> {
    vec![
        Figure { name: "costs: registers and machine code", body: registers::registers },
        Figure { name: "gauge: one lane, again and again", body: gauge::alone },
        Figure { name: "gauge: atomics contention", body: gauge::contention },
        Figure { name: "gauge: a word there and back", body: gauge::round_trips },
        Figure { name: "resident: commands per second", body: resident::throughput },
        Figure { name: "resident: each thread waits for its own command", body: resident::waiting },
        Figure { name: "arrays: words through a page cache", body: array::hit_rates },
        Figure { name: "end to end: sizes", body: transfer::sizes },
        Figure { name: "end to end: controller threads", body: transfer::controller_threads },
    ]
}
