//! One poll group's queues of the copy engines, and the memory that it stages data and mirrors rings in.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpbell_hw::{AccessError, CopyDirection, CopyQueue, Pool, PoolPart, RemoteCopy, Window};

use crate::memory::Remote;

/// Most copies of a poll group that are in flight with one remote memory.
const DEPTH: usize = 512;
/// Bytes of a poll group's staging memory.
const STAGING: usize = 16 << 20;
/// Bytes for its mirrors of rings in remote memory: 80 queue pairs of 1024 entries.
const MIRRORS: usize = 8 << 20;
/// How long copies in flight may take, when somebody waits for them.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whose copy it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A command's: the slot of its flight, and the number of a piece of its data.
    Data { slot: usize, piece: u64 },
    /// Entries of the submission queue with this identifier.
    Submissions(u16),
    /// Entries of the completion queue with this identifier.
    Completions(u16),
}

/// A queue of one remote memory.
struct Link {
    remote: Arc<Remote>,
    queue: Box<dyn CopyQueue>,
    /// By tag; `None` where the tag is free.
    owners: Vec<Option<Owner>>,
    free: Vec<usize>,
    /// Pushed since the last batch.
    pushed: u64,
    /// Keeps the staging memory page-locked for this engine.
    _pin: Option<Box<dyn Any + Send + Sync>>,
}

impl Link {
    fn in_flight(&self) -> usize {
        self.owners.len() - self.free.len()
    }

    fn take_tag(&mut self, owner: Owner) -> usize {
        let tag = self.free.pop().unwrap_or_else(|| {
            self.owners.push(None);
            self.owners.len() - 1
        });
        self.owners[tag] = Some(owner);
        tag
    }

    fn release(&mut self, tag: usize) -> Option<Owner> {
        let owner = self.owners.get_mut(tag)?.take()?;
        self.free.push(tag);
        Some(owner)
    }
}

/// Host memory that engines copy from and to: one piece, page-locked once for both uses.
struct Staging {
    data: Arc<Pool>,
    mirrors: Arc<Pool>,
}

impl Staging {
    fn new() -> Result<Staging, AccessError> {
        let memory = Window::host(STAGING + MIRRORS)?;
        let data = Pool::new(memory.slice(0, STAGING)?);
        Ok(Staging { data, mirrors: Pool::new(memory.slice(STAGING, MIRRORS)?) })
    }
}

/// What engines did for a poll group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) batches: u64,
    pub(crate) copies: u64,
    pub(crate) bytes: u64,
    /// Bytes that went through staging memory.
    pub(crate) staged: u64,
}

/// All copies of one poll group.
#[derive(Default)]
pub(crate) struct Copier {
    links: Vec<Link>,
    staging: Option<Staging>,
    ended: VecDeque<(Owner, Result<(), AccessError>)>,
    /// Queues that did not end their copies in time: they are asked for nothing any more.
    lost: Vec<Link>,
    pub(crate) counts: Counts,
}

impl Copier {
    /// Whether copies are in flight, or have ended and nobody has looked.
    pub(crate) fn is_busy(&self) -> bool {
        !self.ended.is_empty() || self.links.iter().any(|link| link.in_flight() > 0)
    }

    /// Whether a batch is waiting to be submitted.
    pub(crate) fn has_batch(&self) -> bool {
        self.links.iter().any(|link| link.pushed > 0)
    }

    /// Whether so many copies more with a remote memory fit.
    pub(crate) fn has_room(&self, remote: &Arc<Remote>, copies: usize) -> bool {
        let link = self.links.iter().find(|link| Arc::ptr_eq(&link.remote, remote));
        let in_flight = link.map_or(0, Link::in_flight);
        in_flight == 0 || in_flight + copies <= DEPTH
    }

    /// Gets everything ready for copies from and to a remote memory.
    pub(crate) fn open(&mut self, remote: &Arc<Remote>) -> Result<(), AccessError> {
        self.staging()?;
        self.link(remote).map(|_| ())
    }

    /// Memory for the mirror of a ring, for as long as the part lives.
    pub(crate) fn mirror(&mut self, len: usize) -> Result<PoolPart, AccessError> {
        let part = self.staging()?.mirrors.take(len);
        part.map_err(|full| AccessError::Engine {
            reason: format!("mirrors of rings in remote memory: {full}"),
        })
    }

    /// Staging memory for so many bytes; `None` while there is none.
    pub(crate) fn stage(&mut self, len: usize) -> Result<Option<PoolPart>, AccessError> {
        let part = self.staging()?.data.take(len).ok();
        self.counts.staged += part.as_ref().map_or(0, |_| len as u64);
        Ok(part)
    }

    /// The staging memory; made anew after copies were given up.
    fn staging(&mut self) -> Result<&Staging, AccessError> {
        if self.staging.is_none() {
            let staging = Staging::new()?;
            for link in &mut self.links {
                link._pin = pin(&link.remote, staging.data.window());
            }
            self.staging = Some(staging);
        }
        Ok(self.staging.as_ref().expect("it is there by now"))
    }

