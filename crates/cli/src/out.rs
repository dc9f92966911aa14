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

/// Writes one JSON document.
pub fn json(document: &impl Serialize) -> Result<(), Ending> {
    let mut text = serde_json::to_string_pretty(document).map_err(Ending::failed)?;
    text.push('\n');
    self::text(&text)
}

/// Refuses to write `what` to a terminal.
pub fn refuse_terminal(what: &str) -> Result<(), Ending> {
    if std::io::stdout().is_terminal() {
        return Err(Ending::usage(format!("standard output is a terminal: redirect it to take {what}")));
    }
    Ok(())
}
