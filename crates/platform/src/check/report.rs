//! Everything together, and the verdict.

use std::fmt::Write;

use serde::Serialize;

use super::path::lendable;
use super::{Choice, Route, devices, path, platform};
use crate::finding::{Finding, Layer, Status};
use crate::machine::{Machine, Ssd};
use crate::topology::Relation;

/// The line about data that was moved.
const SELF_TEST: &str = "data through a way";
/// What the subjects of all such lines begin with.
const TESTS: [&str; 5] =
    ["data through ", "doorbells ", "rings in ", "rings and data in ", "order under load"];
const AGAIN: &str = "warpbell check --self-test  # once more; if it fails again, report it with what warpbell check --capture DIR copies";
const ANOTHER_SLOT: &str =
    "put the SSD into a slot behind another port, one with ACS; warpbell topo shows the tree";

/// How it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether nothing is missing for a GPU and an SSD to work together, by whichever way.
    pub complete: bool,
    /// In one sentence.
    pub words: String,
    /// What does work here, with the command that shows it; nothing after data arrived wrong.
    pub works: Vec<String>,
}

/// A look at a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Line by line.
    pub findings: Vec<Finding>,
    /// The ways between each GPU and the SSD that is best for it.
    pub paths: Vec<Choice>,
    /// What it comes to.
    pub verdict: Verdict,
}

impl Report {
    /// Of a machine.
    pub fn of(machine: &Machine) -> Report {
        let mut findings = platform::findings(machine);
        findings.extend(devices::findings(machine));
        let paths = path::choices(machine);
        let mut on_paths = path_findings(machine, &paths, remedy(&findings));
        findings.append(&mut on_paths);
        let verdict = verdict(machine, &findings, &paths);
        Report { findings, paths, verdict }
    }

    /// Puts what tests of data through ways gave in place of the line that none was made. The verdict is formed anew: a
    /// machine on which data arrives wrong lacks something, whatever its files say.
    pub fn tested(&mut self, machine: &Machine, tests: Vec<Finding>) {
        self.findings.retain(|finding| !is_test(finding));
        let again = |test: Finding| if test.status == Status::Missing { test.fix(AGAIN) } else { test };
        self.findings.extend(tests.into_iter().map(again));
        self.verdict = verdict(machine, &self.findings, &self.paths);
    }

    /// Adds what opened devices said. Of other SSDs it is still not known.
    pub fn asked(&mut self, machine: &Machine, said: &[Finding]) {
        let others = machine.ssds.len() > 1;
        let dma_buf = said.iter().any(|finding| finding.subject.ends_with(" dma-buf"));
        self.findings.retain(|finding| match finding.subject.as_str() {
            devices::REGISTERS => others || !said.iter().any(|one| one.subject.ends_with(" queues")),
            devices::DMA_BUF => !dma_buf,
            _ => true,
        });
        self.findings.extend_from_slice(said);
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for layer in [Layer::Platform, Layer::Devices, Layer::Path] {
            let _ = writeln!(text, "{layer}");
            self.findings.iter().filter(|finding| finding.layer == layer).for_each(|finding| {
                let _ = write!(text, "{finding}");
            });
            text.push('\n');
        }
        self.paths.iter().for_each(|choice| text += &ways(choice));
        let _ = writeln!(text, "Result: {}", self.verdict.words);
        text += if self.verdict.works.is_empty() { "" } else { "What works here:\n" };
        text.extend(self.verdict.works.iter().map(|line| format!("  {line}\n")));
        text
    }
}

/// Whether it is about data that was moved, or was not.
fn is_test(finding: &Finding) -> bool {
    TESTS.iter().any(|start| finding.subject.starts_with(start))
}

