#![doc = "libFuzzer over `warpbell_fuzz::vfio_user_server`."]
#![no_main]

use warpbell_fuzz::{repeat, vfio_user_server};

libfuzzer_sys::fuzz_target!(init: repeat::if_asked("vfio_user_server", vfio_user_server), |input: &[u8]| vfio_user_server(input));
