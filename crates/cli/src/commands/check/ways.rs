//! What a GPU says once it is opened, and the ways between it and an opened SSD, tried in order.

use std::fmt::Display;
use std::sync::Arc;

use warpbell::{Ssd, Target, space_of};
use warpbell_gpu::Gpu;
use warpbell_gpu::routes::{self, Probe};
use warpbell_hw::Device;
use warpbell_platform::{Finding, Layer, Status};

/// Asks the GPU, if there is one, and tries the ways between it and the SSD, if one was opened. What was set up for that is
/// undone.
pub fn tried(target: Target, ssd: Option<&Ssd>) -> Vec<Finding> {
    let Ok(open) = target.open() else { return Vec::new() };
    let Some(gpu) = open.gpu() else { return Vec::new() };
    let mut all = vec![dma_bufs(target, gpu)];
    if let Some(ssd) = ssd {
        all.extend(memory(target, gpu, ssd));
        let (_, probes) = routes::doorbells(gpu, ssd.controller().device().as_ref(), ssd.granted_queues());
        all.push(ways(format!("{target} doorbells"), &probes, "a thread rings for kernels"));
    }
    all
}

fn dma_bufs(target: Target, gpu: &Gpu) -> Finding {
    let (info, subject) = (gpu.info(), format!("{target} dma-buf"));
    match info.dma_buf {
        true => Finding::new(
            Layer::Devices,
            Status::Ok,
            subject,
            format!("{}: exported", info.name),
            "SSDs may reach its memory",
        ),
        false => {
            let found = format!("{}: not exported", info.name);
            Finding::new(
                Layer::Devices,
                Status::Warn,
                subject,
                found,
                "SSDs do not reach its memory by dma-bufs",
            )
        }
    }
}

/// Ways for the SSD to the GPU's memory; only PCI functions have any.
fn memory(target: Target, gpu: &Arc<Gpu>, ssd: &Ssd) -> Option<Finding> {
    let (device, subject) = (ssd.pci()?, format!("{target} memory"));
    Some(match routes::probe_memory(gpu, &device.dma(), space_of(device)) {
        Ok(probes) => ways(subject, &probes, "data goes through host memory"),
        Err(error) => Finding::new(Layer::Path, Status::NotLookedAt, subject, error.to_string(), ""),
    })
}

fn ways<R: Display>(subject: String, probes: &[Probe<R>], otherwise: &str) -> Finding {
    let found: Vec<String> = probes.iter().map(Probe::to_string).collect();
    let (status, means) = match probes.iter().any(|probe| probe.outcome.is_ok()) {
        true => (
            Status::Ok,
            "it can be set up, by the first that works; only the self-test shows that data gets through",
        ),
        false => (Status::Warn, otherwise),
    };
    Finding::new(Layer::Path, status, subject, found.join("; "), means)
}

#[cfg(test)]
mod tests {
    use warpbell_gpu::routes::RouteError;

    use super::*;

    #[test]
    fn ways_are_told_in_order_with_their_reasons() {
        let no = |route| Probe { route, outcome: Err(RouteError::NotIommufd) };
        let yes = |route| Probe { route, outcome: Ok("8 pages".to_owned()) };
        let some = ways("x".to_owned(), &[no("first"), yes("second")], "otherwise");
        assert_eq!(
            (some.status, some.found.as_str()),
            (Status::Ok, "first: no: the SSD was not opened through iommufd; second: works: 8 pages")
        );
        let none = ways("x".to_owned(), &[no("first")], "otherwise");
        assert_eq!((none.status, none.means.as_str()), (Status::Warn, "otherwise"));
    }
}
