//! Whether a kernel of this machine may have mounted the file system on an image.

use std::fs;
use std::path::{Path, PathBuf};

use warpbell::{DeviceName, Named, same_file};
use warpbell_hw::Nsid;
use warpbell_workload::permission;

use crate::exit::{Ending, REFUSED};

/// Refuses to write to a file of an image that a loop device is over: whoever mounted that has blocks in its memory. An SSD
/// that is bound to vfio-pci has no such kernel, and what is behind a socket is not known here.
pub fn refuse(named: &Named, nsid: Nsid) -> Result<(), Ending> {
    let DeviceName::Soft(text) = &named.device else { return Ok(()) };
    let Some(image) = permission::file_behind(text, nsid)? else { return Ok(()) };
    match over(&image, Path::new("/sys/block")) {
        Some(device) => Err(Ending::new(
            REFUSED,
            format!(
                "writing to {named} is refused: loop device /dev/{device} is over {}, and a kernel may have it mounted; \
                 unmount it, and losetup -d /dev/{device}",
                image.display()
            ),
        )),
        None => Ok(()),
    }
}

/// The loop device over an image.
fn over(image: &Path, block: &Path) -> Option<String> {
    let mut devices = fs::read_dir(block).ok()?.flatten();
    let found = devices.find(|device| {
        let backing = fs::read_to_string(device.path().join("loop/backing_file"));
        // Linux says so behind the path where the name was removed since.
        backing.is_ok_and(|path| same_file(image, &PathBuf::from(path.trim_end_matches('\n'))))
    });
    found.map(|device| device.file_name().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_device_over_the_image_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("disk.img");
        fs::write(&image, [0; 512]).unwrap();
        for (device, path) in [("loop3", "/other.img".to_owned()), ("loop7", image.display().to_string())] {
            let folder = folder.path().join("block").join(device).join("loop");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("backing_file"), format!("{path}\n")).unwrap();
        }
        let block = folder.path().join("block");
        assert_eq!(over(&image, &block).as_deref(), Some("loop7"));
        assert_eq!(over(&folder.path().join("none.img"), &block), None);
    }
}
