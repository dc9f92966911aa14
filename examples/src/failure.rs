//! Why a program ended without success.

use std::process::ExitCode;

use warpbell_workload::RunError;
use warpbell_workload::permission::PermissionError;

/// Why a program ended without success.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The library.
    #[error(transparent)]
    Warpbell(Box<warpbell::Error>),
    /// Reading or writing blocks by the host.
    #[error(transparent)]
    Blocks(Box<RunError>),
    /// A write that nobody permitted.
    #[error(transparent)]
    Permission(#[from] PermissionError),
    /// The data's file.
    #[error(transparent)]
    Data(#[from] warpbell_data::Error),
    /// The same, with the file's name.
    #[error("{file}: {source}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong with it.
        source: warpbell_data::Error,
    },
    /// A temporary file could not be made or written.
    #[error("temporary file in {folder}: {source} (TMPDIR names another folder)")]
    Temporary {
        /// Where.
        folder: String,
        /// Why.
        source: std::io::Error,
    },
    /// An option outside its limits.
    #[error("{object} {value}: {limit}")]
    Usage {
        /// The option.
        object: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// The kernel said that something failed.
    #[error("kernel {kernel}: {what}")]
    Kernel {
        /// Which.
        kernel: String,
        /// What it said.
        what: String,
    },
    /// The check found wrong results, and has said so.
    #[error("{0}")]
    Wrong(String),
}

impl From<warpbell::Error> for Failure {
    fn from(error: warpbell::Error) -> Failure {
        Failure::Warpbell(Box::new(error))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        Failure::Blocks(Box::new(error))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Data(error.into())
    }
}

impl Failure {
    /// That of a temporary file, with the folder it should be in.
    pub(crate) fn temporary(source: std::io::Error) -> Failure {
        Failure::Temporary { folder: std::env::temp_dir().display().to_string(), source }
    }

    /// The exit code, as the `warpbell` command has them: 1 failed or wrong, 2 usage, 3 refused, 4 something is missing.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Warpbell(error) => error.exit_code(),
            Failure::Blocks(error) => match &**error {
                RunError::Warpbell(error) => error.exit_code(),
                RunError::Job(_) => 2,
                _ => 1,
            },
            Failure::Permission(PermissionError::Name(error)) => error.exit_code(),
            Failure::Permission(PermissionError::Refused { .. }) => 3,
            Failure::Usage { .. } => 2,
            Failure::Data(warpbell_data::Error::Size { .. }) => 2,
            Failure::File { .. } => 2,
            _ => 1,
        }
    }
}

/// Ends a program: one line on stderr where it failed.
pub fn ending(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
