//! Synthetic machines of many shapes, each with what is expected of it in a file beside it.
//! `WARPBELL_BLESS=1 cargo test -p warpbell-platform --test machines` writes these files anew, to be read and committed.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use warpbell_platform::{Capture, Finding, Layer, Machine, Relation, Report, Serials, Status, Topology};
use warpbell_vfio::pci::Sysfs;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn names() -> Vec<String> {
    let entries = fs::read_dir(folder()).expect("the tree is there").flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().expect("names are UTF-8");
        Some(name.strip_suffix(".json")?.to_owned())
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn captured(name: &str) -> Capture {
    Capture::read(&folder().join(format!("{name}.json"))).expect("a captured machine")
}

fn machine(name: &str) -> Machine {
    Machine::read(captured(name).unpack().expect("a folder for it").sysfs())
}

/// The machine's files, to be changed.
fn unpacked(name: &str) -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder");
    captured(name).unpack_into(copy.path()).expect("a copy");
    copy
}

/// Compares with what its file has below `$ warpbell COMMAND`.
fn expect(name: &str, command: &str, text: &str) {
    let file = folder().join(format!("{name}.txt"));
    if std::env::var_os("WARPBELL_BLESS").is_some() {
        let (check, topo) = (Report::of(&machine(name)).text(), Topology::of(&machine(name)).text());
        fs::write(&file, format!("$ warpbell check\n{check}$ warpbell topo\n{topo}")).expect("writable");
    }
    let expected = fs::read_to_string(&file).unwrap_or_default();
    let part = expected.split("$ warpbell ").find_map(|part| part.strip_prefix(command)?.strip_prefix('\n'));
    assert_eq!(Some(text), part, "{}", file.display());
}

#[test]
fn each_machine_is_judged_as_its_file_says() {
    assert!(names().len() >= 8, "{:?}", names());
    for name in names() {
        let report = Report::of(&machine(&name));
        expect(&name, "check", &report.text());
        let missing = report.findings.iter().any(|finding| finding.status == Status::Missing);
        assert!(!(missing && report.verdict.complete), "{name}");
    }
}

#[test]
fn each_tree_is_drawn_as_its_file_says() {
    for name in names() {
        let topology = Topology::of(&machine(&name));
        expect(&name, "topo", &topology.text());
        let svg = topology.svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{name}");
        assert_eq!(svg.matches("<rect").count(), svg.matches("<text").count(), "{name}");
        assert!(each_text_fits(&svg), "{name}: {svg}");
    }
}

/// Whether the words of each box end before the right margin, at 7.3 pixels a character.
fn each_text_fits(svg: &str) -> bool {
    let number = |text: &str, after: &str| -> f64 {
        let (_, rest) = text.split_once(after).expect("the attribute");
        rest.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
    };
    let width = number(svg, "width=\"");
    let mut texts = svg.lines().filter(|line| line.starts_with("<text"));
    texts.all(|line| {
        let words = line.split(['<', '>']).nth(2).expect("words");
        number(line, "x=\"") + words.chars().count() as f64 * 7.3 < width - 10.0
    })
}

#[test]
fn a_gpu_takes_the_ssd_on_its_switch() {
    let topology = Topology::of(&machine("two-socket")).only(0);
    let nearest = &topology.nearest[0];
    assert_eq!((topology.nearest.len(), nearest.pair.relation), (1, Relation::Switch));
    assert_eq!((nearest.pair.gpu.as_str(), nearest.pair.ssd.as_str()), ("0000:18:00.0", "0000:19:00.0"));
    assert!(nearest.why.contains("on one switch"), "{}", nearest.why);
    assert!(topology.pairs.iter().all(|pair| pair.gpu == "0000:18:00.0"));
}

#[test]
fn a_link_that_carries_less_than_the_ssds_below_it_is_told() {
    let topology = Topology::of(&machine("nested-switches"));
    let relations: Vec<Relation> = topology.pairs.iter().map(|pair| pair.relation).collect();
    assert_eq!(relations, [Relation::Switches; 2]);
    let shared = topology.shared.iter().find(|shared| shared.port == "0000:04:00.0").unwrap();
    assert_eq!(shared.members, ["0000:06:00.0", "0000:07:00.0"]);
    assert!(shared.ssds_bytes_per_s == 2 * shared.limit_bytes_per_s, "{shared:?}");
    assert_eq!(topology.nearest[0].as_near, ["0000:07:00.0"]);
}

