//! The files that a command writes. One that is there is replaced, unless the command needs what is in it.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use warpbell::DeviceName;
use warpbell_workload::{Origin, permission};

use crate::args::DeviceArgs;
use crate::exit::{Ending, REFUSED};

/// A file, whatever path leads to it: the device that it lies on, and its number there.
type Key = (u64, u64);

/// The files of one command: those that it needs, and those that it has written.
#[derive(Default)]
pub struct Outputs {
    taken: Vec<(Key, String)>,
}

impl Outputs {
    /// Beside these devices, and what was read to measure them.
    pub fn beside(device: &DeviceArgs, origin: &Origin) -> Result<Outputs, Ending> {
        let mut outputs = Outputs::default();
        for name in device.devices() {
            let DeviceName::Soft(text) = name else { continue };
            for file in permission::files_behind(text)? {
                outputs.keep(format_args!("the file behind {name}"), &file);
            }
        }
        origin.inputs.iter().for_each(|input| outputs.keep("an input of this command", &input.path));
        Ok(outputs)
    }

    /// From now on no output replaces this file, if it is there.
    pub fn keep(&mut self, what: impl Display, path: &Path) {
        if let Ok(found) = path.metadata() {
            self.keep_numbered(what, (found.dev(), found.ino()));
        }
    }

    /// The same of a file that is known by its device and number.
    pub fn keep_numbered(&mut self, what: impl Display, key: Key) {
        self.taken.push((key, what.to_string()));
    }

    /// Creates the file of `flag`, or empties it.
    pub fn create(&mut self, flag: &str, path: &Path) -> Result<File, Ending> {
        self.allows(flag, path)?;
        let file = File::create(path).map_err(|error| failed(flag, path, &error))?;
        self.keep(format_args!("the file of {flag}, too"), path);
        Ok(file)
    }

    /// Writes the file of `flag`, all of it.
    pub fn write(&mut self, flag: &str, path: &Path, text: &str) -> Result<(), Ending> {
        let mut file = self.create(flag, path)?;
        file.write_all(text.as_bytes()).map_err(|error| failed(flag, path, &error))
    }

    /// Refuses a file whose content is needed, and a disk. Two options may share a pipe or terminal.
    pub fn allows(&self, flag: &str, path: &Path) -> Result<(), Ending> {
        let Ok(found) = path.metadata() else { return Ok(()) };
        let key = (found.dev(), found.ino());
        let what = match self.taken.iter().find(|(taken, _)| *taken == key) {
            _ if found.file_type().is_block_device() => "a block device",
            Some((_, what)) if found.is_file() => what,
            _ => return Ok(()),
        };
        let shown = path.display();
        Err(Ending::new(REFUSED, format!("{flag} {shown}: this is {what}; name another file")))
    }
}

/// Ends for a file that could not be written.
pub fn failed(flag: &str, path: &Path, error: &std::io::Error) -> Ending {
    Ending::file(format!("{flag} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};

    use super::*;

    /// A disk of this machine; where there is none the node of one, which only root makes.
    fn disk(folder: &Path) -> PathBuf {
        let mut nodes = std::fs::read_dir("/dev").unwrap().map(|node| node.unwrap().path());
        let is_disk = |node: &PathBuf| node.metadata().is_ok_and(|found| found.file_type().is_block_device());
        nodes.find(is_disk).unwrap_or_else(|| {
            let node = folder.join("disk");
            mknodat(CWD, &node, FileType::BlockDevice, Mode::empty(), makedev(7, 200)).expect("root");
            node
        })
    }

    #[test]
    fn no_output_goes_to_a_disk() {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(folder.path());
        let ending = Outputs::default().allows("--csv", &disk).unwrap_err();
        assert_eq!(
            ending.message(),
            format!("--csv {}: this is a block device; name another file", disk.display())
        );
        assert_eq!(ending.code(), REFUSED);
    }
}
