//! Kernel `queue_test`: each command answered once, by its own answer, with its own data.

use std::sync::Arc;

use warpbell::OpenOptions;
use warpbell_driver::DoorbellBuffer;
use warpbell_tests::suite;

use crate::run::Bed;

pub fn plain(bed: &Bed) -> anyhow::Result<String> {
    on(bed, "size=16m", &OpenOptions::default())
}

pub fn by_prp(bed: &Bed) -> anyhow::Result<String> {
    on(bed, "size=16m,sgl=off,block=4096", &OpenOptions::default())
}

pub fn shadowed(bed: &Bed) -> anyhow::Result<String> {
    on(bed, "size=16m,dbbuf=on", &OpenOptions::new().doorbell_buffer(DoorbellBuffer::On))
}

pub fn wide(bed: &Bed) -> anyhow::Result<String> {
    on(bed, "size=16m,wide_cids=on", &OpenOptions::new().wide_cids(true))
}

pub fn device_data(bed: &Bed) -> anyhow::Result<String> {
    on(bed, "size=16m", &bed.device_data()?)
}

fn on(bed: &Bed, settings: &str, options: &OpenOptions) -> anyhow::Result<String> {
    let ssd = Arc::new(bed.soft(settings, options)?);
    let commands = suite::kernels_on(bed.target, &ssd, 1);
    bed.no_violations(&ssd)?;
    Ok(format!("{commands} commands, {}", ssd.data_path()))
}