fn ways(choice: &Choice) -> String {
    let pair = &choice.pair;
    let mut text =
        format!("GPU {} with SSD {} ({}, {})\n", pair.gpu, pair.ssd, pair.relation.word(), pair.relation);
    for (what, routes) in
        [("GPU memory, for the SSD", &choice.memory), ("doorbells, for kernels", &choice.doorbells)]
    {
        let _ = writeln!(text, "  {what}:");
        let mut taken = false;
        for (number, Route { name, open, reason }) in routes.iter().enumerate() {
            let word = match (open, taken) {
                (false, _) => "no",
                (true, false) => "TAKEN",
                (true, true) => "not needed",
            };
            taken |= open;
            let _ = writeln!(text, "    {} {name}: {word}: {reason}", number + 1);
        }
    }
    text + "\n"
}

/// What mends the first thing that is missing: until then nothing else helps.
fn remedy(findings: &[Finding]) -> Option<String> {
    findings.iter().find(|finding| finding.status == Status::Missing)?.fix.clone()
}

fn path_findings(machine: &Machine, paths: &[Choice], remedy: Option<String>) -> Vec<Finding> {
    let unreported =
        |subject: &str, why: &str| Finding::new(Layer::Path, Status::NotLookedAt, subject, why, "");
    let ssd = usable_ssd(machine, remedy.as_deref());
    // Where no SSD is free, nothing else helps.
    let taken = machine.ssds.iter().all(|ssd| lendable(machine, ssd).is_err());
    let remedy = if taken { ssd.as_ref().and_then(|ssd| ssd.fix.clone()) } else { remedy };
    let mut all: Vec<Finding> = ssd.into_iter().collect();
    if paths.is_empty() {
        all.push(unreported("GPU and SSD", "it needs a GPU and an SSD"));
    }
    all.extend(paths.iter().map(|choice| way(choice, remedy.as_deref())));
    all.push(unreported(SELF_TEST, "nothing was moved; `warpbell check --self-test` moves some"));
    all
}

/// Whether there is an SSD for programs at all; nothing where there is no SSD, which is said elsewhere.
fn usable_ssd(machine: &Machine, remedy: Option<&str>) -> Option<Finding> {
    let subject = "SSD for programs";
    let finding =
        |status, found: String, means: &str| Finding::new(Layer::Path, status, subject, found, means);
    let bound = |ssd: &&Ssd| machine.node(ssd.bdf).is_some_and(|node| node.function.is_on_vfio());
    let (free, taken): (Vec<&Ssd>, Vec<&Ssd>) =
        machine.ssds.iter().partition(|ssd| lendable(machine, ssd).is_ok());
    let opened = |ssd: &&Ssd| ssd.usable.as_ref().is_none_or(Result::is_ok);
    if let Some(ssd) = free.iter().copied().filter(bound).find(opened) {
        let means = match ssd.usable {
            Some(_) => "this user's programs can drive it",
            None => "programs can drive it whose user may open its node; which those are was not captured",
        };
        return Some(finding(Status::Ok, format!("{}, with vfio-pci", ssd.bdf), means));
    }
    if let Some(ssd) = free.first() {
        let already = bound(ssd);
        let (found, user) =
            if already { ("cannot be opened by this user", " --user $USER") } else { ("not bound yet", "") };
        let one = finding(
            Status::Missing,
            format!("{} is free, and {found}", ssd.bdf),
            "no program drives an SSD now",
        );
        return Some(one.fix(format!("sudo warpbell bind {}{user}", ssd.bdf)));
    }
    let ssd = taken.first()?;
    let why = lendable(machine, ssd).err()?;
    let means = "no SSD can be handed to a program";
    let fix = match ssd.uses.is_empty() {
        true => remedy.unwrap_or(ANOTHER_SLOT).to_owned(),
        false => format!("put in a second SSD, or free this one: warpbell bind --dry-run {}", ssd.bdf),
    };
    Some(finding(Status::Missing, format!("{}: {why}", ssd.bdf), means).fix(fix))
}

