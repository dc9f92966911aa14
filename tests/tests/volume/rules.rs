//! Each rule of volumes, as built and switched off.

use warpbell::{Sharing, VolumeLayout};
use warpbell_kernels::cpu;
use warpbell_nvme::NvmOpcode;
use warpbell_softctl::{FaultAction, Selector};
use warpbell_tests::seeds;

use crate::bed::*;
use crate::replicas::{BROKEN, digest_of, only, replicas};

type Check = fn(&cpu::Module) -> Result<(), String>;

const RULES: [(&str, Check); 5] = [
    ("CHUNK_CROSSED", chunks_are_kept),
    ("READ_NOT_REPEATED", reads_find_a_replica),
    ("ONE_REPLICA_WRITTEN", every_replica_is_written),
    ("REPLICA_KEPT", stale_replicas_are_not_read),
    ("LAST_REPLICA_DROPPED", what_was_written_is_there),
];

#[test]
fn each_rule_holds_and_is_missed_when_it_is_off() {
    for (switch, check) in RULES {
        assert_eq!(check(&MODULE), Ok(()), "as built, {switch}");
        let broken = source().mutate(switch).load().expect("compiles");
        assert!(check(&broken).is_err(), "nobody notices {switch}");
    }
}

fn chunks_are_kept(module: &cpu::Module) -> Result<(), String> {
    let bed = Bed::new(vec![Disk::new(256 << 10, 512); 4], Sharing::Shared, VolumeLayout::Stripe);
    // 24 blocks a chunk, 40 a unit.
    let bed = Bed { unit_blocks: 40, most_units: 30, ..bed };
    for seed in seeds(SEEDS) {
        digest_of(module, &bed, seed)?;
        let made = bed.open();
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
        let misses = |blocks| Selector { lba: Some(blocks), ..only(NvmOpcode::WRITE, 0) };
        let disk = Disk::new(256 << 10, 512);
        let fail = FaultAction::Fail { status: BROKEN };
        let disks = vec![
            disk.clone().failing(fail, misses(0..=half - 1)),
            disk.failing(fail, misses(half..=2 * half - 1)),
        ];
        let bed = Bed { most_units: 64, ..Bed::new(disks, Sharing::Shared, VolumeLayout::Replicate) };
        let made = bed.open();
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
