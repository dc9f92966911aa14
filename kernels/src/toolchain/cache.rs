//! What compilers made, on disk: each result a file of its own, which ends with the checksum of what comes before.
//!
//! A result gets its name last, by a rename: processes that compile the same at the same time do not disturb each
//! other. A file whose end does not fit, because a disk was full or somebody wrote into it, counts as absent.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fmt, fs, io};

use tempfile::TempDir;

use super::CompileError;

/// Before the 16 digits of checksum and length. What loads and links ELF files does not mind what follows them.
const MARK: &[u8] = b"\nwarpbell cache ";
const TRAILER: usize = MARK.len() + 16;
/// Names a cache folder.
pub(super) const VARIABLE: &str = "WARPBELL_CACHE_DIR";
/// Begins the names of folders that compilers work in.
const WORK: &str = "work-";
/// How old a work folder is before another process may remove it: it is locked long before.
const ABANDONED: Duration = Duration::from_secs(600);

/// Who chose the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheChoice {
    /// The program, by an option.
    Program,
    /// The user, by `WARPBELL_CACHE_DIR`.
    Variable,
    /// Nobody: it is where the user's caches are.
    Default,
}

impl fmt::Display for CacheChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheChoice::Program => " (the program chose it)",
            CacheChoice::Variable => " (WARPBELL_CACHE_DIR)",
            CacheChoice::Default => "",
        })
    }
}

/// A folder of results.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    choice: CacheChoice,
}

impl Cache {
    /// In this folder, or where the user's caches are.
    pub(super) fn open(chosen: Option<&Path>) -> Result<Cache, CompileError> {
        if let Some(folder) = chosen {
            return Cache::at(folder, CacheChoice::Program);
        }
        if let Some(folder) = set(VARIABLE) {
            return Cache::at(&folder, CacheChoice::Variable);
        }
        let shared = set("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
        // Never below /tmp, where the first to come owns a name.
        let home = || env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache"));
        let shared = shared.or_else(home).ok_or(CompileError::NoCache)?;
        let cache = Cache::at(&shared.join("warpbell"), CacheChoice::Default)?;
        cache.check_owner(rustix::process::geteuid().as_raw())?;
        Ok(cache)
    }

    /// Compilers run in other folders: a relative path is made whole now.
    fn at(folder: &Path, choice: CacheChoice) -> Result<Cache, CompileError> {
        let whole = std::path::absolute(folder);
        let folder = whole.as_deref().unwrap_or(folder).to_owned();
        let cache = Cache { folder, choice };
        whole.map_err(cache.failed()).map(|_| cache)
    }

    /// The code in there is run: a folder that others made, or may write to, is not used unless it was chosen by name.
    fn check_owner(&self, user: u32) -> Result<(), CompileError> {
        use std::os::unix::fs::MetadataExt as _;
        self.create()?;
        let metadata = fs::metadata(&self.folder).map_err(self.failed())?;
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
        let work = self.work_folder()?;
        let (unfinished, place) = (work.path().join("result"), self.folder.join(name));
        content.extend_from_slice(&trailer_of(&content));
        let kept = fs::write(&unfinished, content).and_then(|()| fs::rename(&unfinished, &place));
        kept.map_err(self.failed())?;
        Ok(place)
    }

    /// A new folder for a compiler to work in. Those of processes that were killed go.
    pub(super) fn work_folder(&self) -> Result<WorkFolder, CompileError> {
        self.create()?;
        self.remove_abandoned();
        let folder = tempfile::Builder::new().prefix(WORK).tempdir_in(&self.folder).map_err(self.failed())?;
        let lock = File::open(folder.path()).map_err(self.failed())?;
        // Without locks, as on some network file systems, nobody removes the folder of another.
        let _ = lock.try_lock();
        Ok(WorkFolder { folder, _lock: lock })
    }

    /// Removes work folders that nobody has locked: the system drops the lock with its process.
    fn remove_abandoned(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let work = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(WORK));
        for path in work.map(|entry| entry.path()) {
            let Ok(folder) = File::open(&path) else { continue };
            if is_old(&folder) && folder.try_lock().is_ok() {
                // Another process may be removing it, too.
                let _ = fs::remove_dir_all(&path);
            }
        }
    }

    fn create(&self) -> Result<(), CompileError> {
        fs::create_dir_all(&self.folder).map_err(self.failed())
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> CompileError {
        let (folder, choice) = (self.folder.clone(), self.choice);
        move |source| CompileError::Cache { folder, choice, source }
    }
}

/// A folder for one compilation. It goes when this is dropped.
#[derive(Debug)]
pub(super) struct WorkFolder {
    folder: TempDir,
    /// Says to other processes that this one lives.
    _lock: File,
}

impl WorkFolder {
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn set(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn is_old(folder: &File) -> bool {
    let changed = folder.metadata().and_then(|metadata| metadata.modified());
    let age = changed.map(|changed| SystemTime::now().duration_since(changed).unwrap_or_default());
    age.is_ok_and(|age| age > ABANDONED)
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
        let cache = Cache::at(folder.path(), CacheChoice::Default).unwrap();
        let user = rustix::process::geteuid().as_raw();
        cache.check_owner(user).unwrap();
        let text = cache.check_owner(user + 1).unwrap_err().to_string();
        assert!(text.contains(&format!("belongs to user {user}")), "{text}");
        assert!(text.contains("WARPBELL_CACHE_DIR"), "{text}");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let text = cache.check_owner(user).unwrap_err().to_string();
        assert!(text.contains("mode 777"), "{text}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named_with_who_chose_it() {
        for (choice, words) in [
            (CacheChoice::Program, "cache folder /dev/null/cache (the program chose it): Not a directory"),
            (CacheChoice::Variable, "cache folder /dev/null/cache (WARPBELL_CACHE_DIR): Not a directory"),
            (CacheChoice::Default, "cache folder /dev/null/cache: Not a directory"),
        ] {
            let cache = Cache::at(Path::new("/dev/null/cache"), choice).unwrap();
            let error = cache.keep("one", Vec::new()).unwrap_err().to_string();
            assert!(error.starts_with(words) && error.contains("may write to"), "{error}");
        }
    }

    #[test]
    fn a_relative_folder_lies_below_the_current_one() {
        let cache = Cache::at(Path::new("some/cache"), CacheChoice::Variable).unwrap();
        assert_eq!(cache.folder, env::current_dir().unwrap().join("some/cache"));
        assert!(Cache::at(Path::new(""), CacheChoice::Program).is_err());
    }

    #[test]
    fn work_folders_of_killed_processes_go_and_those_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        let used = cache.work_folder().unwrap();
        let [killed, young] = ["work-4711-0", "work-4711-1"].map(|name| folder.path().join(name));
        for path in [&killed, &young] {
            fs::create_dir_all(path.join("include")).unwrap();
        }
        let hours_ago = SystemTime::now() - Duration::from_secs(7200);
        for path in [&killed, used.path()] {
            File::open(path).unwrap().set_modified(hours_ago).unwrap();
        }
        drop(cache.work_folder().unwrap());
        assert_eq!([&killed, &young].map(|path| path.exists()), [false, true]);
        assert!(used.path().exists(), "its process lives");
    }
}
