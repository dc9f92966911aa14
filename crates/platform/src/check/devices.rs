//! The devices layer: GPUs, their driver, and SSDs.

use warpbell_vfio::pci::Function;

use super::{add_parameter, drop_parameter};
use crate::finding::{Finding, Layer, Status};
use crate::machine::{Gdrdrv, Gpu, Machine, PciNode, Ssd};

/// The oldest driver that loads our PTX.
const DRIVER_WANTED: u32 = 580;
/// The oldest driver whose dma-bufs can be mapped.
const MMAP_WANTED: [u32; 3] = [610, 43, 2];
/// Installs it from NVIDIA's own repository, on Debian 12 and newer and Ubuntu 22.04 and newer: what these have themselves is
/// too old, or has other names. The package `nvidia-open` takes the place of the closed module.
const INSTALL: &str = "\
    wget https://developer.download.nvidia.com/compute/cuda/repos/$(. /etc/os-release; echo $ID$VERSION_ID | tr -d .)/x86_64/cuda-keyring_1.1-1_all.deb && \
    sudo apt install ./cuda-keyring_1.1-1_all.deb && sudo apt update && sudo apt install linux-headers-$(uname -r) nvidia-open && sudo reboot";
/// What does without a newer driver.
const OR_GDRCOPY: &str =
    "  # or load the module gdrdrv of GDRCopy 2.0 or newer: https://github.com/NVIDIA/gdrcopy";
/// The line about what no file tells of SSDs.
pub const REGISTERS: &str = "SSD registers";
/// The line about what only NVIDIA's driver tells.
pub const DMA_BUF: &str = "dma-buf export";
/// A window to GPU memory as small as cards had before it could be resized.
const SMALL_BAR: u64 = 256 << 20;

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    if machine.functions.is_none() {
        let found = "there is no /sys/bus/pci/devices";
        return vec![finding(Status::NotLookedAt, "PCI", found, "neither GPUs nor SSDs can be seen")];
    }
    let mut all = gpus(machine);
    all.extend(ssds(machine));
    all
}

fn finding(
    status: Status,
    subject: impl Into<String>,
    found: impl Into<String>,
    means: impl Into<String>,
) -> Finding {
    Finding::new(Layer::Devices, status, subject, found, means)
}

fn gpus(machine: &Machine) -> Vec<Finding> {
    if machine.gpus.is_empty() {
        let means = "kernels cannot run on a GPU; on the CPU target the same kernels run";
        let fix = "put in an NVIDIA GPU of compute capability 7.5 or newer; without one: warpbell bench soft:size=1g";
        return vec![finding(Status::Missing, "GPU", "no NVIDIA GPU on the PCIe tree", means).fix(fix)];
    }
    let mut all = driver(machine);
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let Some(node) = machine.node(gpu.bdf) else { continue };
        let model = gpu.model.as_deref().unwrap_or("model not told");
        let found = format!("{} {model}{}", gpu.bdf, on_node(&node.function));
        all.push(model_line(format!("GPU {index}"), gpu, found));
        all.extend(domain(machine, format!("GPU {index} domain"), gpu));
        all.push(link(&format!("GPU {index} link"), node));
        all.push(bar1(&format!("GPU {index} BAR 1"), gpu, node));
    }
    all
}

fn driver(machine: &Machine) -> Vec<Finding> {
    let Some(nvidia) = &machine.nvidia else {
        let means = "kernels cannot run on the GPU";
        return vec![finding(Status::Missing, "NVIDIA driver", "not loaded", means).fix(INSTALL)];
    };
    let kind = if nvidia.open { "open kernel module" } else { "closed kernel module" };
    let found = format!("{}, {kind}", nvidia.version);
    if !nvidia.is_at_least(&[DRIVER_WANTED]) {
        let means = format!("our kernels need {DRIVER_WANTED} or newer (CUDA 13.0)");
        return vec![finding(Status::Missing, "NVIDIA driver", found, means).fix(INSTALL)];
    }
    let pinned = nvidia.gdrdrv.as_ref().is_some_and(Gdrdrv::is_usable);
    if !nvidia.open {
        let means = match pinned {
            true => "kernels run; its memory cannot be exported as a dma-buf: SSDs reach it by gdrdrv alone",
            false => "kernels run, but its memory cannot be exported as a dma-buf: SSDs do not reach it",
        };
        let fix = if pinned { INSTALL.to_owned() } else { format!("{INSTALL}{OR_GDRCOPY}") };
        return vec![finding(Status::Warn, "NVIDIA driver", found, means).fix(fix)];
    }
    let driver = match (nvidia.is_at_least(&MMAP_WANTED), pinned) {
        (true, _) => {
            finding(Status::Ok, "NVIDIA driver", found, "kernels run, and memory is exported as dma-bufs")
        }
        (false, true) => {
            let means = "kernels run; it refuses the mmap of dma-bufs, and gdrdrv pins GPU memory for SSDs";
            finding(Status::Ok, "NVIDIA driver", found, means)
        }
        (false, false) => {
            let means = "kernels run; it refuses the mmap of dma-bufs (610.43.02 and newer allow it), and gdrdrv of GDRCopy, \
                         the other way of SSDs to GPU memory, is not loaded";
            finding(Status::Warn, "NVIDIA driver", found, means).fix(format!("{INSTALL}{OR_GDRCOPY}"))
        }
    };
    let mut all = vec![driver];
    all.push(finding(
        Status::NotLookedAt,
        DMA_BUF,
        "only a call of the driver tells; `warpbell check --self-test` and `warpbell report gpu` make it",
        "",
    ));
    all
}

