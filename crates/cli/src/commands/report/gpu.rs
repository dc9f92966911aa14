//! `report gpu`: GPUs, and the ways between them and an SSD.

use std::fmt::Display;
use std::sync::Arc;

use serde_json::{Value, json};
use warpbell::space_of;
use warpbell_gpu::routes::{self, Probe};
use warpbell_gpu::{Gpu, GpuError};
use warpbell_hw::Device;
use warpbell_vfio::{PciDevice, PciOptions};

use crate::args::{Global, GpuReportArgs, Output};
use crate::exit::{Ending, FAILED, MISSING};
use crate::out;

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.report-gpu/1";
/// What only a two-way data test over the way shows.
const CAVEAT: &str = "that a way can be set up does not say that data gets through";

/// A GPU, and what was tried with it.
struct Entry {
    gpu: Arc<Gpu>,
    memory: Vec<Tried>,
    doorbells: Vec<Tried>,
}

/// A way that was tried.
struct Tried {
    route: String,
    works: bool,
    detail: String,
    text: String,
}

/// Runs the command.
pub fn run(args: &GpuReportArgs, global: &Global) -> Result<(), Ending> {
    let options = PciOptions::new().iommu(args.iommu);
    let count = Gpu::count()?;
    if count == 0 {
        return Err(Ending::new(MISSING, "the driver shows no GPU; nvidia-smi -L lists what there is"));
    }
    let device = args.device.map(|bdf| PciDevice::open(bdf, &options)).transpose();
    let device = device.map_err(|error| Ending::from(warpbell::Error::from(error)))?;
    let entries = (0..count).map(|ordinal| Entry::of(ordinal, device.as_deref()));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    let name = device.as_ref().map(|device| device.info().name);
    match global.output() {
        Output::Normal => {
            out::text(&entries.iter().map(|entry| entry.text(name.as_deref())).collect::<String>())
        }
        Output::Json => out::json(&json!({
            "schema": SCHEMA,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "device": name,
            "gpus": entries.iter().map(Entry::json).collect::<Vec<_>>(),
        })),
    }
}

impl Entry {
    fn of(ordinal: u32, device: Option<&PciDevice>) -> Result<Entry, GpuError> {
        let gpu = Gpu::open(ordinal)?;
        let (mut memory, mut doorbells) = (Vec::new(), Vec::new());
        if let Some(device) = device {
            let probes = routes::probe_memory(&gpu, &device.dma(), space_of(device))?;
            memory = probes.iter().map(Tried::of).collect();
            // The registration goes with the value; what was tried stays.
            let (_, probes) = routes::doorbells(&gpu, device, 1);
            doorbells = probes.iter().map(Tried::of).collect();
        }
        Ok(Entry { gpu, memory, doorbells })
    }

    fn text(&self, device: Option<&str>) -> String {
        let info = self.gpu.info();
        let yes = |is| if is { "yes" } else { "no" };
        let mut text = format!("{info}\n");
        text += &format!("  order of writes : {}\n", self.gpu.write_ordering().words());
        text += &format!("  to be done      : {}\n", self.gpu.flush_policy().words());
        text += &format!("  dma-buf export  : {}\n", yes(info.dma_buf));
        text += &format!("  cooperative     : {}\n", yes(info.cooperative));
        if let Some(device) = device {
            text += &format!("  memory of the GPU, for {device} ({CAVEAT}):\n");
            text.extend(self.memory.iter().map(|tried| format!("    {}\n", tried.text)));
            text += &format!("  doorbells of {device}, for kernels:\n");
            text.extend(self.doorbells.iter().map(|tried| format!("    {}\n", tried.text)));
        }
        text
    }

    fn json(&self) -> Value {
        let info = self.gpu.info();
        let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let tried = |all: &[Tried]| -> Vec<Value> {
            let one =
                |tried: &Tried| json!({"route": tried.route, "works": tried.works, "detail": tried.detail});
            all.iter().map(one).collect()
        };
        json!({
            "ordinal": info.ordinal,
            "name": info.name,
            "uuid": info.uuid,
            "pci_address": info.pci_address,
            "capability": version(info.capability),
            "multiprocessors": info.multiprocessors,
            "memory_bytes": info.memory,
            "driver_cuda": version(info.driver),
            "dma_buf": info.dma_buf,
            "cooperative": info.cooperative,
            "write_ordering": self.gpu.write_ordering().words(),
            "flush": self.gpu.flush_policy().words(),
            "memory_routes": tried(&self.memory),
            "doorbell_routes": tried(&self.doorbells),
        })
    }
}

impl Tried {
    fn of<R: Display>(probe: &Probe<R>) -> Tried {
        let (works, detail) = match &probe.outcome {
            Ok(done) => (true, done.clone()),
            Err(reason) => (false, reason.to_string()),
        };
        Tried { route: probe.route.to_string(), works, detail, text: probe.to_string() }
    }
}

impl From<GpuError> for Ending {
    fn from(error: GpuError) -> Ending {
        Ending::new(if error.is_missing_requirement() { MISSING } else { FAILED }, error)
    }
}
