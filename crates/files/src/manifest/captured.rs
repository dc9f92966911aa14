//! The files of a manifest that was compared with its SSD.

use std::collections::BTreeMap;

use super::{Kind, Manifest};
use crate::{Entry, EntryKind, Error, FileMap, FileSystem};

/// Symbolic links that one path may lead through, as in Linux.
const LINKS: usize = 40;

/// The files of a manifest, by path.
#[derive(Clone, Debug)]
pub struct Captured {
    kind: Kind,
    /// By path without a slash at its end: the root's is empty.
    nodes: BTreeMap<String, Node>,
}

#[derive(Clone, Debug)]
enum Node {
    File(FileMap),
    Link(String),
    Directory,
}

impl Captured {
    pub(super) fn new(manifest: &Manifest) -> Result<Captured, Error> {
        let mut nodes = BTreeMap::from([(String::new(), Node::Directory)]);
        let mut add = |path: &str, node| {
            for (end, _) in path.match_indices('/').skip(1) {
                nodes.entry(path[..end].to_owned()).or_insert(Node::Directory);
            }
            nodes.insert(path.to_owned(), node);
        };
        for link in &manifest.links {
            add(&link.path, Node::Link(link.target.clone()));
        }
        for file in &manifest.files {
            add(&file.path, Node::File(Manifest::map(file)?));
        }
        Ok(Captured { kind: manifest.file_system.kind, nodes })
    }

    /// The path that `path` leads to, without links.
    fn resolve(&self, path: &str) -> Result<&str, Error> {
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
                None => return Err(Error::absent(path, format!("the manifest has no {next}"))),
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
                Some(_) => at = next,
            }
        }
        match self.nodes.get_key_value(&at) {
            Some((found, _)) => Ok(found),
            None => Err(Error::absent(path, format!("the manifest has no {at}"))),
        }
    }

    fn entry(path: &str, node: &Node) -> Entry {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let (kind, size) = match node {
            Node::File(map) => (EntryKind::File, map.size()),
            Node::Link(_) => (EntryKind::Symlink, 0),
            Node::Directory => (EntryKind::Directory, 0),
        };
        Entry { name, kind, size }
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
        let found = self.resolve(path)?;
        let node = &self.nodes[found];
        if !matches!(node, Node::Directory) {
            return Ok(vec![Captured::entry(found, node)]);
        }
        let prefix = format!("{found}/");
        let below = self.nodes.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let direct = below.filter(|(path, _)| !path[prefix.len()..].contains('/'));
        Ok(direct.map(|(path, node)| Captured::entry(path, node)).collect())
    }

    fn file(&self, path: &str) -> Result<FileMap, Error> {
        let found = self.resolve(path)?;
        match &self.nodes[found] {
            Node::File(map) => Ok(map.clone()),
            _ => Err(Error::absent(path, "it is a folder")),
        }
    }
}