/// What the ways of a pair come to.
fn way(choice: &Choice, remedy: Option<&str>) -> Finding {
    let subject = format!("GPU {}", choice.pair.gpu);
    let finding =
        |status, found: String, means: &str| Finding::new(Layer::Path, status, subject.clone(), found, means);
    let (Some(memory), Some(doorbells)) = (choice.memory_route(), choice.doorbell_route()) else {
        let why = choice.memory.last().map_or("", |route| route.reason.as_str());
        let found = format!("no way to SSD {}: {why}", choice.pair.ssd);
        return finding(Status::Missing, found, "kernels of this GPU reach no SSD")
            .fix(remedy.unwrap_or(ANOTHER_SLOT));
    };
    let found = format!("SSD {}: {}; doorbells: {}", choice.pair.ssd, memory.name, doorbells.name);
    if choice.is_direct() {
        let found = format!("whether data gets through; no file speaks against {found}");
        let means = "the SSD writes into GPU memory by itself, if the root complex lets it";
        let try_it = format!("sudo warpbell report gpu {}  # sets the ways up", choice.pair.ssd);
        return finding(Status::NotLookedAt, found, means).fix(try_it);
    }
    let fix = match choice.pair.relation {
        Relation::System => "put GPU and SSD under one root complex; warpbell topo shows slots".to_owned(),
        _ => format!("each way's reason is below; to try them: sudo warpbell report gpu {}", choice.pair.ssd),
    };
    finding(Status::Warn, found, "kernels drive the SSD, and data goes through host memory").fix(fix)
}

fn verdict(machine: &Machine, findings: &[Finding], paths: &[Choice]) -> Verdict {
    let missing: Vec<&str> = findings
        .iter()
        .filter(|finding| finding.status == Status::Missing)
        .map(|finding| finding.subject.as_str())
        .collect();
    let complete = missing.is_empty() && !paths.is_empty();
    if findings.iter().any(|finding| is_test(finding) && finding.status == Status::Missing) {
        let words = "data that was moved did not arrive as it was sent; nothing else here counts before that is mended.";
        return Verdict { complete, words: words.to_owned(), works: Vec::new() };
    }
    let words = match (complete, paths.iter().any(Choice::is_direct)) {
        (true, true) => "nothing found speaks against I/O by kernels, into GPU memory directly.".to_owned(),
        (true, false) => "nothing found speaks against I/O by kernels, through host memory.".to_owned(),
        _ if missing.is_empty() => "not enough was to be seen to say what is missing.".to_owned(),
        _ => format!("missing for I/O by kernels of a GPU: {}.", missing.join(", ")),
    };
    Verdict { complete, words, works: works(machine, findings) }
}

/// What can be had here. Of the first it is known only after the self-test whether it can.
fn works(machine: &Machine, findings: &[Finding]) -> Vec<String> {
    let tested = findings.iter().find(|finding| finding.subject == SELF_TEST).map(|finding| finding.status);
    let software = |run| {
        format!(
            "the same kernels on this machine's processors, and an SSD in software{run}: warpbell bench soft:size=1g"
        )
    };
    let mut works = match tested {
        Some(Status::Ok) => vec![software("")],
        Some(Status::NotLookedAt) | None => vec![software(" (not run here)")],
        Some(_) => Vec::new(),
    };
    let bound = machine.ssds.iter().filter(|ssd| {
        let on_vfio = machine.node(ssd.bdf).is_some_and(|node| node.function.is_on_vfio());
        on_vfio && lendable(machine, ssd).is_ok() && ssd.usable.as_ref().is_none_or(Result::is_ok)
    });
    works.extend(bound.map(|ssd| {
        format!("kernels on this machine's processors, and the SSD: warpbell bench {} --rw randread", ssd.bdf)
    }));
    if !machine.gpus.is_empty() && machine.nvidia.as_ref().is_some_and(|nvidia| nvidia.is_at_least(&[580])) {
        works.push("kernels on the GPU, and an SSD in software (not run here): warpbell bench soft:size=1g --target cuda:0".to_owned());
    }
    works
}
