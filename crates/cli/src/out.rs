//! Standard output: results only, and quiet when its reader has gone.

use std::io::{IsTerminal, Write};

use serde::Serialize;

use crate::exit::Ending;

/// Writes text that ends with a newline of its own.
pub fn text(text: &str) -> Result<(), Ending> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// The same of what was measured, which goes to stderr where standard output takes it no more: its disk may be full.
pub fn measured(text: &str) -> Result<(), Ending> {
    self::text(text).inspect_err(|ending| {
        if ending.code() != 0 {
            // Nothing is left to do where even stderr is closed.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    })
}

/// One JSON document of what was measured.
pub fn measured_json(document: &impl Serialize) -> Result<(), Ending> {
    measured(&pretty(document)?)
}

/// Writes one JSON document.
pub fn json(document: &impl Serialize) -> Result<(), Ending> {
    text(&pretty(document)?)
}

fn pretty(document: &impl Serialize) -> Result<String, Ending> {
    Ok(serde_json::to_string_pretty(document).map_err(Ending::failed)? + "\n")
}

/// Refuses to write `what` to a terminal.
pub fn refuse_terminal(what: &str) -> Result<(), Ending> {
    if std::io::stdout().is_terminal() {
        return Err(Ending::usage(format!("standard output is a terminal: redirect it to take {what}")));
    }
    Ok(())
}
