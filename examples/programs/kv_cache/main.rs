// UNSAFETY: launches kernels of its own.
//! A store of attention keys and values, larger than the memory for it: put and got by sequence, layer and token.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

use std::process::ExitCode;

use clap::Parser;
use warpbell_data::{Kv, KvRequest};
use warpbell_examples::{Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef, ending};
use zerocopy::{Immutable, IntoBytes};

/// Serves the requests of a language model's decoding to a store on an SSD, through a page cache that writes back; compares
/// each answer, and then, with an empty cache, all that was put last.
#[derive(Parser)]
#[command(version)]
struct KvCache {
    #[command(flatten)]
    sizes: Kv,
    #[command(flatten)]
    options: Options,
}

/// As in kv_cache.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct KvArgs {
    stage: StageRef,
    store: u64,
    requests: u64,
    sums: u64,
    count: u64,
    sequences: u32,
    layers: u32,
    tokens: u32,
    words: u32,
}

/// How large the store is.
#[derive(Clone, Copy)]
struct Shape {
    store: u64,
    sequences: u32,
    layers: u32,
    tokens: u32,
    words: u32,
}

fn main() -> ExitCode {
    ending(run(&KvCache::parse()))
}

fn run(KvCache { sizes, options }: &KvCache) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let section = data.section("store")?;
    let shape = Shape::of(&data)?;
    let requests = data.values("requests", |bytes| KvRequest::from_bytes(&bytes))?;
    let last = last_puts(&requests);
    let code = Code { name: "kv_cache.cu", source: include_str!("kv_cache.cu") };
    let stage = Stage::open(options, &data, code, 0)?;

    let (sums, cached) = stage.cached(|pass| shape.serve(pass, &requests))?;
    let expected: Vec<u64> = requests.iter().map(|request| shape.sum(request)).collect();
    let check = Check::of("sum of request", &expected, &sums);
    if let Some(put) = last.first() {
        stage.corrupt(shape.place(put))?;
    }
    // All that was put is on the SSD by now: a cache that begins empty finds it.
    let (sums, _) = stage.cached(|pass| shape.serve(pass, &last))?;
    let put: Vec<u64> = last.iter().map(|request| shape.sum(request)).collect();
    let check = check.and(Check::of("sum of layer read again", &put, &sums));

    stage.clear(section.offset, section.bytes)?;
    let (sums, loaded) = stage.loaded(|pass| {
        let sums = shape.serve(pass, &requests)?;
        pass.store(section.offset, section.bytes)?;
        Ok(sums)
    })?;
    let check = check.and(Check::of("sum of request of the loaded program", &expected, &sums));
    let elements = requests.iter().map(|request| u64::from(request.tokens)).sum();
    let bytes = elements * u64::from(shape.words) * 4;
    let (program, element) = ("kv_cache", "token");
    stage.report(Outcome { program, element, elements, bytes, check, cached, loaded })
}

/// For each layer of each sequence that is there at the end, a request to get all its tokens.
fn last_puts(requests: &[KvRequest]) -> Vec<KvRequest> {
    let gets = requests.iter().filter(|request| !request.put);
    let last: std::collections::BTreeMap<_, _> =
        gets.map(|request| ((request.sequence, request.layer), *request)).collect();
    last.into_values().collect()
}

impl Shape {
    fn of(data: &DataFile) -> Result<Shape, Failure> {
        let section = data.section("store")?;
        let names = ["sequences", "layers", "tokens", "token_bytes"];
        let mut sizes = [0; 4];
        for (size, name) in sizes.iter_mut().zip(names) {
            *size = data.parameter(name)?;
        }
        let all = sizes.iter().try_fold(1u64, |all, size| all.checked_mul(*size));
        // Kernels may not be sent outside the store.
        if all != Some(section.bytes) || sizes.iter().any(|size| *size == 0 || *size > 1 << 20) {
            let bytes = section.bytes;
            return Err(data.refused(format!("{names:?} are {sizes:?}, and the store has {bytes} bytes")));
        }
        let [sequences, layers, tokens, token_bytes] = sizes.map(|size| size as u32);
        Ok(Shape { store: section.offset, sequences, layers, tokens, words: token_bytes / 4 })
    }

