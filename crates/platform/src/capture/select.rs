//! Which files, and which lines of them.

use std::fs;

use super::Serials;
use super::files::Collector;
use crate::ConfigSpace;
use crate::machine::release;

/// Parameters of the kernel that decide something here. Others may hold names of this machine.
const PARAMETERS: [&str; 15] = [
    "amd_iommu",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "intel_iommu",
    "intremap",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "mem_encrypt",
    "nointremap",
    "nox2apic",
    "pci",
    "pcie_acs_override",
    "vfio-pci.ids",
];

pub fn host(collector: &mut Collector<'_>) {
    collector.copy("/proc/sys/kernel/osrelease");
    collector.lines("/proc/cmdline", |line| {
        let known = |word: &&str| PARAMETERS.contains(&word.split_once('=').map_or(*word, |(key, _)| key));
        Some(line.split_whitespace().filter(known).collect::<Vec<_>>().join(" "))
    });
    collector.lines("/proc/cpuinfo", |line| {
        let (key, value) = line.split_once(':')?;
        match key.trim() {
            "vendor_id" | "cpu family" => Some(line.to_owned()),
            "flags" => {
                let known = value.split(' ').filter(|flag| ["hypervisor", "sme"].contains(flag));
                let known = known.collect::<Vec<_>>();
                (!known.is_empty()).then(|| format!("flags\t: {}", known.join(" ")))
            }
            _ => None,
        }
    });
    collector.lines("/proc/meminfo", |line| {
        ["MemTotal:", "HugePages_", "Hugepagesize:"]
            .iter()
            .any(|start| line.starts_with(start))
            .then(|| line.to_owned())
    });
    collector
        .lines("/proc/self/limits", |line| line.starts_with("Max locked memory").then(|| line.to_owned()));
    collector.lines("/proc/self/status", |line| line.starts_with("CapEff:").then(|| line.to_owned()));
    // Of an interrupt, the name of its chip.
    collector.lines("/proc/interrupts", |line| {
        let chip =
            line.split_whitespace().find(|word| word.contains("PCI-MSI") || word.contains("IO-APIC"))?;
        Some(format!(" {chip}"))
    });
    modules(collector);
    // Of all numbers of devices, the one that counts.
    collector.lines("/proc/devices", |line| line.trim_end().ends_with(" gdrdrv").then(|| line.to_owned()));
    collector.copy("/proc/driver/nvidia/version");
    collector.lines("/proc/driver/nvidia/params", |line| {
        ["RegistryDwords:", "DmaRemapPeerMmio:"]
            .iter()
            .any(|start| line.starts_with(start))
            .then(|| line.to_owned())
    })
}

fn modules(collector: &mut Collector<'_>) {
    for module in ["vfio", "vfio_pci", "vfio_iommu_type1", "iommufd", "gdrdrv"] {
        collector.folder(&format!("/sys/module/{module}"));
    }
    collector.copy("/sys/module/gdrdrv/version");
    collector.folder("/sys/bus/pci/drivers/vfio-pci");
    collector.copy("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    collector.copy("/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts");
    let Some(release) = release(collector.from) else { return };
    let concerns = |line: &str| {
        ["vfio", "iommufd", "amd_mem_encrypt"].iter().any(|word| line.to_lowercase().contains(word))
    };
    for list in ["modules.dep", "modules.builtin"] {
        let path = format!("/lib/modules/{release}/{list}");
        collector.lines(&path, |line| concerns(line).then(|| line.to_owned()));
    }
    collector.lines(&format!("/boot/config-{release}"), |line| concerns(line).then(|| line.to_owned()))
}

pub fn iommu(collector: &mut Collector<'_>) {
    for unit in collector.from.names("/sys/class/iommu") {
        collector.folder(&format!("/sys/class/iommu/{unit}"));
    }
    for group in collector.from.names("/sys/kernel/iommu_groups") {
        let folder = format!("/sys/kernel/iommu_groups/{group}");
        collector.copy(&format!("{folder}/type"));
        collector.copy(&format!("{folder}/name"));
        for device in collector.from.names(format!("{folder}/devices")) {
            // The name is what counts.
            collector.folder(&format!("{folder}/devices/{device}"));
        }
    }
}

pub fn pci(collector: &mut Collector<'_>, serials: Serials) {
    let devices = "/sys/bus/pci/devices";
    collector.folder(devices);
    for name in collector.from.names(devices) {
        let listed = format!("{devices}/{name}");
        let target = fs::read_link(collector.from.path(&listed)).ok();
        // The link, and the files where it leads.
        let place = target.and_then(|target| {
            let target = target.to_str()?.trim_start_matches("../").to_owned();
            Some(format!("/sys/{target}"))
        });
        collector.link(&listed);
        function(collector, &listed, place.as_deref().unwrap_or(&listed), serials);
        collector.lines(&format!("/proc/driver/nvidia/gpus/{name}/information"), |line| {
            line.starts_with("Model:").then(|| line.to_owned())
        });
    }
}

fn function(collector: &mut Collector<'_>, listed: &str, place: &str, serials: Serials) {
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
        collector.copy(&format!("{place}/{attribute}"));
    }
    for link in ["driver", "iommu_group"] {
        collector.link(&format!("{place}/{link}"));
    }
    if let Ok(bytes) = fs::read(collector.from.path(format!("{listed}/config"))) {
        let config = ConfigSpace::new(bytes);
        let bytes = if serials == Serials::Taken { config.bytes().to_vec() } else { config.without_serial() };
        collector.file(&format!("{place}/config"), &bytes);
    }
    for controller in collector.from.names(format!("{place}/nvme")) {
        let folder = format!("{place}/nvme/{controller}");
        collector.copy(&format!("{folder}/model"));
        if serials == Serials::Taken {
            collector.copy(&format!("{folder}/serial"));
        }
        let namespaces = collector.from.names(&folder).into_iter().filter(|name| name.starts_with("nvme"));
        namespaces.map(|name| format!("{folder}/{name}")).for_each(|folder| collector.folder(&folder));
    }
}

/// Block devices of SSDs and what stands on them, and where they are mounted.
pub fn blocks(collector: &mut Collector<'_>) {
    for name in collector.from.names("/sys/class/block") {
        let folder = format!("/sys/class/block/{name}");
        if !["nvme", "dm-", "md"].iter().any(|kind| name.starts_with(kind)) {
            continue;
        }
        for attribute in ["dev", "size", "partition", "queue/logical_block_size", "dm/name"] {
            collector.copy(&format!("{folder}/{attribute}"));
        }
        for holder in collector.from.names(format!("{folder}/holders")) {
            collector.folder(&format!("{folder}/holders/{holder}"));
        }
        for part in collector.from.names(&folder) {
            collector.copy(&format!("{folder}/{part}/partition"));
        }
    }
    collector.lines("/proc/self/mountinfo", |line| line.contains(" - ").then(|| mount(line)).flatten());
    collector.lines("/proc/swaps", |line| line.starts_with("/dev/").then(|| line.to_owned()))
}

/// A mount of a block device, without its options.
fn mount(line: &str) -> Option<String> {
    let (fields, rest) = line.split_once(" - ")?;
    let mut rest = rest.split(' ');
    let (kind, source) = (rest.next()?, rest.next()?);
    let fields: Vec<&str> = fields.split(' ').take(5).collect();
    source.starts_with("/dev/").then(|| format!("{} rw - {kind} {source} rw", fields.join(" ")))
}
