// UNSAFETY: launches kernels of its own.
//! Top-k search: the rows of a table of embeddings that are most like some queries.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

#[path = "../table.rs"]
mod table;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use warpbell_data::{Embeddings, Random};
use warpbell_examples::{Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef, ending};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::table::Table;

/// Finds the rows of a table on an SSD whose products with four queries are the largest, and compares them with a search by
/// the host.
#[derive(Parser)]
#[command(version)]
struct TopK {
    #[command(flatten)]
    sizes: Embeddings,
    /// Rows to find for each query
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=32))]
    k: u32,
    /// How rows come to the kernel
    #[arg(long = "by", value_enum, default_value_t = Way::Cached)]
    way: Way,
    #[command(flatten)]
    options: Options,
}

/// How rows come to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Through the page cache.
    Cached,
    /// In chunks, each read while the one before it is looked at; in as much memory as the cache would take.
    Streamed,
}

const QUERIES: usize = 4;
/// Of a warp.
const LANES: usize = 32;
/// A row that there is none of.
const NONE: u64 = u64::MAX;

/// As in top_k.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct TopKArgs {
    stage: StageRef,
    rows_at: u64,
    rows: u64,
    queries: u64,
    lists: u64,
    dim: u32,
    k: u32,
    chunk_rows: u32,
    pad: u32,
}

/// As in top_k.cu.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Candidate {
    product: i64,
    row: u64,
}

fn main() -> ExitCode {
    ending(run(&TopK::parse()))
}

fn run(TopK { sizes, k, way, options }: &TopK) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let table = Table::of(&data)?;
    let (rows, dim) = (table.rows, table.dim);
    let (queries, k) = (synthetic_queries(options.seed, dim), *k as usize);
    let expected = search(&data.values("rows", f32::from_le_bytes)?, &queries, k);
    let code = Code { name: "top_k.cu", source: include_str!("top_k.cu") };
    let stage = Stage::open(options, &data, code, 0)?;
    let first = table.offset + expected[0].row * table.row_bytes();
    stage.corrupt(first + byte_that_matters(&data, first, dim)?)?;

    let chunk_rows = match way {
        Way::Cached => LANES as u64 * 8,
        Way::Streamed => streamed_rows(options, table.row_bytes())?,
    };
    let find = |pass: &mut Pass| {
        let (to_find, lists) = (
            pass.memory(queries.as_bytes().len() as u64)?,
            pass.memory((candidates(options) * size_of::<Candidate>()) as u64)?,
        );
        to_find.write(0, queries.as_bytes())?;
        let args = TopKArgs {
            stage: pass.stage(),
            rows_at: table.offset,
            rows,
            queries: to_find.address(),
            lists: lists.address(),
            dim: dim as u32,
            k: k as u32,
            chunk_rows: chunk_rows as u32,
            pad: 0,
        };
        let streamed = *way == Way::Streamed && pass.is_cached();
        // SAFETY: the kernel touches what its arguments name: memory of this pass.
        unsafe { pass.launch(if streamed { "top_k_streamed" } else { "top_k" }, &args, rows) }?;
        let mut found = vec![Candidate { product: 0, row: NONE }; candidates(options)];
        lists.read(0, found.as_mut_bytes())?;
        Ok(merged(&found, k))
    };
    let (found, cached) = stage.cached(find)?;
    let check = Check::of("row", &expected, &found);
    let (found, loaded) = stage.loaded(find)?;
    let check = check.and(Check::of("row of the loaded program", &expected, &found));
    let (program, element, elements, bytes) = ("top_k", "row", rows, rows * table.row_bytes());
    stage.report(Outcome { program, element, elements, bytes, check, cached, loaded })
}

/// `dim` rows of numbers, one of each query, in units of 2^-23: as elements of the table are.
fn synthetic_queries(seed: u64, dim: u64) -> Vec<i32> {
    let random = Random::new(seed, 2);
    (0..dim * QUERIES as u64).map(|index| random.below(index, (1 << 24) + 1) as i32 - (1 << 23)).collect()
}

/// The search by the host: of each query the k best rows, best first.
fn search(table: &[f32], queries: &[i32], k: usize) -> Vec<Candidate> {
    let dim = queries.len() / QUERIES;
    let of_query = |query: usize| {
        let numbers = queries.iter().skip(query).step_by(QUERIES);
        let product = |row: &[f32]| {
            row.iter().zip(numbers.clone()).map(|(x, q)| whole(*x) * i64::from(*q)).fold(0, i64::wrapping_add)
        };
        let rows = table.chunks_exact(dim).zip(0..);
        best(rows.map(|(row, number)| Candidate { product: product(row), row: number }).collect(), k)
    };
    (0..QUERIES).flat_map(of_query).collect()
}

