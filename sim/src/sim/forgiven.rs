//! What only looks like a client's mistake. A completion that is posted twice is nobody's, and changes nothing, unless
//! its identifier is in use again by then: nothing on the wire tells it from the new command's own. That one is
//! answered early then, and from then on, on that queue, one command more may be outstanding than the client knows.

use std::time::Duration;

use warpbell_softctl::{FaultKind, InjectedFault, Rule, Violation};

use super::outcome::Facts;
use crate::breach::Breach;
use crate::findings::Finding;

/// Breaches, violations and counters of a run that nothing forgives.
pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for (when, breach) in &facts.breaches {
        let follows = is_mistaken(facts, breach.qid() as u16, *when) && is_provoked(breach);
        if !follows && !is_early_answer(facts, *when, *when, breach) {
            found.push(Finding::Breach(breach.clone()));
        }
    }
    let violations = facts.violations.iter().filter(|violation| !is_forgiven(facts, violation));
    found.extend(violations.cloned().map(Finding::Violation));
    for (qid, spurious, sqhd_mismatch) in &facts.counts {
        let of = |kind| facts.faults.iter().filter(|fault| fault.queue == *qid && fault.kind == kind).count();
        let (twice, torn) = (of(FaultKind::Duplicate), of(FaultKind::Torn));
        if *spurious > (twice + torn) as u64 {
            found.push(Finding::Spurious(*spurious));
        }
        if *sqhd_mismatch != 0 && torn == 0 && !is_mistaken(facts, *qid, Duration::MAX) {
            found.push(Finding::SqHead(*sqhd_mismatch));
        }
    }
    found
}

/// Whether this command got the second completion of another that had its identifier before it, on the queue that it
/// had `since` then or longer.
pub(super) fn is_early_answer(facts: &Facts, since: Duration, when: Duration, breach: &Breach) -> bool {
    let Breach::Early { qid, cid } = breach else { return false };
    facts.faults.iter().any(|fault| {
        let same = u32::from(fault.queue) == *qid && u32::from(fault.cid) == *cid;
        let life = facts.since(fault.queue, since)..=when;
        fault.kind == FaultKind::Duplicate && same && life.contains(&fault.at)
    })
}

/// Whether by then a second completion had answered a command of a queue that it is not for. A reset, or another queue
/// of that identifier, ends such a mistake.
pub(super) fn is_mistaken(facts: &Facts, qid: u16, by: Duration) -> bool {
    let life = if by == Duration::MAX { Duration::ZERO..=by } else { facts.since(qid, by)..=by };
    let is_it = |(when, breach): &(Duration, Breach)| {
        breach.qid() == u32::from(qid) && life.contains(when) && is_early_answer(facts, *when, *when, breach)
    };
    // Told by the controller: the monitor, as any client, takes it for the later command's own.
    let unseen =
        |fault: &InjectedFault| fault.queue == qid && fault.ambiguous_at.is_some_and(|at| life.contains(&at));
    if facts.faults.iter().any(unseen) {
        return true;
    }
    // A rule that is off can lead to a million breaches.
    let duplicated = |fault: &InjectedFault| {
        fault.kind == FaultKind::Duplicate && fault.queue == qid && life.contains(&fault.at)
    };
    facts.faults.iter().any(duplicated) && facts.breaches.iter().any(is_it)
}

/// What a command that was answered early leads to: its identifier and its room are used while it is in flight.
fn is_provoked(breach: &Breach) -> bool {
    matches!(
        breach,
        Breach::Outstanding { .. }
            | Breach::DoorbellValue { .. }
            | Breach::CidTwice { .. }
            | Breach::Overwritten { .. }
    )
}

fn names(violation: &Violation, qid: u16) -> bool {
    let text = &violation.detail;
    [format!("queue {qid}:"), format!("queue {qid} ")].iter().any(|name| text.contains(name.as_str()))
}

