//! How many streams of a process run beside each other.
// UNSAFETY: changes the environment, where no other thread reads it.
#![expect(unsafe_code, reason = "a variable that the CUDA driver reads")]

/// What the driver reads when it is initialised: work queues of the GPU.
const VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// As many as there can be. Of the usual 8, streams share some, and a copy of the host may wait behind a kernel that runs.
const MOST: &str = "32";

/// Asks the CUDA driver for as many work queues as there can be, unless the environment says how many, or this process
/// already has other threads, which may be reading the environment. To be called first in a program.
pub fn widen_connections() {
    if std::env::var_os(VARIABLE).is_some() {
        return;
    }
    if !is_alone() {
        tracing::debug!("{VARIABLE} is not set, and other threads run: streams may wait for each other");
        return;
    }
    // SAFETY: this thread is the only one.
    unsafe { std::env::set_var(VARIABLE, MOST) };
}

/// Whether this process has one thread. Nobody else can start a second one meanwhile.
fn is_alone() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_changed_under_other_threads() {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || stopped.recv());
        assert!(!is_alone());
        let before = std::env::var_os(VARIABLE);
        widen_connections();
        assert_eq!(std::env::var_os(VARIABLE), before);
        drop(stop);
        assert!(other.join().expect("it ends").is_err());
    }
}
