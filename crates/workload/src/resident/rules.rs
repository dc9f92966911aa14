//! What the GPU-resident controller found wrong with its clients, in the words of the soft controller's checker.

use warpbell_kernels::abi::{self, ResidentQueue};
use warpbell_softctl::Rule;

/// The soft controller's rule for each `RULE_*`.
pub const RULES: [Rule; abi::RULES as usize] = [
    Rule::DoorbellRange,
    Rule::DoorbellOverrun,
    Rule::CqHeadBeyondTail,
    Rule::StaleEntry,
    Rule::CidInFlight,
    Rule::CidReserved,
    Rule::UnsupportedOpcode,
    Rule::FusedOperation,
    Rule::NamespaceIdentifier,
    Rule::ReservedField,
    Rule::Metadata,
    Rule::LbaRange,
    Rule::TransferSize,
    Rule::DataPointer,
    Rule::SglDescriptor,
    Rule::SglLength,
    Rule::PrpMisaligned,
    Rule::PrpOffset,
    Rule::PrpUnneeded,
    Rule::ForeignAddress,
];

/// How often each rule was broken on a queue.
pub fn broken(queue: &ResidentQueue) -> impl Iterator<Item = (Rule, u32)> + '_ {
    RULES.into_iter().zip(queue.broken).filter(|(_, count)| *count > 0)
}

/// The first broken rule of a queue, as the soft controller would log it.
pub fn first(queue: &ResidentQueue) -> Option<String> {
    let rule = *RULES.get(queue.first_rule.checked_sub(1)? as usize)?;
    let ResidentQueue { qid, first_cid, first_fetched, first_value, .. } = queue;
    let about = match rule {
        Rule::DoorbellRange | Rule::DoorbellOverrun | Rule::CqHeadBeyondTail => {
            format!("queue {qid}, after {first_fetched} entries: doorbell value {first_value}")
        }
        _ => format!("queue {qid}, entry {first_fetched}, command {first_cid:#06x}: {first_value:#x}"),
    };
    Some(format!("{rule}: {about} ({})", rule.section()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_the_names_of_the_soft_controller() {
        // As kernels number them; C names are the Rust ones in capitals.
        let constants = abi::BENCH_CONSTANTS.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix("WARPBELL_RULE_")?.replace('_', "").to_lowercase(), *value))
        });
        let mut seen = 0;
        for (name, value) in constants {
            assert_eq!(RULES[value as usize].name().to_lowercase(), name);
            seen += 1;
        }
        assert_eq!(seen, RULES.len());
    }

    #[test]
    fn the_first_violation_is_told_in_words() {
        let mut queue = ResidentQueue { qid: 3, first_fetched: 70, first_value: 9, ..ResidentQueue::new() };
        assert_eq!(first(&queue), None);
        queue.first_rule = abi::RULE_DOORBELL_RANGE + 1;
        queue.broken[abi::RULE_DOORBELL_RANGE as usize] = 2;
        let text = first(&queue).unwrap();
        assert!(
            text.starts_with("DoorbellRange: queue 3, after 70 entries: doorbell value 9 (Base 2.0"),
            "{text}"
        );
        queue.first_rule = abi::RULE_LBA_RANGE + 1;
        queue.first_cid = 0x21;
        assert!(first(&queue).unwrap().starts_with("LbaRange: queue 3, entry 70, command 0x0021: 0x9"));
        assert_eq!(broken(&queue).collect::<Vec<_>>(), [(Rule::DoorbellRange, 2)]);
    }
}
