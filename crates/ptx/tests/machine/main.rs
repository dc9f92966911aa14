// UNSAFETY: gives the machine memory that the tests keep.
#![expect(unsafe_code, reason = "kernels of tests work in the memory of tests")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
//! Kernels of a few lines, and what they must come to. Expectations are from the PTX ISA 9.0. Tier P.

mod asynchronous;
mod control;
mod devices;
mod findings;
mod instructions;
mod litmus;
mod memory;
mod races;
mod text;
mod warps;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpbell_ptx::{Error, Launch, Memory, Module, Region};

/// Memory of a test: its words are all that kernels may touch, and with `device` the last of them plays a doorbell.
pub(crate) struct Words {
    words: Vec<AtomicU64>,
    device: bool,
}

impl Words {
    pub(crate) fn of(values: &[u64]) -> Words {
        Words { words: values.iter().copied().map(AtomicU64::new).collect(), device: false }
    }

    pub(crate) fn with_device(values: &[u64]) -> Words {
        Words { device: true, ..Words::of(values) }
    }

    pub(crate) fn address(&self, word: usize) -> u64 {
        self.words.as_ptr() as u64 + word as u64 * 8
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.words[at]
    }

    pub(crate) fn values(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }
}

impl Memory for Words {
    fn region(&self, address: u64) -> Option<Region> {
        let plain = self.words.len() - usize::from(self.device);
        let (from, to) = if address < self.address(plain) { (0, plain) } else { (plain, self.words.len()) };
        let device = from != 0;
        // SAFETY: the words outlive every run of theirs, and are atomics.
        (address >= self.address(0))
            .then(|| unsafe { Region::new(self.address(from), self.address(to), device) })
    }
}

/// A module with one kernel `k`, whose parameter is an address in `%words`. Registers of all types are declared.
pub(crate) fn module(outside: &str, body: &str) -> Result<Module, Error> {
    let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
    let registers = ".reg .pred %p<16>;\n.reg .b16 %rs<16>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<32>, %words;\n\
        .reg .f32 %f<8>;\n.reg .f64 %fd<8>;\nld.param.u64 %words, [address];\n";
    let text =
        format!("{head}{outside}\n.visible .entry k(.param .u64 address)\n{{\n{registers}{body}\nret;\n}}\n");
    Module::load("test.ptx", &text)
}

/// Runs it with a block of so many threads.
pub(crate) fn run(module: &Module, threads: u32, words: &Words) -> Result<(), Error> {
    let launch = Launch::new(module, "k").block([threads, 1, 1]).arguments(&words.address(0).to_le_bytes());
    launch.run(words, &AtomicBool::new(false)).map(|ran| assert!(ran.ended && ran.instructions > 0))
}

/// What the words are after one thread ran the body.
pub(crate) fn after(body: &str, values: &[u64]) -> Vec<u64> {
    let words = Words::of(values);
    run(&module("", body).unwrap(), 1, &words).unwrap();
    words.values()
}