fn is_forgiven(facts: &Facts, violation: &Violation) -> bool {
    let queues = || facts.breaches.iter().map(|(_, breach)| breach.qid() as u16);
    match violation.rule {
        // Whoever rings for a queue that was deleted under him does not know it yet.
        Rule::DoorbellRegister => {
            facts.retired.iter().any(|qid| violation.detail.contains(&format!("queue {qid} does not exist")))
        }
        // The same while the controller is reset under him.
        Rule::NotReady => {
            let rung = |qid: &u16| violation.detail.contains(&format!("doorbell of submission queue {qid} "));
            let told = |qid: &u16| violation.detail.contains(&format!("doorbell of completion queue {qid} "));
            facts.retired.iter().any(|qid| rung(qid) || told(qid))
        }
        Rule::DoorbellOverrun | Rule::DoorbellRepeated | Rule::CidInFlight | Rule::StaleEntry => {
            queues().any(|qid| names(violation, qid) && is_mistaken(facts, qid, Duration::MAX))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::faults::injected;

    fn duplicate(queue: u16, at: Duration) -> InjectedFault {
        injected(FaultKind::Duplicate, queue, at, None)
    }

    const EARLY: Breach = Breach::Early { qid: 2, cid: 7 };

    fn facts(breaches: &[(u64, Breach)], rule: Rule, detail: &str) -> Facts {
        let violation = Violation { rule, section: rule.section(), detail: detail.to_owned() };
        let timed = |(at, breach): &(u64, Breach)| (Duration::from_micros(*at), breach.clone());
        Facts {
            faults: vec![duplicate(2, Duration::from_micros(5))],
            breaches: breaches.iter().map(timed).collect(),
            violations: vec![violation],
            counts: vec![(2, 1, 0)],
            ..Facts::default()
        }
    }

    const OVERRUN: &str = "submission queue 2: tail 0 to 1 adds 1 entries, 0 are free";

    fn outstanding(qid: u32) -> Breach {
        Breach::Outstanding { qid, outstanding: 4, limit: 3 }
    }

    #[test]
    fn a_second_completion_that_is_nobodys_forgives_nothing_but_its_count() {
        let overrun = facts(&[(6, outstanding(2))], Rule::DoorbellOverrun, OVERRUN);
        assert_eq!(check(&overrun).len(), 2);
        let mut counted = Facts { violations: Vec::new(), ..facts(&[], Rule::DoorbellOverrun, OVERRUN) };
        assert_eq!(check(&counted), []);
        counted.counts = vec![(2, 2, 1)];
        assert_eq!(check(&counted), [Finding::Spurious(2), Finding::SqHead(1)], "more than was repeated");
        counted.counts = vec![(1, 1, 0)];
        assert_eq!(check(&counted), [Finding::Spurious(1)], "another queue");
    }

    #[test]
    fn a_command_answered_early_forgives_what_follows_on_its_queue() {
        let after = facts(&[(6, EARLY), (7, outstanding(2))], Rule::DoorbellOverrun, OVERRUN);
        assert_eq!(check(&after), []);
        let before = facts(&[(6, outstanding(2)), (7, EARLY)], Rule::DoorbellOverrun, OVERRUN);
        assert_eq!(check(&before), [Finding::Breach(outstanding(2))]);
        let another = facts(&[(6, EARLY), (7, outstanding(1))], Rule::DoorbellOverrun, OVERRUN);
        assert_eq!(check(&another), [Finding::Breach(outstanding(1))]);
        let other = Breach::Early { qid: 2, cid: 8 };
        assert_eq!(check(&facts(&[(6, other)], Rule::DoorbellOverrun, OVERRUN)).len(), 2, "not repeated");
        assert_eq!(check(&facts(&[(4, EARLY)], Rule::DoorbellOverrun, OVERRUN)).len(), 2, "before it");
    }

    #[test]
    fn so_does_a_completion_that_was_repeated_while_its_identifier_was_in_use_again() {
        let told = |at| {
            let mut facts = facts(&[(7, outstanding(2))], Rule::DoorbellOverrun, OVERRUN);
            facts.faults[0].ambiguous_at = at;
            check(&facts)
        };
        assert_eq!(told(Some(Duration::from_micros(6))), []);
        assert_eq!(told(Some(Duration::from_micros(8))), [Finding::Breach(outstanding(2))], "after it");
        assert_eq!(told(None).len(), 2);
    }

    #[test]
    fn nothing_forgives_what_no_completion_provokes() {
        let unfenced = Breach::Unfenced { qid: 2, warp: 0, lane: 0 };
        for rule in [Rule::ForeignAddress, Rule::ReservedField, Rule::CqHeadBeyondTail] {
            assert_eq!(check(&facts(&[(6, EARLY), (7, unfenced.clone())], rule, "queue 2: cid 3")).len(), 2);
        }
    }
}
