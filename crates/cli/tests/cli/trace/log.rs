//! The host's log: spans with fields by which to find a queue again.

use std::process::Command;

fn logged(variable: &str, filter: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    command.args(["bench", "soft:size=1m", "--queues", "2", "--io-limit", "64k"]);
    command.env_remove("RUST_LOG").env_remove("WARPBELL_LOG").env(variable, filter);
    let output = command.output().expect("the command starts");
    assert!(output.status.success());
    String::from_utf8(output.stderr).expect("a log is UTF-8")
}

#[test]
fn spans_say_which_device_queue_and_kernel() {
    for variable in ["RUST_LOG", "WARPBELL_LOG"] {
        let log = logged(variable, "info");
        for words in [
            "open{device=soft:size=1m}",
            "enable{device=",
            "attach{device=soft:size=1m target=cpu queues=2 warps=2 iodepth=32}",
            "create_queue_pair{device=",
            "entries=64 qid=2}",
            "launch{kernel=\"bench\" grid=2 block=32}",
            "delete_queue_pair{device=",
            "qid=1 limit=",
            "time.busy=",
        ] {
            assert!(log.contains(words), "{variable}: {words}:\n{log}");
        }
    }
    assert_eq!(logged("RUST_LOG", "off"), "");
    let wrong = logged("RUST_LOG", "warpbell_driver=loud");
    assert!(wrong.starts_with("warning: RUST_LOG=warpbell_driver=loud: "), "{wrong}");
}
