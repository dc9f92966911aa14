//! Links, in GB/s of one direction, after line encoding and before the overhead of packets.

use crate::answer::Origin;
use crate::error::Error;
use crate::model::Values;
use crate::param::Kind;

/// Name and speed.
const LINKS: [(&str, f64); 6] = [
    ("gen3-x16", 15.75),
    ("gen4-x4", 7.88),
    ("gen4-x16", 31.51),
    ("gen5-x4", 15.75),
    ("gen5-x16", 63.02),
    ("gen6-x16", 121.0),
];

/// An input that names a link, or leaves the speed to another input.
pub(crate) const LINK: Kind =
    Kind::Choice(&["custom", "gen3-x16", "gen4-x4", "gen4-x16", "gen5-x4", "gen5-x16", "gen6-x16"]);

/// What is left of a link's speed after packet headers of 24 bytes on 256 of payload.
pub(crate) const PACKET_EFFICIENCY: f64 = 256.0 / 280.0;

/// The speed of `link`, or `custom`.
pub(crate) fn speed(link: &str, custom: f64) -> f64 {
    LINKS.iter().find(|(name, _)| *name == link).map_or(custom, |(_, speed)| *speed)
}

/// The input that has the speed of a custom link.
pub(crate) const CUSTOM: &str = "link_gb_per_s";

/// Refuses a speed that was asked for and would not be used, because the link is of a kind with a speed of its own.
pub(crate) fn refuse_unused(values: &Values, from: &Origin) -> Result<(), Error> {
    let kind = values.get("link").and_then(|link| link.as_str());
    match (kind, from) {
        (None | Some("custom"), _) | (_, Origin::Default | Origin::Preset(_)) => Ok(()),
        (Some(kind), Origin::Given | Origin::Calibration) => {
            let reason =
                format!("the link is {kind}, which has its own speed; with link custom this one counts");
            Err(Error::value(CUSTOM, crate::number::value(&values[CUSTOM]), reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_has_a_speed() {
        let Kind::Choice(words) = LINK else { panic!("a choice") };
        assert_eq!(words.len(), LINKS.len() + 1);
        for word in &words[1..] {
            assert!(speed(word, -1.0) > 0.0, "{word}");
        }
        assert_eq!(speed("custom", 3.0), 3.0);
    }
}