/// What a GPU is, and what its kind lacks.
fn model_line(subject: String, gpu: &Gpu, found: String) -> Finding {
    if !gpu.is_geforce() {
        return finding(Status::Ok, subject, found, "");
    }
    let means = "no export of a GeForce's memory as a dma-buf is known (unverified): SSDs do not reach it";
    let fix = "keep data in host memory (--data host), or take a data-centre or RTX PRO GPU";
    finding(Status::Warn, subject, found, means).fix(fix)
}

/// Whether the IOMMU translates for the GPU itself: then mapped doorbells are lost on newer kernels.
fn domain(machine: &Machine, subject: String, gpu: &Gpu) -> Option<Finding> {
    let kind = gpu.domain.as_deref()?;
    let Some(translated) = gpu.translated() else {
        return Some(finding(Status::Ok, subject, kind, "NVIDIA's driver gives it addresses as they are"));
    };
    if machine.kernel.version() < Some((6, 12)) {
        let means = "NVIDIA's driver maps BARs for it, as kernels before 6.12 let it";
        return Some(finding(Status::Ok, subject, translated, means));
    }
    let means =
        "kernels' stores to a mapped doorbell vanish from Linux 6.12 on: a CPU thread forwards doorbells";
    let fix = match machine.kernel.parameter("iommu.passthrough") {
        Some(_) => format!("{}  # and add iommu=pt", drop_parameter("iommu.passthrough=[^ ]*")),
        None => add_parameter("iommu=pt"),
    };
    Some(finding(Status::Warn, subject, format!("{translated}: it translates"), means).fix(fix))
}

fn bar1(subject: &str, gpu: &Gpu, node: &PciNode) -> Finding {
    let Some(bytes) = gpu.bar1 else {
        return finding(Status::NotLookedAt, subject, "its `resource` file names no BAR 1", "");
    };
    let (size, small) = (mebibytes(bytes), bytes <= SMALL_BAR);
    let means = "GPU memory that SSDs reach directly must fit into it, with what the driver keeps there";
    if !node.config.has_extended() {
        let fix = small.then_some("sudo warpbell check");
        let found =
            format!("{size}; whether it can be resized needs configuration space, which only root reads");
        let status = if small { Status::Warn } else { Status::Ok };
        let one = finding(status, subject, found, means);
        return fix.into_iter().fold(one, Finding::fix);
    }
    match node.config.largest_bar(1) {
        Some(largest) if largest > bytes => {
            let fix = "switch on Above 4G Decoding and Resizable BAR in the firmware's set-up: \
                       sudo systemctl reboot --firmware-setup";
            let found = format!("{size}, of {} that it can have", mebibytes(largest));
            finding(Status::Warn, subject, found, means).fix(fix)
        }
        Some(_) => finding(Status::Ok, subject, format!("{size}, its largest"), means),
        None if small => {
            let means = "it cannot be resized: SSDs reach no more than this much GPU memory";
            let fix = "keep data in host memory (--data host), or take a GPU with a resizable BAR";
            finding(Status::Warn, subject, format!("{size}, no resizable BAR"), means).fix(fix)
        }
        None => finding(Status::Ok, subject, format!("{size}, not resizable"), means),
    }
}

fn mebibytes(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mib if mib >= 1 << 10 => format!("{} GiB", mib >> 10),
        mib => format!("{mib} MiB"),
    }
}

fn on_node(function: &Function) -> String {
    function.numa_node.map_or(String::new(), |node| format!(", NUMA node {node}"))
}

fn link(subject: &str, node: &PciNode) -> Finding {
    let (Some(now), Some(best)) = (node.link, node.best_link) else {
        return finding(Status::NotLookedAt, subject, "sysfs does not tell its speed and width", "");
    };
    let found = format!("{now}, {}", now.rate());
    if now.width < best.width {
        let means = format!("it has fewer lanes than the device has ({best}, {})", best.rate());
        let fix = "put it into a slot with all its lanes, or reseat it; warpbell topo shows the tree";
        return finding(Status::Warn, subject, found, means).fix(fix);
    }
    if now.gt_per_s < best.gt_per_s {
        let means = format!("slower than {best}: an idle GPU lowers its speed, a slow slot does too");
        return finding(Status::Warn, subject, found, means).fix("look again under load: warpbell topo");
    }
    finding(Status::Ok, subject, found, "the best that the device has")
}

