//! Returning functions to the kernel's drivers.

use std::fs::OpenOptions;
use std::io;

use super::bind::{apply, exists, leave, probe, set_override};
use super::step::Apply;
use super::{
    Bdf, Binding, Function, Missing, PciError, Refusal, Snapshot, Step, Sysfs, VFIO_PCI, function, rule,
};

/// What it takes to return one function to Linux, and what stands against it.
#[derive(Debug)]
pub struct UnbindPlan {
    /// The function as it is.
    pub function: Function,
    /// Whether no VFIO driver owns it.
    pub already: bool,
    /// Reasons of safety against it.
    pub refusals: Vec<Refusal>,
    /// What this machine lacks.
    pub missing: Vec<Missing>,
    /// Steps until the wanted driver has it.
    release: Vec<Step>,
    /// Notes and rules to remove afterwards.
    clean_up: Vec<Step>,
    /// The driver that shall have it afterwards.
    wanted: Wanted,
}

/// Who shall have the function.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    /// Whichever driver the kernel finds.
    Any,
    /// This one.
    Driver(String),
    /// None, as before.
    None,
}

impl UnbindPlan {
    /// Plans to return the function at `bdf`: to the kernel's choice, or with `restore` to the driver that it had when
    /// it was bound.
    pub fn new(sysfs: &Sysfs, bdf: Bdf, restore: bool) -> Result<UnbindPlan, PciError> {
        let function = function(sysfs, bdf).ok_or(PciError::Absent { bdf })?;
        let already = function.driver.is_some() && !function.is_on_vfio();
        let (mut refusals, mut missing) = (Vec::new(), Vec::new());
        if !function.is_nvme() {
            // As `bind`: another class may be parked on vfio-pci by somebody else, for a virtual machine say.
            refusals.push(Refusal::NotNvme { class: function.class });
        } else if function.is_on_vfio() {
            refusals = drivers_of(sysfs, &function, &Snapshot::take(sysfs));
        }
        if restore && !already && function.binding.is_none() {
            missing.push(Missing::Note { path: Binding::path(bdf) });
        }
        let before = function.binding.as_ref().filter(|_| restore);
        let wanted = match before.map(|before| before.driver.clone()) {
            None => Wanted::Any,
            Some(Some(driver)) => Wanted::Driver(driver),
            Some(None) => Wanted::None,
        };
        let former = before.and_then(|before| before.driver_override.clone()).unwrap_or_default();
        let release = match already {
            _ if !function.is_nvme() => Vec::new(),
            true if function.driver_override.as_deref() == Some(VFIO_PCI) => {
                vec![set_override(&function, "")]
            }
            true => Vec::new(),
            false => release(&function, &wanted, &former),
        };
        let files = [Some(Binding::path(bdf)), function.serial().map(rule::path)].into_iter().flatten();
        let remove = files.map(|path| Step::Remove { path });
        let clean_up = remove.filter(|step| exists(sysfs, step)).collect();
        Ok(UnbindPlan { function, already, refusals, missing, release, clean_up, wanted })
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.release.iter().chain(&self.clean_up)
    }

    /// Does the steps, telling each to `report` before it is done. What was noted goes only when the function is back:
    /// another attempt needs it.
    pub fn carry_out(
        self,
        sysfs: &Sysfs,
        system: &impl Apply,
        report: &mut dyn FnMut(&Step),
    ) -> Result<Function, PciError> {
        let bdf = self.function.bdf;
        let mut do_all = |steps: &[Step]| {
            steps.iter().try_for_each(|step| {
                report(step);
                apply(system, bdf, step)
            })
        };
        do_all(&self.release)?;
        let now = || function(sysfs, bdf).ok_or(PciError::Absent { bdf });
        self.check(now()?.driver)?;
        do_all(&self.clean_up)?;
        now()
    }

    /// Whether who shall have the function has it.
    fn check(&self, found: Option<String>) -> Result<(), PciError> {
        let bdf = self.function.bdf;
        match (&self.wanted, found) {
            _ if self.already => Ok(()),
            (Wanted::Any, None) => Err(PciError::NoDriver { bdf }),
            (Wanted::Driver(wanted), found) if found.as_ref() != Some(wanted) => {
                Err(PciError::NotTaken { bdf, wanted: wanted.clone(), found })
            }
            _ => Ok(()),
        }
    }
}

/// The steps from VFIO, or from no driver, to the wanted one. `former` is the override to leave behind.
fn release(function: &Function, wanted: &Wanted, former: &str) -> Vec<Step> {
    let through = match wanted {
        Wanted::Driver(driver) => driver.as_str(),
        Wanted::Any | Wanted::None => "",
    };
    let mut steps = vec![set_override(function, through)];
    steps.extend(leave(function));
    if *wanted != Wanted::None {
        steps.push(probe(function.bdf));
    }
    if former != through {
        // An override matters only while a driver is looked for.
        steps.push(set_override(function, former));
    }
    steps
}

/// Programs that drive a function through VFIO.
pub(super) fn drivers_of(sysfs: &Sysfs, function: &Function, now: &Snapshot) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for node in function.vfio_nodes() {
        if let Some(by) = now.opener(&node, None) {
            refusals.push(Refusal::Driven { node, pid: by.pid, command: by.command.clone() });
        }
    }
    // A group opens once: that sees also what this user may not see in /proc.
    let group = function.group.as_ref().map(|group| group.node());
    if let (true, Some(node)) = (refusals.is_empty(), group) {
        let opened = OpenOptions::new().read(true).write(true).open(sysfs.path(&node));
        if let Err(error) = opened.map(drop)
            && error.kind() != io::ErrorKind::NotFound
        {
            refusals.push(Refusal::Undecided { node, reason: error.to_string() });
        }
    }
    refusals
}

#[cfg(test)]
#[path = "unbind_tests.rs"]
mod tests;
