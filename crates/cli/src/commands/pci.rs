//! What `bind` and `unbind` have in common: names, reasons, and what they print.

use serde::Serialize;
use warpbell::Bdf;
use warpbell_vfio::pci::{Function, Missing, Name, PciError, Refusal, Step, Sysfs};

use crate::args::{Global, Output};
use crate::exit::{Ending, MISSING, REFUSED};
use crate::out;

/// The functions of these names, each once.
pub fn resolve(sysfs: &Sysfs, names: &[Name]) -> Result<Vec<Bdf>, Ending> {
    let mut all = Vec::new();
    for name in names {
        let bdf = name.resolve(sysfs)?;
        if !all.contains(&bdf) {
            all.push(bdf);
        }
    }
    Ok(all)
}

/// What is, or would be, done to one function.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    device: String,
    model: Option<String>,
    serial: Option<String>,
    /// Whether it was so already.
    pub already: bool,
    /// The driver that has it now.
    driver: Option<String>,
    /// The nodes that programs open.
    nodes: Vec<String>,
    steps: Vec<String>,
    refusals: Vec<String>,
    lifted: Vec<String>,
    missing: Vec<String>,
    /// Whether the user may lift all refusals by naming the device.
    #[serde(skip)]
    liftable: bool,
}

impl Record {
    /// A function as it is, with nothing planned.
    pub fn new(function: &Function, already: bool) -> Record {
        Record {
            device: function.bdf.to_string(),
            model: function.model().map(str::to_owned),
            serial: function.serial().map(str::to_owned),
            already,
            driver: function.driver.clone(),
            nodes: if function.is_on_vfio() { function.vfio_nodes() } else { Vec::new() },
            steps: Vec::new(),
            refusals: Vec::new(),
            lifted: Vec::new(),
            missing: Vec::new(),
            liftable: false,
        }
    }

    /// With its plan.
    pub fn planned(
        mut self,
        steps: impl Iterator<Item = impl ToString>,
        refusals: &[Refusal],
        lifted: &[Refusal],
        missing: &[Missing],
    ) -> Record {
        self.steps = steps.map(|step| step.to_string()).collect();
        self.liftable = !refusals.is_empty() && refusals.iter().all(Refusal::may_be_lifted);
        self.refusals = refusals.iter().map(ToString::to_string).collect();
        self.lifted = lifted.iter().map(ToString::to_string).collect();
        self.missing = missing.iter().map(ToString::to_string).collect();
        self
    }

    /// After it was done: who has it now, and what was done.
    pub fn done(&mut self, now: &Function, steps: Vec<String>) {
        self.driver.clone_from(&now.driver);
        self.nodes = if now.is_on_vfio() { now.vfio_nodes() } else { Vec::new() };
        self.steps = steps;
    }

    /// `0000:41:00.0 (Vendor B 3.8T, S64X)`.
    pub fn title(&self) -> String {
        let known: Vec<&str> =
            [&self.model, &self.serial].into_iter().flatten().map(String::as_str).collect();
        if known.is_empty() { self.device.clone() } else { format!("{} ({})", self.device, known.join(", ")) }
    }

    /// The plan as a shell would do it, with what stands against it as comments.
    fn text(&self, verb: &str) -> String {
        let mut text = format!("# {verb} {}\n", self.title());
        for (word, reasons) in
            [("refused", &self.refusals), ("allowed by name", &self.lifted), ("missing", &self.missing)]
        {
            text.extend(reasons.iter().map(|reason| format!("# {word}: {reason}\n")));
        }
        if self.already {
            text += &format!("# already with {}\n", self.driver.as_deref().unwrap_or("no driver"));
        }
        text.extend(self.steps.iter().map(|step| format!("{step}\n")));
        text
    }
}

/// Tells a step that is about to be done, and keeps it for the document.
pub fn tell(step: &Step, global: &Global, shown: &mut Vec<String>) {
    if global.output() == Output::Normal {
        // What is done counts, not whether somebody reads of it.
        let _ = out::text(&format!("{step}\n"));
    }
    shown.push(step.to_string());
}

/// Prints the plans of a dry run, or with what a run ended.
pub fn print(
    schema: &str,
    dry_run: bool,
    records: &[Record],
    global: &Global,
    text: String,
) -> Result<(), Ending> {
    match global.output() {
        Output::Normal => out::text(&text),
        Output::Json => out::json(&serde_json::json!({
            "schema": schema,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "dry_run": dry_run,
            "devices": records,
        })),
    }
}

/// The plans as text, for a dry run.
pub fn plans(verb: &str, records: &[Record]) -> String {
    records.iter().map(|record| record.text(verb)).collect()
}

/// Ends where anything stands against any of the plans: all are carried out, or none.
pub fn judge(records: &[Record]) -> Result<(), Ending> {
    let collected = |pick: fn(&Record) -> &Vec<String>| {
        let with = records.iter().filter(|record| !pick(record).is_empty());
        with.map(|record| format!("{}: {}", record.device, pick(record).join("; ")))
            .collect::<Vec<_>>()
            .join("; ")
    };
    let refusals = collected(|record| &record.refusals);
    if !refusals.is_empty() {
        let hint = records.iter().find(|record| record.liftable).map_or(String::new(), |record| {
            let name = record.serial.as_ref().unwrap_or(&record.device);
            format!("; if its contents may be lost: --allow-signed={name}")
        });
        return Err(Ending::new(REFUSED, format!("{refusals}{hint}")));
    }
    let missing = collected(|record| &record.missing);
    if missing.is_empty() { Ok(()) } else { Err(Ending::new(MISSING, missing)) }
}

impl From<PciError> for Ending {
    fn from(error: PciError) -> Ending {
        Ending::failed(error)
    }
}