fn ssds(machine: &Machine) -> Vec<Finding> {
    if machine.ssds.is_empty() {
        let means = "there is no SSD to read; the software controller stands in for one";
        let fix = "put in an NVMe SSD on PCIe; without one: warpbell bench soft:size=1g";
        return vec![finding(Status::Missing, "SSD", "no NVMe controller on the PCIe tree", means).fix(fix)];
    }
    let mut all = Vec::new();
    for ssd in &machine.ssds {
        let Some(node) = machine.node(ssd.bdf) else { continue };
        all.push(binding(ssd, node));
        all.push(group(ssd, &node.function));
        all.push(link(&format!("{} link", ssd.bdf), node));
        all.push(vectors(ssd, node));
    }
    all.push(finding(
        Status::NotLookedAt,
        REGISTERS,
        "only an opened device tells (queues, limits, shadow doorbells, CMB); `sudo warpbell check --device ADDRESS` asks one that is bound",
        "",
    ));
    all
}

fn binding(ssd: &Ssd, node: &PciNode) -> Finding {
    let (bdf, function) = (ssd.bdf, &node.function);
    let model = function.model().unwrap_or("model not told");
    let found = |state: String| format!("{model}{}: {state}", on_node(function));
    let subject = format!("SSD {bdf}");
    if let Some(first) = ssd.uses.first() {
        let more =
            if ssd.uses.len() > 1 { format!(" and {} more", ssd.uses.len() - 1) } else { String::new() };
        let means = "it stays with the kernel: warpbell bind refuses it";
        return finding(Status::Warn, subject, found(format!("{first}{more}")), means)
            .fix(format!("free it first; what uses it: warpbell bind --dry-run {bdf}"));
    }
    let driver = function.driver.as_deref().unwrap_or("no driver");
    if !function.is_on_vfio() {
        let means = "programs get it once it is bound to vfio-pci";
        return finding(Status::Warn, subject, found(format!("with {driver}, no mount found")), means)
            .fix(format!("sudo warpbell bind {bdf}"));
    }
    match &ssd.usable {
        Some(Ok(())) => {
            finding(Status::Ok, subject, found(format!("with {driver}")), "this user can open it")
        }
        Some(Err(why)) => finding(
            Status::Warn,
            subject,
            found(format!("with {driver}")),
            format!("it cannot be opened: {why}"),
        )
        .fix(format!("sudo warpbell bind {bdf} --user $USER")),
        None => {
            let means =
                "whether a user may open it is not looked at: a captured machine has no nodes in /dev";
            finding(Status::Ok, subject, found(format!("with {driver}")), means)
        }
    }
}

fn group(ssd: &Ssd, function: &Function) -> Finding {
    let subject = format!("{} group", ssd.bdf);
    let Some(group) = &function.group else {
        let means = "without a group VFIO does not lend it out: see the line about the IOMMU";
        return finding(Status::Warn, subject, "none", means);
    };
    let harmful: Vec<String> = group
        .mates
        .iter()
        .filter(|mate| !mate.is_harmless())
        .map(|mate| format!("{} ({})", mate.bdf, mate.driver.as_deref().unwrap_or("no driver")))
        .collect();
    if harmful.is_empty() {
        let mates =
            if group.mates.is_empty() { "alone" } else { "with ports and functions without a driver" };
        return finding(Status::Ok, subject, format!("{}, {mates}", group.number), "VFIO can lend it out");
    }
    let found = format!("{}, with {}", group.number, harmful.join(", "));
    let means = "VFIO lends out whole groups: not while these have drivers of their own";
    let fix = "put the SSD into a slot behind another port, one with ACS; warpbell topo shows the tree";
    finding(Status::Warn, subject, found, means).fix(fix)
}

fn vectors(ssd: &Ssd, node: &PciNode) -> Finding {
    let subject = format!("{} MSI-X", ssd.bdf);
    let size = ssd.bar0.map_or("BAR 0 not told".to_owned(), |bytes| format!("BAR 0 of {}", mebibytes(bytes)));
    if !node.config.has_capabilities() {
        let found = format!("{size}; capabilities are shown to root alone");
        return finding(Status::NotLookedAt, subject, found, "").fix("sudo warpbell check");
    }
    match node.config.msix() {
        Some(msix) => {
            let found =
                format!("{size}, {} vectors, table in BAR {} at {:#x}", msix.vectors, msix.bar, msix.offset);
            finding(Status::Ok, subject, found, "host queues may sleep; kernels poll and need none")
        }
        None => {
            finding(Status::Warn, subject, format!("{size}, no MSI-X"), "host queues poll, as kernels do")
        }
    }
}