    /// Has a kernel serve them; the sum of each.
    fn serve(self, pass: &mut Pass, requests: &[KvRequest]) -> Result<Vec<u64>, Failure> {
        let count = requests.len();
        let (asked, sums) = (pass.memory((count * KvRequest::BYTES) as u64)?, pass.memory(count as u64 * 8)?);
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.to_bytes()).collect();
        asked.write(0, &bytes)?;
        let Shape { store, sequences, layers, tokens, words } = self;
        let args = KvArgs {
            stage: pass.stage(),
            store,
            requests: asked.address(),
            sums: sums.address(),
            count: count as u64,
            sequences,
            layers,
            tokens,
            words,
        };
        // SAFETY: the kernel touches what its arguments name: memory of this pass.
        unsafe { pass.launch("kv_cache", &args, count as u64) }?;
        let mut found = vec![0u64; count];
        sums.read(0, found.as_mut_bytes())?;
        Ok(found)
    }

    /// The byte of the SSD that a request's first one is.
    fn place(self, request: &KvRequest) -> u64 {
        let layer = u64::from(request.sequence) * u64::from(self.layers) + u64::from(request.layer);
        let token = layer * u64::from(self.tokens) + u64::from(request.first);
        self.store + token * u64::from(self.words) * 4
    }

    /// What the sum of a request must be: tokens are got as they were put.
    fn sum(self, request: &KvRequest) -> u64 {
        let words = u64::from(self.words);
        let term = |nth: u64| {
            let token = request.first + (nth / words) as u32;
            u64::from(computed(request, token, (nth % words) as u32)).wrapping_mul(2 * nth + 1)
        };
        (0..u64::from(request.tokens) * words).map(term).fold(0, u64::wrapping_add)
    }
}

/// A word of what a model computes, as in kv_cache.cu.
fn computed(request: &KvRequest, token: u32, word: u32) -> u32 {
    let whose = u64::from(request.sequence) << 32 | u64::from(request.layer);
    let mixed = whose.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(request.version.into());
    let mixed = (mixed ^ mixed >> 29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        .wrapping_add(u64::from(token) << 32 | u64::from(word));
    ((mixed ^ mixed >> 32).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { store: 8192, sequences: 4, layers: 3, tokens: 16, words: 8 };

    fn request(put: bool, layer: u32, first: u32, tokens: u32) -> KvRequest {
        KvRequest { put, sequence: 2, layer, first, tokens, version: 0 }
    }

    #[test]
    fn what_is_there_at_the_end_is_asked_for_once() {
        let requests = [
            request(true, 0, 0, 4),
            request(false, 0, 0, 4),
            request(true, 1, 0, 4),
            request(false, 1, 0, 4),
            request(true, 0, 4, 1),
            request(false, 0, 0, 5),
        ];
        assert_eq!(last_puts(&requests), [request(false, 0, 0, 5), request(false, 1, 0, 4)]);
        assert_eq!(last_puts(&[]), []);
    }

    #[test]
    fn places_do_not_overlap() {
        assert_eq!(SHAPE.place(&request(true, 0, 0, 1)), 8192 + 2 * 3 * 16 * 32);
        assert_eq!(SHAPE.place(&request(true, 1, 2, 1)), 8192 + (7 * 16 + 2) * 32);
    }

    #[test]
    fn sums_tell_words_places_and_versions_apart() {
        let one = request(false, 0, 0, 3);
        let others = [
            request(false, 0, 1, 3),
            request(false, 1, 0, 3),
            request(false, 0, 0, 2),
            KvRequest { sequence: 3, ..one },
            KvRequest { version: 1, ..one },
        ];
        assert!(others.iter().all(|other| SHAPE.sum(other) != SHAPE.sum(&one)));
        assert_eq!(SHAPE.sum(&one), SHAPE.sum(&KvRequest { put: true, ..one }));
    }
}
