//! Handing functions to `vfio-pci`: the checks, the writes, and the way back when something fails.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::step::Apply;
use super::{
    Bdf, Binding, Function, Look, Missing, PciError, Refusal, Snapshot, Step, Sysfs, Use, VFIO_PCI, function,
    rule, uses,
};

/// Where the PCI bus takes the address of a function that it shall find a driver for.
pub(super) const PROBE: &str = "/sys/bus/pci/drivers_probe";
/// How long udev may take to let go of a disk that has just appeared.
const SETTLE: Duration = Duration::from_secs(3);
/// Between two polls.
const PAUSE: Duration = Duration::from_millis(20);

warpbell_base::options! {
    /// How functions are bound.
    #[derive(Clone, Debug)]
    pub struct BindOptions {
        /// The driver that takes them.
        pub driver: String,
        /// Who may open them afterwards, beside root.
        pub user: Option<User>,
        /// The `warpbell` program that a udev rule shall run to bind them again after a boot.
        pub persist: Option<PathBuf>,
        /// Addresses or serial numbers of functions whose partition table or file system does not matter.
        pub allow_signed: Vec<String>,
        /// How long nodes may take to appear.
        pub node_limit: Duration,
    }
}

impl Default for BindOptions {
    fn default() -> BindOptions {
        BindOptions {
            driver: VFIO_PCI.to_owned(),
            user: None,
            persist: None,
            allow_signed: Vec::new(),
            node_limit: Duration::from_secs(5),
        }
    }
}

impl BindOptions {
    /// Whether signatures on this function are allowed by name.
    fn allows_signed(&self, function: &Function) -> bool {
        let names_it = |name: &String| {
            let serial = name.strip_prefix("sn:").unwrap_or(name);
            function.serial() == Some(serial) || name.parse() == Ok(function.bdf)
        };
        self.allow_signed.iter().any(names_it)
    }
}

/// A user of this system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// As typed.
    pub name: String,
    /// User ID.
    pub uid: u32,
}

impl User {
    /// The user of this name in `/etc/passwd`, or with this number.
    pub fn find(sysfs: &Sysfs, name: &str) -> Option<User> {
        let passwd = sysfs.text("/etc/passwd").unwrap_or_default();
        let line =
            passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| fields[0] == name);
        let uid = line.and_then(|fields| fields.get(2)?.parse().ok()).or_else(|| name.parse().ok())?;
        Some(User { name: name.to_owned(), uid })
    }
}

/// What binding one function takes, and what stands against it.
#[derive(Debug)]
pub struct BindPlan {
    /// The function as it is.
    pub function: Function,
    /// Whether the driver owns it already.
    pub already: bool,
    /// Reasons of safety against it.
    pub refusals: Vec<Refusal>,
    /// Reasons that were lifted by name.
    pub lifted: Vec<Refusal>,
    /// What this machine lacks.
    pub missing: Vec<Missing>,
    /// Steps until the driver is asked to take it.
    hand_over: Vec<Step>,
    /// Steps after it has.
    then: Vec<Step>,
    options: BindOptions,
    /// Holds block devices so that nobody mounts them between the checks and the unbinding.
    claims: Vec<File>,
}

