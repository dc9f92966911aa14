//! `list`: the NVMe functions of this machine, and the devices named on the command line.

use std::fs;
use std::path::Path;

use comfy_table::{Table, presets};
use serde::Serialize;

use warpbell::{DeviceName, OpenOptions, Ssd};

use crate::args::{Global, ListArgs, Output};
use crate::exit::Ending;
use crate::{out, units};

/// Where Linux shows PCI functions.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";
/// Class code of an NVMe controller, with its programming interface.
const NVME_CLASS: &str = "0x010802";

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.list/1";

/// Runs the command.
pub fn run(args: &ListArgs, global: &Global) -> Result<(), Ending> {
    let mut entries = functions(Path::new(PCI_DEVICES));
    for name in &args.devices {
        entries.push(named(name)?);
    }
    match global.output {
        Output::Normal => out::text(&text(&entries)),
        Output::Json => out::json(&serde_json::json!({
            "schema": SCHEMA,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "devices": entries,
        })),
    }
}

/// A device of the command line, opened to ask it.
fn named(name: &DeviceName) -> Result<Entry, Ending> {
    let ssd = Ssd::open(name, &OpenOptions::default())?;
    Ok(Entry {
        device: name.to_string(),
        kind: "software",
        model: Some(ssd.identify().model().to_owned()),
        serial: Some(ssd.identify().serial().to_owned()),
        size_bytes: Some(ssd.namespaces().iter().map(|namespace| namespace.bytes()).sum()),
        block_size_bytes: ssd.namespaces().first().map(|namespace| namespace.block_size),
        driver: None,
        usable: true,
    })
}

/// One line of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The name to open it by.
    pub device: String,
    /// `pcie` or `software`.
    pub kind: &'static str,
    /// Model number.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Bytes of all namespaces.
    pub size_bytes: Option<u64>,
    /// Bytes of a block of the first namespace.
    pub block_size_bytes: Option<u32>,
    /// Kernel driver that owns it.
    pub driver: Option<String>,
    /// Whether this version can open it.
    pub usable: bool,
}

/// The NVMe functions under `root`, by address.
fn functions(root: &Path) -> Vec<Entry> {
    let Ok(directory) = fs::read_dir(root) else { return Vec::new() };
    let mut entries: Vec<Entry> = directory.flatten().filter_map(|entry| function(&entry.path())).collect();
    entries.sort_by(|one, other| one.device.cmp(&other.device));
    entries
}

fn function(path: &Path) -> Option<Entry> {
    (attribute(path, "class")? == NVME_CLASS).then_some(())?;
    let link = fs::read_link(path.join("driver")).ok();
    let driver = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    let controller = fs::read_dir(path.join("nvme")).ok().and_then(|mut all| all.next()?.ok());
    let of_controller = |name| controller.as_ref().and_then(|entry| attribute(&entry.path(), name));
    Some(Entry {
        device: path.file_name()?.to_str()?.to_owned(),
        kind: "pcie",
        model: of_controller("model"),
        serial: of_controller("serial"),
        driver,
        ..Entry::default()
    })
}

fn attribute(path: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(path.join(name)).ok()?.trim().to_owned())
}

/// The list as a table, and what can be done with it.
fn text(entries: &[Entry]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["DEVICE", "MODEL", "SERIAL", "SIZE", "LBA", "DRIVER"]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for entry in entries {
        table.add_row([
            entry.device.clone(),
            or_dash(entry.model.clone()),
            or_dash(entry.serial.clone()),
            or_dash(entry.size_bytes.map(units::bytes)),
            or_dash(entry.block_size_bytes.map(|bytes| bytes.to_string())),
            or_dash(entry.driver.clone()),
        ]);
    }
    let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if entries.iter().any(|entry| !entry.usable) {
        text += "PCI functions are shown only: this version does not drive them yet.\n";
    }
    text + "Usable now: soft:size=1g (memory), soft:file=PATH (a file), served by the software controller.\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_come_from_sysfs() {
        let root = tempfile::tempdir().unwrap();
        for (bdf, class) in
            [("0000:41:00.0", "0x010802"), ("0000:01:00.0", "0x010802"), ("0000:00:1f.0", "0x060100")]
        {
            let path = root.path().join(bdf);
            fs::create_dir_all(path.join("nvme/nvme0")).unwrap();
            fs::write(path.join("class"), format!("{class}\n")).unwrap();
        }
        let path = root.path().join("0000:41:00.0");
        fs::write(path.join("nvme/nvme0/model"), "Vendor B 3.8T   \n").unwrap();
        std::os::unix::fs::symlink("../../../bus/pci/drivers/nvme", path.join("driver")).unwrap();
        let entries = functions(root.path());
        let names: Vec<_> = entries.iter().map(|entry| entry.device.as_str()).collect();
        assert_eq!(names, ["0000:01:00.0", "0000:41:00.0"]);
        assert_eq!(entries[1].model.as_deref(), Some("Vendor B 3.8T"));
        assert_eq!((entries[1].driver.as_deref(), entries[0].driver.as_deref()), (Some("nvme"), None));
        let text = text(&entries);
        assert!(text.contains("0000:41:00.0") && text.contains("shown only"), "{text}");
        assert_eq!(functions(&root.path().join("absent")), []);
    }
}
