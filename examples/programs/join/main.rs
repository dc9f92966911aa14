// UNSAFETY: launches kernels of its own.
//! Out-of-core join: the rows of two columns that have the same key, by partitions on the SSD.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

mod layout;
#[cfg(test)]
#[path = "../patched.rs"]
mod patched;
mod reference;

use std::process::ExitCode;

use clap::Parser;
use warpbell::KernelMemory;
use warpbell_data::Columns;
use warpbell_examples::{Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef, ending};
use zerocopy::{Immutable, IntoBytes};

use crate::layout::{Layout, Side};
use crate::reference::{Match, Row, Summary};

/// Joins two columns on an SSD by kernels, which deal them into partitions and write matches back through a page cache,
/// and compares what is on the SSD then with a join by the host.
#[derive(Parser)]
#[command(version)]
struct Join {
    #[command(flatten)]
    sizes: Columns,
    /// Left rows of a partition, on average: a warp has as many in memory
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    table: u64,
    #[command(flatten)]
    options: Options,
}

/// As in join.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct DealArgs {
    stage: StageRef,
    from: u64,
    rows: u64,
    to: u64,
    partitions: u64,
    cursors: u64,
    counts: u64,
}

/// As in join.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct MatchArgs {
    stage: StageRef,
    left: u64,
    left_rows: u64,
    right: u64,
    right_rows: u64,
    left_begins: u64,
    right_begins: u64,
    partitions: u64,
    out: u64,
    out_rows: u64,
    found: u64,
    tables: u64,
    table_bytes: u64,
    table_slots: u64,
}

fn main() -> ExitCode {
    ending(run(&Join::parse()))
}

fn run(Join { sizes, table, options }: &Join) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let rows = |side| -> Result<Vec<Row>, Failure> {
        let row = |bytes: [u8; 16]| [0, 64].map(|by| (u128::from_le_bytes(bytes) >> by) as u64);
        data.values(side, row)
    };
    let (expected, matching) = reference::join(&rows("left")?, &rows("right")?);
    let layout = Layout::new(&data, *table, expected.matches)?;
    let code = Code { name: "join.cu", source: include_str!("join.cu") };
    let stage = Stage::open(options, &data, code, layout.end - data.room())?;
    if options.corrupt {
        let row = matching.ok_or_else(|| Failure::Usage {
            object: "--corrupt",
            value: data.name().to_owned(),
            limit: "no right row has the key of a left one, so that none matters".to_owned(),
        })?;
        stage.corrupt(layout.right.from + row * 16 + 8)?;
    }

    let compared = |pass: &mut Pass| -> Result<Check, Failure> {
        let found = join(pass, &layout, options.warps)?;
        let words = stage.values(layout.out, layout.out_rows * 24, u64::from_le_bytes)?;
        let mut all = Summary::default();
        words.as_chunks().0.iter().take(found as usize).for_each(|found: &Match| all.add(*found));
        let matches = Check::of(&pass.result("matches"), [expected.matches], [found]);
        let sum = pass.result("checksum of matches");
        Ok(matches.and(Check::of(&sum, [expected.checksum], [all.checksum])))
    };
    let (check, cached) = stage.cached(compared)?;
    stage.clear(layout.out, layout.out_rows * 24)?;
    let (again, loaded) = stage.loaded(compared)?;
    let check = check.and(again);
    let elements = layout.left.rows + layout.right.rows;
    // Counted, dealt, which is read and written, and matched.
    let bytes = elements * 16 * 4 + expected.matches * 24;
    stage.report(Outcome { program: "join", element: "row", elements, bytes, check, cached, loaded })
}

/// Counts, deals and matches; how many matches there are.
fn join(pass: &mut Pass, layout: &Layout, warps: u32) -> Result<u64, Failure> {
    let left = deal(pass, layout, &layout.left)?;
    let right = deal(pass, layout, &layout.right)?;
    let largest = left.windows(2).map(|partition| partition[1] - partition[0]).max().unwrap_or(0);
    let table_slots = (2 * largest).next_power_of_two();
    let table_bytes = table_slots * 8 + largest * 16;
    let tables = pass.memory(table_bytes * u64::from(warps))?;
    let (left_begins, right_begins) = (words(pass, &left)?, words(pass, &right)?);
    let found = words(pass, &[0])?;
    let args = MatchArgs {
        stage: pass.stage(),
        left: layout.left.to,
        left_rows: layout.left.rows,
        right: layout.right.to,
        right_rows: layout.right.rows,
        left_begins: left_begins.address(),
        right_begins: right_begins.address(),
        partitions: layout.partitions,
        out: layout.out,
        out_rows: layout.out_rows,
        found: found.address(),
        tables: tables.address(),
        table_bytes,
        table_slots,
    };
    // SAFETY: the kernel touches what its arguments name: memory of this pass.
    unsafe { pass.launch("join", &args, layout.left.rows + layout.right.rows) }?;
    pass.store(layout.out, layout.out_rows * 24)?;
    let mut matches = 0u64;
    found.read(0, matches.as_mut_bytes())?;
    Ok(matches)
}

/// Deals one column; where each partition begins, and where the last one ends.
fn deal(pass: &mut Pass, layout: &Layout, side: &Side) -> Result<Vec<u64>, Failure> {
    let mut begins = vec![0; layout.partitions as usize + 1];
    let cursors = words(pass, &begins[1..])?;
    let mut args = DealArgs {
        stage: pass.stage(),
        from: side.from,
        rows: side.rows,
        to: side.to,
        partitions: layout.partitions,
        cursors: cursors.address(),
        counts: 1,
    };
    // SAFETY: the kernel touches what its arguments name: memory of this pass.
    unsafe { pass.launch("deal", &args, side.rows) }?;
    cursors.read(0, begins[1..].as_mut_bytes())?;
    (1..begins.len()).for_each(|at| begins[at] += begins[at - 1]);
    cursors.write(0, begins[..layout.partitions as usize].as_bytes())?;
    args.counts = 0;
    // SAFETY: the kernel touches what its arguments name: memory of this pass.
    unsafe { pass.launch("deal", &args, side.rows) }?;
    Ok(begins)
}

fn words(pass: &mut Pass, words: &[u64]) -> Result<KernelMemory, Failure> {
    let memory = pass.memory(size_of_val(words) as u64)?;
    memory.write(0, words.as_bytes())?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_whole_rows_are_refused() -> Result<(), Failure> {
        let refusal = |section: usize, bytes: u64| -> Result<String, Failure> {
            let kind = Columns { left: 10, right: 20, matching: 50 }.into();
            let file = patched::file(&kind, patched::bytes_of_section(section), bytes)?;
            let path = file.path().display().to_string();
            let failure = run(&Join::parse_from(["join", "--quiet", "--data", &path])).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            Ok(failure.to_string().replace(&path, "FILE"))
        };
        let text = "rows of 16 bytes, and one at least";
        assert_eq!(refusal(0, 0)?, format!("--data FILE: section 'left' has 0 bytes: it must be {text}"));
        assert_eq!(refusal(1, 0)?, format!("--data FILE: section 'right' has 0 bytes: it must be {text}"));
        assert_eq!(refusal(0, 152)?, format!("--data FILE: section 'left' has 152 bytes: it must be {text}"));
        Ok(())
    }
}
