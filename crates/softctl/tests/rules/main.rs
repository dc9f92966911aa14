//! Each rule of the checker, broken on purpose: what is logged names the object, the value and the limit, and the
//! controller does what `docs/faults.md` says.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

#[path = "../client/mod.rs"]
mod client;

mod commands;
mod doorbells;
mod features;
mod identifiers;
mod keep_alive;
mod memory;
mod page;
mod prp;
mod queues;
mod registers;
mod remote;
mod sgl;

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

use client::{Client, Pair};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{Rule, Severity, SoftConfig, SoftDevice};

/// One way to break a rule.
struct Case {
    name: &'static str,
    rule: Rule,
    /// What the log must say.
    says: &'static [&'static str],
    /// Breaks the rule; returns the device whose log tells, and what must live until it did.
    breaks: fn() -> Scene,
}

type Scene = (Arc<SoftDevice>, Box<dyn Any>);

/// The end of a case.
fn keep(client: Client, more: impl Any) -> Scene {
    (client.device.clone(), Box::new((client, more)))
}

/// Declares the cases of one subject: a test each, and a list of all.
macro_rules! cases {
    ($($name:ident: $Rule:ident, [$($text:literal),* $(,)?], $breaks:expr;)*) => {
        pub const CASES: &[crate::Case] = &[$(crate::Case {
            name: stringify!($name),
            rule: warpbell_softctl::Rule::$Rule,
            says: &[$($text),*],
            breaks: $breaks,
        }),*];

        $(#[test]
        fn $name() {
            crate::check(CASES, stringify!($name));
        })*
    };
}
pub(crate) use cases;

/// All cases of all subjects.
fn all() -> impl Iterator<Item = &'static Case> {
    [
        commands::CASES,
        doorbells::CASES,
        features::CASES,
        identifiers::CASES,
        keep_alive::CASES,
        memory::CASES,
        prp::CASES,
        queues::CASES,
        registers::CASES,
        remote::CASES,
        sgl::CASES,
    ]
    .into_iter()
    .flatten()
}

fn check(cases: &[Case], name: &str) {
    let case = cases.iter().find(|case| case.name == name).unwrap();
    let (device, _kept) = (case.breaks)();
    let (violations, refusals) = (device.violations(), device.refusals());
    let log = match case.rule.severity() {
        Severity::Violation => violations,
        Severity::Refusal => {
            assert!(violations.is_empty(), "{name}: a refusal is no violation: {violations:#?}");
            refusals
        }
    };
    assert!(!log.is_empty(), "{name}: nothing was logged");
    for entry in &log {
        assert_eq!(entry.rule, case.rule, "{name}: {log:#?}");
    }
    for text in case.says {
        assert!(
            log.iter().any(|entry| entry.detail.contains(text)),
            "{name}: nothing says {text:?}: {log:#?}"
        );
    }
}

/// A stepped controller with a namespace of 2048 blocks and a queue pair of 8 entries.
fn start() -> (Client, Pair) {
    with(client::memory(1 << 20, 512).poison_fetched(true))
}

fn with(config: SoftConfig) -> (Client, Pair) {
    let mut client = Client::stepped(config);
    let pair = client.pair(1, 8);
    (client, pair)
}

/// Runs one I/O command, which must end with `status`.
fn io(sqe: impl FnOnce(&Client) -> Sqe, status: Status) -> Scene {
    let (mut client, mut pair) = start();
    io_on(&mut client, &mut pair, sqe, status);
    keep(client, pair)
}

fn io_on(client: &mut Client, pair: &mut Pair, sqe: impl FnOnce(&Client) -> Sqe, status: Status) {
    let sqe = sqe(client).with_cid(77);
    let got = pair.run(&client.device, &sqe).status();
    assert!(got.same_code(status), "{got}, expected {status}");
}

/// Runs one admin command, which must end with `status`.
fn admin(sqe: impl FnOnce(&Client) -> Sqe, status: Status) -> Scene {
    let (mut client, pair) = start();
    admin_on(&mut client, sqe, status);
    keep(client, pair)
}

fn admin_on(client: &mut Client, sqe: impl FnOnce(&Client) -> Sqe, status: Status) {
    let sqe = sqe(client);
    let got = client.admin(sqe).status();
    assert!(got.same_code(status), "{got}, expected {status}");
}

/// The address of the client's buffer.
fn data(client: &Client) -> u64 {
    client.buffer.iova().0
}

#[test]
fn every_rule_has_a_case() {
    let broken: BTreeSet<Rule> = all().map(|case| case.rule).collect();
    let missing: Vec<&Rule> = Rule::ALL.iter().filter(|rule| !broken.contains(rule)).collect();
    assert!(missing.is_empty(), "no case breaks {missing:?}");
    assert!(all().all(|case| !case.says.is_empty()), "each case says what the log must tell");
}
