//! The files that a command writes. One that is there is replaced, unless the command needs what is in it.

use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::io::Errno;
use warpbell::DeviceName;
use warpbell_workload::{Origin, permission};

use crate::args::DeviceArgs;
use crate::exit::{Ending, REFUSED};

/// A file, whatever path leads to it.
#[derive(PartialEq, Eq)]
enum Identity {
    /// The device that it lies on, and its number there.
    Numbered(u64, u64),
    /// The path of one that is not there yet.
    Named(PathBuf),
}

/// The files of one command: those that it needs, and those that it is to write.
pub struct Outputs {
    taken: Vec<(Identity, String)>,
}

impl Outputs {
    /// Of a command that needs no file. Standard output has its result, and may be one.
    pub fn new() -> Outputs {
        let mut outputs = Outputs { taken: Vec::new() };
        if let Ok(found) = fstat(std::io::stdout())
            && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
        {
            outputs.keep_numbered("standard output", (found.st_dev, found.st_ino));
        }
        outputs
    }

    /// Of one that needs the files behind these devices, and those that it has read to measure them.
    pub fn beside(device: &DeviceArgs, origin: &Origin) -> Result<Outputs, Ending> {
        let mut outputs = Outputs::new();
        device.devices().try_for_each(|name| outputs.keep_device(name))?;
        origin.inputs.iter().for_each(|input| outputs.keep("a plan or profile of this command", &input.path));
        Ok(outputs)
    }

    /// From now on no output replaces the files behind a soft controller.
    pub fn keep_device(&mut self, name: &DeviceName) -> Result<(), Ending> {
        let DeviceName::Soft(text) = name else { return Ok(()) };
        for file in permission::files_behind(text)? {
            self.keep(format_args!("the file behind {name}"), &file);
        }
        Ok(())
    }

    /// From now on no output replaces this file, if it is there.
    pub fn keep(&mut self, what: impl Display, path: &Path) {
        if let Ok(found) = path.metadata() {
            self.keep_numbered(what, (found.dev(), found.ino()));
        }
    }

    /// The same of a file that is known by its device and number.
    pub fn keep_numbered(&mut self, what: impl Display, (device, number): (u64, u64)) {
        self.taken.push((Identity::Numbered(device, number), what.to_string()));
    }

    /// Claims the file of `flag`; nothing is written yet. Refused: what [`Outputs::refuse`] refuses, and the file of another
    /// option.
    pub fn claim(&mut self, flag: &str, path: &Path) -> Result<(), Ending> {
        if let Some(identity) = self.free(flag, path)? {
            self.taken.push((identity, format!("the file of {flag}, too")));
        }
        Ok(())
    }

    /// Refuses to write to a file whose content is needed, and to a disk. Options may share a pipe or terminal.
    pub fn refuse(&self, flag: &str, path: &Path) -> Result<(), Ending> {
        self.free(flag, path).map(drop)
    }

    /// What is known of a file that nothing else needs; nothing of a pipe or terminal.
    fn free(&self, flag: &str, path: &Path) -> Result<Option<Identity>, Ending> {
        let shown = path.display();
        if path == Path::new("-") {
            return Err(Ending::usage(format!("{flag} -: name a file; standard output has the result")));
        }
        let refused = |what: &str| {
            Err(Ending::new(REFUSED, format!("{flag} {shown}: this is {what}; name another file")))
        };
        let identity = match path.metadata() {
            Ok(found) if found.file_type().is_block_device() => return refused("a block device"),
            Ok(found) if found.is_file() => Identity::Numbered(found.dev(), found.ino()),
            Ok(_) => return Ok(None),
            Err(_) => Identity::Named(resolved(path)),
        };
        match self.taken.iter().find(|(taken, _)| *taken == identity) {
            Some((_, what)) => refused(what),
            None => Ok(Some(identity)),
        }
    }
}

/// The path of a file that is not there, by the folder that it would lie in; of a link, that of what it leads to.
fn resolved(path: &Path) -> PathBuf {
    /// As many links as Linux follows.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    path.file_name().map_or_else(|| folder.clone(), |name| folder.join(name))
}

/// Opens the file of `flag`, which was claimed, and creates it. What is in it stays until there is something new.
pub fn open(flag: &str, path: &Path) -> Result<File, Ending> {
    // A pipe that nobody reads is an error, not something to wait for.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = options.open(path).and_then(|file| {
        fcntl_setfl(&file, OFlags::empty())?;
        Ok(file)
    });
    file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => Ending::failed(format!("{flag} {}: nobody reads this pipe", path.display())),
        _ => failed(flag, path, &error),
    })
}

/// Empties an open file; a pipe or terminal has nothing to lose.
pub fn empty(file: &File) -> std::io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

/// Opens the file of `flag`, and empties it.
pub fn create(flag: &str, path: &Path) -> Result<File, Ending> {
    let file = open(flag, path)?;
    empty(&file).map_err(|error| failed(flag, path, &error))?;
    Ok(file)
}

/// Writes the file of `flag`, all of it.
pub fn write(flag: &str, path: &Path, text: &str) -> Result<(), Ending> {
    create(flag, path)?.write_all(text.as_bytes()).map_err(|error| failed(flag, path, &error))
}

/// Ends for a file that could not be written.
pub fn failed(flag: &str, path: &Path, error: &std::io::Error) -> Ending {
    Ending::file(format_args!("{flag} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, makedev, mknodat};

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
        let ending = Outputs::new().claim("--csv", &disk).unwrap_err();
        assert_eq!(
            ending.message(),
            format!("--csv {}: this is a block device; name another file", disk.display())
        );
        assert_eq!(ending.code(), REFUSED);
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_known_by_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let (plain, twisted) = (folder.path().join("a"), folder.path().join("d/../a"));
        std::fs::create_dir(folder.path().join("d")).unwrap();
        let mut outputs = Outputs::new();
        outputs.claim("--trace", &plain).unwrap();
        let ending = outputs.claim("--csv", &twisted).unwrap_err();
        assert!(ending.message().ends_with("/d/../a: this is the file of --trace, too; name another file"));
        outputs.claim("--csv", &folder.path().join("b")).unwrap();
        assert!(!plain.exists(), "nothing was written");
    }

    #[test]
    fn a_pipe_without_a_reader_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let ending = create("--csv", &pipe).unwrap_err();
        assert!(ending.message().ends_with("pipe: nobody reads this pipe"), "{}", ending.message());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe)
        });
        let mut file = loop {
            match create("--csv", &pipe) {
                Ok(file) => break file,
                Err(_) => std::thread::yield_now(),
            }
        };
        let rows = vec![b'x'; 1 << 20];
        file.write_all(&rows).unwrap();
        drop(file);
        assert_eq!(reader.join().unwrap().unwrap(), rows, "more than a pipe holds");
    }
}
