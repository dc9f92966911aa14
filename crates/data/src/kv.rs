//! Requests to a store of attention keys and values, and room for the store.

use std::io::{self, Write};

use crate::generate::write_each;
use crate::{Error, Plan, Random};

/// Section `requests`: what a server of language models asks of its store, in order. Section `store`: zeroes, room for
/// what is put. In each step a sequence is chosen, some much more often than others. One that has nothing gets a prompt,
/// another one its next token: that is put, layer by layer, and then all tokens of the layer are got. A sequence that has
/// no room for another token begins again, with the next version.
///
/// Making requests takes memory for all of them.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Kv {
    /// Sequences that the store has room for
    #[arg(long, value_name = "N", default_value = "64", value_parser = crate::count)]
    pub sequences: u64,
    /// Layers of the model
    #[arg(long, value_name = "N", default_value = "4", value_parser = crate::count)]
    pub layers: u64,
    /// Tokens of a sequence at most
    #[arg(long, value_name = "N", default_value = "64", value_parser = crate::count)]
    pub tokens: u64,
    /// Attention heads whose keys and values are kept
    #[arg(long, value_name = "N", default_value = "2", value_parser = crate::count)]
    pub heads: u64,
    /// Numbers of a head, of 16 bits each
    #[arg(long, value_name = "N", default_value = "32", value_parser = crate::count)]
    pub head_dim: u64,
    /// Steps to take
    #[arg(long, value_name = "N", default_value = "400", value_parser = crate::count)]
    pub steps: u64,
}

/// One request, as it lies in section `requests`: six words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvRequest {
    /// Put, or else get.
    pub put: bool,
    /// Whose tokens.
    pub sequence: u32,
    /// In which layer.
    pub layer: u32,
    /// The first token.
    pub first: u32,
    /// How many.
    pub tokens: u32,
    /// How often the sequence has begun before.
    pub version: u32,
}

impl KvRequest {
    /// Bytes of one.
    pub const BYTES: usize = 24;

