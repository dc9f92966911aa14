//! Commands that not every SSD of a volume has, or takes as large, and those that a replica rejects.

use warpbell::{Sharing, VolumeLayout};
use warpbell_kernels::cpu;
use warpbell_nvme::{NvmOpcode, Status};
use warpbell_sim::seeds;
use warpbell_softctl::{FaultAction, OptionalCommands};

use crate::commands::{COMMANDS, Command, counted, lost, run, try_run};
use crate::fixture::*;
use crate::replicas::{BROKEN, only, replicas};

const INVALID_OPCODE: Status = Status::INVALID_OPCODE.with_dnr(true);

const LAYOUTS: [VolumeLayout; 3] = [VolumeLayout::Replicate, VolumeLayout::Stripe, VolumeLayout::Concatenate];

/// Three SSDs, of which one lacks something.
fn lacking(sharing: Sharing, layout: VolumeLayout, optional: OptionalCommands) -> Fixture {
    let disk = Disk { queues: 2, ..Disk::new(256 << 10, 512) };
    let disks = vec![disk.clone(), Disk { optional, ..disk.clone() }, disk];
    Fixture { most_units: 96, ..Fixture::new(disks, sharing, layout) }
}

/// Replicas, of which one rejects zeroes, and another fails to write them.
fn disagreeing(sharing: Sharing, status: Status) -> Made {
    let disk = Disk { queues: 2, ..Disk::new(256 << 10, 512) };
    let of = |status| disk.clone().failing(FaultAction::Fail { status }, only(NvmOpcode::WRITE_ZEROES, 0));
    Fixture::new(vec![disk.clone(), of(status), of(BROKEN)], sharing, VolumeLayout::Replicate).open()
}

fn present(made: &Made) -> Vec<bool> {
    made.report().iter().map(|member| member.present).collect()
}

/// No SSD gets a command that one of them lacks, and none is dropped for it.
pub fn what_one_ssd_lacks_is_sent_to_none(module: &cpu::Module) -> Result<(), String> {
    let optional = OptionalCommands::new().no_compare(true).no_write_zeroes(true);
    for (layout, whole) in LAYOUTS.iter().flat_map(|layout| [(*layout, false), (*layout, true)]) {
        let made = lacking(Sharing::Shared, layout, optional).open();
        for operation in [NvmOpcode::COMPARE, NvmOpcode::WRITE_ZEROES] {
            let records = try_run(&made, module, 3, Command::new(operation, 0, whole))?;
            let refused = u32::from(INVALID_OPCODE.into_bits());
            if let Some(record) = records.iter().find(|record| record.status != refused) {
                return Err(format!("{layout:?}, {operation}: status {:#x}", record.status));
            }
            let sent: u64 = counted(&made, operation).iter().sum();
            let report = made.report();
            if sent != 0 || report.iter().any(|member| !member.present || member.errors != 0) {
                return Err(format!("{layout:?}: {sent} sent, {report:?}"));
            }
        }
    }
    Ok(())
}

/// A replica that finds fault with a command is no worse than the others.
pub fn a_replica_that_rejects_a_command_stays(module: &cpu::Module) -> Result<(), String> {
    for status in [Status::INVALID_OPCODE, Status::INVALID_FIELD, Status::LBA_OUT_OF_RANGE] {
        let status = status.with_dnr(true);
        let rejects = FaultAction::Fail { status };
        let rejecting = |disk: Disk| disk.failing(rejects, only(NvmOpcode::WRITE_ZEROES, 0));
        let made = replicas(Sharing::Shared, rejecting).open();
        let records = run(&made, module, 4, Command::new(NvmOpcode::WRITE_ZEROES, 0, false));
        if let Some(record) = records.iter().find(|record| record.status != u32::from(status.into_bits())) {
            return Err(format!("{status}: status {:#x}", record.status));
        }
        if present(&made) != [true; 3] {
            return Err(format!("{status}: {:?}", made.report()));
        }
    }
    Ok(())
}

/// What an SSD zeroes by one command may be less than what it reads.
pub fn zeroes_are_split_as_the_ssd_takes_them(module: &cpu::Module) -> Result<(), String> {
    // 16 blocks of a chunk of 24.
    let optional = OptionalCommands::new().wzsl(1);
    for (layout, seed) in LAYOUTS.iter().flat_map(|layout| seeds(SEEDS).map(move |seed| (*layout, seed))) {
        let made = lacking(Sharing::Shared, layout, optional).open();
        let command = Command { blocks: 6 * 24, ..Command::new(NvmOpcode::WRITE_ZEROES, 0, true) };
        run(
            &made,
            module,
            seed,
            Command { operation: NvmOpcode::WRITE, seed: 5, without_data: false, ..command },
        );
        let records = try_run(&made, module, seed, command)?;
        if let Some(record) = records.iter().find(|record| record.status != 0) {
            return Err(format!("{layout:?}, seed {seed}: status {:#x}", record.status));
        }
        if let Some(block) = lost(&made, &command, 0) {
            return Err(format!("{layout:?}, seed {seed}: block {block}"));
        }
    }
    Ok(())
}

#[test]
fn others_of_its_commands_go_on() {
    for sharing in MODES {
        let optional = OptionalCommands::new().no_write_zeroes(true);
        let made = lacking(sharing, VolumeLayout::Replicate, optional).open();
        for (operation, status) in [
            (NvmOpcode::WRITE, 0),
            (NvmOpcode::WRITE_ZEROES, u32::from(INVALID_OPCODE.into_bits())),
            (NvmOpcode::COMPARE, 0),
            (NvmOpcode::READ, 0),
        ] {
            let command = Command { without_data: false, ..Command::new(operation, 5, false) };
            for record in run(&made, &COMMANDS, 2, command) {
                assert_eq!((record.status, record.wrong), (status, 0), "{operation}");
            }
        }
        assert_eq!(present(&made), [true; 3]);
    }
}

/// The one that failed is dropped; the call fails with what the other said.
#[test]
fn a_rejection_does_not_save_a_replica_that_fails() {
    for sharing in MODES {
        let status = Status::INVALID_FIELD.with_dnr(true);
        let made = disagreeing(sharing, status);
        for record in run(&made, &COMMANDS, 5, Command::new(NvmOpcode::WRITE_ZEROES, 0, false)) {
            assert_eq!(record.status, u32::from(status.into_bits()));
        }
        assert_eq!(present(&made), [true, true, false], "{:?}", made.report());
    }
}
