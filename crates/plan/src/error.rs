//! Why a question was refused.

/// Why a question was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such model.
    #[error("'{name}': no such model; there are {known}")]
    Model {
        /// What was asked for.
        name: String,
        /// The models.
        known: String,
    },
    /// The model has no such input.
    #[error("{model} has no input '{name}'; it has {known}")]
    Input {
        /// The model.
        model: &'static str,
        /// What was given.
        name: String,
        /// Its inputs.
        known: String,
    },
    /// The model has no such preset.
    #[error("{model} has no preset '{name}'; {known}")]
    Preset {
        /// The model.
        model: &'static str,
        /// What was asked for.
        name: String,
        /// Its presets.
        known: String,
    },
    /// The value cannot be.
    #[error("{name} '{value}': {reason}")]
    Value {
        /// The input.
        name: String,
        /// What was given.
        value: String,
        /// What it must be.
        reason: String,
    },
    /// The inputs do not go together.
    #[error("{0}")]
    Together(String),
    /// A calibration names what is no constant of a model.
    #[error("calibration: '{name}' is no constant that can be measured; there are {known}")]
    Constant {
        /// What it names.
        name: String,
        /// The constants.
        known: String,
    },
    /// A data file is not what it must be.
    #[error("{file}: {reason}")]
    Data {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// The value of `name` cannot be.
    pub(crate) fn value(name: &str, value: impl std::fmt::Display, reason: impl Into<String>) -> Error {
        Error::Value { name: name.to_owned(), value: value.to_string(), reason: reason.into() }
    }
}
