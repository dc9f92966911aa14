//! Which queue identifiers are in use, and who owns the memory of queues that nobody can delete.

use parking_lot::Mutex;
use warpbell_hw::Qid;

use crate::ControllerState;
use crate::mutation::{Mutation, off};
use crate::queue_pair::Rings;

/// What became of a queue identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdState {
    Free,
    /// The queues exist in the controller.
    Live,
    /// The submission queue is deleted; the completion queue exists in the controller.
    CompletionOnly,
    /// The controller has forgotten the queues; a `QueuePair` with this identifier still exists.
    Retired,
    /// The queues may exist in the controller: their creation or deletion failed, or was not answered.
    Lost,
}

/// What is left of a queue pair to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Both queues.
    Both,
    /// Both, as far as known; either may be gone.
    Unsure,
    /// The completion queue.
    Completion,
    /// Nothing.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct Id {
    state: IdState,
    /// A `QueuePair` with this identifier exists.
    held: bool,
}

/// Shared by a controller and its queue pairs, so that either may be dropped first.
#[derive(Debug)]
pub(crate) struct QueueBook(Mutex<Book>);

#[derive(Debug)]
struct Book {
    state: ControllerState,
    /// Index i is queue i + 1.
    ids: Vec<Id>,
    granted: u16,
    /// Rings that the controller may still access, though their `QueuePair` was dropped.
    orphans: Vec<(Qid, Rings)>,
    /// What else the controller may still access.
    kept: Vec<Kept>,
}

/// Memory that is let go of when it is dropped.
type Kept = Box<dyn std::any::Any + Send>;

/// How many identifiers are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdCounts {
    pub(crate) granted: u16,
    pub(crate) in_use: usize,
    pub(crate) lost: usize,
}

impl QueueBook {
    pub(crate) fn new() -> QueueBook {
        let book =
            Book { state: ControllerState::Disabled, ids: vec![], granted: 0, orphans: vec![], kept: vec![] };
        QueueBook(Mutex::new(book))
    }

    pub(crate) fn state(&self) -> ControllerState {
        self.0.lock().state
    }

    pub(crate) fn set_state(&self, state: ControllerState) {
        tracing::debug!(%state, "controller state");
        self.0.lock().state = state;
    }

    /// How many queue pairs the driver may create from now on.
    pub(crate) fn set_granted(&self, granted: u16) {
        let mut book = self.0.lock();
        book.granted = granted;
        let known = book.ids.len().max(usize::from(granted));
        book.ids.resize(known, Id { state: IdState::Free, held: false });
    }

    /// The lowest free identifier that is not `in_question`: an unanswered command about it may be executed yet.
    pub(crate) fn take(&self, in_question: &[Qid]) -> Result<Qid, IdCounts> {
        let mut book = self.0.lock();
        let granted = usize::from(book.granted);
        let retired = |id: &Id| id.state == IdState::Retired && off(Mutation::IdOfLivingPair);
        let free = |(index, id): (usize, &Id)| {
            (id.state == IdState::Free || retired(id)) && !in_question.contains(&Qid(index as u16 + 1))
        };
        let Some(index) = book.ids.iter().take(granted).enumerate().position(free) else {
            return Err(book.counts());
        };
        book.ids[index] = Id { state: IdState::Live, held: true };
        Ok(Qid(index as u16 + 1))
    }

    /// The controller deleted both queues.
    pub(crate) fn retire(&self, qid: Qid) {
        self.set(qid, IdState::Retired);
    }

    /// The controller deleted the submission queue.
    pub(crate) fn halve(&self, qid: Qid) {
        self.set(qid, IdState::CompletionOnly);
    }

    /// What the controller still has of the pair.
    pub(crate) fn left(&self, qid: Qid) -> Left {
        match self.0.lock().id(qid).state {
            IdState::Live => Left::Both,
            IdState::Lost => Left::Unsure,
            IdState::CompletionOnly => Left::Completion,
            IdState::Retired | IdState::Free => Left::Nothing,
        }
    }

