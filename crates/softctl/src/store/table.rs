//! Which namespaces a controller may use: published by the subsystem, seen by each poll group as a snapshot.

use std::ops::Index;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use warpbell_nvme::Status;

use super::Namespace;
use crate::engine::{Refused, never};

/// The namespaces of one controller at one time.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// By NSID - 1; `None` where none is attached. Empty while `closed`.
    pub(crate) slots: Arc<[Option<Namespace>]>,
    /// The largest valid NSID.
    pub(crate) last: u32,
    /// Why no I/O command is served at all: a sanitize operation.
    pub(crate) closed: Option<Status>,
}

/// The newest table of one controller.
#[derive(Debug)]
pub(crate) struct Published {
    /// Counts changes of the table.
    epoch: AtomicU64,
    table: Mutex<Table>,
}

impl Published {
    pub(crate) fn new(table: Table) -> Published {
        Published { epoch: AtomicU64::new(0), table: Mutex::new(table) }
    }

    /// From now on snapshots that are renewed see `table`.
    pub(crate) fn publish(&self, table: Table) {
        *self.table.lock() = table;
        // Release: a view that sees the new count takes the lock and finds at least this table.
        self.epoch.fetch_add(1, Ordering::Release);
    }
}

/// One thread's snapshot. What it holds stays alive: a namespace that was deleted loses its data when the last
/// snapshot with it is renewed.
pub(crate) struct Namespaces {
    published: Arc<Published>,
    table: Table,
    epoch: u64,
}

impl Namespaces {
    pub(crate) fn new(published: Arc<Published>) -> Namespaces {
        let guard = published.table.lock();
        let (table, epoch) = (guard.clone(), published.epoch.load(Ordering::Acquire));
        drop(guard);
        Namespaces { published, table, epoch }
    }

    /// Takes a new snapshot if the table has changed.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if self.published.epoch.load(Ordering::Acquire) != self.epoch {
            self.renew();
        }
    }

    #[cold]
    fn renew(&mut self) {
        let table = self.published.table.lock();
        self.epoch = self.published.epoch.load(Ordering::Acquire);
        // The old table is dropped under the lock, so that whoever drops it last is ordered after all its users.
        self.table = table.clone();
    }

    /// The active namespace with this index, NSID - 1.
    #[inline(always)]
    pub(crate) fn get(&self, index: usize) -> Option<&Namespace> {
        self.table.slots.get(index)?.as_ref()
    }

    /// All active namespaces.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Namespace> {
        self.table.slots.iter().flatten()
    }

    /// Refuses every I/O command while a sanitize operation is in progress or has failed.
    #[inline]
    pub(crate) fn open(&self) -> Result<(), Refused> {
        self.table.closed.map_or(Ok(()), Err)
    }

    /// The namespace that an I/O command is about: the error tells an inactive NSID from an invalid one (Base 2.0,
    /// 3.2.1).
    #[inline]
    pub(crate) fn active(&self, nsid: u32) -> Result<&Namespace, Refused> {
        self.get((nsid as usize).wrapping_sub(1)).ok_or_else(|| self.refusal(nsid))
    }

    #[cold]
    fn refusal(&self, nsid: u32) -> Refused {
        match self.table.closed {
            Some(status) => status,
            None if nsid == 0 || nsid > self.table.last => never(Status::INVALID_NAMESPACE_OR_FORMAT),
            None => never(Status::INVALID_FIELD),
        }
    }
}

impl Index<usize> for Namespaces {
    type Output = Namespace;

    /// The namespace at an index that the command at hand has looked up in this snapshot.
    fn index(&self, index: usize) -> &Namespace {
        self.get(index).expect("the command looked this namespace up in this snapshot")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::NamespaceConfig;

    fn table(last: u32, attached: &[u32]) -> Table {
        let open = |nsid| Namespace::open(nsid, &NamespaceConfig::memory(4096, 512), false).unwrap();
        let slots = (1..=last).map(|nsid| attached.contains(&nsid).then(|| open(nsid))).collect();
        Table { slots, last, closed: None }
    }

    #[test]
    fn a_snapshot_changes_when_it_is_renewed() {
        let published = Arc::new(Published::new(table(3, &[1, 3])));
        let mut namespaces = Namespaces::new(published.clone());
        assert_eq!(namespaces.active(3).unwrap().nsid, 3);
        published.publish(table(3, &[2]));
        assert!(namespaces.active(3).is_ok(), "the snapshot is older");
        namespaces.refresh();
        assert!(namespaces.active(3).is_err());
        assert_eq!(namespaces.iter().map(|ns| ns.nsid).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn inactive_and_invalid_identifiers_differ() {
        let published = Arc::new(Published::new(table(3, &[1])));
        let mut namespaces = Namespaces::new(published.clone());
        for (nsid, status) in [
            (0, Status::INVALID_NAMESPACE_OR_FORMAT),
            (2, Status::INVALID_FIELD),
            (4, Status::INVALID_NAMESPACE_OR_FORMAT),
            (u32::MAX, Status::INVALID_NAMESPACE_OR_FORMAT),
        ] {
            assert_eq!(namespaces.active(nsid).unwrap_err(), never(status), "NSID {nsid}");
        }
        let closed = Table { slots: [].into(), last: 3, closed: Some(Status::SANITIZE_IN_PROGRESS) };
        published.publish(closed);
        namespaces.refresh();
        assert_eq!(namespaces.active(1).unwrap_err(), Status::SANITIZE_IN_PROGRESS);
        assert_eq!(namespaces.open().unwrap_err(), Status::SANITIZE_IN_PROGRESS);
    }
}
