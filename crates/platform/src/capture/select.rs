//! Which files, and which lines of them.

use std::fs;

use super::files::Writer;
use super::{CaptureError, Serials};
use crate::ConfigSpace;

type Done = Result<(), CaptureError>;

/// Parameters of the kernel that decide something here. Others may hold names of this machine.
const PARAMETERS: [&str; 14] = [
    "amd_iommu",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "intel_iommu",
    "intremap",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "nointremap",
    "nox2apic",
    "pci",
    "pcie_acs_override",
    "vfio-pci.ids",
];

pub fn host(writer: &mut Writer<'_>) -> Done {
    writer.copy("/proc/sys/kernel/osrelease")?;
    writer.lines("/proc/cmdline", |line| {
        let known = |word: &&str| PARAMETERS.contains(&word.split_once('=').map_or(*word, |(key, _)| key));
        Some(line.split_whitespace().filter(known).collect::<Vec<_>>().join(" "))
    })?;
    writer.lines("/proc/cpuinfo", |line| {
        let (key, value) = line.split_once(':')?;
        match key.trim() {
            "vendor_id" | "cpu family" => Some(line.to_owned()),
            "flags" => {
                value.split(' ').find(|flag| *flag == "hypervisor").map(|flag| format!("flags\t: {flag}"))
            }
            _ => None,
        }
    })?;
    writer.lines("/proc/meminfo", |line| {
        ["MemTotal:", "HugePages_", "Hugepagesize:"]
            .iter()
            .any(|start| line.starts_with(start))
            .then(|| line.to_owned())
    })?;
    writer
        .lines("/proc/self/limits", |line| line.starts_with("Max locked memory").then(|| line.to_owned()))?;
    writer.lines("/proc/self/status", |line| line.starts_with("CapEff:").then(|| line.to_owned()))?;
    // Of an interrupt, the name of its chip.
    writer.lines("/proc/interrupts", |line| {
        let chip =
            line.split_whitespace().find(|word| word.contains("PCI-MSI") || word.contains("IO-APIC"))?;
        Some(format!(" {chip}"))
    })?;
    modules(writer)?;
    writer.copy("/proc/driver/nvidia/version")?;
    writer.lines("/proc/driver/nvidia/params", |line| {
        ["RegistryDwords:", "DmaRemapPeerMmio:"]
            .iter()
            .any(|start| line.starts_with(start))
            .then(|| line.to_owned())
    })
}

fn modules(writer: &mut Writer<'_>) -> Done {
    for module in ["vfio", "vfio_pci", "vfio_iommu_type1", "iommufd", "gdrdrv"] {
        writer.folder(&format!("/sys/module/{module}"))?;
    }
    writer.folder("/sys/bus/pci/drivers/vfio-pci")?;
    writer.copy("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode")?;
    writer.copy("/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts")?;
    let Some(release) = writer.from.text("/proc/sys/kernel/osrelease") else { return Ok(()) };
    let concerns = |line: &str| ["vfio", "iommufd"].iter().any(|word| line.to_lowercase().contains(word));
    for list in ["modules.dep", "modules.builtin"] {
        let path = format!("/lib/modules/{release}/{list}");
        writer.lines(&path, |line| concerns(line).then(|| line.to_owned()))?;
    }
    writer.lines(&format!("/boot/config-{release}"), |line| concerns(line).then(|| line.to_owned()))
}

pub fn iommu(writer: &mut Writer<'_>) -> Done {
    for unit in writer.from.names("/sys/class/iommu") {
        writer.folder(&format!("/sys/class/iommu/{unit}"))?;
    }
    for group in writer.from.names("/sys/kernel/iommu_groups") {
        let folder = format!("/sys/kernel/iommu_groups/{group}");
        writer.copy(&format!("{folder}/type"))?;
        writer.copy(&format!("{folder}/name"))?;
        for device in writer.from.names(format!("{folder}/devices")) {
            // The name is what counts.
            writer.folder(&format!("{folder}/devices/{device}"))?;
        }
    }
    Ok(())
}

pub fn pci(writer: &mut Writer<'_>, serials: Serials) -> Done {
    let devices = "/sys/bus/pci/devices";
    writer.folder(devices)?;
    for name in writer.from.names(devices) {
        let listed = format!("{devices}/{name}");
        let target = fs::read_link(writer.from.path(&listed)).ok();
        // The link, and the files where it leads.
        let place = target.and_then(|target| {
            let target = target.to_str()?.trim_start_matches("../").to_owned();
            Some(format!("/sys/{target}"))
        });
        writer.link(&listed)?;
        function(writer, &listed, place.as_deref().unwrap_or(&listed), serials)?;
        writer.lines(&format!("/proc/driver/nvidia/gpus/{name}/information"), |line| {
            line.starts_with("Model:").then(|| line.to_owned())
        })?;
    }
    Ok(())
}

fn function(writer: &mut Writer<'_>, listed: &str, place: &str, serials: Serials) -> Done {
    for attribute in [
        "class",
        "vendor",
        "device",
        "numa_node",
        "resource",
        "driver_override",
        "current_link_speed",
        "current_link_width",
        "max_link_speed",
        "max_link_width",
    ] {
        writer.copy(&format!("{place}/{attribute}"))?;
    }
    for link in ["driver", "iommu_group"] {
        writer.link(&format!("{place}/{link}"))?;
    }
    if let Ok(bytes) = fs::read(writer.from.path(format!("{listed}/config"))) {
        let config = ConfigSpace::new(bytes);
        let bytes = if serials == Serials::Taken { config.bytes().to_vec() } else { config.without_serial() };
        writer.write(&format!("{place}/config"), &bytes)?;
    }
    for controller in writer.from.names(format!("{place}/nvme")) {
        let folder = format!("{place}/nvme/{controller}");
        writer.copy(&format!("{folder}/model"))?;
        if serials == Serials::Taken {
            writer.copy(&format!("{folder}/serial"))?;
        }
        let namespaces = writer.from.names(&folder).into_iter().filter(|name| name.starts_with("nvme"));
        namespaces.map(|name| format!("{folder}/{name}")).try_for_each(|folder| writer.folder(&folder))?;
    }
    Ok(())
}

/// Block devices of SSDs and what stands on them, and where they are mounted.
pub fn blocks(writer: &mut Writer<'_>) -> Done {
    for name in writer.from.names("/sys/class/block") {
        let folder = format!("/sys/class/block/{name}");
        if !["nvme", "dm-", "md"].iter().any(|kind| name.starts_with(kind)) {
            continue;
        }
        for attribute in ["dev", "size", "partition", "queue/logical_block_size", "dm/name"] {
            writer.copy(&format!("{folder}/{attribute}"))?;
        }
        for holder in writer.from.names(format!("{folder}/holders")) {
            writer.folder(&format!("{folder}/holders/{holder}"))?;
        }
        for part in writer.from.names(&folder) {
            writer.copy(&format!("{folder}/{part}/partition"))?;
        }
    }
    writer.lines("/proc/self/mountinfo", |line| line.contains(" - ").then(|| mount(line)).flatten())?;
    writer.lines("/proc/swaps", |line| line.starts_with("/dev/").then(|| line.to_owned()))
}

/// A mount of a block device, without its options.
fn mount(line: &str) -> Option<String> {
    let (fields, rest) = line.split_once(" - ")?;
    let mut rest = rest.split(' ');
    let (kind, source) = (rest.next()?, rest.next()?);
    let fields: Vec<&str> = fields.split(' ').take(5).collect();
    source.starts_with("/dev/").then(|| format!("{} rw - {kind} {source} rw", fields.join(" ")))
}