    /// The controller may or may not still have the queues.
    pub(crate) fn lose(&self, qid: Qid) {
        self.set(qid, IdState::Lost);
    }

    fn set(&self, qid: Qid, state: IdState) {
        let mut book = self.0.lock();
        let id = book.id(qid);
        id.state = if id.held || state != IdState::Retired { state } else { IdState::Free };
    }

    /// Whether the controller has forgotten the queues, so that nobody accesses their memory.
    pub(crate) fn is_retired(&self, qid: Qid) -> bool {
        self.0.lock().id(qid).state == IdState::Retired
    }

    /// A `QueuePair` is dropped: its memory goes, unless the controller may still access it.
    pub(crate) fn drop_pair(&self, qid: Qid, rings: Rings) {
        let mut book = self.0.lock();
        let id = book.id(qid);
        id.held = false;
        if id.state == IdState::Retired {
            id.state = IdState::Free;
            return;
        }
        tracing::warn!(%qid, "dropped without being deleted; its rings stay mapped");
        book.orphans.push((qid, rings));
    }

    /// Keeps memory that the controller may still access, until it is disabled.
    pub(crate) fn keep(&self, what: Kept) {
        self.0.lock().kept.push(what);
    }

    /// Identifiers of dropped pairs that the controller may still have.
    pub(crate) fn orphans(&self) -> Vec<Qid> {
        let book = self.0.lock();
        book.orphans.iter().map(|(qid, _)| *qid).filter(|qid| book.is_live(*qid)).collect()
    }

    /// Identifiers of dropped pairs that the controller may still have, those included whose deletion failed before.
    pub(crate) fn all_orphans(&self) -> Vec<Qid> {
        self.0.lock().orphans.iter().map(|(qid, _)| *qid).collect()
    }

    /// The controller deleted the queues of a dropped pair: frees its memory and identifier.
    pub(crate) fn bury(&self, qid: Qid) {
        let mut book = self.0.lock();
        book.orphans.retain(|(orphan, _)| *orphan != qid);
        book.id(qid).state = IdState::Free;
    }

    /// Identifiers whose queues the controller has, as far as known.
    pub(crate) fn live(&self) -> Vec<Qid> {
        let book = self.0.lock();
        (1..=book.ids.len() as u16).map(Qid).filter(|qid| book.is_live(*qid)).collect()
    }

    /// The controller is disabled: it has no queues and touches no memory. Returns those it lost.
    pub(crate) fn forget_queues(&self) -> Vec<Qid> {
        let mut book = self.0.lock();
        book.orphans.clear();
        let kept = std::mem::take(&mut book.kept);
        let mut lost = Vec::new();
        for (id, number) in book.ids.iter_mut().zip(1..) {
            if matches!(id.state, IdState::Live | IdState::CompletionOnly | IdState::Lost) {
                lost.push(Qid(number));
            }
            id.state = if id.held { IdState::Retired } else { IdState::Free };
        }
        // Whatever that runs, it may want the book.
        drop(book);
        drop(kept);
        lost
    }
}

impl Book {
    fn id(&mut self, qid: Qid) -> &mut Id {
        &mut self.ids[usize::from(qid.0) - 1]
    }

    fn is_live(&self, qid: Qid) -> bool {
        self.ids[usize::from(qid.0) - 1].state == IdState::Live
    }

    fn counts(&self) -> IdCounts {
        let count = |state| self.ids.iter().filter(|id| id.state == state).count();
        IdCounts {
            granted: self.granted,
            in_use: count(IdState::Live) + count(IdState::Retired),
            lost: count(IdState::Lost) + count(IdState::CompletionOnly),
        }
    }
}

impl Drop for Book {
    fn drop(&mut self) {
        if matches!(self.state, ControllerState::Disabled | ControllerState::Gone) {
            return;
        }
        for (qid, rings) in self.orphans.drain(..) {
            tracing::error!(%qid, state = %self.state, "ring memory leaked: the controller may still write to it");
            std::mem::forget(rings);
        }
        std::mem::forget(std::mem::take(&mut self.kept));
    }
}
