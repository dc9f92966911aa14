//! The progress bar: one line on a terminal's stderr, nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line for one step of a program.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// `total` of something, such as bytes or elements.
    pub(crate) fn new(label: &str, total: u64, quiet: bool) -> Bar {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total.max(1)), target);
        let style = ProgressStyle::with_template("[{prefix}] {percent:>3}% [{bar:24}] {per_sec} eta {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_prefix(label.to_owned());
        Bar(bar)
    }

    /// So much of it is done.
    pub(crate) fn at(&self, done: u64) {
        self.0.set_position(done.min(self.0.length().unwrap_or(done)));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
