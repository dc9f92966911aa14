//! Rules of the cache, as built and switched off, over a soft controller. Over a model of an SSD each of them is tried by
//! `kernels/tests/cache/run.sh`.

use std::time::Duration;

use warpbell::{Module, Sharing};
use warpbell_nvme::NvmOpcode;
use warpbell_sim::{TestVariant, seeds};
use warpbell_softctl::{FaultAction, Selector};
use warpbell_tests::cached::{Shape, source};
use warpbell_tests::{Disk, each_apart};

use crate::faults::{lost, unreadable, unwritable};
use crate::pages::{crowded, kept, one_read, read_only};
use crate::pieces::late;
use crate::words::{MODULE, play, roomy};

type Check = fn(&Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 12] = [
    ("CACHE_DIRTY_LOST", words, "something else than was stored"),
    ("CACHE_PINNED_TAKEN", words, "lane "),
    ("CACHE_UNLINKED_EARLY", words, "was stored"),
    ("CACHE_LOADED_TWICE", shared_read, " reads: "),
    ("CACHE_READY_EARLY", shared_read, " saw "),
    ("CACHE_FAILURE_HIDDEN", told_of_reads, "not told"),
    ("CACHE_ERROR_SWALLOWED", unwritable, "seed "),
    ("CACHE_READ_ONLY_STORED", read_only, "0 refused"),
    ("CACHE_WAITS_FOR_EVER", crowded, "not done after"),
    ("CACHE_SENT_IN_VAIN", told_of_loss, "not done after"),
    ("CACHE_PIECES_LATE", told_of_lateness, " commands"),
    ("CACHE_KEPT_TAKEN", kept, "96 reads"),
];

/// On a queue for each warp and with slow writes, so that a read may overtake a write.
fn words(module: &Module) -> Result<(), String> {
    let late = FaultAction::Delay { by: Duration::from_micros(20) };
    let writes = Selector::new().opcodes(vec![NvmOpcode::WRITE]);
    let disk = Disk { queues: 4, ..Disk::new(0, 512) }.failing(late, writes);
    let shape = roomy(Shape::new(disk, 3));
    seeds(20).try_for_each(|seed| play(module, &shape, seed, 24, 1).map(|_| ()))
}

fn shared_read(module: &Module) -> Result<(), String> {
    one_read(module, Sharing::Shared)
}

fn told_of_reads(module: &Module) -> Result<(), String> {
    unreadable(module, &[Sharing::Shared])
}

fn told_of_loss(module: &Module) -> Result<(), String> {
    lost(module, &[Sharing::Shared])
}

fn told_of_lateness(module: &Module) -> Result<(), String> {
    late(module, &[Sharing::Shared])
}

#[test]
fn each_rule_holds() {
    RULES.iter().for_each(|(switch, check, _)| assert_eq!(check(&MODULE), Ok(()), "as built, {switch}"));
}

#[test]
fn each_rule_is_missed_when_it_is_off() {
    each_apart("rules::each_rule_is_missed_when_it_is_off", RULES.map(|rule| rule.0), |switch| {
        let (_, check, says) = RULES.iter().find(|rule| rule.0 == switch).expect("a rule");
        let broken =
            source().quick().define("CACHE_TEST_SHARED_ONLY").mutate(switch).loaded().expect("compiles");
        let noticed = check(&Module::from(broken)).err().unwrap_or_default();
        println!("{switch}: {noticed:.200}");
        assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
    });
}
