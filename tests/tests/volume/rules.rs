//! Each rule of volumes, as built and switched off.

use warpbell::{MemberReport, Sharing, VolumeLayout};
use warpbell_hw::Lba;
use warpbell_kernels::cpu;
use warpbell_nvme::NvmOpcode;
use warpbell_sim::{TestVariant, seeds};
use warpbell_softctl::FaultAction;
use warpbell_tests::each_apart;

use crate::fixture::*;
use crate::layouts::unlike;
use crate::replicas::{BROKEN, digest_of, only, replicas};

type Check = fn(&cpu::Module) -> Result<(), String>;

/// Switch, check, and what the check says then.
const RULES: [(&str, Check, &str); 12] = [
    ("CHUNK_CROSSED", chunks_are_kept, "bytes were written"),
    ("READ_NOT_REPEATED", reads_find_a_replica, "status 0x4006,"),
    ("ONE_REPLICA_WRITTEN", every_replica_is_written, "status 0x0,"),
    ("REPLICA_KEPT", stale_replicas_are_not_read, "status 0x0,"),
    ("LAST_REPLICA_DROPPED", what_was_written_is_there, "was written, and reads"),
    ("READ_REPEATED_IN_USE", a_buffer_in_use_is_not_used_again, "nobody was told"),
    ("AVOIDED_READ", a_silent_replica_is_avoided, "status 0x8001,"),
    ("FAILED_BYTES_COUNTED", bytes_are_those_that_were_moved, " bytes: MemberReport"),
    ("ZONES_IGNORED", unlike_ssds_are_used_to_their_ends, "status 0x8004,"),
    ("UNITS_UNSHIFTED", unlike_ssds_are_used_to_their_ends, "read of unit 0: status 0x0,"),
    ("ONE_SSD_FLUSHED", a_flush_goes_everywhere, "flushes of two warps"),
    ("SLOTLESS_WARP_USED", a_warp_without_a_slot_costs_nothing, "status 0x800c,"),
];

#[test]
fn each_rule_holds() {
    RULES.iter().for_each(|(switch, check, _)| assert_eq!(check(&MODULE), Ok(()), "as built, {switch}"));
}

#[test]
fn each_rule_is_missed_when_it_is_off() {
    each_apart("rules::each_rule_is_missed_when_it_is_off", RULES.map(|(switch, ..)| switch), |rule| {
        let (switch, check, says) = RULES.into_iter().find(|(switch, ..)| *switch == rule).expect("a rule");
        let broken = source().mutate(switch).loaded().expect("compiles");
        let noticed = check(&broken).err().unwrap_or_default();
        println!("{switch}: {noticed:.200}");
        assert!(noticed.contains(says), "{switch} is not noticed: {noticed:?}");
    });
}

fn chunks_are_kept(module: &cpu::Module) -> Result<(), String> {
    let fixture = Fixture::new(vec![Disk::new(256 << 10, 512); 4], Sharing::Shared, VolumeLayout::Stripe);
    // 24 blocks a chunk, 40 a unit.
    let fixture = Fixture { unit_blocks: 40, most_units: 30, ..fixture };
    for seed in seeds(SEEDS) {
        digest_of(module, &fixture, seed)?;
        let made = fixture.open();
        made.run(module, seed, true, |_| ());
        let written: u64 = made.report().iter().map(|member| member.bytes_written).sum();
        if written != made.units() * 40 * 512 {
            return Err(format!("seed {seed}: {written} bytes were written: {:?}", made.report()));
        }
    }
    Ok(())
}

fn reads_find_a_replica(module: &cpu::Module) -> Result<(), String> {
    let fails = |disk: Disk| disk.failing(FaultAction::Fail { status: BROKEN }, only(NvmOpcode::READ, 9));
    seeds(SEEDS).try_for_each(|seed| digest_of(module, &replicas(Sharing::Shared, fails), seed).map(|_| ()))
}

fn every_replica_is_written(module: &cpu::Module) -> Result<(), String> {
    seeds(SEEDS)
        .try_for_each(|seed| digest_of(module, &replicas(Sharing::Shared, |disk| disk), seed).map(|_| ()))
}

