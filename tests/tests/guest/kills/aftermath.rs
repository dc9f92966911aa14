//! What must hold after a kill.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;
use warpbell::Bdf;

use crate::holdings::{Holdings, meminfo, processes};

/// Longer than a start takes on a machine with other things to do.
const LIMIT: Duration = Duration::from_secs(60);
/// What the kernel may keep for itself over all kills, in KiB: less than a fifth of what one bench maps for its data.
const SLACK_KIB: u64 = 16 << 10;

/// The system as it was before the first kill.
pub struct Aftermath {
    bdf: Bdf,
    before: Holdings,
    available: u64,
}

impl Aftermath {
    pub fn from_now(bdf: Bdf) -> Aftermath {
        Aftermath { bdf, before: Holdings::now(), available: meminfo("MemAvailable:") }
    }

    /// No process, no open file, no pinned page, no mapping; and the function is where it was.
    pub fn nothing_is_left(&self) -> anyhow::Result<()> {
        let (left, now) = (processes("warpbell"), Holdings::now());
        ensure!(left.is_empty(), "still there: {left:?}");
        ensure!(now == self.before, "before: {:?}\nafter: {now:?}", self.before);
        let driver =
            fs::read_link(format!("/sys/bus/pci/devices/{}/driver", self.bdf)).context("no driver")?;
        ensure!(driver.ends_with("vfio-pci"), "the function is with {driver:?}");
        Ok(())
    }

    /// A short bench, which identifies what it is on and checks its data; and `identify`, if that is asked for.
    pub fn next_start_works(&self, identify: bool) -> anyhow::Result<()> {
        if identify {
            let identify = self.warpbell("identify", &[])?;
            ensure!(identify["controller"]["sn"] == "WARP0", "identify: {identify}");
        }
        let own = format!("--allow-write={}", self.bdf);
        let words = ["--size", "128k", "--runtime", "10ms", "--verify", "crc32c", &own];
        let bench = self.warpbell("bench", &words)?;
        let wrong = ["errors", "mismatches"].map(|name| bench[name].as_u64());
        ensure!(wrong == [Some(0); 2] && bench["device"]["serial"] == "WARP0", "bench: {bench}");
        Ok(())
    }

    /// What little is lost each time is seen at the end.
    pub fn memory_is_there(&self) -> anyhow::Result<()> {
        let now = meminfo("MemAvailable:");
        println!("{} KiB of memory less than before", self.available.saturating_sub(now));
        ensure!(now + SLACK_KIB >= self.available, "{} KiB available, {now} afterwards", self.available);
        Ok(())
    }

    fn warpbell(&self, command: &str, words: &[&str]) -> anyhow::Result<Value> {
        let bdf = self.bdf.to_string();
        let output = finished(Command::new("/bin/warpbell").args([command, &bdf, "-o", "json"]).args(words))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the next {command}: {}: {errors}", output.status);
        serde_json::from_slice(&output.stdout).with_context(|| format!("the next {command}: no JSON"))
    }
}

/// What a program said that ends in time. Its output fits into a pipe.
fn finished(command: &mut Command) -> anyhow::Result<Output> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut child, begin) = (piped.spawn().context("warpbell")?, Instant::now());
    while child.try_wait()?.is_none() {
        if begin.elapsed() > LIMIT {
            child.kill()?;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(child.wait_with_output()?)
}