    /// As it lies in the file.
    pub fn to_bytes(self) -> [u8; KvRequest::BYTES] {
        let words = [self.put.into(), self.sequence, self.layer, self.first, self.tokens, self.version];
        let mut bytes = [0; KvRequest::BYTES];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From the file's bytes.
    pub fn from_bytes(bytes: &[u8; KvRequest::BYTES]) -> KvRequest {
        let word = |index: usize| {
            let at = index * 4;
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        KvRequest {
            put: word(0) != 0,
            sequence: word(1),
            layer: word(2),
            first: word(3),
            tokens: word(4),
            version: word(5),
        }
    }
}

/// Bytes of a store at most, as of a table of embeddings.
const STORE_MOST: u64 = 1 << 50;
/// Layers of all steps at most, each with two requests: those are in memory, 48 bytes of them.
const STEP_LAYERS_MOST: u64 = 1 << 24;

impl Kv {
    /// Bytes of the store, where 64 bits hold them.
    fn store_bytes(&self) -> Option<u64> {
        let sizes = [self.layers, self.tokens, self.token_bytes()];
        sizes.iter().try_fold(self.sequences, |all, size| all.checked_mul(*size))
    }

    /// Bytes of a token's keys and values in one layer.
    pub fn token_bytes(&self) -> u64 {
        2 * 2 * self.heads * self.head_dim
    }

    /// What is asked, in order.
    pub fn requests(&self, seed: u64) -> Vec<KvRequest> {
        let random = Random::new(seed, 0);
        let mut fill = vec![(0u64, 0u32); self.sequences as usize];
        let mut requests = Vec::with_capacity((self.steps * self.layers * 2) as usize);
        for step in 0..self.steps {
            let sequence = self.chosen(random.below(2 * step, 1 << 32));
            let (tokens, version) = &mut fill[sequence as usize];
            if *tokens == self.tokens {
                (*tokens, *version) = (0, *version + 1);
            }
            let first = *tokens;
            let prompt = 1 + random.below(2 * step + 1, self.tokens.div_ceil(2));
            *tokens = if first == 0 { prompt } else { first + 1 };
            for layer in 0..self.layers as u32 {
                let of = |put, first: u64| KvRequest {
                    put,
                    sequence,
                    layer,
                    first: first as u32,
                    tokens: (*tokens - first) as u32,
                    version: *version,
                };
                requests.extend([of(true, first), of(false, 0)]);
            }
        }
        requests
    }

    /// From 32 random bits a sequence: half of all steps go to an eighth of them, the first ones.
    fn chosen(&self, draw: u64) -> u32 {
        let cubed = (u128::from(draw).pow(3) >> 64) as u64;
        ((cubed * self.sequences) >> 32) as u32
    }
}

impl Plan for Kv {
    fn name(&self) -> &'static str {
        "kv"
    }

    fn check(&self) -> Result<(), Error> {
        Error::unless_within("--sequences", self.sequences, 1..=1 << 20)?;
        Error::unless_within("--layers", self.layers, 1..=1 << 10)?;
        Error::unless_within("--tokens", self.tokens, 1..=1 << 16)?;
        Error::unless_within("--heads", self.heads, 1..=1 << 10)?;
        Error::unless_within("--head-dim", self.head_dim, 1..=1 << 10)?;
        Error::unless_within("--steps", self.steps, 1..=1 << 20)?;
        Error::unless_within("--steps", self.steps, 1..=STEP_LAYERS_MOST / self.layers)?;
        match self.store_bytes() {
            Some(bytes) if bytes <= STORE_MOST => Ok(()),
            _ => {
                let (layers, tokens, token) = (self.layers, self.tokens, self.token_bytes());
                let limit = format!(
                    "of {layers} layers, {tokens} tokens and {token} bytes of a token in a layer: \
                     a store has {STORE_MOST} bytes at most"
                );
                Err(Error::Size { object: "--sequences", value: self.sequences, limit })
            }
        }
    }

    fn parameters(&self) -> Vec<(&'static str, u64)> {
        let sizes = [("sequences", self.sequences), ("layers", self.layers), ("tokens", self.tokens)];
        [&sizes[..], &[("token_bytes", self.token_bytes()), ("steps", self.steps)]].concat()
    }

    fn sections(&self) -> Vec<(&'static str, u64)> {
        let requests = self.steps * self.layers * 2 * KvRequest::BYTES as u64;
        vec![("requests", requests), ("store", self.store_bytes().unwrap_or(u64::MAX))]
    }

    fn write(&self, section: &str, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        match section {
            "requests" => {
                self.requests(seed).iter().try_for_each(|request| out.write_all(&request.to_bytes()))
            }
            _ => write_each(out, self.sections()[1].1 / 4, |_| [0; 4]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Header, Kind, generate};

    const SMALL: Kv = Kv { sequences: 8, layers: 2, tokens: 16, heads: 1, head_dim: 8, steps: 200 };

    #[test]
    fn requests_come_back_from_the_file() {
        let mut file = Vec::new();
        let header = generate(&Kind::Kv(SMALL), 5, &mut file).unwrap();
        assert_eq!(Header::read(&mut file.as_slice()).unwrap(), header);
        let section = header.section("requests").unwrap();
        let bytes = &file[section.offset as usize..section.end() as usize];
        let read: Vec<_> = bytes.as_chunks().0.iter().map(KvRequest::from_bytes).collect();
        assert_eq!(read, SMALL.requests(5));
        assert_eq!(read.len(), 800);
        assert_ne!(read, SMALL.requests(6));
        let store = header.section("store").unwrap();
        assert_eq!(store.bytes, 8 * 2 * 16 * header.parameter("token_bytes").unwrap());
        assert!(file[store.offset as usize..store.end() as usize].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn nothing_is_got_that_was_not_put_before() {
        let mut there = std::collections::HashMap::new();
        for request in SMALL.requests(5) {
            let end = request.first + request.tokens;
            assert!(u64::from(end) <= SMALL.tokens && request.tokens > 0, "{request:?}");
            let key = (request.sequence, request.layer, request.version);
            if request.put {
                let tokens = there.insert(key, end).unwrap_or(0);
                assert_eq!(tokens, request.first, "{request:?}: tokens are put one after the other");
            } else {
                assert_eq!((there[&key], 0), (end, request.first), "{request:?}: all of the layer");
            }
        }
        assert!(there.keys().any(|(_, _, version)| *version > 0), "some sequence begins again");
        let hot = SMALL.requests(5).iter().filter(|request| request.sequence == 0).count();
        assert!((300..500).contains(&hot), "{hot} of 800 requests go to the first of 8 sequences");
    }

    #[test]
    fn sizes_have_limits() {
        let error = Kv { steps: 0, ..SMALL }.check().unwrap_err().to_string();
        assert_eq!(error, "--steps 0: must be from 1 to 1048576");
        assert!(Kv { tokens: 65_537, ..SMALL }.check().is_err());
        assert!(SMALL.check().is_ok());
    }

    #[test]
    fn what_all_sizes_make_together_has_limits() {
        let text = |sizes: Kv| sizes.check().err().map(|error| error.to_string());
        let large =
            Kv { sequences: 1 << 20, layers: 1 << 10, tokens: 1 << 16, heads: 1, head_dim: 8, steps: 1 };
        let said = "--sequences 1048576: of 1024 layers, 65536 tokens and 32 bytes of a token in a layer: \
                    a store has 1125899906842624 bytes at most";
        assert_eq!(text(large.clone()).as_deref(), Some(said), "2^50 is the limit, and this has 2^51");
        // 2^68 bytes: 64 bits would hold none of them.
        assert!(text(Kv { heads: 1 << 10, head_dim: 1 << 10, ..large.clone() }).is_some());
        assert_eq!(text(Kv { sequences: 1 << 16, ..large.clone() }), None);
        assert_eq!(
            text(Kv { sequences: 1, steps: (1 << 14) + 1, ..large.clone() }).as_deref(),
            Some("--steps 16385: must be from 1 to 16384"),
            "with 1024 layers"
        );
        assert_eq!(text(Kv { sequences: 1, steps: 1 << 14, ..large }), None);
    }
}