fn stale_replicas_are_not_read(module: &cpu::Module) -> Result<(), String> {
    let fails = |disk: Disk| disk.failing(FaultAction::Fail { status: BROKEN }, only(NvmOpcode::WRITE, 9));
    seeds(SEEDS).try_for_each(|seed| digest_of(module, &replicas(Sharing::Shared, fails), seed).map(|_| ()))
}

/// Each of two replicas misses a part: never both, and what was reported as written can be read.
fn what_was_written_is_there(module: &cpu::Module) -> Result<(), String> {
    for seed in seeds(SEEDS_OF_RULES) {
        let half = 32 * 5;
        let misses = |first, last| only(NvmOpcode::WRITE, 0).lba(Some(Lba(first)..=Lba(last)));
        let disk = Disk::new(256 << 10, 512);
        let fail = FaultAction::Fail { status: BROKEN };
        let disks = vec![
            disk.clone().failing(fail, misses(0, half - 1)),
            disk.failing(fail, misses(half, 2 * half - 1)),
        ];
        let fixture =
            Fixture { most_units: 64, ..Fixture::new(disks, Sharing::Shared, VolumeLayout::Replicate) };
        let made = fixture.open();
        let written = made.run(module, seed, true, |_| ());
        let read = made.run(module, seed, false, |_| ());
        let lost =
            written.iter().zip(&read).position(|(w, r)| w.status == 0 && (r.status != 0 || r.wrong != 0));
        if let Some(unit) = lost {
            return Err(format!("seed {seed}: unit {unit} was written, and reads {:?}", read[unit]));
        }
        if !made.report().iter().any(|member| member.present) {
            return Err(format!("seed {seed}: no replica is left"));
        }
    }
    Ok(())
}

/// The second replica answers no read from some on.
fn silent() -> Fixture {
    replicas(Sharing::Shared, |disk| disk.failing(FaultAction::Drop, only(NvmOpcode::READ, 9)))
}

fn a_buffer_in_use_is_not_used_again(module: &cpu::Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let made = silent().open();
        made.run(module, seed, true, |_| ());
        let read = made.run(module, seed, false, |_| ());
        if !read.iter().any(|record| record.again != 0) {
            return Err(format!("seed {seed}: nobody was told that a buffer is in use"));
        }
    }
    Ok(())
}

fn a_silent_replica_is_avoided(module: &cpu::Module) -> Result<(), String> {
    seeds(SEEDS).try_for_each(|seed| digest_of(module, &silent(), seed).map(|_| ()))
}

fn bytes_are_those_that_were_moved(module: &cpu::Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let fail = FaultAction::Fail { status: BROKEN };
        let made = replicas(Sharing::Shared, |disk| disk.failing(fail, only(NvmOpcode::WRITE, 9))).open();
        made.run(module, seed, true, |_| ());
        for (member, soft) in made.report().iter().zip(&made.several.softs) {
            let moved = soft.statistics().bytes_written;
            if member.bytes_written != moved {
                return Err(format!("seed {seed}: {} of {moved} bytes: {member:?}", member.bytes_written));
            }
        }
    }
    Ok(())
}

fn unlike_ssds_are_used_to_their_ends(module: &cpu::Module) -> Result<(), String> {
    let fixture = Fixture::new(unlike(), Sharing::Shared, VolumeLayout::Stripe);
    seeds(SEEDS).try_for_each(|seed| digest_of(module, &fixture, seed).map(|_| ()))
}

fn a_flush_goes_everywhere(module: &cpu::Module) -> Result<(), String> {
    let made = Fixture::new(unlike(), Sharing::Shared, VolumeLayout::Stripe).open();
    made.run(module, 1, true, |_| ());
    let flushes = made.several.softs.iter().map(|soft| soft.statistics().commands(NvmOpcode::FLUSH));
    let flushes: Vec<u64> = flushes.collect();
    if flushes == [2; 3] { Ok(()) } else { Err(format!("flushes of two warps: {flushes:?}")) }
}

fn a_warp_without_a_slot_costs_nothing(module: &cpu::Module) -> Result<(), String> {
    let made = replicas(Sharing::Shared, |disk| Disk { queues: 1, warps: Some(1), ..disk }).open();
    made.run(module, 3, true, |_| ());
    let report = made.report();
    match report.iter().find(|member| !member.present || member.errors != 0) {
        Some(MemberReport { name, present, error_status, .. }) => {
            Err(format!("{name}: status {error_status:#x}, present: {present}"))
        }
        None => Ok(()),
    }
}