    fn link(&mut self, remote: &Arc<Remote>) -> Result<&mut Link, AccessError> {
        if let Some(at) = self.links.iter().position(|link| Arc::ptr_eq(&link.remote, remote)) {
            return Ok(&mut self.links[at]);
        }
        let queue = remote.memory.queue()?;
        let _pin = self.staging.as_ref().and_then(|staging| pin(remote, staging.data.window()));
        let (owners, free) = (Vec::new(), Vec::new());
        self.links.push(Link { remote: remote.clone(), queue, owners, free, pushed: 0, _pin });
        Ok(self.links.last_mut().expect("it was just added"))
    }

    /// Adds a copy to the next batch.
    pub(crate) fn push(
        &mut self,
        remote: &Arc<Remote>,
        copy: RemoteCopy,
        owner: Owner,
    ) -> Result<(), AccessError> {
        let bytes = copy.host.len() as u64;
        let link = self.link(remote)?;
        let tag = link.take_tag(owner);
        if let Err(error) = link.queue.push(copy, tag as u64) {
            link.release(tag);
            return Err(error);
        }
        link.pushed += 1;
        self.counts.copies += 1;
        self.counts.bytes += bytes;
        Ok(())
    }

    /// Submits what was pushed, one batch for each remote memory.
    pub(crate) fn submit(&mut self) {
        let mut at = 0;
        while at < self.links.len() {
            let link = &mut self.links[at];
            if link.pushed == 0 {
                at += 1;
                continue;
            }
            link.pushed = 0;
            self.counts.batches += 1;
            match link.queue.submit() {
                Ok(()) => at += 1,
                Err(error) => {
                    let link = self.links.remove(at);
                    tracing::error!(memory = ?link.remote, %error, "a copy queue is lost; the next copy opens another");
                    self.fail_all(&link, &error.to_string());
                }
            }
        }
    }

    fn fail_all(&mut self, link: &Link, reason: &str) {
        for owner in link.owners.iter().flatten() {
            self.ended.push_back((*owner, Err(AccessError::Engine { reason: reason.to_owned() })));
        }
    }

    /// Sees which copies have ended.
    pub(crate) fn poll(&mut self) {
        for link in &mut self.links {
            while link.in_flight() > 0
                && let Some((tag, result)) = link.queue.finished()
            {
                match link.release(tag as usize) {
                    Some(owner) => self.ended.push_back((owner, result)),
                    None => tracing::error!(tag, "a copy engine named a copy that is not in flight"),
                }
            }
        }
    }

    /// A copy that has ended since the last call.
    pub(crate) fn next_ended(&mut self) -> Option<(Owner, Result<(), AccessError>)> {
        self.ended.pop_front()
    }

    /// Whether [`Copier::next_ended`] has anything.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Waits until nothing is in flight. Copies that do not end in time fail, and false is returned: their queue may
    /// still write to their memory.
    pub(crate) fn wait(&mut self) -> bool {
        self.submit();
        let begin = Instant::now();
        loop {
            self.poll();
            if self.links.iter().all(|link| link.in_flight() == 0) {
                return true;
            }
            if begin.elapsed() >= PATIENCE {
                self.give_up();
                return false;
            }
            std::thread::yield_now();
        }
    }

    #[cold]
    fn give_up(&mut self) {
        let (stuck, fine) = self.links.drain(..).partition(|link| link.in_flight() > 0);
        self.links = fine;
        let stuck: Vec<Link> = stuck;
        for link in &stuck {
            let copies = link.in_flight();
            tracing::error!(memory = ?link.remote, copies, "copies did not end within {PATIENCE:?}");
            self.fail_all(link, &format!("it did not end within {PATIENCE:?}"));
        }
        self.lost.extend(stuck);
        // Who staged data for them does so no more, but they may still use it.
        self.staging = None;
    }

    /// A remote memory is not mapped any more; nothing is in flight. False if a queue of it was given up.
    pub(crate) fn forget(&mut self, remote: &Arc<Remote>) -> bool {
        self.links.retain(|link| !Arc::ptr_eq(&link.remote, remote));
        !self.lost.iter().any(|link| Arc::ptr_eq(&link.remote, remote))
    }
}

/// Page-locks staging memory, if the engine does that.
fn pin(remote: &Remote, staging: &Window) -> Option<Box<dyn Any + Send + Sync>> {
    let pinned = remote.memory.pin(staging);
    pinned
        .inspect_err(|error| tracing::warn!(%error, "staging memory is not page-locked: copies are slow"))
        .ok()
}

/// Which way data goes that is to be sent, or taken.
pub(super) fn direction(to_client: bool) -> CopyDirection {
    if to_client { CopyDirection::ToRemote } else { CopyDirection::FromRemote }
}
