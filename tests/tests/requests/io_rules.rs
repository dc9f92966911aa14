//! Each rule of io.cuh, deallocate.cuh, coalesce.cuh and outstanding.cuh, as built and switched off.

use std::path::Path;
use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_nvme::NvmOpcode;
use warpbell_sim::{TestVariant, seeds};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, OptionalCommands, Selector};
use warpbell_tests::each_apart;

use crate::batch::{BROKEN, BROKEN_BITS, library};
use crate::fixture::{BLOCK, MODES};
use crate::pieces::{Done, Record, Work};
use warpbell_hw::{Lba, Nsid};

/// Seeds that a broken rule has to show itself.
const MOST_SEEDS: u64 = 4;

/// As in io_rules.cu.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Refused,
    Whole,
    Group,
    Each,
    Clipped,
    GapInBlocks,
    GapInMemory,
    TwoBuffers,
    Copies,
    Neighbours,
    Mixed,
    Any,
    AnyDone,
    All,
    Cancelled,
    Forced,
    ForcedPieces,
    Ranges,
    Missing,
    Zeroes,
    LongRanges,
}

type Check = fn(&Module, Sharing, u64) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 32] = [
    ("TOO_LARGE_SENT", what_cannot_be_done_is_refused, "lane 0"),
    ("DATA_UNCHECKED", what_cannot_be_done_is_refused, "lane 1"),
    ("MISALIGNED_SENT", what_cannot_be_done_is_refused, "lane 2"),
    ("REFUSAL_FORGOTTEN", what_cannot_be_done_is_refused, "lane 0"),
    ("COMMAND_UNCHECKED", what_cannot_be_done_is_refused, "lane 4"),
    ("WHOLE_UNCHECKED", pieces_of_a_bad_request_are_not_sent, "lane 0"),
    ("PIECE_NOT_CLIPPED", the_last_piece_ends_where_the_request_ends, "bytes"),
    ("SPLIT_GOES_ON", nothing_is_sent_after_a_failure, "commands"),
    ("PIECES_IN_ROUNDS", no_lane_waits_for_another, "lane "),
    ("DEADLINE_OF_EACH_ROUND", all_rounds_have_one_deadline, "took"),
    ("PIECE_AFTER_DEADLINE", nothing_is_sent_after_the_last_poll, "each lane"),
    ("GROUP_FAILURE_HIDDEN", a_failure_is_everybodys, "lane 0"),
    ("IN_USE_HIDDEN", a_failure_is_everybodys, "lane 0"),
    ("FUA_FORGOTTEN", what_was_forced_is_durable, "block 0"),
    ("REQUEST_FLAGS_OF_FIRST", every_piece_is_durable, "block 2"),
    ("RANGE_BY_LANE", ranges_have_no_gaps, "lane "),
    ("MISSING_COMMAND_SENT", what_the_ssd_lacks_is_not_sent, "is not supported"),
    ("ZEROES_LIMIT_IGNORED", zeroes_have_a_limit_of_their_own, "lane "),
    ("RANGES_UNCHECKED", ranges_are_what_the_ssd_takes, "lane "),
    ("COALESCED_OVER_A_GAP", a_gap_in_blocks_is_not_read, "lane "),
    ("COALESCED_ELSEWHERE", a_gap_in_memory_is_kept, "lane "),
    ("COALESCED_OTHER_BUFFER", neighbours_in_two_buffers_are_none, "lane 0"),
    ("COALESCED_OTHER_COMMAND", neighbours_of_other_commands_are_none, "lane 10"),
    ("COALESCED_BY_PLACE", copies_of_a_reference_are_one_buffer, "commands"),
    ("COALESCED_TOO_LARGE", coalesced_commands_go_under_one_doorbell, "doorbells"),
    ("COALESCED_FAILURE_HIDDEN", neighbours_fail_together, "lane 1"),
    ("ANY_TAKES_LAST", the_first_of_several_answers_is_taken, "lane 0"),
    ("ANY_IGNORES_LOSS", a_lost_queue_answers_every_token, "not done"),
    ("ANY_GIVES_UP", nothing_is_given_up_at_a_deadline, "lane 0"),
    ("ALL_DEADLINES_ADD_UP", all_tokens_have_one_deadline, "took"),
    ("ALL_IN_USE_HIDDEN", a_buffer_in_use_comes_first, "lane 0"),
    ("CANCELLED_UNSEEN", a_command_that_is_done_is_not_cancelled, "lane "),
];

fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/io_rules.cu");
    Variant::file(&source).expect("the kernel").quick()
}

