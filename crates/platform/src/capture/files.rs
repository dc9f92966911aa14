//! Collecting files of a tree.

use std::collections::BTreeMap;
use std::fs;

use warpbell_vfio::pci::Sysfs;

use super::entry::Entry;

/// Takes files of one tree.
pub(super) struct Collector<'a> {
    /// Where from.
    pub(super) from: &'a Sysfs,
    entries: BTreeMap<String, Entry>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(from: &'a Sysfs) -> Collector<'a> {
        Collector { from, entries: BTreeMap::new() }
    }

    pub(super) fn done(self) -> BTreeMap<String, Entry> {
        self.entries
    }

    /// Takes these bytes for a file.
    pub(super) fn file(&mut self, path: &str, contents: &[u8]) {
        self.entries.insert(path.to_owned(), Entry::file(contents));
    }

    /// Takes a file of text as it is; nothing where it is absent or empty.
    pub(super) fn copy(&mut self, path: &str) {
        if let Some(text) = self.from.text(path) {
            self.file(path, format!("{text}\n").as_bytes());
        }
    }

    /// Takes the lines of a file that `keep` gives something for.
    pub(super) fn lines(&mut self, path: &str, keep: impl Fn(&str) -> Option<String>) {
        let Some(text) = self.from.text(path) else { return };
        let kept: String = text.lines().filter_map(keep).map(|line| line + "\n").collect();
        self.file(path, kept.as_bytes());
    }

    /// Takes a link with its target as it is; nothing where there is none.
    pub(super) fn link(&mut self, path: &str) {
        if let Some(target) = fs::read_link(self.from.path(path))
            .ok()
            .and_then(|target| target.into_os_string().into_string().ok())
        {
            self.entries.insert(path.to_owned(), Entry::Link(target));
        }
    }

    /// Takes a folder that is there, so that it is known to be.
    pub(super) fn folder(&mut self, path: &str) {
        if self.from.exists(path) {
            self.entries.entry(path.to_owned()).or_insert(Entry::Folder);
        }
    }
}
