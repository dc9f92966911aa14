//! Which way to a function's DMA address space: chosen by trying, and told with the reasons.

use std::fmt;
use std::str::FromStr;

/// A way to give a function its DMA address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// Group and container: `/dev/vfio/vfio`, `/dev/vfio/GROUP`. The only one that maps another function's BAR.
    Type1,
    /// VFIO cdev and iommufd: `/dev/vfio/devices/vfioN`, `/dev/iommu`.
    Iommufd,
    /// No translation: the device gets physical addresses, and nothing keeps it from any memory.
    NoIommu,
}

impl Backend {
    /// Its word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Backend::Type1 => "type1",
            Backend::Iommufd => "iommufd",
            Backend::NoIommu => "noiommu",
        }
    }

    /// What whoever uses it must be told each time.
    pub fn warning(self) -> Option<&'static str> {
        match self {
            Backend::Type1 | Backend::Iommufd => None,
            Backend::NoIommu => Some(
                "UNSAFE: no-IOMMU mode. Nothing confines the device: a stray address reads or destroys any memory of \
                 this machine, the kernel's too, and the kernel is tainted until it boots again. Only for machines that \
                 hold nothing of value",
            ),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Which backend to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IommuChoice {
    /// Type1 where a real type1 container is there, because other functions' BARs need it; else iommufd. Never
    /// no-IOMMU mode.
    #[default]
    Auto,
    /// This one, or an error.
    Only(Backend),
}

impl IommuChoice {
    /// The backends to try, in order.
    pub fn candidates(self) -> &'static [Backend] {
        match self {
            IommuChoice::Auto => &[Backend::Type1, Backend::Iommufd],
            IommuChoice::Only(Backend::Type1) => &[Backend::Type1],
            IommuChoice::Only(Backend::Iommufd) => &[Backend::Iommufd],
            IommuChoice::Only(Backend::NoIommu) => &[Backend::NoIommu],
        }
    }
}

impl fmt::Display for IommuChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IommuChoice::Auto => f.write_str("auto"),
            IommuChoice::Only(backend) => backend.fmt(f),
        }
    }
}

/// A word that names no backend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no IOMMU backend is called '{0}': auto, type1, iommufd, noiommu")]
pub struct UnknownBackend(String);

impl FromStr for IommuChoice {
    type Err = UnknownBackend;

    fn from_str(word: &str) -> Result<IommuChoice, UnknownBackend> {
        match word {
            "auto" => Ok(IommuChoice::Auto),
            "type1" => Ok(IommuChoice::Only(Backend::Type1)),
            "iommufd" => Ok(IommuChoice::Only(Backend::Iommufd)),
            "noiommu" => Ok(IommuChoice::Only(Backend::NoIommu)),
            other => Err(UnknownBackend(other.to_owned())),
        }
    }
}

/// A backend that was tried and could not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which.
    pub backend: Backend,
    /// Why not, and what would change that.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not {}: {}", self.backend, self.reason)
    }
}

/// The backend in use, and why those before it were not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The one in use.
    pub backend: Backend,
    /// Tried first and refused.
    pub refused: Vec<Refusal>,
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.backend {
            Backend::Type1 => "type1 (group and container; other functions' BARs can be mapped)",
            Backend::Iommufd => "iommufd (VFIO cdev; other functions' BARs cannot be mapped)",
            Backend::NoIommu => "noiommu (UNSAFE: physical addresses, nothing confines the device)",
        })?;
        self.refused.iter().try_for_each(|refusal| write!(f, "; {refusal}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_choices_and_back() {
        for word in ["auto", "type1", "iommufd", "noiommu"] {
            assert_eq!(word.parse::<IommuChoice>().unwrap().to_string(), word);
        }
        let error = "vfio".parse::<IommuChoice>().unwrap_err().to_string();
        assert!(error.contains("'vfio'") && error.contains("iommufd"), "{error}");
    }

    #[test]
    fn no_iommu_mode_is_never_chosen_without_its_name() {
        assert!(!IommuChoice::default().candidates().contains(&Backend::NoIommu));
        assert_eq!(IommuChoice::Only(Backend::NoIommu).candidates(), [Backend::NoIommu]);
        assert!(Backend::NoIommu.warning().is_some_and(|text| text.contains("UNSAFE")));
        assert!(IommuChoice::Auto.candidates().iter().all(|backend| backend.warning().is_none()));
    }

    #[test]
    fn a_route_tells_why_the_first_choice_was_not_taken() {
        let route = Route {
            backend: Backend::Iommufd,
            refused: vec![Refusal {
                backend: Backend::Type1,
                reason: "/dev/vfio/vfio is an iommufd".to_owned(),
            }],
        };
        let text = route.to_string();
        assert!(
            text.starts_with("iommufd") && text.ends_with("; not type1: /dev/vfio/vfio is an iommufd"),
            "{text}"
        );
    }
}
