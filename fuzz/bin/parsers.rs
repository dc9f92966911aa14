#![doc = "libFuzzer over `warpbell_fuzz::parsers`."]
#![no_main]

use warpbell_fuzz::{parsers, repeat};

libfuzzer_sys::fuzz_target!(init: repeat::if_asked("parsers", parsers), |input: &[u8]| parsers(input));
