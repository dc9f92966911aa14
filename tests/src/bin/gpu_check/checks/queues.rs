//! Kernel `queue_test`: each command answered once, by its own answer, with its own data.

use std::sync::Arc;

use warpbell::OpenOptions;
use warpbell_driver::DoorbellBuffer;
use warpbell_tests::suite;

use crate::run::Fixture;

pub fn plain(fixture: &Fixture) -> anyhow::Result<String> {
    on(fixture, "size=16m", &OpenOptions::default())
}

pub fn by_prp(fixture: &Fixture) -> anyhow::Result<String> {
    on(fixture, "size=16m,sgl=off,block=4096", &OpenOptions::default())
}

pub fn shadowed(fixture: &Fixture) -> anyhow::Result<String> {
    on(fixture, "size=16m,dbbuf=on", &OpenOptions::new().doorbell_buffer(DoorbellBuffer::On))
}

pub fn wide(fixture: &Fixture) -> anyhow::Result<String> {
    on(fixture, "size=16m,wide_cids=on", &OpenOptions::new().wide_cids(true))
}

pub fn device_data(fixture: &Fixture) -> anyhow::Result<String> {
    on(fixture, "size=16m", &fixture.device_data()?)
}

fn on(fixture: &Fixture, settings: &str, options: &OpenOptions) -> anyhow::Result<String> {
    let ssd = Arc::new(fixture.soft(settings, options)?);
    let cases = fixture.case.map(|first| first..first + fixture.cases);
    let commands = suite::kernels_on(fixture.target, &ssd, 1, (cases, fixture.timeout));
    fixture.no_violations(&ssd)?;
    Ok(format!("{commands} commands, {}", ssd.data_path()))
}
