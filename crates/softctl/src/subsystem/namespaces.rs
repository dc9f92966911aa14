//! The life of namespaces: created, attached, detached, formatted, deleted.

use std::collections::BTreeSet;
use std::sync::Arc;

use warpbell_nvme::Status;

use super::{State, Subsystem};
use crate::config::{NamespaceConfig, StoreConfig};
use crate::engine::{Refused, never};
use crate::store::{Namespace, granules};

/// A namespace that exists.
pub(crate) struct Allocated {
    pub(crate) namespace: Namespace,
    /// Whether several controllers may have it attached (NMIC).
    pub(crate) shared: bool,
    /// Which creation made it; 0 for one of the configuration.
    pub(crate) edition: u64,
    /// The controllers that it is attached to.
    pub(crate) attached: BTreeSet<u16>,
}

/// What Namespace Management asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewNamespace {
    pub(crate) blocks: u64,
    /// A block has `1 << shift` bytes.
    pub(crate) shift: u8,
    pub(crate) shared: bool,
}

impl Allocated {
    pub(super) fn configured(namespace: Namespace, shared: bool) -> Allocated {
        Allocated { namespace, shared, edition: 0, attached: BTreeSet::new() }
    }

    /// Whether a controller that joins the subsystem has it attached from the start.
    pub(super) fn joins(&self, cntlid: u16) -> bool {
        self.edition == 0 && (self.shared || cntlid == 1)
    }
}

impl State {
    /// The namespace `nsid`, attached or not. The error tells an unallocated NSID from an invalid one.
    pub(crate) fn allocated(&mut self, nsid: u32, last: u32) -> Result<&mut Allocated, Refused> {
        let missing = if nsid == 0 || nsid > last {
            never(Status::INVALID_NAMESPACE_OR_FORMAT)
        } else {
            never(Status::INVALID_FIELD)
        };
        self.namespaces.get_mut(&nsid).ok_or(missing)
    }

    /// Bytes of all namespaces and of what is left.
    pub(crate) fn total_capacity(&self) -> u128 {
        let bytes = |one: &Allocated| u128::from(one.namespace.blocks) << one.namespace.shift;
        u128::from(self.unallocated) + self.namespaces.values().map(bytes).sum::<u128>()
    }

    /// The bytes that a new namespace would take, if there are as many.
    pub(crate) fn room_for(&self, new: NewNamespace) -> Result<u64, u128> {
        let wanted = u128::from(new.blocks) << new.shift;
        let fits = u64::try_from(wanted).ok().map(granules).filter(|bytes| *bytes <= self.unallocated);
        fits.ok_or(wanted.next_multiple_of(granules(1).into()))
    }
}

impl Subsystem {
    /// Creates a namespace, attached to no controller. Returns its NSID.
    pub(crate) fn create(&self, new: NewNamespace) -> Result<u32, Refused> {
        self.change(|state| {
            let bytes = state.room_for(new).map_err(|_| never(Status::NAMESPACE_INSUFFICIENT_CAPACITY))?;
            let free = (1..=self.last_nsid).find(|nsid| !state.namespaces.contains_key(nsid));
            let nsid = free.ok_or(never(Status::NAMESPACE_IDENTIFIER_UNAVAILABLE))?;
            let store = StoreConfig::Memory { bytes: new.blocks << new.shift };
            let config = NamespaceConfig { block_size: 1 << new.shift, store };
            let namespace = Namespace::open(nsid, &config, self.shared).map_err(|error| {
                tracing::error!(%error, nsid, "a namespace cannot be created");
                Status::INTERNAL_ERROR
            })?;
            let cache = self.volatile.then(Arc::default);
            let namespace = Namespace { cache, ..namespace };
            state.unallocated -= bytes;
            state.created += 1;
            let edition = state.created;
            let attached = BTreeSet::new();
            state.namespaces.insert(nsid, Allocated { namespace, shared: new.shared, edition, attached });
            Ok(nsid)
        })
    }

    /// Deletes one namespace, or all with `None`.
    pub(crate) fn delete(&self, nsid: Option<u32>, by: u16) -> Result<(), Refused> {
        self.change(|state| {
            if let Some(nsid) = nsid {
                state.allocated(nsid, self.last_nsid)?;
            }
            let gone: Vec<u32> = match nsid {
                Some(nsid) => vec![nsid],
                None => state.namespaces.keys().copied().collect(),
            };
            for nsid in gone {
                if let Some(old) = state.namespaces.remove(&nsid) {
                    state.unallocated += old.namespace.allocated();
                    state.tell_changed(nsid, &old.attached, by);
                    state.note_deleted(nsid);
                }
            }
            Ok(())
        })
    }

    /// Formats one namespace, or with `None` all that are attached to the controller, in blocks of `1 << shift` bytes.
    pub(crate) fn format(&self, nsid: Option<u32>, shift: u8, by: u16) -> Result<(), Refused> {
        self.change(|state| {
            if let Some(nsid) = nsid {
                state.allocated(nsid, self.last_nsid)?;
            }
            let chosen = |one: &Allocated| match nsid {
                Some(nsid) => one.namespace.nsid == nsid,
                None => one.attached.contains(&by),
            };
            if state.namespaces.values().any(|one| chosen(one) && !one.namespace.writable) {
                return Err(never(Status::NAMESPACE_WRITE_PROTECTED));
            }
            let mut changed = Vec::new();
            for one in state.namespaces.values_mut().filter(|one| chosen(one)) {
                let erased = one.namespace.erased(self.shared).map_err(|error| {
                    tracing::error!(%error, nsid = one.namespace.nsid, "a format failed");
                    Status::INTERNAL_ERROR
                })?;
                if erased.shift != shift {
                    changed.push((erased.nsid, one.attached.clone()));
                }
                one.namespace = erased.reformatted(shift);
            }
            changed.iter().for_each(|(nsid, attached)| state.tell_changed(*nsid, attached, by));
            Ok(())
        })
    }

    /// Attaches a namespace to controllers: to all of them, or, with an error, to none.
    pub(crate) fn attach(&self, nsid: u32, whom: &BTreeSet<u16>, by: u16) -> Result<(), Refused> {
        self.change(|state| {
            check_members(state, whom)?;
            let one = state.allocated(nsid, self.last_nsid)?;
            if !one.attached.is_disjoint(whom) {
                return Err(never(Status::NAMESPACE_ALREADY_ATTACHED));
            }
            if !one.shared && one.attached.len() + whom.len() > 1 {
                return Err(never(Status::NAMESPACE_IS_PRIVATE));
            }
            one.attached.extend(whom);
            state.tell_changed(nsid, whom, by);
            Ok(())
        })
    }

    /// Detaches a namespace from controllers: from all of them, or, with an error, from none.
    pub(crate) fn detach(&self, nsid: u32, whom: &BTreeSet<u16>, by: u16) -> Result<(), Refused> {
        self.change(|state| {
            check_members(state, whom)?;
            let one = state.allocated(nsid, self.last_nsid)?;
            if !one.attached.is_superset(whom) {
                return Err(never(Status::NAMESPACE_NOT_ATTACHED));
            }
            one.attached.retain(|cntlid| !whom.contains(cntlid));
            state.tell_changed(nsid, whom, by);
            Ok(())
        })
    }
}

fn check_members(state: &State, whom: &BTreeSet<u16>) -> Result<(), Refused> {
    let known: BTreeSet<u16> = state.cntlids().collect();
    if !whom.is_subset(&known) {
        return Err(never(Status::INVALID_CONTROLLER_LIST));
    }
    Ok(())
}
