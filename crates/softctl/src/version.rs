//! The version that a soft controller claims (VS).

use warpbell_nvme::register::Vs;

use crate::config::SoftConfigError;

/// What a controller does, whatever it claims.
pub(crate) const VERSION: Vs = Vs::from_parts(2, 0, 0);

/// What it may claim.
const CLAIMS: [Vs; 6] = [
    Vs::from_parts(1, 0, 0),
    Vs::from_parts(1, 1, 0),
    Vs::from_parts(1, 2, 0),
    Vs::from_parts(1, 3, 0),
    Vs::from_parts(1, 4, 0),
    VERSION,
];
const LIMIT: &str = "must be 1.0, 1.1, 1.2, 1.3, 1.4 or 2.0";

pub(crate) fn parse(key: &str, value: &str) -> Result<Vs, SoftConfigError> {
    let claimed = |version: &Vs| format!("{}.{}", version.mjr(), version.mnr()) == value;
    CLAIMS.into_iter().find(claimed).ok_or_else(|| SoftConfigError::value(key, value, LIMIT))
}

pub(crate) fn check(version: Vs) -> Result<(), SoftConfigError> {
    if CLAIMS.contains(&version) { Ok(()) } else { Err(SoftConfigError::value("version", version, LIMIT)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SoftConfig;

    #[test]
    fn versions_to_claim_are_those_there_were() {
        assert_eq!(SoftConfig::parse("size=1m").unwrap().version, VERSION);
        assert_eq!(SoftConfig::parse("size=1m,version=1.4").unwrap().version, Vs::from_parts(1, 4, 0));
        for bad in ["", "1", "1.5", "1.4.0", "2.1"] {
            let refused = SoftConfig::parse(&format!("size=1m,version={bad}")).unwrap_err().to_string();
            assert_eq!(refused, format!("soft device setting version={bad}: {LIMIT}"));
        }
        let other = SoftConfig::new().version(Vs::from_parts(2, 1, 0)).validate().unwrap_err().to_string();
        assert_eq!(other, format!("soft device setting version=2.1.0: {LIMIT}"));
    }
}
