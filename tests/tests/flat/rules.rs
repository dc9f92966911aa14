//! Who may call, and what a status says of itself.

use warpbell::Sharing;
use warpbell_kernels::abi;

use crate::fixture::{Scene, library, play, settings, statuses_alike};

#[test]
fn who_may_not_call_is_refused() {
    let no = library(abi::STATUS_INVALID_FIELD);
    for setting in settings(Scene::Misuse).filter(|setting| !setting.by_thread) {
        let notes = play(&setting, true).notes;
        for (lane, note) in notes.iter().enumerate() {
            // An exclusive queue: one thread of the warp, and then the whole warp, but not its threads.
            let shared = setting.sharing == Sharing::Shared;
            let alone = if shared || lane == 0 { 0 } else { no };
            let of_warp = if shared { 0 } else { no };
            let one_by_one = [alone, no, alone, alone];
            let by_the_warp = [0, of_warp, 0, no, no, no, 0, no, no];
            let expected = [&[no; 9], &one_by_one[..], &by_the_warp].concat();
            assert_eq!(note.said(), expected, "lane {lane}, {:?}", setting.sharing);
        }
    }
}

/// What the page shows of a kernel is what the kernel has.
#[test]
fn the_documented_kernel_is_that_of_the_example() {
    let page = include_str!("../../../docs/flat-layer.md");
    let kernel = include_str!("../../../examples/c/flat_kernel.cu").replace("\n    ", "\n");
    let blocks: Vec<_> = warpbell_tests::blocks_of(page, "cuda flat").collect();
    assert!(!blocks.is_empty() && blocks.iter().all(|block| kernel.contains(block)), "{blocks:?}");
}

#[test]
fn every_status_says_of_itself_what_the_library_says() {
    assert_eq!(statuses_alike(), 65536);
}
