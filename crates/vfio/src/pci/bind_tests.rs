use std::fs;
use std::os::unix::fs::FileExt;

use super::*;
use crate::pci::fake::{Fake, FakeKernel};
use crate::pci::find_by_serial;

const BDF: &str = "0000:41:00.0";

fn machine() -> Fake {
    let fake = Fake::new();
    fake.ssd(BDF, 0, "S64X");
    fake
}

fn plan(fake: &Fake, options: &BindOptions) -> BindPlan {
    let bdf = BDF.parse().unwrap();
    BindPlan::new(&fake.sysfs(), bdf, &[bdf], options).unwrap()
}

fn quick() -> BindOptions {
    BindOptions { node_limit: Duration::from_millis(50), ..BindOptions::default() }
}

fn texts(reasons: &[impl ToString]) -> Vec<String> {
    reasons.iter().map(ToString::to_string).collect()
}

fn sign(fake: &Fake) {
    let disk = fs::OpenOptions::new().write(true).open(fake.sysfs().path("/dev/nvme0n1")).unwrap();
    disk.write_all_at(b"XFSB", 0).unwrap();
}

#[test]
fn the_writes_are_those_of_a_shell() {
    let fake = machine();
    let steps = plan(&fake, &BindOptions::default()).steps().map(ToString::to_string).collect::<Vec<_>>();
    assert!(steps[0].starts_with("cat > /run/warpbell/bindings/0000:41:00.0.json"), "{steps:?}");
    assert_eq!(
        steps[1..],
        [
            "echo vfio-pci > /sys/bus/pci/devices/0000:41:00.0/driver_override",
            "echo 0000:41:00.0 > /sys/bus/pci/drivers/nvme/unbind",
            "echo 0000:41:00.0 > /sys/bus/pci/drivers_probe",
        ]
    );
    assert_eq!(fake.function(BDF).driver.as_deref(), Some("nvme"), "a plan changes nothing");
}

#[test]
fn a_bound_function_is_found_by_its_serial_number_and_binding_again_does_nothing() {
    let fake = machine();
    let kernel = FakeKernel::of(&fake);
    let mut told = 0;
    let bound = plan(&fake, &quick()).carry_out(&fake.sysfs(), &kernel, &mut |_| told += 1).unwrap();
    assert_eq!((bound.driver.as_deref(), told), (Some("vfio-pci"), 4));
    let known = find_by_serial(&fake.sysfs(), "S64X").unwrap();
    assert_eq!((known.bdf.to_string().as_str(), known.size_bytes()), (BDF, Some(1 << 20)));
    let again = plan(&fake, &quick());
    assert!(again.already && again.refusals.is_empty());
    assert_eq!(again.steps().count(), 0);
    again.carry_out(&fake.sysfs(), &kernel, &mut |step| panic!("{step}")).unwrap();
}

#[test]
fn a_note_for_another_device_at_the_address_is_ignored() {
    let fake = machine();
    plan(&fake, &quick()).carry_out(&fake.sysfs(), &FakeKernel::of(&fake), &mut |_| ()).unwrap();
    fake.write(&format!("/sys/bus/pci/devices/{BDF}/device"), "0x0011\n");
    assert_eq!(fake.function(BDF).serial(), None);
}

#[test]
fn a_mounted_ssd_is_refused_whatever_is_allowed() {
    let fake = machine();
    fake.mount("259:0", "/data", "xfs", "/dev/nvme0n1");
    sign(&fake);
    let options = BindOptions { allow_signed: vec!["S64X".to_owned()], ..quick() };
    assert_eq!(texts(&plan(&fake, &options).refusals), ["mounted at /data (nvme0n1)"]);
}

#[test]
fn signatures_are_allowed_by_the_name_of_the_device_only() {
    let fake = machine();
    sign(&fake);
    for (allowed, refusals) in [("S64Y", 1), ("41:00.1", 1), ("S64X", 0), ("sn:S64X", 0), ("41:00.0", 0)] {
        let options = BindOptions { allow_signed: vec![allowed.to_owned()], ..quick() };
        let plan = plan(&fake, &options);
        assert_eq!((plan.refusals.len(), plan.lifted.len()), (refusals, 1 - refusals), "{allowed}");
    }
}

