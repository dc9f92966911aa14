//! Whether a kernel of this machine may have mounted the file system on an image.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use warpbell::{DeviceName, Named};
use warpbell_hw::Nsid;
use warpbell_workload::permission;

use crate::exit::{Ending, REFUSED};

/// Refuses to write to a file of an image that a loop device is over: whoever mounted that has blocks in its memory. An SSD
/// that is bound to vfio-pci has no such kernel, and what is behind a socket is not known here.
pub fn refuse(named: &Named, nsid: Nsid) -> Result<(), Ending> {
    let DeviceName::Soft(text) = &named.device else { return Ok(()) };
    let Some(image) = permission::file_behind(text, nsid)? else { return Ok(()) };
    let refused = |why: String| Err(Ending::new(REFUSED, format!("writing to {named} is refused: {why}")));
    match over(&image, Path::new(BLOCK)) {
        Ok(Some(device)) => refused(format!(
            "loop device /dev/{device} is over {}, and a kernel may have it mounted; unmount it, and losetup -d \
             /dev/{device}",
            image.display()
        )),
        Ok(None) => Ok(()),
        Err(error) => refused(format!("whether a loop device is over it is not known: {BLOCK}: {error}")),
    }
}

/// Where Linux lists block devices.
const BLOCK: &str = "/sys/block";

/// The loop device over an image. The same file has the same number on the same file system, whatever it is called.
fn over(image: &Path, block: &Path) -> io::Result<Option<String>> {
    let number = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    // What is not there yet no kernel has mounted.
    let Ok(wanted) = number(image) else { return Ok(None) };
    for device in fs::read_dir(block)? {
        let device = device?;
        let Ok(backing) = fs::read_to_string(device.path().join("loop/backing_file")) else { continue };
        if number(Path::new(backing.trim_end_matches('\n'))).is_ok_and(|found| found == wanted) {
            return Ok(Some(device.file_name().to_string_lossy().into_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_device_over_the_image_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk.img");
        fs::write(&image, [0; 512]).unwrap();
        let link = folder.path().join("link.img");
        fs::hard_link(&image, &link).unwrap();
        for (device, path) in [("loop3", "/other.img".to_owned()), ("loop7", link.display().to_string())] {
            let folder = folder.path().join("block").join(device).join("loop");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("backing_file"), format!("{path}\n")).unwrap();
        }
        let block = folder.path().join("block");
        assert_eq!(over(&image, &block).unwrap().as_deref(), Some("loop7"), "by another name");
        assert_eq!(over(&folder.path().join("none.img"), &block).unwrap(), None);
        assert!(over(&image, &folder.path().join("none")).is_err(), "no list of devices is no answer");
    }
}
