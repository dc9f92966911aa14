//! The platform layer: kernel, IOMMU, VFIO, limits, ports.

use super::{add_parameter, drop_parameter};
use crate::finding::{Finding, Layer, Status};
use crate::machine::{Machine, PciNode, Remapping, Role, Vendor};

/// Memory that may be pinned below which a run of `bench` with its usual options may not start.
const MEMLOCK_WANTED: u64 = 1 << 30;

pub(super) fn findings(machine: &Machine) -> Vec<Finding> {
    let mut all = vec![kernel(machine), iommu(machine), remapping(machine), vfio(machine), backend(machine)];
    all.extend(no_iommu_mode(machine));
    all.extend(encryption(machine));
    all.extend([memlock(machine), huge_pages(machine), ports(machine)]);
    all
}

fn finding(status: Status, subject: &str, found: impl Into<String>, means: impl Into<String>) -> Finding {
    Finding::new(Layer::Platform, status, subject, found, means)
}

fn kernel(machine: &Machine) -> Finding {
    let subject = "kernel";
    let Some(release) = &machine.kernel.release else {
        return finding(Status::NotLookedAt, subject, "/proc/sys/kernel/osrelease could not be read", "");
    };
    match machine.kernel.version() {
        Some(version) if version < (5, 8) => {
            let means =
                "before 5.8, VFIO does not fault in BARs of other functions: GPU memory cannot be mapped";
            finding(Status::Warn, subject, release, means).fix("install Linux 6.1 or newer")
        }
        Some(_) => {
            finding(Status::Ok, subject, release, "VFIO maps memory of the host and BARs of functions")
        }
        None => finding(Status::NotLookedAt, subject, format!("'{release}' is no version"), ""),
    }
}

fn iommu(machine: &Machine) -> Finding {
    let iommu = &machine.iommu;
    let subject = "IOMMU";
    if iommu.is_on() {
        let domains = iommu.domains.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>();
        let kinds = if domains.is_empty() { "kinds not told".to_owned() } else { domains.join(", ") };
        let vendor = iommu.vendor().map_or("of unknown make", Vendor::name);
        let found = format!("on, {vendor}; {} groups ({kinds})", iommu.groups);
        return finding(
            Status::Ok,
            subject,
            found,
            "programs can have SSDs, each confined to what is mapped for it",
        );
    }
    let means = "VFIO lends no function out: SSDs cannot be driven by programs safely";
    let missing = |found: &str| finding(Status::Missing, subject, format!("off: {found}"), means);
    let kernel = &machine.kernel;
    let switched_off = ["intel_iommu=off", "amd_iommu=off", "iommu=off"]
        .into_iter()
        .find(|word| word.split_once('=').is_some_and(|(key, value)| kernel.parameter(key) == Some(value)));
    if let Some(word) = switched_off {
        return missing(&format!("the kernel was started with {word}")).fix(drop_parameter(word));
    }
    if machine.cpu.is_virtual {
        let fix =
            "on the host, give this guest an IOMMU; QEMU: -device intel-iommu,intremap=on,caching-mode=on";
        return missing("a virtual machine without one").fix(fix);
    }
    match machine.cpu.vendor.as_deref() {
        Some("GenuineIntel") if kernel.parameter("intel_iommu").is_none() => {
            missing("no groups, and the kernel was started without intel_iommu=on")
                .fix(add_parameter("intel_iommu=on"))
        }
        _ => {
            let fix = "switch on IOMMU (AMD-Vi, VT-d) in the firmware's set-up: sudo systemctl reboot --firmware-setup";
            missing("the kernel found none").fix(fix)
        }
    }
}

/// AMD's encryption of memory (SME), where the processors have it.
fn encryption(machine: &Machine) -> Option<Finding> {
    let subject = "memory encryption";
    if !machine.cpu.encrypts_memory {
        return None;
    }
    if !machine.memory_is_encrypted() {
        let means = "transfers to BARs of other functions are as on any machine";
        return Some(finding(Status::Ok, subject, "off (SME)", means));
    }
    let means =
        "transfers between an SSD and GPU memory may go to wrong addresses: host memory alone is safe";
    let fix = match machine.kernel.parameter("mem_encrypt") {
        Some(_) => drop_parameter("mem_encrypt=on"),
        None => add_parameter("mem_encrypt=off"),
    };
    Some(finding(Status::Warn, subject, "on (SME)", means).fix(fix))
}

fn remapping(machine: &Machine) -> Finding {
    let subject = "interrupt remapping";
    if !machine.iommu.is_on() {
        return finding(Status::NotLookedAt, subject, "there is no IOMMU that could do it", "");
    }
    match &machine.iommu.remapping {
        Remapping::On => finding(
            Status::Ok,
            subject,
            "on (/proc/interrupts)",
            "no function can raise the interrupt of another",
        ),
        Remapping::Unknown(why) => finding(Status::NotLookedAt, subject, *why, ""),
        Remapping::Off if machine.vfio.unsafe_interrupts => {
            let means = "VFIO works, but an SSD may raise any interrupt: only for devices that you trust";
            finding(
                Status::Warn,
                subject,
                "off, and type1 was told to go without (allow_unsafe_interrupts)",
                means,
            )
        }
        Remapping::Off => {
            let means = "type1 refuses every SSD (EPERM)";
            let found = "off (/proc/interrupts)";
            let fix = ["intremap=off", "nointremap"].into_iter().find(|word| {
                let (key, value) = word.split_once('=').unwrap_or((word, ""));
                machine.kernel.parameter(key) == Some(value)
            });
            let trusting = "echo 1 | sudo tee /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts  # \
                            only for devices that you trust; else switch on x2APIC in the firmware's set-up";
            let fix = fix.map_or(trusting.to_owned(), drop_parameter);
            finding(Status::Missing, subject, found, means).fix(fix)
        }
    }
}

