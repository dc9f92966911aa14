//! The files of a manifest that was compared with its SSD.

use std::collections::BTreeMap;

use super::{Kind, Manifest};
use crate::file_system::no_folder;
use crate::{Entry, EntryKind, Error, FileMap, FileSystem, NamespaceId};

/// Symbolic links that one path may lead through, as in Linux.
const LINKS: usize = 40;

/// The files of a manifest, by path.
#[derive(Clone, Debug)]
pub struct Captured {
    kind: Kind,
    /// Files and links by path. A folder is there because something lies below it: the paths of all folders above could
    /// take far more memory than the manifest.
    nodes: BTreeMap<String, Node>,
    /// The namespace that the manifest was compared with.
    namespace: Option<NamespaceId>,
}

#[derive(Clone, Debug)]
enum Node {
    File(FileMap),
    Link(String),
}

/// What a path without links leads to.
enum Found<'a> {
    File(&'a FileMap),
    Directory,
}

impl Captured {
    pub(super) fn new(manifest: &Manifest, namespace: Option<NamespaceId>) -> Result<Captured, Error> {
        let mut nodes = BTreeMap::new();
        for link in &manifest.links {
            nodes.insert(link.path.clone(), Node::Link(link.target.clone()));
        }
        for file in &manifest.files {
            nodes.insert(file.path.clone(), Node::File(Manifest::map(file)?));
        }
        Ok(Captured { kind: manifest.file_system.kind, nodes, namespace })
    }

    /// The path that `path` leads to, without links, and what is there.
    fn resolve(&self, path: &str) -> Result<(String, Found<'_>), Error> {
        let mut left: Vec<&str> = path.split('/').rev().collect();
        let (mut at, mut links) = (String::new(), 0);
        while let Some(name) = left.pop() {
            match name {
                "" | "." => continue,
                ".." => {
                    at.truncate(at.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = format!("{at}/{name}");
            match self.nodes.get(&next) {
                None if !self.is_folder(&next) => {
                    return Err(Error::absent(path, format!("the manifest has no {next}")));
                }
                Some(Node::Link(_)) if links == LINKS => {
                    return Err(Error::absent(path, format!("more than {LINKS} symbolic links")));
                }
                Some(Node::Link(target)) => {
                    links += 1;
                    at.clear();
                    left.extend(target.split('/').rev());
                }
                Some(Node::File(_)) if left.iter().any(|name| !name.is_empty()) => {
                    return Err(Error::absent(path, format!("{next} is a file, no folder")));
                }
                Some(Node::File(map)) => return Ok((next, Found::File(map))),
                None => at = next,
            }
        }
        Ok((at, Found::Directory))
    }

    /// Whether anything lies below `path`.
    fn is_folder(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        self.nodes.range(prefix.clone()..).next().is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// What lies directly in the folder `path`; of a folder there, all that is below is passed over.
    fn children(&self, path: &str) -> Vec<Entry> {
        let prefix = format!("{path}/");
        let (mut entries, mut from) = (Vec::new(), prefix.clone());
        while let Some((found, node)) = self.nodes.range(from..).next()
            && let Some(rest) = found.strip_prefix(&prefix)
        {
            let name = rest.split('/').next().unwrap_or(rest);
            if name.len() < rest.len() {
                entries.push(Entry { name: name.to_owned(), kind: EntryKind::Directory, size: 0 });
                // The character behind a slash.
                from = format!("{prefix}{name}0");
                continue;
            }
            let (kind, size) = match node {
                Node::File(map) => (EntryKind::File, map.size()),
                Node::Link(_) => (EntryKind::Symlink, 0),
            };
            entries.push(Entry { name: name.to_owned(), kind, size });
            from = format!("{found}\0");
        }
        entries
    }
}

impl FileSystem for Captured {
    fn kind(&self) -> &'static str {
        match self.kind {
            Kind::Ext4 => "ext4, by a manifest",
            Kind::Xfs => "XFS, by a manifest",
        }
    }

    fn entries(&self, path: &str) -> Result<Vec<Entry>, Error> {
        match self.resolve(path)? {
            (found, Found::Directory) => Ok(self.children(&found)),
            (_, Found::File(_)) if path.ends_with('/') => Err(no_folder(path)),
            (found, Found::File(map)) => {
                let name = found.rsplit('/').next().unwrap_or_default().to_owned();
                Ok(vec![Entry { name, kind: EntryKind::File, size: map.size() }])
            }
        }
    }

    fn file(&self, path: &str) -> Result<FileMap, Error> {
        match self.resolve(path)? {
            (_, Found::File(_)) if path.ends_with('/') => Err(no_folder(path)),
            (_, Found::File(map)) => Ok(map.clone().within(self.namespace.clone())),
            (_, Found::Directory) => Err(Error::absent(path, "it is a folder")),
        }
    }
}
