// UNSAFETY: launches kernels of its own.
//! Embedding gather: rows of a table on an SSD, by a list of row numbers.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

#[path = "../table.rs"]
mod table;

use std::process::ExitCode;

use clap::Parser;
use warpbell_data::Embeddings;
use warpbell_examples::{
    Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef, ending, values,
};
use zerocopy::{Immutable, IntoBytes};

use crate::table::Table;

/// Gathers rows of a table on an SSD by kernels, some of them often, and compares them with the rows of the file.
#[derive(Parser)]
#[command(version)]
struct EmbeddingGather {
    #[command(flatten)]
    sizes: Embeddings,
    #[command(flatten)]
    options: Options,
}

/// As in embedding_gather.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct GatherArgs {
    stage: StageRef,
    rows: u64,
    dim: u64,
    row_count: u64,
    lookups: u64,
    out: u64,
    count: u64,
}

fn main() -> ExitCode {
    ending(run(&EmbeddingGather::parse()))
}

fn run(EmbeddingGather { sizes, options }: &EmbeddingGather) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let table = Table::of(&data)?;
    let lookups: Vec<u64> = data.values("lookups", u64::from_le_bytes)?;
    if let Some(row) = lookups.iter().find(|row| **row >= table.rows) {
        return Err(data.refused(format!("it looks up row {row}, and the table has {}", table.rows)));
    }
    let count = lookups.len() as u64;
    let code = Code { name: "embedding_gather.cu", source: include_str!("embedding_gather.cu") };
    let stage = Stage::open(options, &data, code, 0)?;
    let row_bytes = table.row_bytes();
    let place = |row: &u64| table.offset + row * row_bytes;
    // Of a row that somebody wants.
    stage.corrupt(lookups.last().map_or(table.offset, place))?;

    let gather = |pass: &mut Pass| {
        let (list, out) = (pass.memory(count * 8)?, pass.memory(count * row_bytes)?);
        list.write(0, lookups.as_bytes())?;
        let args = GatherArgs {
            stage: pass.stage(),
            rows: table.offset,
            dim: table.dim,
            row_count: table.rows,
            lookups: list.address(),
            out: out.address(),
            count,
        };
        // SAFETY: the kernel touches what its arguments name: memory of this pass.
        unsafe { pass.launch("embedding_gather", &args, count) }?;
        let mut found = vec![0; (count * row_bytes) as usize];
        out.read(0, &mut found)?;
        Ok(values(&found, f32::from_le_bytes))
    };
    let mut expected = vec![0; (count * row_bytes) as usize];
    for (row, into) in lookups.iter().zip(expected.chunks_exact_mut(row_bytes as usize)) {
        data.read(place(row), into)?;
    }
    let expected = values(&expected, f32::from_le_bytes);

    let (found, cached) = stage.cached(gather)?;
    let check = Check::of("out", &expected, &found);
    let (found, loaded) = stage.loaded(gather)?;
    let check = check.and(Check::of("out of the loaded program", &expected, &found));
    let (program, element, elements, bytes) = ("embedding_gather", "row", count, count * row_bytes);
    stage.report(Outcome { program, element, elements, bytes, check, cached, loaded })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use tempfile::NamedTempFile;
    use warpbell_data::generate;

    use super::*;

    #[test]
    fn a_row_that_there_is_none_of_is_refused() -> Result<(), Failure> {
        let mut file = NamedTempFile::new()?;
        let header = generate(&Embeddings { rows: 10, dim: 2, lookups: 4 }.into(), 1, &mut file)?;
        let second = header.section("lookups")?.offset + 8;
        file.as_file().write_all_at(&10u64.to_le_bytes(), second)?;
        let path = file.path().display().to_string();
        let failure = run(&EmbeddingGather::parse_from(["", "--data", &path])).unwrap_err();
        let expected = format!("--data {path}: it looks up row 10, and the table has 10");
        assert_eq!((failure.to_string(), failure.exit_code()), (expected, 2));
        Ok(())
    }
}
