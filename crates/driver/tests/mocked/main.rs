//! The driver against a scripted controller that misbehaves in ways no good one does.

#[cfg(test)]
mod admin;
#[cfg(test)]
mod bring_up;
#[cfg(test)]
mod causes;
#[cfg(test)]
mod io_queue;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod misfortune;
#[cfg(test)]
mod mock;
#[cfg(test)]
mod namespaces;
#[cfg(test)]
mod queues;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod retries;
#[cfg(test)]
mod vectors;

use std::sync::Arc;

use mock::Mock;
use warpbell_driver::{Controller, ControllerOptions, DriverError};

/// Opens a controller over the mock with default options.
fn open(mock: &Arc<Mock>) -> Result<Controller, DriverError> {
    Controller::open(mock.clone(), ControllerOptions::default())
}

/// An error with its chain of sources, as a user sees it.
fn chain(error: &DriverError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
