//! What only looks like a client's mistake: completions that no controller may write make their client go wrong, on
//! their own queue, from then on, and only in what it counts.

use std::time::Duration;

use warpbell_softctl::{FaultKind, Rule, Violation};

use super::outcome::Facts;
use super::reasons::breaks_rings;
use crate::breach::Breach;
use crate::findings::Finding;

/// Breaches, violations and counters of a run that nothing forgives.
pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for (when, breach) in &facts.breaches {
        let hit = is_hit(facts, FaultKind::Duplicate, breach.qid() as u16, *when);
        if !(hit && is_provoked(breach)) {
            found.push(Finding::Breach(breach.clone()));
        }
    }
    let violations = facts.violations.iter().filter(|violation| !is_forgiven(facts, violation));
    found.extend(violations.cloned().map(Finding::Violation));
    for (qid, spurious, sqhd_mismatch) in &facts.counts {
        let broken = facts.faults.iter().any(|fault| fault.queue == *qid && breaks_rings(fault.kind));
        if *spurious != 0 && !broken {
            found.push(Finding::Spurious(*spurious));
        }
        if *sqhd_mismatch != 0 && !broken {
            found.push(Finding::SqHead(*sqhd_mismatch));
        }
    }
    found
}

fn is_hit(facts: &Facts, kind: FaultKind, qid: u16, by: Duration) -> bool {
    facts.faults.iter().any(|fault| fault.kind == kind && fault.queue == qid && fault.at <= by)
}

/// A second completion of a command counts as room that is not there, and may free the identifier of the next.
fn is_provoked(breach: &Breach) -> bool {
    matches!(
        breach,
        Breach::Outstanding { .. }
            | Breach::HeadBeyondTail { .. }
            | Breach::DoorbellValue { .. }
            | Breach::CidTwice { .. }
            | Breach::Overwritten { .. }
            // Both completions in one look: two lanes answer the same word.
            | Breach::NotPending { .. }
    )
}

fn names(violation: &Violation, qid: u16) -> bool {
    let text = &violation.detail;
    [format!("queue {qid}:"), format!("queue {qid} ")].iter().any(|name| text.contains(name.as_str()))
}

/// Whether a second completion made a client ring for entries for which there was no room. From then on the controller
/// fetches others than were announced: entries that are being overwritten, or were fetched before.
pub(super) fn is_overrun(facts: &Facts, qid: u16, by: Duration) -> bool {
    let seen = facts.breaches.iter().any(|(when, breach)| {
        breach.qid() == u32::from(qid)
            && is_provoked(breach)
            && is_hit(facts, FaultKind::Duplicate, qid, *when)
    });
    let logged = facts.violations.iter().any(|violation| {
        matches!(violation.rule, Rule::DoorbellOverrun | Rule::DoorbellRepeated | Rule::CqHeadBeyondTail)
            && names(violation, qid)
    });
    // Through memory a whole lap too much looks like nothing at all.
    (seen || logged || facts.shadowed) && is_hit(facts, FaultKind::Duplicate, qid, by)
}

fn is_forgiven(facts: &Facts, violation: &Violation) -> bool {
    let duplicates = || facts.faults.iter().filter(|fault| fault.kind == FaultKind::Duplicate);
    let duplicated = || duplicates().any(|fault| names(violation, fault.queue));
    let overrun = |qid| names(violation, qid) && is_overrun(facts, qid, Duration::MAX);
    match violation.rule {
        // Whoever rings for a queue that was deleted under him does not know it yet.
        Rule::DoorbellRegister => {
            facts.retired.iter().any(|qid| violation.detail.contains(&format!("queue {qid} does not exist")))
        }
        Rule::CqHeadBeyondTail | Rule::DoorbellOverrun | Rule::DoorbellRepeated | Rule::CidInFlight => {
            duplicated()
        }
        Rule::StaleEntry | Rule::SglLength => duplicates().any(|fault| overrun(fault.queue)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use warpbell_softctl::InjectedFault;

    use super::*;
    use crate::sim::faults::injected;

    fn duplicate(queue: u16, at: Duration) -> InjectedFault {
        injected(FaultKind::Duplicate, queue, at, None)
    }

    fn facts(breach: Breach, rule: Rule, detail: &str) -> Facts {
        let violation = Violation { rule, section: rule.section(), detail: detail.to_owned() };
        Facts {
            faults: vec![duplicate(2, Duration::from_micros(5))],
            breaches: vec![(Duration::from_micros(6), breach)],
            violations: vec![violation],
            counts: vec![(2, 1, 0)],
            ..Facts::default()
        }
    }

    #[test]
    fn a_duplicate_forgives_what_it_provokes_on_its_queue_and_later() {
        let beyond = |qid| Breach::HeadBeyondTail { qid, head: 2, tail: 1 };
        let detail = "completion queue 2: head 0 to 2, but 1 entries were posted";
        let mut facts = facts(beyond(2), Rule::CqHeadBeyondTail, detail);
        assert_eq!(check(&facts), []);
        facts.breaches[0].0 = Duration::from_micros(4);
        assert_eq!(check(&facts), [Finding::Breach(beyond(2))], "before it");
        facts.breaches[0] = (Duration::from_micros(6), beyond(1));
        facts.counts[0].0 = 1;
        facts.violations[0].detail = "completion queue 1: head 0 to 2".to_owned();
        assert_eq!(check(&facts).len(), 3, "another queue");
    }

    #[test]
    fn nothing_forgives_what_no_completion_provokes() {
        let unfenced = Breach::Unfenced { qid: 2, warp: 0, lane: 0 };
        for rule in [Rule::ForeignAddress, Rule::ReservedField, Rule::StaleEntry] {
            assert_eq!(check(&facts(unfenced.clone(), rule, "queue 2: cid 0x0003")).len(), 2);
        }
    }

    #[test]
    fn a_stale_entry_is_forgiven_only_on_a_queue_that_was_overrun() {
        let outstanding = |qid| Breach::Outstanding { qid, outstanding: 4, limit: 3 };
        let stale = "queue 2 command 0xffff opcode FFh: fetch of an entry that was not written";
        assert_eq!(check(&facts(outstanding(2), Rule::StaleEntry, stale)), []);
        assert_eq!(check(&facts(outstanding(1), Rule::StaleEntry, stale)).len(), 2);
        let foreign = facts(outstanding(2), Rule::ForeignAddress, stale);
        assert_eq!(check(&foreign).len(), 1);
    }
}