#[test]
fn users_who_are_not_root_see_the_same_tree() {
    for name in ["two-socket", "nested-switches"] {
        let copy = unpacked(name);
        let devices = copy.path().join("sys/bus/pci/devices");
        for function in fs::read_dir(devices).unwrap().flatten() {
            let config = function.path().join("config");
            fs::write(&config, &fs::read(&config).unwrap()[..64]).unwrap();
        }
        let seen = Machine::read(&Sysfs::at(copy.path()));
        assert_eq!(Topology::of(&seen), Topology::of(&machine(name)), "{name}");
        let report = Report::of(&seen);
        let acs = report.findings.iter().find(|finding| finding.subject == "ACS").unwrap();
        assert_eq!(acs.status, Status::NotLookedAt, "{acs}");
    }
}

/// The ways that are taken for the only GPU of a machine, and why each before them is not.
fn ways(name: &str) -> ([&'static str; 2], String) {
    let choice = Report::of(&machine(name)).paths.remove(0);
    let taken = [choice.memory_route(), choice.doorbell_route()].map(|route| route.expect("a way").name);
    let closed = choice.memory.iter().chain(&choice.doorbells).filter(|route| !route.open);
    (taken, closed.map(|route| format!("{}: {}\n", route.name, route.reason)).collect())
}

#[test]
fn one_cause_closes_the_ways_that_it_concerns_and_has_a_remedy() {
    const MMAP: &str = "mmap of the dma-buf, mapped by type1";
    const GDRDRV: &str = "gdrdrv mapping, mapped by type1";
    const HOST: &str = "host memory";
    const MAPPED: &str = "BAR registered as I/O memory";
    const FORWARDED: &str = "forwarded by a CPU thread";
    const DRIVER: (&str, &str) = ("NVIDIA driver", "or load the module gdrdrv of GDRCopy");
    // Machine, ways taken, the reason of a way that is not, and the line that warns, with a part of its remedy.
    for (name, taken, reason, warning) in [
        ("driver-610", [MMAP, MAPPED], "gdrdrv is not loaded", None),
        ("driver-595", [HOST, MAPPED], "driver 595.45.04 refuses the mmap", Some(DRIVER)),
        ("gpu-translated", [MMAP, FORWARDED], "stores vanish; iommu=pt", Some(("GPU 0 domain", "iommu=pt"))),
        ("closed-modules", [HOST, FORWARDED], "closed kernel module cannot look up", Some(DRIVER)),
        ("gdrdrv", [GDRDRV, MAPPED], "driver 595.45.04 refuses the mmap", None),
        (
            "sme",
            [HOST, FORWARDED],
            "memory encryption (SME) is on",
            Some(("memory encryption", "mem_encrypt=on")),
        ),
        ("geforce", [HOST, MAPPED], "no export of a GeForce's memory", Some(("GPU 0", "--data host"))),
    ] {
        let (ways, reasons) = ways(name);
        assert_eq!(ways, taken, "{name}: {reasons}");
        assert!(reasons.contains(reason), "{name}: {reasons}");
        let findings = Report::of(&machine(name)).findings;
        let on_the_machine = findings.iter().filter(|finding| finding.layer != Layer::Path);
        let warned: Vec<_> = on_the_machine.filter(|finding| finding.status == Status::Warn).collect();
        assert_eq!(warned.len(), usize::from(warning.is_some()), "{name}: {warned:?}");
        if let Some((subject, remedy)) = warning {
            let fix = warned[0].fix.as_deref().unwrap_or_default();
            assert!(warned[0].subject == subject && fix.contains(remedy), "{name}: {}", warned[0]);
        }
    }
}

#[test]
fn a_closed_driver_beside_gdrdrv_is_not_said_to_keep_ssds_from_gpu_memory() {
    let copy = unpacked("gdrdrv");
    let version = copy.path().join("proc/driver/nvidia/version");
    let text =
        fs::read_to_string(&version).expect("it is there").replace("Open Kernel Module", "Kernel Module");
    fs::write(&version, text).expect("the copy may be written");
    let report = Report::of(&Machine::read(&Sysfs::at(copy.path())));
    let taken = report.paths[0].memory_route().expect("a way").name;
    assert_eq!(taken, "gdrdrv mapping, mapped by type1");
    assert!(report.text().contains("as a dma-buf: SSDs reach it by gdrdrv alone"), "{}", report.text());
}

#[test]
fn a_gpu_that_is_translated_for_keeps_mapped_doorbells_on_older_kernels() {
    let copy = unpacked("gpu-translated");
    fs::write(copy.path().join("proc/sys/kernel/osrelease"), "6.1.0-amd64\n")
        .expect("the copy may be written");
    let report = Report::of(&Machine::read(&Sysfs::at(copy.path())));
    assert_eq!(report.paths[0].doorbell_route().expect("a way").name, "BAR registered as I/O memory");
    let line = report.findings.iter().find(|finding| finding.subject == "GPU 0 domain").expect("a line");
    assert_eq!((line.status, line.found.as_str()), (Status::Ok, "DMA-FQ"));
}

#[test]
fn encryption_that_the_kernel_was_built_with_is_captured() {
    let copy = unpacked("sme");
    let write = |path: &str, text: &str| {
        let path = copy.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the copy may be written");
        fs::write(path, text).expect("the copy may be written");
    };
    write("proc/cmdline", "quiet iommu=pt\n");
    write("boot/config-6.12.0-amd64", "CONFIG_AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT=y\n");
    let again = Capture::of(&Sysfs::at(copy.path()), Serials::Left);
    let again = Machine::read(again.unpack().expect("a folder for it").sysfs());
    assert!(again.memory_is_encrypted());
}

#[test]
fn a_gpu_and_an_ssd_under_two_root_complexes_have_no_direct_way() {
    let report = Report::of(&machine("roots-apart"));
    let choice = &report.paths[0];
    assert!(!choice.is_direct());
    let direct =
        choice.memory.iter().find(|route| route.name.contains("mmap")).expect("the way by mmap is listed");
    assert!(!direct.open && direct.reason.contains("root complex pci0000:15"), "{}", direct.reason);
    assert_eq!(choice.memory_route().expect("a way is open").name, "host memory");
    assert_eq!(choice.doorbell_route().expect("a way is open").name, "forwarded by a CPU thread");
    assert!(Report::of(&machine("two-socket")).paths[0].is_direct(), "the same parts, on one switch");
}

/// Why data may not go from SSD to GPU by itself on a machine with two root complexes of one NUMA node, which begin with
/// functions of these numbers; nothing where nothing speaks against it.
fn between_roots(devices: [&str; 2]) -> Option<String> {
    let copy = unpacked("roots-apart");
    for (root, device) in ["15", "97"].iter().zip(devices) {
        let first = copy.path().join(format!("sys/devices/pci0000:{root}/0000:{root}:00.0"));
        fs::write(first.join("device"), device).expect("the copy may be written");
    }
    for function in fs::read_dir(copy.path().join("sys/bus/pci/devices")).expect("functions").flatten() {
        fs::write(function.path().join("numa_node"), "0").expect("the copy may be written");
    }
    let report = Report::of(&Machine::read(&Sysfs::at(copy.path())));
    assert_eq!(report.paths[0].pair.relation, Relation::Node);
    let direct = report.paths[0].memory.iter().find(|route| route.name.contains("mmap"));
    let direct = direct.expect("the way by mmap is listed");
    (!direct.open).then(|| direct.reason.clone())
}

#[test]
fn between_root_complexes_of_one_node_the_rule_is_that_of_linux() {
    assert_eq!(between_roots(["0x09a2", "0x2030"]), None);
    let own = between_roots(["0x09a2", "0x2f00"]).expect("Haswell-E forwards between its own ports only");
    assert!(own.contains("pci0000:97 (8086:2f00) forwards requests between its own ports only"), "{own}");
    let unknown = between_roots(["0x4660", "0x09a2"]).expect("not on the list");
    assert!(unknown.contains("(8086:4660) is not known to forward"), "{unknown}");
    assert!(unknown.contains("under root complexes pci0000:15 and pci0000:97"), "{unknown}");
    assert!(Report::of(&machine("roots-of-one-node")).paths[0].is_direct(), "AMD from Zen on");
}

#[test]
fn a_root_complex_that_begins_with_a_root_port_is_known_by_it() {
    let copy = unpacked("no-remapping");
    let reason = || {
        let report = Report::of(&Machine::read(&Sysfs::at(copy.path())));
        report.paths[0].doorbells[0].reason.clone()
    };
    let parameters = copy.path().join("sys/module/vfio_iommu_type1/parameters");
    fs::create_dir_all(&parameters).expect("the copy may be written");
    fs::write(parameters.join("allow_unsafe_interrupts"), "Y").expect("the copy may be written");
    assert!(reason().starts_with("nothing found speaks against it"), "{}", reason());
    // As on Skylake's servers, where a bus has root ports alone.
    fs::remove_file(copy.path().join("sys/bus/pci/devices/0000:00:00.0")).expect("the copy may be written");
    let port = copy.path().join("sys/devices/pci0000:00/0000:00:01.1/device");
    for (device, expected) in
        [("0x2031", "nothing found speaks"), ("0x347a", "the root complex (8086:347a) is not")]
    {
        fs::write(&port, device).expect("the copy may be written");
        assert!(reason().starts_with(expected), "{}", reason());
    }
}

/// What a test of data came to.
fn moved(through: &str, status: Status) -> Finding {
    Finding::new(Layer::Path, status, format!("data through {through}"), "as it is", "")
}

#[test]
fn a_self_test_that_fails_makes_the_machine_incomplete() {
    let machine = machine("two-socket");
    let mut report = Report::of(&machine);
    assert!(report.verdict.complete && !report.verdict.works.is_empty());
    let late = Finding { subject: "order under load".to_owned(), ..moved("both", Status::Missing) };
    report.tested(&machine, vec![late, moved("a way", Status::Ok)]);
    assert!(!report.verdict.complete && report.verdict.works.is_empty(), "{:?}", report.verdict);
    assert!(report.verdict.words.contains("did not arrive as it was sent"), "{}", report.verdict.words);
    assert!(report.text().contains("fix  warpbell check --self-test"), "{}", report.text());
    report.tested(&machine, vec![moved("a way", Status::Ok), moved("an SSD", Status::NotTested)]);
    let before = Report::of(&machine).verdict;
    assert_eq!(
        (report.verdict.complete, report.verdict.words),
        (before.complete, before.words),
        "the last test counts, and one that passes mends nothing"
    );
}

#[test]
fn what_works_here_was_run_or_is_said_not_to_have_been() {
    let machine = machine("no-remapping");
    let mut report = Report::of(&machine);
    let first = |report: &Report| report.verdict.works.first().cloned().unwrap_or_default();
    assert!(first(&report).contains("in software (not run here): warpbell bench"), "{}", first(&report));
    report.tested(&machine, vec![moved("a way", Status::Ok)]);
    assert!(first(&report).contains("in software: warpbell bench"), "{}", first(&report));
    report.tested(&machine, vec![moved("a way", Status::NotTested)]);
    assert!(!first(&report).contains("processors, and an SSD in software"), "{}", first(&report));
}

#[test]
fn a_self_test_that_passes_does_not_complete_a_machine_that_lacks_something() {
    let machine = machine("no-remapping");
    let mut report = Report::of(&machine);
    let before = report.verdict.clone();
    report.tested(&machine, vec![moved("a way", Status::Ok), moved("an SSD", Status::NotTested)]);
    assert!(report.text().contains("data through an SSD   not tested: as it is"), "{}", report.text());
    assert!(!before.complete);
    assert_eq!((report.verdict.complete, report.verdict.words), (before.complete, before.words));
}

#[test]
fn what_is_missing_has_a_fix_and_what_was_not_looked_at_has_a_reason() {
    for name in names() {
        for finding in Report::of(&machine(&name)).findings {
            let fixed = finding.fix.as_ref().is_some_and(|fix| !fix.is_empty());
            assert!(finding.status != Status::Missing || fixed, "{name}: {finding}");
            assert!(!finding.found.is_empty(), "{name}: {}", finding.subject);
        }
    }
}

#[test]
fn an_empty_tree_is_not_called_a_machine_without_devices() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    let report = Report::of(&Machine::read(&Sysfs::at(empty.path())));
    let ok: Vec<_> = report.findings.iter().filter(|finding| finding.status == Status::Ok).collect();
    assert!(ok.is_empty(), "{ok:?}");
    let pci = report
        .findings
        .iter()
        .find(|finding| finding.subject == "PCI")
        .expect("the report has a line about PCI");
    assert_eq!(pci.status, Status::NotLookedAt);
    assert!(!report.verdict.complete);
}

