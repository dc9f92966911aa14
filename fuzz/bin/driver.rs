#![doc = "libFuzzer over `warpbell_fuzz::driver`."]
#![no_main]

use warpbell_fuzz::{driver, repeat};

libfuzzer_sys::fuzz_target!(init: repeat::if_asked("driver", driver), |input: &[u8]| driver(input));
