//! Which architectures share a run of the compiler's front end.

use crate::includes::closure;
use crate::{HEADERS, PROBES, SOURCES};

/// The header whose code differs between the architectures before 100: each copies into shared memory in its own way.
pub const STREAMS: &str = "warpbell/impl/stream.cuh";

/// PTX of 80 and of 90 differs in its target alone, and so does that of 100 and of 120: a test of the compile matrix polls,
/// and one below that no other file asks for the architecture.
/// That of 75 differs in details from that of 80.
const SHARED: [&[u32]; 3] = [&[75], &[80, 90], &[100, 120]];
/// Where each copies in its own way.
const OWN: [&[u32]; 4] = [&[75], &[80], &[90], &[100, 120]];
/// Kernels that try each call of the library are carried as PTX of the oldest alone: newer GPUs take that.
const CHECKS: [&[u32]; 2] = [&[75, 80, 90], &[100, 120]];

/// Architectures by the PTX that machine code of this source is made from, which is that of each family's first.
pub fn families(name: &str, text: &str) -> &'static [&'static [u32]] {
    let files: Vec<_> = HEADERS.iter().chain(SOURCES).chain(PROBES).copied().collect();
    let streams = closure(name, text, &files).iter().any(|(name, _)| *name == STREAMS);
    match (streams, name.ends_with("_check.cu")) {
        (true, _) => &OWN,
        (false, true) => &CHECKS,
        (false, false) => &SHARED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one file that asks for the architecture.
    const PORT: &str = "warpbell/impl/port_gpu.cuh";

    fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
        HEADERS.iter().chain(SOURCES).chain(PROBES).copied()
    }

    /// Functions of the port whose code differs between architectures.
    fn differing() -> Vec<&'static str> {
        let (_, text) = files().find(|(name, _)| *name == PORT).expect("the port");
        let (mut function, mut found) = ("", Vec::new());
        for line in text.lines() {
            let head = line.strip_prefix("WARPBELL_D ").and_then(|line| line.split_once('('));
            function = head.map_or(function, |(head, _)| head.rsplit(' ').next().unwrap_or_default());
            if line.contains("CUDA_ARCH") {
                let known = [">= 800", ">= 900"].iter().any(|value| line.ends_with(value));
                assert!(known, "{PORT}: {line}: families take 75, 80, 90 and all from 100 on for different");
                found.push(function);
            }
        }
        found.dedup();
        found
    }

    #[test]
    fn only_streams_take_in_what_differs_between_architectures() {
        for word in ["CUDA_ARCH", "NV_IF_TARGET", "nv/target"] {
            let asking = files().filter(|(name, text)| *name != PORT && text.contains(word));
            assert_eq!(asking.map(|(name, _)| name).collect::<Vec<_>>(), Vec::<&str>::new(), "{word}");
        }
        let found = differing();
        assert_eq!(found, ["copy_init", "copy_close", "copy_order", "copy_begin", "copy_is_done"]);
        for function in found {
            let call = format!("port::{function}(");
            let using = files().filter(|(_, text)| text.contains(&call)).map(|(name, _)| name);
            assert_eq!(using.collect::<Vec<_>>(), [STREAMS], "{function}: families are chosen by that file");
        }
    }
}
