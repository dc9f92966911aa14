//! `serve` and a client that others could have written: in Python, from the protocol's text, generous with padding and
//! file descriptors.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{await_that, spawn};

/// Serves to the script as this client, with doorbells that can be mapped or not.
fn served_to_the_client(kind: &str, doorbells: &str) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ssd.sock");
    let place = socket.to_str().unwrap();
    let mut server = spawn(&[
        "serve",
        "--size",
        "4m",
        "--socket",
        place,
        "--clients",
        "2",
        "--strict",
        "--doorbells",
        doorbells,
    ]);
    await_that(|| socket.exists());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/foreign.py");
    let client = Command::new("python3").arg(script).args([place, kind]).stdin(Stdio::null()).output();
    let client = client.expect("python3 is there: the scripts of this project need it");
    if !client.status.success() {
        let _ = server.kill();
    }
    let (said, told) = (String::from_utf8_lossy(&client.stdout), String::from_utf8_lossy(&client.stderr));
    assert!(client.status.success(), "{said}{told}");
    assert_eq!(said.lines().count(), 2, "{said}");
    let output = server.wait_with_output().unwrap();
    let log = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{log}{}", String::from_utf8_lossy(&output.stderr));
    assert!(log.ends_with("served 2 clients, 0 violations\n"), "{log}");
}

#[test]
fn a_generous_client_that_maps_doorbells_is_served_twice() {
    served_to_the_client("mapped", "mapped");
}

#[test]
fn a_generous_client_that_sends_doorbells_is_served_twice() {
    served_to_the_client("message", "message");
}

#[test]
fn the_messages_of_spdks_client_are_answered() {
    served_to_the_client("spdk", "mapped");
}