#[test]
fn each_rule_of_io_holds() {
    let built = source().loaded().expect("compiles");
    for (switch, check, _) in RULES {
        for (sharing, seed) in MODES.iter().flat_map(|mode| seeds(MOST_SEEDS).map(move |seed| (*mode, seed)))
        {
            assert_eq!(check(&built, sharing, seed), Ok(()), "as built, {switch}, {sharing:?}, seed {seed}");
        }
    }
}

#[test]
fn each_rule_of_io_is_missed_when_it_is_off() {
    each_apart(
        "io_rules::each_rule_of_io_is_missed_when_it_is_off",
        RULES.map(|(switch, ..)| switch),
        |rule| {
            let (switch, check, says) =
                RULES.into_iter().find(|(switch, ..)| *switch == rule).expect("a rule");
            let broken = source().mutate(switch).loaded().expect("compiles");
            let tried = |seed| Some((seed, check(&broken, Sharing::Exclusive, seed).err()?));
            let (seed, noticed) = seeds(MOST_SEEDS).find_map(tried).unwrap_or_default();
            println!("{switch}: seed {seed}: {noticed}");
            assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
        },
    );
}

fn work(sharing: Sharing, rule: Rule) -> Work {
    Work { warps: 1, rounds: 1, ..Work::new(sharing, "io_rule_test", rule as u32) }
}

fn at(lba: u64, action: FaultAction) -> Fault {
    Fault::new(action, Selector::new().lba(Some(Lba(lba)..=Lba(lba))))
}

fn failing(work: Work, faults: Vec<Fault>) -> Work {
    Work { faults: FaultPlan::new().faults(faults), ..work }
}

/// The controller never answers.
fn silent(work: Work) -> Work {
    work.failing(FaultAction::Drop, Selector::default())
}

/// Each lane has this status, and nothing is wrong.
fn expect(done: &Done, status: impl Fn(u32) -> u32) -> Result<(), String> {
    done.expect(|_, _, lane| Record { answers: 1, status: status(lane), ..Record::default() })
}

fn expect_same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} for {expected:?}")) }
}

fn expect_within(done: &Done, most: Duration) -> Result<(), String> {
    if done.took < most { Ok(()) } else { Err(format!("took {:?}, with {most:?}", done.took)) }
}

fn reads(done: &Done) -> u64 {
    done.several.softs[0].statistics().commands(NvmOpcode::READ)
}

