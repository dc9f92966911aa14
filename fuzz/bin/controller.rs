#![doc = "libFuzzer over `warpbell_fuzz::controller`."]
#![no_main]

use warpbell_fuzz::{controller, repeat};

libfuzzer_sys::fuzz_target!(init: repeat::if_asked("controller", controller), |input: &[u8]| controller(input));