/// In units of 2^-23.
fn whole(element: f32) -> i64 {
    (element * 8_388_608.0) as i64
}

fn best(mut rows: Vec<Candidate>, k: usize) -> Vec<Candidate> {
    rows.sort_by_key(|candidate| (std::cmp::Reverse(candidate.product), candidate.row));
    rows.truncate(k);
    rows
}

/// The k best of each query, of all warps' lists.
fn merged(lists: &[Candidate], k: usize) -> Vec<Candidate> {
    let of_query = |lists: &[Candidate]| {
        best(lists.iter().filter(|candidate| candidate.row != NONE).copied().collect(), k)
    };
    lists.chunks_exact(lists.len() / QUERIES).flat_map(of_query).collect()
}

/// In the lists of all warps.
fn candidates(options: &Options) -> usize {
    QUERIES * LANES * options.warps as usize
}

/// Rows of a chunk, of which each warp has two, in whole blocks of 4096 bytes at most.
fn streamed_rows(options: &Options, row_bytes: u64) -> Result<u64, Failure> {
    let unit = 4096 >> row_bytes.trailing_zeros().min(12);
    let rows = options.cache_bytes() / (2 * u64::from(options.warps) * row_bytes) / unit * unit;
    if rows == 0 {
        let least = 2 * u64::from(options.warps) * row_bytes * unit;
        let limit = format!("streaming needs {least} bytes: two chunks of {unit} rows for each warp");
        return Err(Failure::Usage { object: "--cache", value: options.cache.0.to_string(), limit });
    }
    Ok(rows.min(1 << 20))
}

/// In the row at `first`, a byte of the element that is largest: with another one the row's products are others.
fn byte_that_matters(data: &DataFile, first: u64, dim: u64) -> Result<u64, Failure> {
    let mut bytes = vec![0; dim as usize * 4];
    data.read(first, &mut bytes)?;
    let elements: Vec<f32> = warpbell_examples::values(&bytes, f32::from_le_bytes);
    let largest = (0..elements.len()).max_by(|a, b| elements[*a].abs().total_cmp(&elements[*b].abs()));
    Ok(largest.unwrap_or(0) as u64 * 4 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_products_are_in_order_of_their_rows() {
        // Two dimensions; rows 0 and 2 are alike.
        let table = [0.5, 0.25, -1.0, 1.0, 0.5, 0.25, 1.0, 1.0];
        let queries = [4, 0, 0, -2, 4, 0, 0, 2];
        let found = search(&table, &queries, 3);
        let rows: Vec<u64> = found.iter().map(|candidate| candidate.row).collect();
        assert_eq!(rows, [3, 0, 2, 0, 1, 2, 0, 1, 2, 1, 3, 0]);
        assert_eq!(found[0].product, 8 << 23);
    }

    #[test]
    fn chunks_lie_within_the_whole_pages_of_the_cache() {
        for line in ["--warps 1 --page 64k --cache 100k", "--warps 3 --page 64k --cache 1000k", "--cache 1m"]
        {
            let options = TopK::parse_from(std::iter::once("top_k").chain(line.split(' '))).options;
            for row_bytes in [4, 128, 384] {
                let rows = streamed_rows(&options, row_bytes).unwrap();
                let all = 2 * u64::from(options.warps) * rows * row_bytes;
                assert!(rows > 0 && all <= options.cache_bytes(), "{line}: {all} bytes of chunks");
                assert!((rows * row_bytes).is_multiple_of(4096), "{line}: {rows} rows of {row_bytes} bytes");
            }
        }
        let small = TopK::parse_from("top_k --warps 1 --page 64k --cache 63k".split(' ')).options;
        assert!(streamed_rows(&small, 128).is_err());
    }

    #[test]
    fn lists_of_warps_become_one() {
        let of = |product, row| Candidate { product, row };
        // Four queries, two warps, one candidate each.
        let lists =
            [of(1, 7), of(1, 3), of(5, 0), of(0, NONE), of(-2, 1), of(-1, 2), of(0, NONE), of(0, NONE)];
        assert_eq!(merged(&lists, 2), [of(1, 3), of(1, 7), of(5, 0), of(-1, 2), of(-2, 1)]);
        assert_eq!(merged(&lists, 1), [of(1, 3), of(5, 0), of(-1, 2)]);
    }
}
