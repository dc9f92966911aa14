#![doc = "libFuzzer over `warpbell_fuzz::vfio_user_client`."]
#![no_main]

use warpbell_fuzz::{repeat, vfio_user_client};

libfuzzer_sys::fuzz_target!(init: repeat::if_asked("vfio_user_client", vfio_user_client), |input: &[u8]| vfio_user_client(input));
