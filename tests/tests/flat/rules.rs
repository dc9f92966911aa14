//! Who may call, and what a status says of itself.

use std::collections::BTreeSet;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_sim::TestVariant;
use warpbell_tests::each_apart;

use crate::fixture::{Scene, alias_answers, library, play, play_by, settings, source, statuses_alike};

/// Who may make a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Thread,
    Warp,
    /// As the attachment was made.
    Owner,
}
use Who::{Owner, Thread, Warp};

/// All that take a session or an array but the two that attach, numbered as flat_misuse.cuh has them.
const FUNCTIONS: [(&str, Who); 45] = [
    ("read", Thread),
    ("read_warp", Warp),
    ("read_each", Warp),
    ("write", Thread),
    ("write_warp", Warp),
    ("write_each", Warp),
    ("flush", Thread),
    ("flush_warp", Warp),
    ("read_async", Thread),
    ("read_async_warp", Warp),
    ("read_async_each", Warp),
    ("write_async", Thread),
    ("write_async_warp", Warp),
    ("write_async_each", Warp),
    ("flush_async", Thread),
    ("flush_async_warp", Warp),
    ("switch_to_successor", Owner),
    ("execute", Thread),
    ("execute_warp", Warp),
    ("execute_each", Warp),
    ("submit", Thread),
    ("submit_warp", Warp),
    ("submit_each", Warp),
    ("wait", Thread),
    ("wait_warp", Warp),
    ("wait_each", Warp),
    ("try_wait", Thread),
    ("try_wait_warp", Warp),
    ("try_wait_each", Warp),
    ("cancel", Thread),
    ("cancel_warp", Warp),
    ("cancel_each", Warp),
    ("wait_any", Thread),
    ("wait_any_each", Warp),
    ("array_get", Thread),
    ("array_get_each", Warp),
    ("array_put", Thread),
    ("array_put_each", Warp),
    ("array_atomic_add", Thread),
    ("array_atomic_add_each", Warp),
    ("array_flush", Thread),
    ("array_flush_warp", Warp),
    ("array_close", Owner),
    ("array_open", Owner),
    ("detach", Owner),
];
/// Those of arrays that are open, one behind the other.
const OF_ARRAYS: usize = 9;
const FIRST_OF_ARRAYS: usize = 34;

/// What each function answers where those of `allowed` may call.
fn answers(allowed: &[Who]) -> Vec<u32> {
    let no = library(abi::STATUS_INVALID_FIELD);
    FUNCTIONS.iter().map(|(_, who)| if allowed.contains(who) { 0 } else { no }).collect()
}

#[test]
fn the_functions_are_all_that_the_header_has() {
    let header = include_str!("../../../kernels/include/warpbell/warpbell_device.h");
    let declared = header.split("WARPBELL_DEVICE uint32_t warpbell_").skip(1);
    let names = declared.filter_map(|text| text.split('(').next());
    let names = names.filter(|name| !name.starts_with("status_") && !name.starts_with("attach"));
    let expected: BTreeSet<_> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
    assert_eq!(names.collect::<BTreeSet<_>>(), expected);
}

/// What is said before each function is called, and then by each of them.
type Part = (&'static [u32], Vec<u32>);

/// The parts of the scene: of zeroes; of an attachment that was refused, over what a session had left there; by lanes that
/// attached one by one; by the warp, and of what was detached; and of arrays that are not open. For one lane.
fn parts(shared: bool, lane: usize) -> Vec<Part> {
    const NO: u32 = abi::STATUS_LIBRARY | abi::STATUS_INVALID_FIELD;
    // An exclusive queue: one thread of the warp, and then the whole warp, but not its threads.
    let alone = shared || lane == 0;
    let one_by_one = answers(if alone { &[Thread, Owner] } else { &[] });
    let by_the_warp = answers(if shared { &[Thread, Warp, Owner] } else { &[Warp, Owner] });
    let (nobody, closed) = (answers(&[]), vec![NO; OF_ARRAYS]);
    vec![
        (&[], nobody.clone()),
        (&[0, 0, 0, 0, NO, NO, NO], nobody.clone()),
        (if alone { &[0, 0] } else { &[NO, NO] }, one_by_one),
        (&[0, 0], [by_the_warp, nobody].concat()),
        (&[0, 0, NO], closed.clone()),
        (&[0, NO], closed.clone()),
        (&[0, 0], closed.clone()),
        (&[0, 0], closed),
    ]
}

#[test]
fn who_may_not_call_is_refused() {
    for setting in settings(Scene::Misuse).filter(|setting| !setting.by_thread) {
        let played = play(&setting, true);
        assert_eq!(played.kept, "", "{setting:?}");
        for (lane, note) in played.notes.iter().enumerate() {
            let mut said = note.said().iter().copied();
            let parts = parts(setting.sharing == Sharing::Shared, lane);
            for (number, (before, each)) in parts.into_iter().enumerate() {
                let begin: Vec<_> = said.by_ref().take(before.len()).collect();
                assert_eq!(begin, before, "part {number}, lane {lane}, {setting:?}");
                let skipped = if each.len() == OF_ARRAYS { FIRST_OF_ARRAYS } else { 0 };
                let names = FUNCTIONS.iter().cycle().skip(skipped);
                for (expected, (name, _)) in each.into_iter().zip(names) {
                    assert_eq!(
                        said.next(),
                        Some(expected),
                        "{name}, part {number}, lane {lane}, {setting:?}"
                    );
                }
            }
            assert_eq!(said.next(), None, "{setting:?}");
        }
    }
}

#[test]
fn a_pin_that_is_left_is_seen() {
    let setting = settings(Scene::Pinned).next().expect("a setting");
    assert_eq!(play(&setting, true).kept, "line 0 has 32 pins; ");
}

/// What a scene's check of hazard slots is there for.
#[test]
fn what_is_kept_is_seen() {
    each_apart("rules::what_is_kept_is_seen", ["HAZARD_KEPT"], |rule| {
        let module = source().mutate(rule).loaded().expect("compiles");
        for scene in [Scene::Misuse, Scene::Pages, Scene::Lost] {
            let setting = settings(scene).next().expect("a setting");
            let kept = play_by(&module, &setting, true).kept;
            assert!(kept.contains("hazard slots"), "{rule}: {kept:?} of {scene:?}");
        }
    });
}

/// Optimised, as users' kernels are: zeroes that a caller stores are there when the library looks. Success of attach, open,
/// close and detach, and between them neither is seen to be attached.
#[test]
fn words_that_a_caller_stores_are_seen() {
    assert_eq!(alias_answers(), [0; 6]);
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
