//! Which namespace a file lies in.

use std::fmt;

use crate::Error;

/// A namespace of an SSD that is open. Places of a file mean nothing in another one, whatever it is called: not in another
/// namespace, SSD, or opening of the same SSD, before which a kernel may have moved the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceId {
    /// Tells openings apart, also of SSDs in memory, which have the same names.
    pub opening: u64,
    /// The name that the SSD was opened by.
    pub ssd: String,
    /// Its serial number.
    pub serial: String,
    /// The namespace.
    pub nsid: u32,
}

impl fmt::Display for NamespaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace {} of {} (serial number {})", self.nsid, self.ssd, self.serial)
    }
}

impl NamespaceId {
    /// Refuses what is used with `other` and is of this one.
    ///
    /// # Errors
    /// They are not the same: it names both.
    pub fn check(&self, other: &NamespaceId) -> Result<(), Error> {
        if self == other {
            return Ok(());
        }
        let again = (&self.ssd, &self.serial, self.nsid) == (&other.ssd, &other.serial, other.nsid);
        let hint = if again { ", opened anew: find the file there again" } else { "" };
        Err(Error::Argument {
            object: "file of",
            value: self.to_string(),
            limit: format!("it cannot be used with {other}{hint}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_namespaces_are_named() {
        let one = NamespaceId { opening: 1, ssd: "soft:size=1m".into(), serial: "A".into(), nsid: 1 };
        one.check(&one.clone()).unwrap();
        let other = NamespaceId { opening: 1, nsid: 2, ..one.clone() };
        assert_eq!(
            one.check(&other).unwrap_err().to_string(),
            "file of namespace 1 of soft:size=1m (serial number A): it cannot be used with namespace 2 of soft:size=1m \
             (serial number A)"
        );
        let anew = NamespaceId { opening: 2, ..one.clone() };
        let error = one.check(&anew).unwrap_err().to_string();
        assert!(error.ends_with("opened anew: find the file there again"), "{error}");
    }
}