#[test]
fn group_mates_block_until_they_are_bound_too() {
    let fake = machine();
    fake.mate(BDF, "0000:41:00.1", Some("nvidia"));
    fake.mate(BDF, "0000:40:00.0", Some("pcieport"));
    let refusals = texts(&plan(&fake, &quick()).refusals);
    assert_eq!(refusals.len(), 1);
    for word in ["group 57", "0000:41:00.1", "nvidia"] {
        assert!(refusals[0].contains(word), "{refusals:?}");
    }
    let all = [BDF.parse().unwrap(), "0000:41:00.1".parse().unwrap()];
    let plan = BindPlan::new(&fake.sysfs(), all[0], &all, &quick()).unwrap();
    assert_eq!(plan.refusals, []);
}

#[test]
fn what_the_machine_lacks_is_named_with_the_remedy() {
    let fake = machine();
    fs::remove_dir(fake.sysfs().path("/sys/bus/pci/drivers/vfio-pci")).unwrap();
    fs::remove_file(fake.sysfs().path(format!("/sys/bus/pci/devices/{BDF}/iommu_group"))).unwrap();
    let missing = texts(&plan(&fake, &quick()).missing);
    assert!(missing[0].contains("modprobe vfio-pci"), "{missing:?}");
    assert!(missing[1].contains("intel_iommu=on"), "{missing:?}");
    for (make, word, other) in
        [("GenuineIntel", "intel_iommu=on", "AMD"), ("AuthenticAMD", "AMD-Vi", "intel")]
    {
        fake.write("/proc/cpuinfo", &format!("processor\t: 0\nvendor_id\t: {make}\n"));
        let missing = texts(&plan(&fake, &quick()).missing);
        assert!(missing[1].contains(word) && !missing[1].contains(other), "{missing:?}");
    }
    fake.write("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
    assert_eq!(plan(&fake, &quick()).missing.len(), 1, "no-IOMMU mode was asked for");
}

#[test]
fn other_classes_and_empty_addresses_are_refused() {
    let fake = machine();
    fake.mate(BDF, "0000:41:00.1", None);
    let (gpu, absent) = ("41:00.1".parse().unwrap(), "41:00.2".parse().unwrap());
    let plan = BindPlan::new(&fake.sysfs(), gpu, &[gpu], &quick()).unwrap();
    assert!(texts(&plan.refusals)[0].contains("0x030200"));
    let error = BindPlan::new(&fake.sysfs(), absent, &[absent], &quick()).unwrap_err();
    assert!(error.to_string().starts_with("0000:41:00.2: "), "{error}");
}

#[test]
fn a_function_that_is_not_taken_goes_back_to_its_driver() {
    for (takes, makes_nodes, word) in
        [(false, true, "did not take"), (true, false, "/dev/vfio/57 did not appear")]
    {
        let fake = machine();
        let kernel = FakeKernel { fake: &fake, takes, makes_nodes };
        let error = plan(&fake, &quick()).carry_out(&fake.sysfs(), &kernel, &mut |_| ()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(word) && text.contains("nothing is left of it"), "{text}");
        let now = fake.function(BDF);
        assert_eq!((now.driver.as_deref(), now.driver_override), (Some("nvme"), None));
        assert_eq!(now.binding, None);
    }
}

#[test]
fn a_user_gets_the_node() {
    let fake = machine();
    fake.write("/etc/passwd", "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n");
    let ann = User::find(&fake.sysfs(), "ann").unwrap();
    assert_eq!((ann.uid, User::find(&fake.sysfs(), "1234").unwrap().uid), (1000, 1234));
    assert_eq!(User::find(&fake.sysfs(), "bob"), None);
    let last = plan(&fake, &BindOptions { user: Some(ann), ..quick() }).steps().last().unwrap().to_string();
    assert_eq!(last, "chown 1000 /dev/vfio/57");
}

#[test]
fn a_rule_goes_by_the_serial_number() {
    let fake = machine();
    let options = BindOptions { persist: Some("/usr/bin/warpbell".into()), ..quick() };
    let last = plan(&fake, &options).steps().last().unwrap().to_string();
    assert!(last.starts_with("cat > /etc/udev/rules.d/99-warpbell-S64X.rules"), "{last}");
    assert!(
        last.contains(r#"ATTRS{serial}=="S64X""#) && last.contains("/usr/bin/warpbell bind sn:S64X\""),
        "{last}"
    );
    fake.write(&format!("/sys/bus/pci/devices/{BDF}/nvme/nvme0/serial"), "S*\"\n");
    let missing = texts(&plan(&fake, &options).missing);
    assert!(missing[0].contains("S*\""), "{missing:?}");
}

#[test]
fn a_first_step_that_fails_leaves_nothing_to_undo() {
    struct Locked;
    impl Apply for Locked {
        fn apply(&self, _: &Step) -> std::io::Result<()> {
            Err(std::io::ErrorKind::PermissionDenied.into())
        }
    }
    let fake = machine();
    let mut told = 0;
    let error = plan(&fake, &quick()).carry_out(&fake.sysfs(), &Locked, &mut |_| told += 1).unwrap_err();
    let text = error.to_string();
    assert_eq!(told, 1, "{text}");
    assert!(text.contains("run as root") && text.ends_with("the function is with nvme"), "{text}");
}

/// A kernel that refuses some steps.
struct Refusing<'a> {
    kernel: FakeKernel<'a>,
    refuses: fn(&Step) -> bool,
}

impl Apply for Refusing<'_> {
    fn apply(&self, step: &Step) -> std::io::Result<()> {
        if (self.refuses)(step) {
            Err(std::io::ErrorKind::ReadOnlyFilesystem.into())
        } else {
            self.kernel.apply(step)
        }
    }
}

