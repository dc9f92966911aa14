//! What happens to an SSD, on stderr, as it happens.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use warpbell::{Ssd, SsdEventKind};
use warpbell_workload::Control;

/// Events of one SSD that are shown. An SSD in trouble has no end of them.
const SHOWN: u64 = 100;

/// Shows events of `ssd` as they come.
pub fn show(ssd: &Ssd) {
    let (name, count) = (ssd.name().to_string(), AtomicU64::new(0));
    ssd.on_event(move |event| match count.fetch_add(1, Ordering::Relaxed) {
        shown if shown < SHOWN => say(&name, event),
        SHOWN => say(&name, "more events: `-o json` has the last ones, WARPBELL_LOG=info shows all"),
        _ => {}
    });
}

/// Nothing is left to do where even stderr is closed.
fn say(name: &str, what: impl Display) {
    let line = format!("event: {name}: {what}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// Whether the system wants an SSD back. The first wish ends what runs.
#[derive(Clone, Debug, Default)]
pub struct Release(Arc<AtomicBool>);

impl Release {
    /// Stops `control` when the system asks for `ssd`.
    pub fn watch(&self, ssd: &Ssd, control: &Control) {
        let (asked, control) = (self.0.clone(), control.clone());
        ssd.on_event(move |event| {
            if matches!(event.kind, SsdEventKind::ReleaseRequested) {
                asked.store(true, Ordering::Relaxed);
                control.stop();
            }
        });
    }

    /// Whether it asked.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
