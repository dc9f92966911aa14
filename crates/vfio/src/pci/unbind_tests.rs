use super::*;
use crate::pci::fake::{Fake, FakeKernel};
use crate::pci::{BindOptions, BindPlan};

const BDF: &str = "0000:41:00.0";

/// A machine whose SSD `warpbell bind` has bound.
fn bound() -> Fake {
    let fake = Fake::new();
    fake.ssd(BDF, 0, "S64X");
    bind(&fake);
    fake
}

fn bind(fake: &Fake) {
    let bdf = BDF.parse().unwrap();
    let options = BindOptions { persist: Some("/usr/bin/warpbell".into()), ..BindOptions::default() };
    let plan = BindPlan::new(&fake.sysfs(), bdf, &[bdf], &options).unwrap();
    plan.carry_out(&fake.sysfs(), &FakeKernel::of(fake), &mut |_| ()).unwrap();
}

fn plan(fake: &Fake, restore: bool) -> UnbindPlan {
    UnbindPlan::new(&fake.sysfs(), BDF.parse().unwrap(), restore).unwrap()
}

fn carry_out(fake: &Fake, plan: UnbindPlan) -> Result<Function, PciError> {
    plan.carry_out(&fake.sysfs(), &FakeKernel::of(fake), &mut |_| ())
}

#[test]
fn the_kernels_driver_takes_it_back_and_nothing_is_left_behind() {
    for restore in [false, true] {
        let fake = bound();
        let now = carry_out(&fake, plan(&fake, restore)).unwrap();
        assert_eq!((now.driver.as_deref(), now.driver_override), (Some("nvme"), None));
        assert_eq!(now.binding, None);
        assert!(!exists(&fake.sysfs(), &Step::Remove { path: rule::path("S64X") }));
    }
}

#[test]
fn restoring_brings_the_former_driver_and_override_back() {
    let fake = Fake::new();
    fake.ssd(BDF, 0, "S64X");
    fake.set_driver(BDF, Some("other"));
    fake.write(&format!("/sys/bus/pci/devices/{BDF}/driver_override"), "third\n");
    fake.write("/run/warpbell/bindings/unrelated", "");
    let bdf = BDF.parse().unwrap();
    let options = BindOptions::default();
    let bind = BindPlan::new(&fake.sysfs(), bdf, &[bdf], &options).unwrap();
    bind.carry_out(&fake.sysfs(), &FakeKernel::of(&fake), &mut |_| ()).unwrap();
    let now = carry_out(&fake, plan(&fake, true)).unwrap();
    assert_eq!((now.driver.as_deref(), now.driver_override.as_deref()), (Some("other"), Some("third")));
}

#[test]
fn a_function_that_had_no_driver_is_left_without_one() {
    let fake = Fake::new();
    fake.ssd(BDF, 0, "S64X");
    fake.set_driver(BDF, None);
    bind_plain(&fake);
    assert_eq!(carry_out(&fake, plan(&fake, true)).unwrap().driver, None);
}

fn bind_plain(fake: &Fake) {
    let bdf = BDF.parse().unwrap();
    let plan = BindPlan::new(&fake.sysfs(), bdf, &[bdf], &BindOptions::default()).unwrap();
    plan.carry_out(&fake.sysfs(), &FakeKernel::of(fake), &mut |_| ()).unwrap();
}

#[test]
fn a_function_in_use_is_refused_and_the_process_named() {
    let fake = bound();
    fake.open(77, "warpbell", "/dev/vfio/57");
    let refusals = plan(&fake, false).refusals;
    assert_eq!(refusals.len(), 1);
    let text = refusals[0].to_string();
    assert!(text.contains("/dev/vfio/57") && text.contains("process 77 (warpbell)"), "{text}");
}

#[test]
fn restoring_needs_a_note() {
    let fake = bound();
    std::fs::remove_file(fake.sysfs().path(Binding::path(BDF.parse().unwrap()))).unwrap();
    let missing = plan(&fake, true).missing;
    assert!(missing[0].to_string().contains("/run/warpbell/bindings/0000:41:00.0.json"), "{missing:?}");
    assert_eq!(plan(&fake, false).missing, []);
}

#[test]
fn a_function_of_the_kernel_is_left_alone() {
    let fake = Fake::new();
    fake.ssd(BDF, 0, "S64X");
    let plan = plan(&fake, false);
    assert!(plan.already);
    assert_eq!(plan.steps().count(), 0);
    assert_eq!(carry_out(&fake, plan).unwrap().driver.as_deref(), Some("nvme"));
}

#[test]
fn a_driver_that_does_not_take_it_back_leaves_the_note_for_another_attempt() {
    /// A kernel without the former driver's module.
    struct Without<'a>(FakeKernel<'a>);
    impl Apply for Without<'_> {
        fn apply(&self, step: &Step) -> io::Result<()> {
            match step {
                Step::Write { path, .. } if path == crate::pci::bind::PROBE => Ok(()),
                step => self.0.apply(step),
            }
        }
    }
    for restore in [false, true] {
        let fake = bound();
        let kernel = Without(FakeKernel::of(&fake));
        let error = plan(&fake, restore).carry_out(&fake.sysfs(), &kernel, &mut |_| ()).unwrap_err();
        assert!(matches!(error, PciError::NoDriver { .. } | PciError::NotTaken { .. }), "{error}");
        let now = carry_out(&fake, plan(&fake, true)).unwrap();
        assert_eq!((now.driver.as_deref(), now.binding), (Some("nvme"), None));
    }
}

#[test]
fn a_rule_goes_with_its_disk_also_at_another_address() {
    let fake = bound();
    let sysfs = fake.sysfs();
    fake.ssd("0000:42:00.0", 1, "S65X");
    let rule = |serial: &str| sysfs.exists(rule::path(serial));
    fake.write(&rule::path("S65X"), "of the other");
    assert!(rule("S64X") && rule("S65X"));
    carry_out(&fake, plan(&fake, false)).unwrap();
    assert_eq!((rule("S64X"), rule("S65X")), (false, true));
}

#[test]
fn functions_of_other_classes_are_refused_wherever_they_are() {
    let display_network_bridge = ["0x030000", "0x020000", "0x060000"];
    for class in display_network_bridge {
        for driver in [Some("vfio-pci"), Some("other"), None] {
            let fake = Fake::new();
            fake.ssd(BDF, 0, "S64X");
            fake.set_driver(BDF, driver);
            fake.write(&format!("/sys/bus/pci/devices/{BDF}/class"), class);
            fake.write(&format!("/sys/bus/pci/devices/{BDF}/driver_override"), "vfio-pci\n");
            let plan = plan(&fake, false);
            let text = plan.refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            assert_eq!(text, format!("class {class} is not that of an NVMe controller (0x0108xx)"));
            assert_eq!(plan.steps().count(), 0, "{class} with {driver:?}");
        }
    }
}
