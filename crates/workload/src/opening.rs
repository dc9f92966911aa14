//! How an SSD is opened, as far as a sweep may vary it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use warpbell::{DoorbellChoice, Place, RingPlaces};
use warpbell_driver::DoorbellBuffer;
use warpbell_vfio::IommuChoice;

use crate::options::Dbbuf;

/// How an SSD is to be opened: options that hold from its opening to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// Doorbells in memory that the controller polls.
    pub dbbuf: Dbbuf,
    /// How kernels ring doorbells.
    #[serde(with = "word")]
    pub doorbells: DoorbellChoice,
    /// Which way to the IOMMU.
    #[serde(with = "word")]
    pub iommu: IommuChoice,
    /// Where rings lie.
    #[serde(with = "word")]
    pub rings: RingPlaces,
    /// Where data lies.
    #[serde(with = "word")]
    pub data: Place,
    /// 32-bit command identifiers.
    pub wide_cids: bool,
    /// Faults for the software controller to inject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<PathBuf>,
}

impl Default for Opening {
    fn default() -> Opening {
        Opening {
            dbbuf: Dbbuf::Auto,
            doorbells: DoorbellChoice::default(),
            iommu: IommuChoice::default(),
            rings: RingPlaces::default(),
            data: Place::default(),
            wide_cids: false,
            fault: None,
        }
    }
}

impl From<Dbbuf> for DoorbellBuffer {
    fn from(dbbuf: Dbbuf) -> DoorbellBuffer {
        match dbbuf {
            Dbbuf::Auto => DoorbellBuffer::Auto,
            Dbbuf::On => DoorbellBuffer::On,
            Dbbuf::Off => DoorbellBuffer::Off,
        }
    }
}

/// Where data can lie.
pub const DATA_PLACES: &str = "host, hbm or bar:BDF/N";

/// Why data cannot lie at a place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataPlaceError {
    /// The controller memory buffer.
    #[error(
        "'cmb': data cannot lie in the controller memory buffer, which takes submission rings only; expected {DATA_PLACES}"
    )]
    ControllerMemory,
    /// There is no such place.
    #[error(
        "'{value}': expected {DATA_PLACES}, with a PCI address and a number from 0 to 5, such as bar:0000:01:00.0/2"
    )]
    Unknown {
        /// What was given.
        value: String,
    },
}

/// A place for data.
pub fn data_place(text: &str) -> Result<Place, DataPlaceError> {
    match text.parse() {
        Ok(Place::Cmb) => Err(DataPlaceError::ControllerMemory),
        Ok(place) => Ok(place),
        Err(_) => Err(DataPlaceError::Unknown { value: text.to_owned() }),
    }
}

/// Values in results as users write them.
pub(crate) mod word {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }

    /// The same of values that may be left out.
    pub(crate) mod optional {
        use super::{Deserialize, Deserializer, Display, FromStr, Serializer, de};

        pub(crate) fn serialize<T: Display, S: Serializer>(
            value: &Option<T>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => to.collect_str(value),
                None => to.serialize_none(),
            }
        }

        pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
        where
            T: FromStr<Err: Display>,
            D: Deserializer<'de>,
        {
            let text = Option::<String>::deserialize(from)?;
            text.map(|text| text.parse()).transpose().map_err(de::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_words_of_flags() {
        let opening = Opening {
            dbbuf: Dbbuf::On,
            doorbells: DoorbellChoice::Forwarded,
            iommu: "iommufd".parse().unwrap(),
            rings: "sq=cmb,cq=hbm".parse().unwrap(),
            data: data_place("bar:0000:01:00.0/2").unwrap(),
            wide_cids: true,
            fault: Some("plan.toml".into()),
        };
        let text = serde_json::to_string(&opening).unwrap();
        let expected = r#"{"dbbuf":"on","doorbells":"forwarded","iommu":"iommufd","rings":"sq=cmb,cq=hbm","data":"bar:0000:01:00.0/2","wide_cids":true,"fault":"plan.toml"}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Opening>(&text).unwrap(), opening);
        assert!(serde_json::from_str::<Opening>(&text.replace("sq=cmb", "sq=moon")).is_err());
    }

    #[test]
    fn data_has_fewer_places_than_rings() {
        let line = data_place("cmb").unwrap_err().to_string();
        assert!(line.ends_with("submission rings only; expected host, hbm or bar:BDF/N"), "{line}");
        let line = data_place("moon").unwrap_err().to_string();
        assert!(line.starts_with("'moon': expected host, hbm or bar:BDF/N"), "{line}");
    }
}
