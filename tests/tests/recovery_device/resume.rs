//! Kernels move on to the queue that takes the place of a lost one.

use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_sim::seeds;

use crate::harness::*;

const LOST: u32 = abi::STATUS_LIBRARY | abi::STATUS_QUEUE_GONE;
const SSD_LOST: u32 = abi::STATUS_LIBRARY | abi::STATUS_SSD_LOST;

#[test]
fn kernels_resume_on_the_queue_that_takes_the_place_of_a_lost_one() {
    let module = module();
    for (setting, seed) in SETTINGS.into_iter().flat_map(|setting| seeds(4).map(move |seed| (setting, seed)))
    {
        for delay in [Duration::ZERO, Duration::from_micros(4), PATIENCE / 2] {
            let setting = Setting { seed, flags: seed as u32 % 2 * BY_DESTRUCTOR, ..setting };
            let ran = run(&module, setting, replaced_after(delay));
            ran.expect_right();
            let lanes = setting.warps as usize * 32;
            assert_eq!(ran.switched(), vec![0; ran.switched().len()], "{setting:?}");
            assert!(ran.count(LOST) > 0, "{setting:?}: nobody noticed");
            assert_eq!(ran.count(LOST) + ran.count(0), lanes * COMMANDS as usize, "{setting:?}");
            assert!(
                ran.count(0) >= lanes * (COMMANDS as usize - 1),
                "{setting:?}: one loss, one answer each"
            );
            assert_eq!(ran.epochs(), vec![1; lanes], "{setting:?}");
        }
    }
}

#[test]
fn a_token_of_the_queue_before_is_answered_queue_lost() {
    let module = module();
    for setting in SETTINGS {
        let ran = run(&module, setting, replaced_after(Duration::from_micros(1)));
        ran.expect_right();
        let old: Vec<u64> =
            ran.lanes().iter().flatten().map(|record| record.lba).filter(|lba| *lba != 0).collect();
        assert!(!old.is_empty() && old.iter().all(|status| *status == u64::from(LOST)), "{old:x?}");
    }
}

#[test]
fn a_successor_that_is_lost_as_well_is_passed_over() {
    let module = module();
    for setting in SETTINGS {
        let mut lost_at = None;
        let ran = run(&module, setting, |queues, moment| {
            if moment.rung > 0 && lost_at.is_none() {
                queues.set_state(0, abi::QUEUE_LOST);
                queues.set_state(1, abi::QUEUE_LOST);
                queues.set_successor(0, Some(1));
                lost_at = Some(moment.round);
            }
            if lost_at.is_some_and(|at| moment.round == at + 200) {
                queues.set_successor(0, Some(2));
            }
            lost_at.is_some_and(|at| moment.round > at + 200)
        });
        ran.expect_right();
        assert_eq!(ran.epochs(), vec![2; setting.warps as usize * 32], "{setting:?}");
    }
}

#[test]
fn where_no_successor_will_come_nobody_waits_for_one() {
    let module = module();
    for (setting, seed) in SETTINGS.into_iter().flat_map(|setting| seeds(3).map(move |seed| (setting, seed)))
    {
        let setting = Setting { seed, flags: seed as u32 % 2 * BY_DESTRUCTOR, ..setting };
        let mut first = None;
        let ran = run(&module, setting, |queues, moment| {
            if moment.rung > 0 && first.is_none() {
                queues.set_state(0, abi::QUEUE_DEAD);
                first = Some(moment.elapsed);
            }
            false
        });
        ran.expect_right();
        assert_eq!(ran.switched(), vec![SSD_LOST; ran.switched().len()], "{setting:?}");
        // Who came later was refused at once, with the same words.
        let late = ran.count(SSD_LOST) / COMMANDS as usize;
        assert_eq!(ran.switched().len() + late, setting.warps as usize * 32, "{setting:?}");
        let took = ran.outcome.elapsed - first.expect("a loss");
        assert!(took < PATIENCE / 2, "{setting:?}: returned {took:?} after the end of the SSD");
    }
}

#[test]
fn a_successor_that_does_not_come_is_waited_for_until_the_deadline() {
    let module = module();
    for (setting, seed) in SETTINGS.into_iter().flat_map(|setting| seeds(3).map(move |seed| (setting, seed)))
    {
        let setting = Setting { seed, flags: seed as u32 % 2 * BY_DESTRUCTOR, ..setting };
        let mut first = None;
        let ran = run(&module, setting, |queues, moment| {
            if moment.rung > 0 && first.is_none() {
                queues.set_state(0, abi::QUEUE_LOST);
                first = Some(moment.elapsed);
            }
            false
        });
        ran.expect_right();
        assert_eq!(ran.switched(), vec![LOST; setting.warps as usize * 32], "{setting:?}");
        let took = ran.outcome.elapsed - first.expect("a loss");
        assert!(took >= PATIENCE && took < PATIENCE * 3 / 2, "{setting:?}: waited {took:?}");
    }
}

#[test]
fn a_kernel_that_starts_after_the_loss_finds_the_successor_by_itself() {
    let module = module();
    for setting in SETTINGS {
        let mut given = false;
        let ran = run(&module, setting, |queues, _| {
            if !std::mem::replace(&mut given, true) {
                queues.set_state(0, abi::QUEUE_LOST);
                queues.set_successor(0, Some(1));
            }
            true
        });
        ran.expect_right();
        let lanes = setting.warps as usize * 32;
        // What was submitted before the first look of the host's is answered queue_lost.
        assert_eq!(ran.count(0) + ran.count(LOST), lanes * COMMANDS as usize, "{setting:?}");
        assert_eq!(ran.epochs(), vec![1; lanes], "{setting:?}");
    }
}