/// The text of all files below a folder, and the names of all entries.
fn everything(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("the tree is there and may be written").flatten() {
        all.extend(entry.path().to_string_lossy().as_bytes());
        match fs::symlink_metadata(entry.path()).expect("the tree is there and may be written") {
            kind if kind.is_dir() => all.extend(everything(&entry.path())),
            kind if kind.is_symlink() => {
                all.extend(
                    fs::read_link(entry.path())
                        .expect("the tree is there and may be written")
                        .to_string_lossy()
                        .as_bytes(),
                );
            }
            _ => all.extend(fs::read(entry.path()).expect("the tree is there and may be written")),
        }
    }
    all
}

#[test]
fn a_capture_is_judged_as_the_machine_it_is_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in names() {
        let original = captured(&name).unpack().expect("a folder for it");
        let capture = Capture::of(original.sysfs(), Serials::Left);
        assert!(capture.len() > 10, "{name}: {capture:?}");
        let file = folder.path().join(&name);
        capture.write(&file).expect("a new file");
        let again = Capture::read(&file).expect("what was written");
        assert_eq!(again, capture, "{name}");
        let again = Machine::read(again.unpack().expect("a folder for it").sysfs());
        assert_eq!(Report::of(&again), Report::of(&machine(&name)), "{name}");
        assert_eq!(Topology::of(&again), Topology::of(&machine(&name)), "{name}");
        let refused = capture.write(&file).unwrap_err();
        assert!(refused.to_string().ends_with("File exists (os error 17)"), "{refused}");
    }
}

