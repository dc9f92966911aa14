//! `list`: the NVMe functions of this machine, and the devices named on the command line.

use comfy_table::{Table, presets};
use serde::Serialize;
use warpbell::{DeviceName, Ssd};
use warpbell_vfio::pci::{Function, Look, Snapshot, Sysfs, functions, usable, uses};

use crate::args::{Global, ListArgs, Output};
use crate::exit::Ending;
use crate::open::open_to_read;
use crate::tree::Tree;
use crate::{out, units};

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.list/1";

/// Runs the command.
pub fn run(args: &ListArgs, global: &Global) -> Result<(), Ending> {
    let tree = Tree::at(&args.root)?;
    let sysfs = tree.sysfs();
    let mut entries = found(sysfs);
    for name in &args.devices {
        match name.function() {
            Some(function) => ask(&mut entries, &function.resolve(sysfs)?.to_string(), name)?,
            None => entries.push(named(name)?),
        }
    }
    match global.output() {
        Output::Normal => out::text(&text(&entries)),
        Output::Json => out::json(&serde_json::json!({
            "schema": SCHEMA,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "devices": entries,
        })),
    }
}

/// A device of the command line that is not in sysfs, opened to ask it.
fn named(name: &DeviceName) -> Result<Entry, Ending> {
    let kind = if matches!(name, DeviceName::VfioUser(_)) { "vfio-user" } else { "software" };
    let mut entry = Entry { device: name.to_string(), kind, usable: true, ..Entry::default() };
    entry.identify(&open_to_read(name)?);
    Ok(entry)
}

/// A function of the command line is in the list already; where it can be opened, it says more than sysfs.
fn ask(entries: &mut [Entry], bdf: &str, name: &DeviceName) -> Result<(), Ending> {
    let Some(entry) = entries.iter_mut().find(|entry| entry.device == bdf) else {
        return Err(Ending::failed(format!(
            "{name}: there is no NVMe function at {bdf} (see warpbell list)"
        )));
    };
    if entry.usable {
        entry.identify(&open_to_read(name)?);
    }
    Ok(())
}

impl Entry {
    /// What the controller says of itself.
    fn identify(&mut self, ssd: &Ssd) {
        self.model = Some(ssd.identify().model().to_owned());
        self.serial = Some(ssd.identify().serial().to_owned());
        self.size_bytes = Some(ssd.namespaces().iter().map(|namespace| namespace.bytes()).sum());
        self.block_size_bytes = ssd.namespaces().first().map(|namespace| namespace.block_size);
    }
}

/// One line of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Entry {
    /// The name to open it by.
    device: String,
    /// `pcie`, `vfio-user` or `software`.
    kind: &'static str,
    /// Model number.
    model: Option<String>,
    /// Serial number.
    serial: Option<String>,
    /// Bytes of all namespaces.
    size_bytes: Option<u64>,
    /// Bytes of a block of the first namespace.
    block_size_bytes: Option<u32>,
    /// Kernel driver that owns it.
    driver: Option<String>,
    /// Its IOMMU group.
    iommu_group: Option<Group>,
    /// NUMA node.
    numa_node: Option<u32>,
    /// Speed of a lane of its link, in the kernel's words.
    link_speed: Option<String>,
    /// Lanes of its link.
    link_width: Option<u32>,
    /// Mounts, swap, holders and processes that use it, as far as this user may see.
    in_use_by: Vec<String>,
    /// Whether it can be opened now.
    usable: bool,
    /// Why not.
    why_not: Option<String>,
}

/// An IOMMU group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Group {
    number: u32,
    /// The other functions in it, with their drivers.
    mates: Vec<String>,
}

impl Group {
    fn text(&self) -> String {
        match self.mates.is_empty() {
            true => self.number.to_string(),
            false => format!("{} with {}", self.number, self.mates.join(", ")),
        }
    }
}

/// The NVMe functions of the machine, by address.
fn found(sysfs: &Sysfs) -> Vec<Entry> {
    let now = Snapshot::take(sysfs);
    functions(sysfs).iter().map(|function| entry(sysfs, function, &now)).collect()
}

fn entry(sysfs: &Sysfs, function: &Function, now: &Snapshot) -> Entry {
    let (uses, _) = uses(sysfs, function, now, Look::Outside);
    let usable = usable(sysfs, function, &uses, now);
    let group = function.group.as_ref().map(|group| {
        let mate = |mate: &warpbell_vfio::pci::Mate| match &mate.driver {
            Some(driver) => format!("{} ({driver})", mate.bdf),
            None => mate.bdf.to_string(),
        };
        Group { number: group.number, mates: group.mates.iter().map(mate).collect() }
    });
    Entry {
        device: function.bdf.to_string(),
        kind: "pcie",
        model: function.model().map(str::to_owned),
        serial: function.serial().map(str::to_owned),
        size_bytes: function.size_bytes(),
        block_size_bytes: function.block_size_bytes(),
        driver: function.driver.clone(),
        iommu_group: group,
        numa_node: function.numa_node,
        link_speed: function.link.as_ref().map(|link| link.speed.clone()),
        link_width: function.link.as_ref().map(|link| link.width),
        in_use_by: uses.iter().map(ToString::to_string).collect(),
        usable: usable.is_ok(),
        why_not: usable.err().map(|why| why.to_string()),
    }
}

/// The list as a table, and what can be done with it.
fn text(entries: &[Entry]) -> String {
    let usable: String = entries
        .iter()
        .filter(|entry| entry.usable && entry.kind == "pcie")
        .map(|entry| format!("{}; ", entry.device))
        .collect();
    let table = match entries.is_empty() {
        true => "No NVMe SSD on the PCIe tree.\n".to_owned(),
        false => table(entries),
    };
    format!(
        "{table}Usable now: {usable}soft:size=1g (memory), soft:file=PATH (a file), served by the software controller.\n"
    )
}

fn table(entries: &[Entry]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "DEVICE",
        "MODEL",
        "SERIAL",
        "SIZE",
        "LBA",
        "DRIVER",
        "IOMMU GROUP",
        "IN USE BY",
        "USABLE",
    ]);
    let or_dash =
        |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    for entry in entries {
        table.add_row([
            entry.device.clone(),
            or_dash(entry.model.clone()),
            or_dash(entry.serial.clone()),
            or_dash(entry.size_bytes.map(units::bytes)),
            or_dash(entry.block_size_bytes.map(|bytes| bytes.to_string())),
            or_dash(entry.driver.clone()),
            or_dash(entry.iommu_group.as_ref().map(Group::text)),
            or_dash(Some(entry.in_use_by.join("; "))),
            entry.why_not.as_ref().map_or_else(|| "yes".to_owned(), |why| format!("no: {why}")),
        ]);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
