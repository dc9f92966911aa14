//! Ctrl-C ends the work, and what was measured so far is still printed.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{await_that, cpu_seconds, spawn};

#[test]
fn partial_results_are_marked() {
    for api in ["host", "io", "agent"] {
        let start = Instant::now();
        let child = spawn(&["bench", "soft:size=1m", "--runtime", "60s", "--api", api, "-o", "json"]);
        await_that(|| cpu_seconds(&child) > 0.3);
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(start.elapsed() < Duration::from_secs(60));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["partial"], true);
        assert!(report["ios"].as_u64().unwrap() > 0, "{api}: {report:#}");
        assert_eq!(report["errors"], 0);
    }
}
