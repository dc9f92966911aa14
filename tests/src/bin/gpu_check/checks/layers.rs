//! What the device library has on top of queues: batches, agents, and volumes over several controllers.

use warpbell::OpenOptions;
use warpbell_tests::suite::{self, Calls};
use warpbell_workload::Api;

use crate::run::Fixture;

fn calls(fixture: &Fixture, calls: Calls) -> anyhow::Result<String> {
    let ssd = fixture.soft("size=8m,cache=volatile,order=shuffled:8", &OpenOptions::default())?;
    let told = suite::calls_on(fixture.target, &ssd, calls)?;
    fixture.no_violations(&ssd)?;
    Ok(told)
}

pub fn each(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Each)
}

pub fn outstanding(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Outstanding)
}

pub fn commands(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Commands)
}

pub fn tokens(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Tokens)
}

pub fn coalesced(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Coalesced)
}

pub fn requests(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Requests)
}

pub fn ordered(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Order)
}

pub fn batches(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Batches)
}

pub fn mail(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Mail)
}

pub fn stream(fixture: &Fixture) -> anyhow::Result<String> {
    calls(fixture, Calls::Stream)
}

/// Compute warps write, read and check through agents.
pub fn agents(fixture: &Fixture) -> anyhow::Result<String> {
    let ssd = fixture.soft("size=16m", &OpenOptions::default())?;
    suite::apis_within(fixture.range(), fixture.target, &ssd, 1, &[Api::Agent], fixture.case);
    fixture.no_violations(&ssd)?;
    Ok(format!("{}, verified, {}", fixture.sizes_said(), ssd.data_path()))
}

/// Blocks of threads write, read and check by batches.
pub fn block_bench(fixture: &Fixture) -> anyhow::Result<String> {
    let ssd = fixture.soft("size=16m", &OpenOptions::default())?;
    suite::apis_within(fixture.range(), fixture.target, &ssd, 1, &[Api::Batch], fixture.case);
    fixture.no_violations(&ssd)?;
    Ok(format!("{}, verified, {}", fixture.sizes_said(), ssd.data_path()))
}

/// Warps read and write words of an array over a page cache.
pub fn arrays(fixture: &Fixture) -> anyhow::Result<String> {
    let ssd = fixture.soft("size=16m,order=shuffled:8", &OpenOptions::default())?;
    let told = suite::arrays_on(fixture.target, &ssd, fixture.sized(16 << 10));
    fixture.no_violations(&ssd)?;
    Ok(told)
}

/// The protocols of the laboratory write, read and check.
pub fn protocols(fixture: &Fixture) -> anyhow::Result<String> {
    let ssd = fixture.soft("size=16m", &OpenOptions::default())?;
    let told = suite::protocols_on(fixture.target, &ssd);
    fixture.no_violations(&ssd)?;
    Ok(told)
}

pub fn striped(fixture: &Fixture) -> anyhow::Result<String> {
    suite::striped_on(fixture.target)
}

pub fn replicated(fixture: &Fixture) -> anyhow::Result<String> {
    suite::replicated_on(fixture.target)
}

pub fn concatenated(fixture: &Fixture) -> anyhow::Result<String> {
    suite::concatenated_on(fixture.target)
}
