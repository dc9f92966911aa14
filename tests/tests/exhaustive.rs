//! Tier S: every schedule and every order in which stores arrive, of the device code itself, within small bounds.
//!
//! `--ignored` adds the bounds that take minutes, with WARPBELL_EXHAUSTIVE_SECONDS (600) for each.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::exhaustive::{Arena, Budget, Model, Report, Scope, Search, Verdict};
use warpbell_sim::{TestVariant, cpu_launch_bytes};
use zerocopy::IntoBytes;

/// Searches that take seconds; much more than they need, also on a slow machine.
const BUDGET: Budget = Budget { states: 20_000_000, time: Duration::from_secs(300) };

/// One test at a time, and in it one module: every thread has little room for what modules keep in each thread.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kernel(file: &str) -> Variant {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels").join(file);
    Variant::file(&path).expect("a kernel of ours")
}

/// The device library. Without `clock` it never looks at the time, which makes no difference where no deadline passes,
/// but fewer states.
fn device_code(clock: bool) -> Variant {
    kernel("exhaustive.cu").define(&format!("WARPBELL_SMALL_SCOPE={}", u32::from(clock)))
}

/// The same without a rule: compiled so, as a variable that says it would make more states.
fn without(switch: &str, clock: bool) -> Variant {
    device_code(clock).define(&format!("WARPBELL_MUTATE_{switch}=1"))
}

fn load(variant: &Variant) -> Module {
    variant.loaded().unwrap_or_else(|error| panic!("{error:?}"))
}

fn check(scope: &Scope, module: &Module, budget: Budget) -> Report {
    let report = scope.check(module, budget).expect("a model");
    println!("{}: {report}", scope.name());
    report
}

fn expect_exhausted(scopes: &[Scope]) {
    for clock in [false, true] {
        let module = load(&device_code(clock));
        for scope in scopes.iter().filter(|scope| (scope.leaps > 0) == clock) {
            assert_exhausted(scope, &module, BUDGET);
        }
    }
}

fn assert_right(name: &str, report: &Report) {
    if let Verdict::Broken { rule, trace } = &report.verdict {
        panic!("{name}: {rule}\n  {}", trace.join("\n  "));
    }
}

fn assert_exhausted(scope: &Scope, module: &Module, budget: Budget) {
    let report = check(scope, module, budget);
    assert_right(&scope.name(), &report);
    assert_eq!(report.verdict, Verdict::Exhausted, "{}: its budget is too small", scope.name());
}

fn lazy(cq_doorbell_batch: u32, scope: Scope) -> Scope {
    Scope { cq_doorbell_batch, ..scope }
}

fn asynchronous(scope: Scope) -> Scope {
    Scope { async_depth: 2, ..scope }
}

#[test]
fn one_warp_is_right_on_every_schedule() {
    let _alone = alone();
    let shared = |entries, commands| asynchronous(Scope::shared(1, entries, commands));
    let scopes = [
        Scope::exclusive(2, 6),
        Scope::exclusive(4, 6),
        lazy(2, Scope::exclusive(4, 6)),
        lazy(3, Scope::exclusive(4, 6)),
        Scope { leaps: 2, ..Scope::exclusive(4, 4) },
        shared(2, 6),
        shared(4, 6),
        lazy(2, shared(4, 6)),
        lazy(3, shared(4, 6)),
        Scope { leaps: 2, ..shared(4, 4) },
    ];
    expect_exhausted(&scopes);
}

#[test]
fn two_warps_are_right_on_every_schedule() {
    let _alone = alone();
    let scopes = [
        Scope::shared(2, 2, 1),
        Scope::shared(2, 4, 1),
        Scope::shared(2, 2, 2),
        lazy(2, Scope::shared(2, 4, 1)),
        lazy(3, Scope::shared(2, 4, 1)),
        Scope { ring_shift: 0, ..Scope::shared(2, 4, 1) },
        // The slots, the 16-bit and the 32-bit halves of the counters run over.
        Scope { start: 3, ..Scope::shared(2, 4, 1) },
        Scope { start: (1 << 16) - 1, ..Scope::shared(2, 4, 1) },
        Scope { start: (1 << 32) - 1, ..Scope::shared(2, 2, 1) },
    ];
    expect_exhausted(&scopes);
}

#[test]
fn a_deadline_at_any_moment_loses_nothing() {
    let _alone = alone();
    let scopes = [Scope { leaps: 1, ..Scope::shared(2, 2, 1) }, Scope { leaps: 1, ..Scope::shared(2, 4, 1) }];
    expect_exhausted(&scopes);
}