#[test]
fn a_last_step_that_fails_gives_the_function_back() {
    let (user, persist) = (User { name: "ann".to_owned(), uid: 1000 }, "/usr/bin/warpbell".into());
    for (options, refuses) in [
        (
            BindOptions { user: Some(user), ..quick() },
            (|step| matches!(step, Step::Give { .. })) as fn(&Step) -> bool,
        ),
        (
            BindOptions { persist: Some(persist), ..quick() },
            |step| matches!(step, Step::Save { path, .. } if path.starts_with("/etc")),
        ),
    ] {
        let fake = machine();
        let kernel = Refusing { kernel: FakeKernel::of(&fake), refuses };
        let error = plan(&fake, &options).carry_out(&fake.sysfs(), &kernel, &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("the function is with nvme"), "{error}");
        let now = fake.function(BDF);
        assert_eq!((now.driver.as_deref(), now.driver_override, now.binding), (Some("nvme"), None, None));
    }
}

#[test]
fn a_binding_that_broke_off_does_not_lose_the_driver_of_before() {
    for done in 1..=3 {
        let fake = machine();
        let kernel = FakeKernel::of(&fake);
        for step in plan(&fake, &quick()).steps().take(done) {
            kernel.apply(step).unwrap();
        }
        plan(&fake, &quick()).carry_out(&fake.sysfs(), &kernel, &mut |_| ()).unwrap();
        let note = fake.function(BDF).binding.unwrap();
        let driver = (note.driver.as_deref(), note.driver_override, note.serial.as_deref());
        assert_eq!(driver, (Some("nvme"), None, Some("S64X")), "after {done} steps");
    }
}

#[test]
fn a_rule_for_a_bound_function_keeps_what_was_allowed() {
    let fake = machine();
    plan(&fake, &quick()).carry_out(&fake.sysfs(), &FakeKernel::of(&fake), &mut |_| ()).unwrap();
    let persist = BindOptions { persist: Some("/usr/bin/warpbell".into()), ..quick() };
    let allowed = BindOptions { allow_signed: vec!["S64X".to_owned()], ..persist.clone() };
    let rule = |options| plan(&fake, options).steps().last().unwrap().to_string();
    assert!(!rule(&persist).contains("--allow-signed"));
    assert!(rule(&allowed).contains("--allow-signed=S64X"));
}
