//! The single changes that binding is made of: shown as a shell would do them, and done.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::chown;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::Sysfs;

/// How long the kernel may take over one write. Taking a controller from its driver waits for its I/O.
const WRITE_LIMIT: Duration = Duration::from_secs(60);

/// One change to the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes to a file of sysfs.
    Write {
        /// The file.
        path: String,
        /// What is written, without the newline.
        text: String,
    },
    /// Makes a file, and the folders above it.
    Save {
        /// The file.
        path: String,
        /// Its contents.
        contents: String,
    },
    /// Removes a file.
    Remove {
        /// The file.
        path: String,
    },
    /// Gives a node to a user.
    Give {
        /// The node.
        path: String,
        /// User ID.
        uid: u32,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Write { path, text } if text.is_empty() => write!(f, "echo > {path}"),
            Step::Write { path, text } => write!(f, "echo {text} > {path}"),
            Step::Save { path, contents } => write!(f, "cat > {path} <<'EOF'\n{contents}EOF"),
            Step::Remove { path } => write!(f, "rm {path}"),
            Step::Give { path, uid } => write!(f, "chown {uid} {path}"),
        }
    }
}

/// What does steps: the system, or a tree that behaves like one.
pub trait Apply {
    /// Does one step.
    fn apply(&self, step: &Step) -> io::Result<()>;
}

impl Apply for Sysfs {
    fn apply(&self, step: &Step) -> io::Result<()> {
        match step {
            Step::Write { path, text } => write_within(&self.path(path), text, WRITE_LIMIT),
            Step::Save { path, contents } => {
                let path = self.path(path);
                fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
                fs::write(path, contents)
            }
            Step::Remove { path } => fs::remove_file(self.path(path)),
            Step::Give { path, uid } => chown(self.path(path), Some(*uid), None),
        }
    }
}

/// Writes in a thread of its own, since a write to sysfs may wait for a device that never answers.
fn write_within(path: &Path, text: &str, limit: Duration) -> io::Result<()> {
    let (path, text) = (path.to_owned(), format!("{text}\n"));
    let (done, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let opened = fs::OpenOptions::new().write(true).open(path);
        // The receiver may have given up.
        let _ = done.send(opened.and_then(|mut file| file.write_all(text.as_bytes())));
    });
    outcome.recv_timeout(limit).unwrap_or_else(|_| {
        let message = format!("the kernel has not finished after {} s", limit.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_read_as_shell_commands() {
        let write = |text: &str| Step::Write { path: "/sys/x".to_owned(), text: text.to_owned() }.to_string();
        assert_eq!(write("vfio-pci"), "echo vfio-pci > /sys/x");
        assert_eq!(write(""), "echo > /sys/x");
        let save = Step::Save { path: "/run/x".to_owned(), contents: "a\n".to_owned() };
        assert_eq!(save.to_string(), "cat > /run/x <<'EOF'\na\nEOF");
    }

    #[test]
    fn a_write_that_never_ends_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let error = write_within(&fifo, "x", Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Lets the thread end.
        fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    }

    #[test]
    fn files_come_and_go_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let sysfs = Sysfs::at(root.path());
        let path = "/run/warpbell/x".to_owned();
        sysfs.apply(&Step::Save { path: path.clone(), contents: "a\n".to_owned() }).unwrap();
        assert_eq!(sysfs.text(&path).as_deref(), Some("a"));
        sysfs.apply(&Step::Remove { path: path.clone() }).unwrap();
        assert!(!sysfs.exists(&path));
        let absent = sysfs.apply(&Step::Write { path, text: "x".to_owned() }).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound, "writes never make files");
    }
}