fn first_word(done: &Done, block: u64) -> Result<u64, String> {
    let mut bytes = vec![0; BLOCK as usize];
    done.several.softs[0].peek(Nsid(1), Lba(block), &mut bytes).map_err(|error| error.to_string())?;
    Ok(u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")))
}

// ---- io.cuh

fn what_cannot_be_done_is_refused(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = Work { most: 1, ..work(sharing, Rule::Refused) }.run(module, seed)?;
    let refused = [abi::STATUS_TOO_LARGE, abi::STATUS_OUT_OF_BUFFER, abi::STATUS_MISALIGNED].map(library);
    let invalid = library(abi::STATUS_INVALID_FIELD);
    expect(&done, |lane| match lane {
        0..3 => refused[lane as usize],
        3..7 => invalid,
        _ => 0,
    })?;
    expect_same("commands", reads(&done), 2 * 25)
}

/// Eight blocks, and data for seven.
fn pieces_of_a_bad_request_are_not_sent(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = Work { most: 1, ..work(sharing, Rule::Whole) }.run(module, seed)?;
    expect(&done, |_| library(abi::STATUS_OUT_OF_BUFFER))?;
    expect_same("commands", reads(&done), 0)
}

fn the_last_piece_ends_where_the_request_ends(
    module: &Module,
    sharing: Sharing,
    seed: u64,
) -> Result<(), String> {
    let done = Work { most: 2, ..work(sharing, Rule::Clipped) }.run(module, seed)?;
    expect_same("bytes written", done.several.softs[0].statistics().bytes_written, 5 * BLOCK)?;
    expect_same("the block behind", first_word(&done, 5)?, Work::content(5))?;
    expect(&done, |_| 0)
}

fn nothing_is_sent_after_a_failure(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let broken = vec![at(4 * 8 + 2, FaultAction::Fail { status: BROKEN })];
    let done = failing(Work { most: 1, ..work(sharing, Rule::Each) }, broken).run(module, seed)?;
    expect(&done, |lane| if lane == 4 { BROKEN_BITS } else { 0 })?;
    expect_same("commands", reads(&done), 31 * 8 + 3)
}

/// Eight lanes, each of which waits long for another one of its pieces.
fn no_lane_waits_for_another(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let late = FaultAction::Delay { by: Duration::from_millis(3) };
    let slow = (0..8).map(|lane| at(lane * 8 + lane, late)).collect();
    let done = failing(Work { most: 1, ..work(sharing, Rule::Each) }, slow).run(module, seed)?;
    expect(&done, |_| 0)?;
    expect_within(&done, Duration::from_millis(6))
}

fn all_rounds_have_one_deadline(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let late = FaultAction::Delay { by: Duration::from_millis(3) };
    let done =
        Work { most: 1, ..work(sharing, Rule::Each) }.failing(late, Selector::default()).run(module, seed)?;
    // Eight rounds.
    expect_within(&done, Duration::from_millis(15))?;
    let late = [abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED].map(library);
    match done.each().find(|(_, _, _, record)| !late.contains(&record.status)) {
        Some((_, _, lane, record)) => Err(format!("lane {lane}: {record:?}")),
        None => Ok(()),
    }
}

/// An answer may come with the poll that finds the deadline over. When the clock is looked at depends on the schedule.
fn nothing_is_sent_after_the_last_poll(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let late = FaultAction::Delay { by: Duration::from_micros(9990) };
    let slow = Work { most: 1, ..work(sharing, Rule::Each) }.failing(late, Selector::default());
    let [timed_out, not_submitted] = [abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED].map(library);
    let mut told = 0;
    for seed in seed * 16..(seed + 1) * 16 {
        let done = slow.run(module, seed)?;
        told += done.each().filter(|(_, _, _, record)| record.status == not_submitted).count();
        let is_late = |status| [timed_out, not_submitted].contains(&status);
        if let Some((_, _, lane, record)) = done.each().find(|(_, _, _, record)| !is_late(record.status)) {
            return Err(format!("lane {lane}: {record:?}"));
        }
    }
    if told == 0 { Err("each lane has sent another command".to_owned()) } else { Ok(()) }
}

/// Of eight commands of one I/O one fails, and one is never answered: that one's buffer is the SSD's.
fn a_failure_is_everybodys(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let faults = vec![at(3, FaultAction::Fail { status: BROKEN }), at(5, FaultAction::Drop)];
    let done = failing(Work { most: 1, ..work(sharing, Rule::Group) }, faults).run(module, seed)?;
    expect(&done, |_| library(abi::STATUS_TIMED_OUT))
}

// ---- deallocate.cuh

fn what_was_forced_is_durable(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    expect_durable(&work(sharing, Rule::Forced).run(module, seed)?)
}

/// Of a request in 16 commands.
fn every_piece_is_durable(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    expect_durable(&Work { most: 2, ..work(sharing, Rule::ForcedPieces) }.run(module, seed)?)
}

fn expect_durable(done: &Done) -> Result<(), String> {
    expect(done, |_| 0)?;
    done.several.softs[0].power_loss(0.0);
    (0..32).try_for_each(|block| {
        expect_same(&format!("block {block}"), first_word(done, block)?, !Work::content(block))
    })
}

/// By each call, with the SSD's own status.
fn what_the_ssd_lacks_is_not_sent(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let none = OptionalCommands::new().no_compare(true).no_write_zeroes(true).no_dataset_management(true);
    let done = Work { optional: none, ..work(sharing, Rule::Missing) }.run(module, seed)?;
    expect(&done, |_| 0)?;
    expect_same("commands", done.several.softs[0].statistics().total_commands(), 0)
}

/// 256 blocks by commands of 16: by three calls.
fn zeroes_have_a_limit_of_their_own(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let few = OptionalCommands::new().wzsl(1);
    let done = Work { optional: few, ..work(sharing, Rule::Zeroes) }.run(module, seed)?;
    let bytes = 256 * BLOCK;
    done.expect(|_, _, _| Record { answers: 1, bytes, ..Record::default() })?;
    let zeroes = done.several.softs[0].statistics().commands(NvmOpcode::WRITE_ZEROES);
    expect_same("commands", zeroes, 3 * 16)?;
    (0..256).try_for_each(|block| expect_same(&format!("block {block}"), first_word(&done, block)?, 0))
}

/// 16 ranges of one block, or of two.
fn ranges_are_what_the_ssd_takes(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let of = OptionalCommands::new;
    for (rule, optional, fits) in [
        (Rule::Ranges, of().dmrl(16).dmrsl(1).dmsl(16), true),
        (Rule::Ranges, of().dmrl(15), false),
        (Rule::Ranges, of().dmsl(15), false),
        (Rule::LongRanges, of().dmrsl(1), false),
    ] {
        let done = Work { optional, ..work(sharing, rule) }.run(module, seed)?;
        let status = if fits { 0 } else { library(abi::STATUS_TOO_LARGE) };
        if let Some((_, _, lane, record)) = done.each().find(|(.., record)| record.status != status) {
            return Err(format!("lane {lane}, {optional:?}: {record:?}"));
        }
        let trims = done.several.softs[0].statistics().commands(NvmOpcode::DATASET_MANAGEMENT);
        expect_same("commands", trims, u64::from(fits))?;
    }
    Ok(())
}

fn ranges_have_no_gaps(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    expect(&work(sharing, Rule::Ranges).run(module, seed)?, |_| 0)
}

// ---- coalesce.cuh

fn a_gap_in_blocks_is_not_read(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = work(sharing, Rule::GapInBlocks).run(module, seed)?;
    expect(&done, |_| 0)?;
    expect_same("commands", reads(&done), 32)
}

fn a_gap_in_memory_is_kept(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = work(sharing, Rule::GapInMemory).run(module, seed)?;
    expect(&done, |_| 0)?;
    expect_same("commands", reads(&done), 32)
}

fn neighbours_in_two_buffers_are_none(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = work(sharing, Rule::TwoBuffers).run(module, seed)?;
    expect(&done, |_| 0)?;
    expect_same("commands", reads(&done), 2)
}

fn neighbours_of_other_commands_are_none(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = work(sharing, Rule::Mixed).run(module, seed)?;
    expect(&done, |_| 0)?;
    let statistics = done.several.softs[0].statistics();
    let found =
        [NvmOpcode::READ, NvmOpcode::WRITE, NvmOpcode::WRITE_ZEROES].map(|op| statistics.commands(op));
    expect_same("commands", found, [1 + 32, 1, 1])
}

fn copies_of_a_reference_are_one_buffer(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = work(sharing, Rule::Copies).run(module, seed)?;
    expect(&done, |_| 0)?;
    expect_same("commands", reads(&done), 1)
}

fn coalesced_commands_go_under_one_doorbell(
    module: &Module,
    sharing: Sharing,
    seed: u64,
) -> Result<(), String> {
    let done = Work { most: 5, ..work(sharing, Rule::Neighbours) }.run(module, seed)?;
    expect(&done, |_| 0)?;
    expect_same("commands", reads(&done), 7)?;
    expect_same("doorbells", done.counters.sq_doorbells, 1)
}

fn neighbours_fail_together(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let broken = vec![at(20, FaultAction::Fail { status: BROKEN })];
    let done = failing(work(sharing, Rule::Neighbours), broken).run(module, seed)?;
    // This controller moves no data of a command that fails.
    done.expect(|_, _, _| Record { answers: 1, status: BROKEN_BITS, wrong: 1, ..Record::default() })
}

// ---- outstanding.cuh

/// Four answers of each lane, one after the other, and then none.
fn expect_answers(done: &Done, status: u32) -> Result<(), String> {
    done.expect(|_, _, _| Record { answers: 1, status, bytes: 4, ..Record::default() })
}

fn the_first_of_several_answers_is_taken(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let many = Work { iodepth: 255, ..work(sharing, Rule::AnyDone) };
    expect_answers(&many.run(module, seed)?, 0)
}

fn a_lost_queue_answers_every_token(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let lost = Some(6000 + 100 * seed);
    let waiting = Work { iodepth: 255, timeout: Duration::from_secs(30), lost, ..work(sharing, Rule::Any) };
    let done = silent(waiting).run(module, seed)?;
    expect_within(&done, Duration::from_secs(5))?;
    expect_answers(&done, library(abi::STATUS_QUEUE_GONE))
}

fn nothing_is_given_up_at_a_deadline(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = silent(Work { iodepth: 255, ..work(sharing, Rule::Any) }).run(module, seed)?;
    let status = library(abi::STATUS_TIMED_OUT);
    done.expect(|_, _, _| Record { answers: 1, status, pad: 4, ..Record::default() })
}

fn all_tokens_have_one_deadline(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let done = silent(Work { iodepth: 255, ..work(sharing, Rule::All) }).run(module, seed)?;
    expect_within(&done, Duration::from_millis(15))?;
    expect(&done, |_| library(abi::STATUS_TIMED_OUT))
}

/// The first command of lane 0 fails, its third is never answered.
fn a_buffer_in_use_comes_first(module: &Module, sharing: Sharing, seed: u64) -> Result<(), String> {
    let faults = vec![at(0, FaultAction::Fail { status: BROKEN }), at(2, FaultAction::Drop)];
    let done = failing(Work { iodepth: 255, ..work(sharing, Rule::All) }, faults).run(module, seed)?;
    expect(&done, |lane| if lane == 0 { library(abi::STATUS_TIMED_OUT) } else { 0 })
}

fn a_command_that_is_done_is_not_cancelled(
    module: &Module,
    sharing: Sharing,
    seed: u64,
) -> Result<(), String> {
    expect(&work(sharing, Rule::Cancelled).run(module, seed)?, |_| 0)
}
