//! What may be written: only what its owner named in `--allow-write`. Memory is nobody's data.

use std::path::{Path, PathBuf};

use warpbell::{Bdf, DeviceName, Ssd, same_file};
use warpbell_hw::Nsid;
use warpbell_softctl::{NamespaceConfig, SoftConfig, StoreConfig};
use warpbell_vfio::pci::{self, Sysfs};

/// Why nothing may be written.
#[derive(Debug, thiserror::Error)]
pub enum PermissionError {
    /// The device's name makes no sense.
    #[error(transparent)]
    Name(#[from] warpbell::Error),
    /// Its owner did not name it.
    #[error("writing to {object} is not permitted: {reason}")]
    Refused {
        /// What would be written.
        object: String,
        /// Why not, and what would permit it.
        reason: String,
    },
}

/// What can be refused without opening the device: a file that was not named by its path, or an SSD or socket where
/// nothing was named at all.
pub fn before(name: &DeviceName, allowed: &[String], nsid: Nsid) -> Result<(), PermissionError> {
    let object = match name {
        DeviceName::Soft(text) => match file_behind(text, nsid)? {
            Some(file) if allowed.iter().any(|allowed| same_file(&file, Path::new(allowed))) => return Ok(()),
            Some(file) => file.display().to_string(),
            None => return Ok(()),
        },
        _ if allowed.iter().any(|allowed| may_mean(name, allowed)) => return Ok(()),
        DeviceName::Serial(serial) => serial.clone(),
        DeviceName::VfioUser(socket) => socket.display().to_string(),
        DeviceName::Pci(_) | DeviceName::Node(_) | DeviceName::Resident(_) => name.to_string(),
    };
    Err(refused(&object, allowed))
}

/// What was named of the device in `--allow-write` for file `path` of its namespace `nsid`, as `NAME#/path`. Whoever names a whole device means
/// its blocks, and not the files of a file system on it.
pub fn of_file(
    name: &DeviceName,
    (nsid, path): (Nsid, &str),
    allowed: &[String],
) -> Result<Vec<String>, PermissionError> {
    let split = |allowed: &String| {
        let at = allowed.find("#/")?;
        (allowed[at + 1..] == *path).then(|| allowed[..at].to_owned())
    };
    let devices: Vec<String> = allowed.iter().filter_map(split).collect();
    if !devices.is_empty() {
        return Ok(devices);
    }
    let device = match name {
        DeviceName::Soft(text) => match file_behind(text, nsid)? {
            Some(file) => file.display().to_string(),
            None => name.to_string(),
        },
        DeviceName::Serial(serial) => serial.clone(),
        DeviceName::VfioUser(socket) => socket.display().to_string(),
        DeviceName::Pci(_) | DeviceName::Node(_) | DeviceName::Resident(_) => name.to_string(),
    };
    Err(refused(&format!("{device}#{path}"), allowed))
}

/// Whether `allowed` may turn out to be another name of the device `name`. A function goes by its address and by its
/// serial number, which may not be known before it is open; a socket by its path.
fn may_mean(name: &DeviceName, allowed: &str) -> bool {
    if allowed.parse().as_ref() == Ok(name) {
        return true;
    }
    if let DeviceName::VfioUser(socket) = name {
        return same_file(socket, Path::new(allowed));
    }
    let system = Sysfs::system();
    let bdf = name.function().and_then(|name| name.resolve(&system).ok());
    if let Ok(address) = allowed.parse::<Bdf>() {
        return bdf.is_none_or(|bdf| bdf == address);
    }
    let allowed = allowed.strip_prefix("sn:").unwrap_or(allowed);
    match name {
        DeviceName::Serial(serial) => serial == allowed,
        _ => {
            let function = bdf.and_then(|bdf| pci::function(&system, bdf));
            function.is_none_or(|function| function.serial().is_none_or(|serial| serial == allowed))
        }
    }
}

/// What only the open SSD tells: whether it is one that was named. So far nothing was written to it.
pub fn after(ssd: &Ssd, allowed: &[String]) -> Result<(), PermissionError> {
    if ssd.soft().is_some() || allowed.iter().any(|allowed| ssd.is_named(allowed)) {
        return Ok(());
    }
    Err(refused(ssd.identify().serial(), allowed))
}

fn refused(object: &str, allowed: &[String]) -> PermissionError {
    let reason = if allowed.is_empty() {
        format!("name it in --allow-write={object} to permit it")
    } else {
        let named: Vec<String> = allowed.iter().map(|allowed| format!("--allow-write={allowed}")).collect();
        let named = named.join(" ");
        let verb = if allowed.len() == 1 { "names" } else { "name" };
        format!("{named} {verb} something else, not {object}")
    };
    PermissionError::Refused { object: object.to_owned(), reason }
}

/// The file behind a namespace of a soft controller, if there is one.
pub fn file_behind(text: &str, nsid: Nsid) -> Result<Option<PathBuf>, PermissionError> {
    let stores = stores(text)?;
    let index = (nsid.get() as usize).checked_sub(1);
    Ok(index.and_then(|index| stores.into_iter().nth(index)).flatten())
}

/// The files behind all namespaces of a soft controller.
pub fn files_behind(text: &str) -> Result<Vec<PathBuf>, PermissionError> {
    Ok(stores(text)?.into_iter().flatten().collect())
}

/// Of each namespace of a soft controller the file behind it; nothing of memory.
fn stores(text: &str) -> Result<Vec<Option<PathBuf>>, PermissionError> {
    let config = SoftConfig::parse(text).map_err(warpbell::Error::from)?;
    let file = |namespace: NamespaceConfig| match namespace.store {
        StoreConfig::File { path, .. } => Some(path),
        _ => None,
    };
    Ok(config.namespaces.into_iter().map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, allowed: &[&str], nsid: Nsid) -> Result<(), String> {
        let allowed: Vec<String> = allowed.iter().map(|&text| text.to_owned()).collect();
        let name: DeviceName = name.parse().unwrap();
        before(&name, &allowed, nsid).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_named_file_may_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.img");
        std::fs::write(&path, [0; 512]).unwrap();
        let name = format!("soft:size=1m,file={}", path.display());
        let folder = directory.path().file_name().unwrap().to_str().unwrap();
        let twisted = format!("{}/../{folder}/disk.img", directory.path().display());
        assert_eq!(check(&name, &[], Nsid(1)), Ok(()), "memory needs none");
        assert!(check(&name, &[], Nsid(2)).is_err());
        assert!(check(&name, &["disk.img"], Nsid(2)).is_err());
        assert_eq!(check(&name, &[path.to_str().unwrap()], Nsid(2)), Ok(()));
        assert_eq!(
            check(&name, &["S1", &twisted], Nsid(2)),
            Ok(()),
            "the same file by another path, among others"
        );
    }

    #[test]
    fn a_file_is_written_only_if_it_is_named_with_its_device() {
        let of = |allowed: &[&str]| {
            let allowed: Vec<String> = allowed.iter().map(|&text| text.to_owned()).collect();
            let name = "soft:file=disk.img".parse().unwrap();
            of_file(&name, (Nsid(1), "/a#/b"), &allowed).map_err(|error| error.to_string())
        };
        assert_eq!(of(&["x", "disk.img#/a#/b", "./disk.img#/a#/b"]).unwrap(), ["disk.img", "./disk.img"]);
        let error = of(&[]).unwrap_err();
        assert_eq!(
            error,
            "writing to disk.img#/a#/b is not permitted: name it in --allow-write=disk.img#/a#/b to permit it"
        );
        for other in ["disk.img", "disk.img#/a", "disk.img#/a#/b/"] {
            let error = of(&[other]).unwrap_err();
            let expected = format!("--allow-write={other} names something else, not disk.img#/a#/b");
            assert!(error.ends_with(&expected), "{error}");
        }
    }

    #[test]
    fn an_ssd_is_written_only_under_a_name_of_its_own() {
        let text = check("ff00:41:00.0", &[], Nsid(1)).unwrap_err();
        assert!(text.contains("name it in --allow-write=ff00:41:00.0"), "{text}");
        assert!(check("ff00:41:00.0", &["ff00:41:00.1"], Nsid(1)).is_err());
        assert!(check("ff00:41:00.0", &["ff00:41:00.0"], Nsid(1)).is_ok());
        assert!(check("sn:S64X", &["S64X"], Nsid(1)).is_ok());
        assert!(check("sn:S64X", &["sn:S64X"], Nsid(1)).is_ok());
        assert!(check("sn:S64X", &["S64Y"], Nsid(1)).is_err());
        assert!(check("sn:S64X", &["ff00:41:00.0"], Nsid(1)).is_ok(), "it may be its address");
        let socket = "vfio-user:/run/x.sock";
        assert!(check(socket, &[], Nsid(1)).is_err() && check(socket, &["x"], Nsid(1)).is_err());
        assert!(
            check(socket, &["/run/x.sock"], Nsid(1)).is_ok() && check(socket, &[socket], Nsid(1)).is_ok()
        );
    }

    #[test]
    fn an_ssd_or_socket_is_refused_before_it_is_opened_if_nothing_was_named() {
        for (name, object) in
            [("41:00.0", "0000:41:00.0"), ("sn:S64X", "S64X"), ("vfio-user:/run/x.sock", "/run/x.sock")]
        {
            let text = check(name, &[], Nsid(1)).unwrap_err();
            assert!(text.contains(&format!("name it in --allow-write={object} to permit it")), "{text}");
        }
    }
}
