//! `bind`: SSDs to vfio-pci.

use std::fmt::Write;

use warpbell::Bdf;
use warpbell_vfio::pci::{BindOptions, BindPlan, PciError, Sysfs, UnbindPlan, User};

use super::pci::{Record, judge, plans, print, resolve, tell};
use crate::args::{BindArgs, Global};
use crate::exit::Ending;
use crate::tree::Tree;

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.bind/1";

/// Runs the command.
pub fn run(args: &BindArgs, global: &Global) -> Result<(), Ending> {
    let tree = Tree::at(&args.root)?;
    let sysfs = tree.sysfs();
    let options = options(args, sysfs)?;
    let all = resolve(sysfs, &args.devices)?;
    let mut planned = Vec::new();
    let mut records = Vec::new();
    for bdf in &all {
        let plan = BindPlan::new(sysfs, *bdf, &all, &options)?;
        let record = Record::new(&plan.function, plan.already);
        records.push(record.planned(plan.steps(), &plan.refusals, &plan.lifted, &plan.missing));
        planned.push(plan);
    }
    if args.dry_run {
        let mut text = plans("bind", &records);
        if options.user.is_some() {
            text += "# and chown the function's node under /dev/vfio/devices, where the kernel makes one\n";
        }
        print(SCHEMA, true, &records, global, text)?;
        return judge(&records);
    }
    judge(&records)?;
    let mut text = String::new();
    let mut bound = Vec::new();
    for (plan, record) in planned.into_iter().zip(&mut records) {
        let mut shown = Vec::new();
        let done = plan.carry_out(sysfs, sysfs, &mut |step| tell(step, global, &mut shown));
        let now =
            done.map_err(|error| Ending::failed(format!("{error}{}", release(sysfs, &bound, global))))?;
        if !record.already {
            bound.push(now.bdf);
        }
        record.done(&now, shown);
        text += &outcome(record, &now.vfio_nodes(), &args.driver);
    }
    if let Some(user) = &options.user {
        let _ = writeln!(text, "{}", memlock(user));
    }
    print(SCHEMA, false, &records, global, text)
}

fn outcome(record: &Record, nodes: &[String], driver: &str) -> String {
    let word = if record.already { "is already" } else { "is" };
    format!("{}: {word} with {driver}, opens as {}\n", record.title(), nodes.join(" or "))
}

/// After one of several could not be bound: releases those that were bound before it, and says so.
fn release(sysfs: &Sysfs, bound: &[Bdf], global: &Global) -> String {
    let outcome = |bdf: &Bdf| {
        let plan = UnbindPlan::new(sysfs, *bdf, true)?;
        if let Some(missing) = plan.missing.first() {
            return Ok(format!("; {bdf} stays bound: {missing}"));
        }
        plan.carry_out(sysfs, sysfs, &mut |step| tell(step, global, &mut Vec::new()))?;
        Ok(format!("; {bdf} was released too"))
    };
    let outcome = |bdf| outcome(bdf).unwrap_or_else(|error: PciError| format!("; and then {error}"));
    bound.iter().rev().map(outcome).collect()
}

fn options(args: &BindArgs, sysfs: &Sysfs) -> Result<BindOptions, Ending> {
    let user = |name: &String| {
        let none = || Ending::usage(format!("--user {name}: no such user in /etc/passwd; give a user ID"));
        User::find(sysfs, name).ok_or_else(none)
    };
    let program =
        || std::env::current_exe().map_err(|error| Ending::failed(format!("--persist: own path: {error}")));
    Ok(BindOptions::new()
        .driver(args.driver.clone())
        .user(args.user.as_ref().map(user).transpose()?)
        .persist(args.persist.then(program).transpose()?)
        .allow_signed(args.allow_signed.clone()))
}

/// A device reaches only memory that is locked, and a user may lock little unless told otherwise.
fn memlock(user: &User) -> String {
    format!(
        "user {0} may lock only as much memory as `ulimit -l` says, in KiB, and everything that an SSD reaches is locked: \
         where that is too little, put `{0} - memlock unlimited` into /etc/security/limits.conf and log in again",
        user.name
    )
}
