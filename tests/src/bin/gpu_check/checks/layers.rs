//! What the device library has on top of queues: batches, agents, and volumes over several controllers.

use warpbell::OpenOptions;
use warpbell_tests::suite::{self, Calls};
use warpbell_workload::Api;

use crate::run::Bed;

fn calls(bed: &Bed, calls: Calls) -> anyhow::Result<String> {
    let ssd = bed.soft("size=8m,cache=volatile,order=shuffled:8", &OpenOptions::default())?;
    let told = suite::calls_on(bed.target, &ssd, calls)?;
    bed.no_violations(&ssd)?;
    Ok(told)
}

pub fn each(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Each)
}

pub fn outstanding(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Outstanding)
}

pub fn commands(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Commands)
}

pub fn tokens(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Tokens)
}

pub fn merged(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Merged)
}

pub fn requests(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Requests)
}

pub fn ordered(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Order)
}

pub fn batches(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Batches)
}

pub fn mail(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Mail)
}

pub fn stream(bed: &Bed) -> anyhow::Result<String> {
    calls(bed, Calls::Stream)
}

/// Compute warps write, read and check through agents.
pub fn agents(bed: &Bed) -> anyhow::Result<String> {
    let ssd = bed.soft("size=16m", &OpenOptions::default())?;
    suite::apis_on(bed.target, &ssd, 1, &[Api::Agent]);
    bed.no_violations(&ssd)?;
    Ok(format!("three sizes, verified, {}", ssd.data_path()))
}

/// Blocks of threads write, read and check by batches.
pub fn block_bench(bed: &Bed) -> anyhow::Result<String> {
    let ssd = bed.soft("size=16m", &OpenOptions::default())?;
    suite::apis_on(bed.target, &ssd, 1, &[Api::Batch]);
    bed.no_violations(&ssd)?;
    Ok(format!("three sizes, verified, {}", ssd.data_path()))
}

/// Warps read and write words of an array over a page cache.
pub fn arrays(bed: &Bed) -> anyhow::Result<String> {
    let ssd = bed.soft("size=16m,order=shuffled:8", &OpenOptions::default())?;
    let told = suite::arrays_on(bed.target, &ssd);
    bed.no_violations(&ssd)?;
    Ok(told)
}

/// The protocols of the laboratory write, read and check.
pub fn protocols(bed: &Bed) -> anyhow::Result<String> {
    let ssd = bed.soft("size=16m", &OpenOptions::default())?;
    let told = suite::protocols_on(bed.target, &ssd);
    bed.no_violations(&ssd)?;
    Ok(told)
}

pub fn striped(bed: &Bed) -> anyhow::Result<String> {
    suite::striped_on(bed.target)
}

pub fn replicated(bed: &Bed) -> anyhow::Result<String> {
    suite::replicated_on(bed.target)
}

pub fn concatenated(bed: &Bed) -> anyhow::Result<String> {
    suite::concatenated_on(bed.target)
}
