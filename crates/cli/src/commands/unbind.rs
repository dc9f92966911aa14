//! `unbind`: SSDs back to the kernel's driver.

use std::fmt::Write;

use warpbell_vfio::pci::UnbindPlan;

use super::pci::{Record, judge, plans, print, resolve, tell};
use crate::args::{Global, UnbindArgs};
use crate::exit::Ending;
use crate::tree::Tree;

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.unbind/1";

/// Runs the command.
pub fn run(args: &UnbindArgs, global: &Global) -> Result<(), Ending> {
    let tree = Tree::at(&args.root)?;
    let sysfs = tree.sysfs();
    let mut planned = Vec::new();
    let mut records = Vec::new();
    for bdf in resolve(sysfs, &args.devices)? {
        let plan = UnbindPlan::new(sysfs, bdf, args.restore)?;
        let record = Record::new(&plan.function, plan.already);
        records.push(record.planned(plan.steps(), &plan.refusals, &[], &plan.missing));
        planned.push(plan);
    }
    if args.dry_run {
        print(SCHEMA, true, &records, global, plans("unbind", &records))?;
        return judge(&records);
    }
    judge(&records)?;
    let mut text = String::new();
    for (plan, record) in planned.into_iter().zip(&mut records) {
        let mut shown = Vec::new();
        let now = plan.carry_out(sysfs, sysfs, &mut |step| tell(step, global, &mut shown))?;
        record.done(&now, shown);
        let word = if record.already { "is already" } else { "is" };
        let driver = now.driver.as_deref().unwrap_or("no driver");
        let _ = writeln!(text, "{}: {word} with {driver}", record.title());
    }
    print(SCHEMA, false, &records, global, text)
}