fn vfio(machine: &Machine) -> Finding {
    let subject = "vfio-pci";
    if machine.vfio.pci {
        return finding(Status::Ok, subject, "loaded", "functions can be bound to it");
    }
    let means = "no SSD can be handed to a program";
    let configured = machine.kernel.option("CONFIG_VFIO_PCI");
    match (machine.vfio.loadable, configured) {
        (Some(false), _) | (_, Some(None)) => {
            finding(Status::Missing, subject, "not part of this kernel", means)
                .fix("boot a kernel with CONFIG_VFIO_PCI=m; on Debian: sudo apt install linux-image-amd64")
        }
        (Some(true), _) | (_, Some(Some(_))) => {
            finding(Status::Missing, subject, "not loaded", means).fix("sudo modprobe vfio-pci")
        }
        (None, None) => {
            let found = "not loaded; whether this kernel has it is not told by /lib/modules or /boot";
            finding(Status::Missing, subject, found, means).fix("sudo modprobe vfio-pci")
        }
    }
}

fn backend(machine: &Machine) -> Finding {
    let subject = "VFIO backend";
    match (machine.vfio.type1, machine.vfio.iommufd) {
        (true, iommufd) => {
            let also = if iommufd { ", and iommufd" } else { "" };
            let means = "host memory and BARs of other functions can be mapped for an SSD";
            finding(Status::Ok, subject, format!("type1{also}"), means)
        }
        (false, true) => {
            let means = "host memory can be mapped for an SSD; a GPU's memory cannot";
            finding(Status::Warn, subject, "iommufd alone", means).fix("sudo modprobe vfio_iommu_type1")
        }
        (false, false) if machine.vfio.pci => {
            let means = "nothing can be mapped for an SSD";
            finding(Status::Missing, subject, "none loaded", means).fix("sudo modprobe vfio_iommu_type1")
        }
        (false, false) => finding(Status::NotLookedAt, subject, "it is loaded together with vfio-pci", ""),
    }
}

fn no_iommu_mode(machine: &Machine) -> Option<Finding> {
    let means =
        "functions without an IOMMU can be opened, and nothing keeps them from any memory of this machine";
    let fix = "echo N | sudo tee /sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    machine.vfio.no_iommu.then(|| finding(Status::Warn, "no-IOMMU mode", "on", means).fix(fix))
}

fn memlock(machine: &Machine) -> Finding {
    let subject = "memory to be pinned";
    let limits = &machine.limits;
    match (limits.memlock, limits.may_lock()) {
        (_, Some(true)) => {
            finding(Status::Ok, subject, "no limit (CAP_IPC_LOCK)", "rings and buffers can be mapped")
        }
        (Some(u64::MAX), _) => finding(Status::Ok, subject, "no limit", "rings and buffers can be mapped"),
        (Some(bytes), _) if bytes >= MEMLOCK_WANTED => finding(
            Status::Ok,
            subject,
            format!("at most {} MiB", bytes >> 20),
            "rings and buffers can be mapped",
        ),
        (Some(bytes), _) => {
            let means = "rings and buffers together get no more than that; what is over fails with ENOMEM";
            finding(Status::Warn, subject, format!("at most {} KiB", bytes >> 10), means)
                .fix("sudo prlimit --pid $$ --memlock=unlimited")
        }
        (None, _) => finding(Status::NotLookedAt, subject, "/proc/self/limits could not be read", ""),
    }
}

fn huge_pages(machine: &Machine) -> Finding {
    let subject = "huge pages";
    match machine.limits.huge_pages {
        Some((0, bytes)) => {
            let means = "buffers are made of 4 KiB pages: more work for the IOMMU; all else is the same";
            finding(Status::Warn, subject, format!("none free, of {} KiB", bytes >> 10), means)
                .fix("sudo sysctl vm.nr_hugepages=512")
        }
        Some((free, bytes)) => {
            let found = format!("{free} free, of {} KiB", bytes >> 10);
            finding(Status::Ok, subject, found, "buffers are mapped in few pieces")
        }
        None => finding(Status::NotLookedAt, subject, "/proc/meminfo does not tell", ""),
    }
}

/// Access Control Services of the ports above GPUs and SSDs.
fn ports(machine: &Machine) -> Finding {
    let subject = "ACS";
    let ends = machine.gpus.iter().map(|gpu| gpu.bdf).chain(machine.ssds.iter().map(|ssd| ssd.bdf));
    let mut ports: Vec<&PciNode> = ends.flat_map(|bdf| machine.above(bdf)).collect();
    ports.retain(|node| matches!(node.role, Role::Port(_)));
    ports.sort_by_key(|node| node.bdf);
    ports.dedup_by_key(|node| node.bdf);
    if ports.is_empty() {
        return finding(Status::NotLookedAt, subject, "no GPU or SSD is behind a port", "");
    }
    let hidden = ports.iter().filter(|node| !node.config.has_extended()).count();
    if hidden > 0 {
        let found = format!("{hidden} of {} ports show no extended capabilities to this user", ports.len());
        return finding(Status::NotLookedAt, subject, found, "").fix("sudo warpbell check");
    }
    let redirects = ports.iter().filter(|node| node.config.acs().is_some_and(|acs| acs.redirects())).count();
    let found = format!("{redirects} of {} ports above GPUs and SSDs redirect requests", ports.len());
    let means = match redirects {
        0 => {
            "requests between devices below one switch may stay below it; functions below it may share a group"
        }
        _ => "requests between devices go up to the root complex, which must forward them",
    };
    finding(Status::Ok, subject, found, means)
}
