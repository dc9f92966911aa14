//! What the device library has on top of queues: batches, agents, and volumes over several controllers.

use warpbell::OpenOptions;
use warpbell_tests::suite;
use warpbell_workload::Api;

use crate::run::Bed;

/// Compute warps write, read and check through agents.
pub fn agents(bed: &Bed) -> anyhow::Result<String> {
    let ssd = bed.soft("size=16m", &OpenOptions::default())?;
    suite::apis_on(bed.target, &ssd, 1, &[Api::Agent]);
    bed.no_violations(&ssd)?;
    Ok(format!("three sizes, verified, {}", ssd.data_path()))
}

/// Blocks of threads write, read and check by batches.
pub fn batches(bed: &Bed) -> anyhow::Result<String> {
    let ssd = bed.soft("size=16m", &OpenOptions::default())?;
    suite::apis_on(bed.target, &ssd, 1, &[Api::Batch]);
    bed.no_violations(&ssd)?;
    Ok(format!("three sizes, verified, {}", ssd.data_path()))
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