#[test]
fn a_file_that_is_no_captured_machine_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (text, why) in [
        ("{", "EOF while parsing"),
        (r#"{"schema": "warpbell.machine/9", "entries": {}}"#, "expected \"warpbell.machine/1\""),
        (r#"{"schema": "warpbell.machine/1", "entries": {"/x": {"pipe": ""}}}"#, "unknown variant"),
    ] {
        let file = folder.path().join("machine.json");
        fs::write(&file, text).expect("the folder may be written");
        let error = Capture::read(&file).unwrap_err().to_string();
        assert!(error.contains("machine.json: ") && error.contains(why), "{error}");
    }
}

/// A copy of a machine, with serial numbers wherever machines have them.
fn with_serials() -> TempDir {
    let machine = unpacked("mounted");
    let ssd = machine.path().join("sys/devices/pci0000:00/0000:00:03.1/0000:02:00.0");
    for (file, text) in [
        ("nvme/nvme0/serial", "SERIALOFSSD"),
        ("nvme/nvme0/subsysnqn", "nqn.2014.org:SERIALOFSSD"),
        ("nvme/nvme0/nvme0n1/wwid", "eui.SERIALOFSSD"),
    ] {
        fs::write(ssd.join(file), text).expect("the tree is there and may be written");
    }
    let mut config = fs::read(ssd.join("config")).expect("the tree is there and may be written");
    config[0x100..0x10c].copy_from_slice(b"\x03\0\x01\0SERIALCF");
    fs::write(ssd.join("config"), config).expect("the tree is there and may be written");
    let write = |path: &str, text: &str| {
        fs::write(machine.path().join(path), text).expect("the tree is there and may be written")
    };
    write("proc/cmdline", "root=UUID=SERIALOFROOT ip=SERIALOFHOST iommu=pt\n");
    write(
        "proc/driver/nvidia/gpus/0000:01:00.0/information",
        "Model: NVIDIA H100 PCIe\nGPU UUID: GPU-SERIALOFGPU\n",
    );
    machine
}

#[test]
fn no_serial_number_is_captured_unless_asked_for() {
    let machine = with_serials();
    let count = |serials| {
        let to = tempfile::tempdir().expect("a temporary folder");
        let capture = Capture::of(&Sysfs::at(machine.path()), serials);
        capture.unpack_into(to.path()).expect("the folder may be written");
        let all = everything(to.path());
        assert!(all.windows(8).any(|bytes| bytes == b"iommu=pt"), "the rest is there");
        all.windows(6).filter(|bytes| bytes == b"SERIAL").count()
    };
    assert_eq!(count(Serials::Left), 0);
    assert_eq!(count(Serials::Taken), 2, "that of the controller, and that of its configuration space");
}

#[test]
fn a_machine_that_lies_is_judged_all_the_same() {
    let machine = unpacked("two-socket");
    let devices = machine.path().join("sys/bus/pci/devices");
    let link = |name: &str, target: &str| {
        fs::remove_file(devices.join(name)).expect("the copy may be written");
        std::os::unix::fs::symlink(target, devices.join(name)).expect("the copy may be written");
    };
    // Each above the other.
    let (one, other) = ("0000:18:00.0", "0000:19:00.0");
    for (above, below) in [(one, other), (other, one)] {
        let place = format!("sys/devices/pci0000:16/{above}/{below}");
        fs::create_dir_all(machine.path().join(&place)).expect("the copy may be written");
        for file in ["class", "vendor", "device"] {
            let text = if file == "class" {
                "0x030200"
            } else if file == "vendor" {
                "0x10de"
            } else {
                "0x2331"
            };
            fs::write(machine.path().join(&place).join(file), text).expect("the copy may be written");
        }
        link(below, &format!("../../../devices/pci0000:16/{above}/{below}"));
    }
    let seen = Machine::read(&Sysfs::at(machine.path()));
    assert!(Topology::of(&seen).text().contains(one) && !Report::of(&seen).text().is_empty());
    // A release that would lead elsewhere is none.
    fs::write(machine.path().join("proc/sys/kernel/osrelease"), "6.12/../../x\n")
        .expect("the copy may be written");
    assert_eq!(Machine::read(&Sysfs::at(machine.path())).kernel.release, None);
}

#[test]
fn memory_encryption_of_amd_is_told_where_the_processors_have_it() {
    let machine = unpacked("two-socket");
    let line = |flags: &str, parameters: &str| {
        let cpu =
            format!("processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: {flags}\n");
        fs::write(machine.path().join("proc/cpuinfo"), cpu).expect("the copy may be written");
        fs::write(machine.path().join("proc/cmdline"), parameters).expect("the copy may be written");
        let report = Report::of(&Machine::read(&Sysfs::at(machine.path())));
        let of_bars =
            |route: &warpbell_platform::Route| route.reason.contains("memory encryption (SME) is on");
        let closed = report.paths.iter().any(|path| path.memory.iter().any(of_bars));
        let line = report.findings.into_iter().find(|finding| finding.subject == "memory encryption");
        assert_eq!(closed, line.as_ref().is_some_and(|line| line.status == Status::Warn), "ways over BARs");
        line
    };
    assert_eq!(line("fpu", "quiet"), None);
    let on = line("fpu sme", "mem_encrypt=on quiet").expect("a line");
    assert_eq!((on.status, on.found.as_str()), (Status::Warn, "on (SME)"));
    assert!(on.means.contains("host memory alone is safe"), "{on}");
    assert!(on.fix.is_some_and(|fix| fix.contains("mem_encrypt=on")));
    let off = line("fpu sme", "mem_encrypt=off").expect("a line");
    assert_eq!((off.status, off.found.as_str()), (Status::Ok, "off (SME)"));
}
