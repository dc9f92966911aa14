//! What compilers made, on disk: each result a file of its own, which ends with the checksum of what comes before.
//!
//! A result gets its name last, by a rename: processes that compile the same at the same time do not disturb each
//! other. A file whose end does not fit, because a disk was full or somebody wrote into it, counts as absent.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, io};

use super::CompileError;

/// Before the 16 digits of checksum and length. What loads and links ELF files does not mind what follows them.
const MARK: &[u8] = b"\nwarpbell cache ";
const TRAILER: usize = MARK.len() + 16;

/// A folder of results.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// In this folder, or where the user's caches are.
    pub(super) fn open(chosen: Option<&Path>) -> Result<Cache, CompileError> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(folder) = chosen.map(Path::to_owned).or_else(|| set("WARPBELL_CACHE_DIR")) {
            return Ok(Cache { folder });
        }
        let shared = set("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
        let shared = shared.or_else(|| Some(set("HOME")?.join(".cache")));
        let cache = Cache { folder: shared.unwrap_or_else(env::temp_dir).join("warpbell") };
        cache.check_owner(rustix::process::geteuid().as_raw())?;
        Ok(cache)
    }

    /// The code in there is run: a folder that others made, or may write to, is not used unless it was chosen by name.
    fn check_owner(&self, user: u32) -> Result<(), CompileError> {
        use std::os::unix::fs::MetadataExt as _;
        create(&self.folder)?;
        let metadata = fs::metadata(&self.folder).map_err(failed(&self.folder))?;
        if metadata.uid() == user && metadata.mode() & 0o002 == 0 {
            return Ok(());
        }
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
        Err(CompileError::ForeignCache { folder: self.folder.clone(), owner, mode, user })
    }

    /// The file of a result, if it is there and whole.
    pub(super) fn file(&self, name: &str) -> Option<PathBuf> {
        self.content(name).map(|_| self.folder.join(name))
    }

    /// What was kept under that name, if it is there and whole.
    pub(super) fn content(&self, name: &str) -> Option<Vec<u8>> {
        let mut bytes = fs::read(self.folder.join(name)).ok()?;
        let trailer = bytes.split_off(bytes.len().checked_sub(TRAILER)?);
        (trailer == trailer_of(&bytes)).then_some(bytes)
    }

    /// Keeps a result, in place of what has its name.
    pub(super) fn keep(&self, name: &str, mut content: Vec<u8>) -> Result<PathBuf, CompileError> {
        create(&self.folder)?;
        let unfinished = self.folder.join(unique("part"));
        let place = self.folder.join(name);
        content.extend_from_slice(&trailer_of(&content));
        let kept = fs::write(&unfinished, content).and_then(|()| fs::rename(&unfinished, &place));
        if kept.is_err() {
            // Half a file is of no use; that it stays is no further failure.
            let _ = fs::remove_file(&unfinished);
        }
        kept.map_err(failed(&place))?;
        Ok(place)
    }

    /// A new folder for a compiler to work in.
    pub(super) fn work_folder(&self) -> Result<PathBuf, CompileError> {
        let folder = self.folder.join(unique("work"));
        create(&folder)?;
        Ok(folder)
    }
}

/// A name that no other thread or process uses.
fn unique(kind: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn trailer_of(content: &[u8]) -> Vec<u8> {
    let digits = format!("{:08x}{:08x}", crc32c::crc32c(content), content.len() as u32);
    [MARK, digits.as_bytes()].concat()
}

pub(super) fn create(folder: &Path) -> Result<(), CompileError> {
    fs::create_dir_all(folder).map_err(failed(folder))
}

pub(super) fn failed(path: &Path) -> impl FnOnce(io::Error) -> CompileError {
    let path = path.to_owned();
    move |source| CompileError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_there_until_somebody_writes_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        assert_eq!(cache.content("one"), None);
        let file = cache.keep("one", b"result".to_vec()).unwrap();
        assert_eq!(cache.content("one").as_deref(), Some(&b"result"[..]));
        assert_eq!(cache.file("one"), Some(file.clone()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");

        let whole = fs::read(&file).unwrap();
        let changed = [b"R", &whole[1..]].concat();
        for broken in [&whole[..whole.len() - 1], &whole[..7], &whole[..0], &changed] {
            fs::write(&file, broken).unwrap();
            assert_eq!(cache.content("one"), None);
        }
        cache.keep("one", Vec::new()).unwrap();
        assert_eq!(cache.content("one"), Some(Vec::new()), "an empty result is one, too");
    }

    #[test]
    fn a_folder_that_others_made_or_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: folder.path().to_owned() };
        let user = rustix::process::geteuid().as_raw();
        cache.check_owner(user).unwrap();
        let text = cache.check_owner(user + 1).unwrap_err().to_string();
        assert!(text.contains(&format!("belongs to user {user}")), "{text}");
        assert!(text.contains("WARPBELL_CACHE_DIR"), "{text}");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let text = cache.check_owner(user).unwrap_err().to_string();
        assert!(text.contains("mode 777"), "{text}");
    }
}