impl BindPlan {
    /// Plans to bind the function at `bdf`, together with `all`. Waits a moment where only udev stands against it.
    pub fn new(sysfs: &Sysfs, bdf: Bdf, all: &[Bdf], options: &BindOptions) -> Result<BindPlan, PciError> {
        let begin = Instant::now();
        loop {
            let plan = BindPlan::now(sysfs, bdf, all, options)?;
            let udev_only = !plan.refusals.is_empty() && plan.refusals.iter().all(is_udev);
            if !udev_only || begin.elapsed() > SETTLE {
                return Ok(plan);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn now(sysfs: &Sysfs, bdf: Bdf, all: &[Bdf], options: &BindOptions) -> Result<BindPlan, PciError> {
        let function = function(sysfs, bdf).ok_or(PciError::Absent { bdf })?;
        let already = function.driver.as_ref() == Some(&options.driver);
        let mut plan = BindPlan {
            already,
            refusals: Vec::new(),
            lifted: Vec::new(),
            missing: Vec::new(),
            hand_over: Vec::new(),
            then: Vec::new(),
            options: options.clone(),
            claims: Vec::new(),
            function,
        };
        plan.check(sysfs, all);
        if !already {
            plan.hand_over = hand_over(&plan.function, &options.driver);
        }
        plan.plan_rest();
        Ok(plan)
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.hand_over.iter().chain(&self.then)
    }

    fn check(&mut self, sysfs: &Sysfs, all: &[Bdf]) {
        let function = &self.function;
        if !function.is_nvme() {
            self.refusals.push(Refusal::NotNvme { class: function.class });
        }
        if self.already {
            return;
        }
        let now = Snapshot::take(sysfs);
        let (uses, claims) = uses(sysfs, function, &now, Look::Claim);
        self.claims = claims;
        let allowed = self.options.allows_signed(function);
        for reason in uses.into_iter().map(Refusal::InUse) {
            let list = if allowed && reason.may_be_lifted() { &mut self.lifted } else { &mut self.refusals };
            list.push(reason);
        }
        if function.is_on_vfio() {
            self.refusals.extend(super::unbind::drivers_of(sysfs, function, &now));
        }
        self.refusals.extend(group_mates(function, all));
        if !sysfs.exists(format!("/sys/bus/pci/drivers/{}", self.options.driver)) {
            self.missing.push(Missing::Driver { driver: self.options.driver.clone() });
        }
        let unsafe_mode = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
        if function.group.is_none() && sysfs.text(unsafe_mode).as_deref() != Some("Y") {
            self.missing.push(Missing::Group { remedy: iommu_remedy(sysfs) });
        }
    }

    /// The steps after the driver has taken the function, as far as they are known before.
    fn plan_rest(&mut self) {
        let function = &self.function;
        if let Some(user) = &self.options.user {
            let nodes = function.vfio_nodes().into_iter();
            self.then.extend(nodes.map(|path| Step::Give { path, uid: user.uid }));
        }
        let Some(program) = &self.options.persist else { return };
        let Some(serial) = function.serial().filter(|serial| rule::is_plain(serial)) else {
            self.missing.push(Missing::Serial { serial: function.serial().map(str::to_owned) });
            return;
        };
        let uid = self.options.user.as_ref().map(|user| user.uid);
        // Of a function that is bound already, nobody can read now whether it is signed.
        let signed = !self.lifted.is_empty() || self.already && self.options.allows_signed(function);
        let contents = rule::contents(function, serial, program, &self.options.driver, uid, signed);
        self.then.push(Step::Save { path: rule::path(serial), contents });
    }

    /// Does the steps, telling each to `report` before it is done. Where one fails, or the driver does not take the
    /// function, or programs cannot reach it, the function is released to the driver it had.
    pub fn carry_out(
        mut self,
        sysfs: &Sysfs,
        system: &impl Apply,
        report: &mut dyn FnMut(&Step),
    ) -> Result<Function, PciError> {
        let handed = self.hand_over(system, report).and_then(|()| self.await_nodes(sysfs));
        let done = handed.and_then(|bound| self.finish(sysfs, system, report, &bound).map(|()| bound));
        done.map_err(|cause| self.roll_back(sysfs, system, report, cause))
    }

    /// The steps after the driver has taken the function.
    fn finish(
        &mut self,
        sysfs: &Sysfs,
        system: &impl Apply,
        report: &mut dyn FnMut(&Step),
        bound: &Function,
    ) -> Result<(), PciError> {
        if let Some(user) = &self.options.user {
            // The character device of the function has a name only now.
            let give = bound.vfio_nodes().into_iter().map(|path| Step::Give { path, uid: user.uid });
            let new: Vec<Step> =
                give.filter(|step| !self.then.contains(step) && exists(sysfs, step)).collect();
            self.then.splice(0..0, new);
        }
        for step in self.then.iter().filter(|step| exists(sysfs, step)) {
            report(step);
            apply(system, bound.bdf, step)?;
        }
        Ok(())
    }

    fn hand_over(&mut self, system: &impl Apply, report: &mut dyn FnMut(&Step)) -> Result<(), PciError> {
        for step in &self.hand_over {
            if matches!(step, Step::Write { path, .. } if path == PROBE) {
                // The block devices are gone; nothing is left to hold.
                self.claims.clear();
            }
            report(step);
            apply(system, self.function.bdf, step)?;
        }
        Ok(())
    }

    /// Waits until the driver has the function and its nodes are there.
    fn await_nodes(&self, sysfs: &Sysfs) -> Result<Function, PciError> {
        let bdf = self.function.bdf;
        let begin = Instant::now();
        loop {
            let now = function(sysfs, bdf).ok_or(PciError::Absent { bdf })?;
            let taken = now.driver.as_ref() == Some(&self.options.driver);
            let nodes = now.vfio_nodes();
            let present = nodes.iter().filter(|node| sysfs.exists(node)).count();
            // A kernel without VFIO groups has the function's node only, the last of the list.
            if taken && present > 0 && nodes.last().is_some_and(|node| sysfs.exists(node)) {
                return Ok(now);
            }
            if begin.elapsed() > self.options.node_limit {
                let wanted = self.options.driver.clone();
                return Err(match taken {
                    true => PciError::NoNode {
                        bdf,
                        nodes: nodes.join(" or "),
                        seconds: self.options.node_limit.as_secs(),
                    },
                    false => PciError::NotTaken { bdf, wanted, found: now.driver },
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the function after `cause`.
    fn roll_back(
        &self,
        sysfs: &Sysfs,
        system: &impl Apply,
        report: &mut dyn FnMut(&Step),
        cause: PciError,
    ) -> PciError {
        let bdf = self.function.bdf;
        let cause = Box::new(cause);
        if self.already {
            return *cause;
        }
        let Some(now) = function(sysfs, bdf) else { return *cause };
        for step in way_back(&self.function, &now).iter().filter(|step| exists(sysfs, step)) {
            report(step);
            if let Err(second) = apply(system, bdf, step) {
                return PciError::NotRolledBack { cause, second: Box::new(second) };
            }
        }
        let driver = function(sysfs, bdf).and_then(|now| now.driver);
        match driver == self.function.driver {
            true => PciError::RolledBack { cause, driver },
            false => {
                let wanted = self.function.driver.clone().unwrap_or_else(|| "none".to_owned());
                let second = Box::new(PciError::NotTaken { bdf, wanted, found: driver });
                PciError::NotRolledBack { cause, second }
            }
        }
    }
}

/// Whether only udev, which looks at each new disk, has it open.
fn is_udev(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::InUse(Use::Open { command, .. }) if command.contains("udev"))
}

/// What switches an IOMMU on, by who made the processors.
fn iommu_remedy(sysfs: &Sysfs) -> &'static str {
    let text = sysfs.text("/proc/cpuinfo").unwrap_or_default();
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    match fields.find(|(key, _)| key.trim() == "vendor_id").map(|(_, make)| make.trim()) {
        Some("GenuineIntel") => {
            "switch VT-d on in the firmware, and boot with intel_iommu=on where the kernel leaves it off"
        }
        Some("AuthenticAMD" | "HygonGenuine") => {
            "switch AMD-Vi on in the firmware; the kernel uses it unless amd_iommu=off or iommu=off was given at boot"
        }
        _ => {
            "switch the IOMMU (VT-d, AMD-Vi, SMMU) on in the firmware; on an Intel machine, boot with intel_iommu=on \
             where the kernel leaves it off"
        }
    }
}

/// Mates that VFIO does not lend out as they are, and that are not bound together with the function.
fn group_mates(function: &Function, all: &[Bdf]) -> Vec<Refusal> {
    let Some(group) = &function.group else { return Vec::new() };
    let blocking = group.mates.iter().filter(|mate| !mate.is_harmless() && !all.contains(&mate.bdf));
    blocking.map(|mate| Refusal::GroupMate { group: group.number, mate: mate.clone() }).collect()
}

fn hand_over(function: &Function, driver: &str) -> Vec<Step> {
    let bdf = function.bdf;
    let mut steps = Vec::new();
    if !function.is_on_vfio() {
        steps.push(Step::Save {
            path: Binding::path(bdf),
            contents: Binding::of(function, driver).contents(),
        });
    }
    steps.push(set_override(function, driver));
    steps.extend(leave(function));
    steps.push(probe(bdf));
    steps
}

/// The steps that make a function that is `now` so again what it was `before`.
fn way_back(before: &Function, now: &Function) -> Vec<Step> {
    let mut steps = Vec::new();
    let moved = now.driver != before.driver;
    if moved {
        steps.extend(leave(now));
    }
    if now.driver_override != before.driver_override {
        steps.push(set_override(before, before.driver_override.as_deref().unwrap_or("")));
    }
    if moved && before.driver.is_some() {
        steps.push(probe(before.bdf));
    }
    if !before.is_on_vfio() {
        steps.push(Step::Remove { path: Binding::path(before.bdf) });
    }
    steps
}

/// Sets the only driver that may take the function; an empty one leaves the choice to the kernel.
pub(super) fn set_override(function: &Function, driver: &str) -> Step {
    Step::Write { path: format!("{}/driver_override", function.folder()), text: driver.to_owned() }
}

/// Takes the function from its driver, if it has one.
pub(super) fn leave(function: &Function) -> Option<Step> {
    let driver = function.driver.as_ref()?;
    Some(Step::Write {
        path: format!("/sys/bus/pci/drivers/{driver}/unbind"),
        text: function.bdf.to_string(),
    })
}

/// Lets the kernel find a driver for the function.
pub(super) fn probe(bdf: Bdf) -> Step {
    Step::Write { path: PROBE.to_owned(), text: bdf.to_string() }
}

/// Whether what a step changes is there: nodes and notes may be absent, files of sysfs are not.
pub(super) fn exists(sysfs: &Sysfs, step: &Step) -> bool {
    match step {
        Step::Give { path, .. } | Step::Remove { path } => sysfs.exists(path),
        Step::Write { .. } | Step::Save { .. } => true,
    }
}

pub(super) fn apply(system: &impl Apply, bdf: Bdf, step: &Step) -> Result<(), PciError> {
    system.apply(step).map_err(|source| PciError::Step { bdf, step: step.to_string(), source })
}

#[cfg(test)]
#[path = "bind_tests.rs"]
mod tests;