fn seconds() -> u64 {
    std::env::var("WARPBELL_EXHAUSTIVE_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(600)
}

fn larger() -> Budget {
    Budget { states: 60_000_000, time: Duration::from_secs(seconds()) }
}

#[test]
#[ignore = "takes minutes"]
fn two_warps_are_right_on_every_schedule_of_two_commands_each() {
    let _alone = alone();
    let module = load(&device_code(false));
    for scope in [asynchronous(Scope::shared(2, 2, 2)), Scope::shared(2, 4, 2)] {
        assert_exhausted(&scope, &module, larger());
    }
}

#[test]
#[ignore = "takes minutes"]
fn three_warps_are_right_on_every_schedule() {
    let _alone = alone();
    let module = load(&device_code(false));
    assert_exhausted(
        &Scope::shared(3, 2, 1),
        &module,
        Budget { time: Duration::from_secs(1800), ..larger() },
    );
}

#[test]
#[ignore = "takes up to an hour: WARPBELL_EXHAUSTIVE_SECONDS for each of its bounds; nobody has exhausted all of them"]
fn bounds_beyond_are_right_as_far_as_they_are_searched() {
    let _alone = alone();
    let module = load(&device_code(false));
    let scopes = [
        lazy(3, asynchronous(Scope::shared(2, 4, 2))),
        asynchronous(Scope::shared(2, 4, 2)),
        Scope::shared(3, 4, 1),
    ];
    for scope in &scopes {
        let report = check(scope, &module, larger());
        assert_right(&scope.name(), &report);
    }
}

/// A rule that is switched off, the bounds within which that shows, and what must be said of it.
struct Rule {
    switch: &'static str,
    scope: fn() -> Scope,
    caught_by: &'static str,
}

const fn rule(switch: &'static str, scope: fn() -> Scope, caught_by: &'static str) -> Rule {
    Rule { switch, scope, caught_by }
}

const RULES: [Rule; 22] = [
    rule("NO_TURN", || Scope::shared(2, 4, 1), "between doorbell and fetch"),
    rule("RING_AFTER_TURN", || Scope::shared(2, 4, 1), "a tail that goes back"),
    rule("RING_IF_FIRST", || Scope::shared(2, 4, 1), "no progress"),
    rule("NO_FENCE_DOORBELL", || Scope::shared(2, 2, 1), "between doorbell and fetch"),
    rule("NO_FENCE_TURN", || Scope::shared(3, 4, 1), "between doorbell and fetch"),
    rule("NO_FENCE_AFTER_DOORBELL", || Scope::shared(2, 4, 1), "a tail that goes back"),
    rule("NO_ROOM_CHECK", || Scope::shared(2, 2, 1), "commands outstanding"),
    rule("ROOM_OFF_BY_ONE", || Scope::shared(2, 2, 1), "commands outstanding"),
    rule("NO_LOCK", || Scope::shared(2, 2, 1), "CQ head doorbell"),
    rule("NO_FENCE_UNLOCK", || Scope::shared(2, 2, 1), "CQ head doorbell"),
    rule("REPORTED_EARLY", || Scope::shared(2, 2, 1), "commands outstanding"),
    rule("TRY_ONCE", || Scope::shared(2, 2, 1), "no progress"),
    rule("WORDS_NOT_READ_AGAIN", || Scope::shared(2, 2, 1), "no progress"),
    rule("LOCK_KEPT", || Scope::shared(2, 2, 1), "no progress"),
    rule("NO_REAP_IN_SUBMIT", || asynchronous(Scope::shared(1, 2, 2)), "no progress"),
    rule("LAZY_CQ_TOO_LATE", || Scope::shared(2, 2, 1), "no progress"),
    rule("FREE_BY_OTHER", || Scope { async_depth: 3, ..Scope::shared(1, 4, 3) }, "status"),
    rule("REUSE_AT_TIMEOUT", || Scope { leaps: 1, ..Scope::shared(1, 4, 3) }, "in flight already"),
    rule("PHASE_FROM_WRAPPED_HEAD", || Scope::shared(2, 2, 1), "CQ head doorbell"),
    rule("SQE_UNDEFINED_DWORD", || Scope::shared(1, 2, 1), "not an entry as written"),
    rule("STATUS_TWICE", || Scope { stale_tokens: true, ..Scope::shared(1, 2, 1) }, "2 answers"),
    rule("STALE_TOKEN_ACCEPTED", || Scope { stale_tokens: true, ..Scope::shared(1, 2, 1) }, "2 answers"),
];

#[test]
fn each_rule_that_is_switched_off_is_found() {
    let _alone = alone();
    let built = load(&device_code(true));
    for scope in RULES.iter().map(|rule| (rule.scope)()) {
        assert_right(&scope.name(), &scope.check(&built, BUDGET).expect("a model"));
    }
    drop(built);
    let mut missed = Vec::new();
    for Rule { switch, scope, caught_by } in RULES {
        let scope = scope();
        let module = load(&without(switch, true));
        let report = scope.check(&module, BUDGET).expect("a model");
        match report.verdict {
            Verdict::Broken { rule, trace } if rule.contains(caught_by) => {
                println!("{switch}: found in {}, at state {}: {rule}", scope.name(), report.states);
                println!("  {}", trace.join("\n  "));
            }
            other => missed.push(format!("{switch} in {}: {other:?}", scope.name())),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Under the renaming of warps, too: states in which two of three warps have changed places count as one.
#[test]
fn rules_that_are_switched_off_are_found_with_three_warps() {
    let _alone = alone();
    let mut missed = Vec::new();
    for (switch, entries, caught_by) in [
        ("RING_IF_FIRST", 4, "no progress"),
        ("NO_FENCE_DOORBELL", 2, "between doorbell and fetch"),
        ("ROOM_OFF_BY_ONE", 2, "commands outstanding"),
        ("NO_FENCE_UNLOCK", 2, "CQ head doorbell"),
    ] {
        let module = load(&without(switch, false));
        let scope = Scope::shared(3, entries, 1);
        let report = scope.check(&module, BUDGET).expect("a model");
        match &report.verdict {
            Verdict::Broken { rule, .. } if rule.contains(caught_by) => {
                println!("{switch}: found in {}, at state {}: {rule}", scope.name(), report.states);
            }
            _ => missed.push(format!("{switch}: {report}")),
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Programs of `litmus.cu`.
#[derive(Clone, Copy, Debug)]
enum Litmus {
    StoreBuffering,
    StoreBufferingFenced,
    MessagePassing,
    MessagePassingFenced,
    MessagePassingReleased,
    LoadBuffering,
    Coherence,
    TwoWriters,
    IndependentReaders,
    Locked,
    UnlockedEarly,
    StoreBufferingSequential,
}

impl Litmus {
    fn lanes(self) -> u32 {
        if matches!(self, Litmus::IndependentReaders) { 4 } else { 2 }
    }

    /// All that can come of it: x, y, then two results for each lane.
    fn outcomes(self, module: &Module, reduce: bool) -> BTreeSet<Vec<u64>> {
        let mut arena = Arena::default();
        let words = arena.part("words", 24, 8);
        arena.keep(words, 24 * 8);
        let arena = arena.map().expect("memory");
        let args =
            abi::QueueTestArgs { records: arena.base(), mode: self as u32, ..abi::QueueTestArgs::new() };
        let launch = cpu_launch_bytes(module, "litmus", args.as_bytes()).expect("the kernel");
        let mut model = Model::new(&launch.grid(self.lanes()), arena, None, 0, reduce).expect("a model");
        let mut outcomes = BTreeSet::new();
        let report = Search::run(&mut model, BUDGET, &mut |model| {
            let word = |word: usize| model.arena.word(words + word * 8);
            outcomes.insert([0, 8].into_iter().chain(16..16 + 2 * self.lanes() as usize).map(word).collect());
            Ok(())
        });
        println!("{self:?}, reduced {reduce}: {report}");
        assert_eq!(report.verdict, Verdict::Exhausted);
        outcomes
    }
}

/// What two searches of a program agree on, one of which leaves out what the reduction leaves out.
fn outcomes_of(module: &Module, program: Litmus, part: std::ops::Range<usize>) -> BTreeSet<Vec<u64>> {
    let outcomes = program.outcomes(module, true);
    assert_eq!(
        outcomes,
        program.outcomes(module, false),
        "{program:?}: the reduction loses or adds outcomes"
    );
    outcomes.into_iter().map(|words| words[part.clone()].to_vec()).collect()
}

fn set<const N: usize>(all: &[[u64; N]]) -> BTreeSet<Vec<u64>> {
    all.iter().map(|words| words.to_vec()).collect()
}

#[test]
fn the_memory_model_has_the_outcomes_that_it_should_with_and_without_reduction() {
    let _alone = alone();
    let module = load(&kernel("litmus.cu"));
    let of = |program, part| outcomes_of(&module, program, part);
    // Loads of the two lanes: words 2 and 4.
    let loads = |program| -> BTreeSet<(u64, u64)> {
        of(program, 2..5).into_iter().map(|words| (words[0], words[2])).collect()
    };
    assert_eq!(loads(Litmus::StoreBuffering), BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]));
    // A fence that is not sequentially consistent does not order a store before a load.
    assert_eq!(loads(Litmus::StoreBufferingFenced), loads(Litmus::StoreBuffering));
    assert_eq!(loads(Litmus::StoreBufferingSequential), BTreeSet::from([(0, 1), (1, 0), (1, 1)]));
    // Loads are not delayed: no (1, 1).
    assert_eq!(loads(Litmus::LoadBuffering), BTreeSet::from([(0, 0), (0, 1), (1, 0)]));
    // The flag, then the data.
    assert_eq!(of(Litmus::MessagePassing, 4..6), set(&[[0, 0], [0, 1], [1, 0], [1, 1]]));
    assert_eq!(of(Litmus::MessagePassingFenced, 4..6), set(&[[0, 0], [0, 1], [1, 1]]));
    assert_eq!(of(Litmus::MessagePassingReleased, 4..6), set(&[[0, 0], [0, 1], [1, 1]]));
    assert_eq!(of(Litmus::Coherence, 4..6), set(&[[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]));
    // The values that stay.
    assert_eq!(of(Litmus::TwoWriters, 0..2), set(&[[1, 1], [1, 2], [2, 1], [2, 2]]));
    let readers = of(Litmus::IndependentReaders, 6..10);
    assert!(!readers.contains([1, 0, 1, 0].as_slice()), "two readers disagree about the order of two stores");
    assert_eq!(readers.len(), 15);
    assert_eq!(of(Litmus::Locked, 0..2), set(&[[2, 0]]));
    assert_eq!(of(Litmus::UnlockedEarly, 0..2), set(&[[1, 0], [2, 0]]));
}

#[test]
fn the_reduction_changes_neither_ends_nor_verdicts_of_the_queue() {
    let _alone = alone();
    let built = load(&device_code(true));
    let full = |scope: &Scope| Scope { reduce: false, ..scope.clone() };
    for scope in [
        Scope::shared(2, 2, 1),
        asynchronous(Scope::shared(1, 4, 4)),
        lazy(3, Scope::exclusive(4, 4)),
        Scope { leaps: 1, ..Scope::shared(1, 2, 2) },
    ] {
        let (reduced, ends) = scope.outcomes(&built, BUDGET).expect("a model");
        let (all, all_ends) = full(&scope).outcomes(&built, BUDGET).expect("a model");
        println!("{}: {reduced}; without reduction {all}", scope.name());
        assert_eq!(reduced.verdict, Verdict::Exhausted);
        assert_eq!(all.verdict, Verdict::Exhausted);
        assert_eq!(ends, all_ends, "{}", scope.name());
    }
    drop(built);
    for switch in ["NO_FENCE_DOORBELL", "NO_FENCE_UNLOCK", "RING_IF_FIRST"] {
        let module = load(&without(switch, true));
        let report = full(&Scope::shared(2, 2, 1)).check(&module, BUDGET).expect("a model");
        assert!(matches!(report.verdict, Verdict::Broken { .. }), "{switch}: {report}");
    }
}

#[test]
fn warps_are_alike_on_every_schedule_tried() {
    let _alone = alone();
    let module = load(&device_code(true));
    for scope in [
        Scope::shared(2, 2, 2),
        asynchronous(Scope::shared(2, 4, 2)),
        Scope { leaps: 1, ..Scope::shared(3, 4, 1) },
        lazy(2, Scope::shared(3, 4, 2)),
    ] {
        let compared = scope.check_symmetry(&module, 2000).expect("a model");
        println!("{}: {compared:?} states compared", scope.name());
        assert!(compared.is_ok_and(|compared| compared > 1000), "{}", scope.name());
    }
}

#[test]
fn a_search_that_runs_out_of_budget_does_not_count_as_complete() {
    let _alone = alone();
    let module = load(&device_code(true));
    let budget = Budget { states: 1000, ..BUDGET };
    let report = check(&Scope::shared(2, 2, 1), &module, budget);
    assert_eq!(report.verdict, Verdict::NotExhausted);
    assert!(report.to_string().ends_with("NOT exhausted"), "{report}");
}
