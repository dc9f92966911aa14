//! A command whose data takes its time: what has moved of it, and what happens next.

use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use vm_memory::VolatileSlice;
use warpbell_hw::{AccessError, RemoteCopy, Window};
use warpbell_nvme::Status;

use super::copier::{Copier, Owner, direction};
use super::piece::{Part, Piece, Place, parts};
use crate::engine::{Command, Engine, Refused};
use crate::fault::Injector;
use crate::nvm::{Extent, Flip, read_failed, write_failed};
use crate::store::{MemoryStore, Namespace, Taken};
use crate::transfer::{Direction, Segment};

/// Most bytes of a piece.
const PIECE: u64 = 1 << 20;

/// What becomes of the data.
pub(crate) enum Kind {
    /// It is sent to the client, with these bits flipped on the way.
    Read(Vec<Flip>),
    Write,
    Compare,
    /// Ranges of a Dataset Management command.
    Ranges,
    /// There is none: blocks are to be cleared as soon as no engine uses them.
    Zeroes,
}

/// A command on its way.
pub(crate) struct Job {
    kind: Kind,
    /// As it was when the command was checked.
    namespace: Namespace,
    extent: Extent,
    segments: Vec<Segment>,
    /// Bytes whose pieces have begun.
    begun: u64,
    next: u64,
    pieces: Vec<Piece>,
    failed: Option<Refused>,
    /// Copies of it have ended since it went on.
    pub(crate) moved: bool,
    /// It waits for blocks, a buffer, or room in a queue.
    pub(crate) waits: bool,
    /// Its command has completed already: a fault.
    pub(crate) late: bool,
}

impl Job {
    pub(crate) fn new(kind: Kind, namespace: Namespace, extent: Extent, segments: Vec<Segment>) -> Job {
        let (pieces, failed) = (Vec::new(), None);
        let (moved, waits, late) = (false, false, false);
        Job { kind, namespace, extent, segments, begun: 0, next: 0, pieces, failed, moved, waits, late }
    }

    fn direction(&self) -> Direction {
        match self.kind {
            Kind::Read(_) => Direction::ToClient,
            _ => Direction::FromClient,
        }
    }

    /// A copy of a piece has ended.
    pub(crate) fn note(&mut self, piece: u64, result: Result<(), AccessError>) {
        if let Some(piece) = self.pieces.iter_mut().find(|one| one.number == piece) {
            piece.copies -= 1;
            self.moved = true;
        }
        if let Err(error) = result {
            self.fail(&error);
        }
    }

    /// An engine did not do its work. It may the next time.
    fn fail(&mut self, error: &AccessError) {
        tracing::warn!(%error, nsid = self.namespace.nsid, "data of a command was not copied");
        self.failed.get_or_insert(Status::DATA_TRANSFER_ERROR);
    }

    /// The store to copy straight from or to, if every engine that some of a piece is for has pinned it.
    fn pinned_store(&self, parts: &[Part<'_>]) -> Option<&MemoryStore> {
        let plain = match &self.kind {
            Kind::Read(flips) => flips.is_empty(),
            kind => matches!(kind, Kind::Write),
        };
        let store = self.namespace.memory().filter(|_| plain)?;
        let pinned = |part: &Part<'_>| match &part.place {
            Place::Remote(remote, _) => remote.has_pinned(store.address()),
            Place::Host(_) | Place::Bucket => true,
        };
        parts.iter().all(pinned).then_some(store)
    }
}

impl Engine {
    /// Takes a job on as far as it goes. `Some` when it is over: nothing of it is in flight then.
    pub(crate) fn carry_on(
        &mut self,
        job: &mut Job,
        command: Command<'_>,
        slot: usize,
    ) -> Option<Result<(), Refused>> {
        (job.moved, job.waits) = (false, false);
        loop {
            if let Err(status) = self.land(job, command) {
                job.failed.get_or_insert(status);
                continue;
            }
            if job.failed.is_some() || job.begun == job.extent.bytes {
                break;
            }
            match self.begin_piece(job, slot) {
                Ok(true) => {}
                Ok(false) => {
                    job.waits = true;
                    return None;
                }
                Err(status) => drop(job.failed.get_or_insert(status)),
            }
        }
        match job.failed {
            _ if !job.pieces.is_empty() => None,
            Some(status) => Some(Err(status)),
            None => Some(self.conclude_job(job, command)),
        }
    }

    /// All data has moved.
    fn conclude_job(&mut self, job: &Job, command: Command<'_>) -> Result<(), Refused> {
        if job.late {
            return Ok(());
        }
        match job.kind {
            Kind::Read(_) => self.statistics.bytes_read += job.extent.bytes,
            Kind::Write => self.statistics.bytes_written += job.extent.bytes,
            Kind::Zeroes => {}
            Kind::Compare | Kind::Ranges => return Ok(()),
        }
        if matches!(job.kind, Kind::Read(_)) || !self.is_durable_at_once(command.sqe, true) {
            return Ok(());
        }
        job.namespace.make_durable(job.extent.offset, job.extent.bytes).map_err(write_failed)
    }

    /// The namespace of a job must still be what it was.
    fn check_namespace(&self, job: &Job) -> Result<(), Refused> {
        self.namespaces.open()?;
        let now = self.namespaces.active(job.namespace.nsid)?;
        if now.is_still(&job.namespace) { Ok(()) } else { Err(Status::FORMAT_IN_PROGRESS) }
    }

    /// Begins with the next piece; false if there is no room for it at the moment.
    fn begin_piece(&mut self, job: &mut Job, slot: usize) -> Result<bool, Refused> {
        self.check_namespace(job)?;
        let (at, rest) = (job.begun, job.extent.bytes - job.begun);
        if matches!(job.kind, Kind::Zeroes) {
            let Some(_taken) = keep_off(&job.namespace, job.extent.offset, rest, true) else {
                return Ok(false);
            };
            job.namespace.zero(job.extent.offset, rest).map_err(write_failed)?;
            job.begun += rest;
            return Ok(true);
        }
        let len = rest.min(PIECE) as usize;
        let piece = Piece { number: job.next, at, len, copies: 0, staged: None, _taken: None };
        let owner = Owner::Data { slot, piece: job.next };
        let begun = self.begin_at(job, piece, owner)?;
        if begun {
            job.begun += len as u64;
            job.next += 1;
        }
        Ok(begun)
    }

    fn begin_at(&mut self, job: &mut Job, mut piece: Piece, owner: Owner) -> Result<bool, Refused> {
        let Engine { view, copier, scratch, injector, .. } = self;
        let parts = parts(view, &job.segments, piece.at, piece.len, job.direction())?;
        if !has_room(copier, &parts) {
            return Ok(false);
        }
        let Some(host) = open(job, &mut piece, &parts, (copier, scratch))? else { return Ok(false) };
        if let Kind::Read(flips) = &job.kind {
            let inside =
                flips.iter().filter(|flip| (piece.at..piece.at + piece.len as u64).contains(&flip.at));
            inside.for_each(|flip| flip_staged(flip, piece.at, &parts, &host, injector.as_deref()));
        }
        if let Err(error) = begin_copies(job, &mut piece, &parts, (copier, &host, owner)) {
            job.fail(&error);
        }
        job.pieces.push(piece);
        Ok(true)
    }

    /// Does what is to be done with pieces whose copies have ended.
    fn land(&mut self, job: &mut Job, command: Command<'_>) -> Result<(), Refused> {
        let mut at = 0;
        while at < job.pieces.len() {
            if job.pieces[at].copies > 0 {
                at += 1;
            } else if job.failed.is_some() || self.settle_piece(job, at, command)? {
                job.pieces.remove(at);
            } else {
                job.waits = true;
                at += 1;
            }
        }
        Ok(())
    }

    /// A piece has arrived; false if it has to wait for blocks that an engine uses.
    fn settle_piece(&mut self, job: &Job, at: usize, command: Command<'_>) -> Result<bool, Refused> {
        let piece = &job.pieces[at];
        let Some(staged) = &piece.staged else { return Ok(true) };
        let window = slice(staged.window(), 0, piece.len)?;
        let (offset, bytes) = (job.extent.offset + piece.at, piece.len as u64);
        match job.kind {
            Kind::Read(_) | Kind::Zeroes => {}
            Kind::Write => {
                let Some(_off) = keep_off(&job.namespace, offset, bytes, true) else { return Ok(false) };
                self.check_namespace(job)?;
                self.write_staged(&job.namespace, offset, &window)?;
            }
            Kind::Compare => {
                let Some(_off) = keep_off(&job.namespace, offset, bytes, false) else { return Ok(false) };
                self.check_namespace(job)?;
                let given = bytes_of(&window)?;
                self.scratch.resize(piece.len, 0);
                job.namespace.read(offset, &mut self.scratch[..piece.len]).map_err(read_failed)?;
                if given != self.scratch[..piece.len] {
                    return Err(Status::COMPARE_FAILURE);
                }
            }
            Kind::Ranges => {
                let given = bytes_of(&window)?;
                self.check_namespace(job)?;
                self.deallocate(command, &given)?;
            }
        }
        Ok(true)
    }

    fn write_staged(&mut self, namespace: &Namespace, offset: u64, window: &Window) -> Result<(), Refused> {
        match namespace.memory() {
            Some(store) => {
                namespace.before_write(offset, window.len() as u64).map_err(write_failed)?;
                store.write(offset, window.volatile());
                Ok(())
            }
            None => namespace.write(offset, &bytes_of(window)?).map_err(write_failed),
        }
    }
}

/// Keeps copy engines off blocks for as long as the value lives; `None` while one uses them.
pub(crate) fn keep_off(namespace: &Namespace, offset: u64, len: u64, write: bool) -> Option<Option<Taken>> {
    match namespace.memory() {
        Some(store) => store.ranges().take(offset, len, write).map(Some),
        None => Some(None),
    }
}

/// Whether the copies of a piece find room in their queues.
fn has_room(copier: &Copier, parts: &[Part<'_>]) -> bool {
    let remote = |part: &&Part<'_>| matches!(part.place, Place::Remote(..));
    let copies = parts.iter().filter(remote).count();
    let fits = |part: &Part<'_>| match part.place {
        Place::Remote(remote, _) => copier.has_room(remote, copies),
        Place::Host(_) | Place::Bucket => true,
    };
    parts.iter().all(fits)
}

/// The host memory that a piece is copied from or to: the store itself, or a staging buffer, which has the data already
/// if it is for the client. `None` while others use the blocks, or there is no buffer.
fn open(
    job: &Job,
    piece: &mut Piece,
    parts: &[Part<'_>],
    (copier, scratch): (&mut Copier, &mut Vec<u8>),
) -> Result<Option<Window>, Refused> {
    let (offset, bytes) = (job.extent.offset + piece.at, piece.len as u64);
    let to_client = job.direction() == Direction::ToClient;
    if let Some(store) = job.pinned_store(parts) {
        piece._taken = store.ranges().take(offset, bytes, !to_client);
        if piece._taken.is_none() {
            return Ok(None);
        }
        if !to_client {
            job.namespace.before_write(offset, bytes).map_err(write_failed)?;
        }
        return slice(&store.window(), offset as usize, piece.len).map(Some);
    }
    let off = if to_client { keep_off(&job.namespace, offset, bytes, false) } else { Some(None) };
    let Some(_off) = off else { return Ok(None) };
    let staged = copier.stage(piece.len).map_err(|error| refuse(job, &error))?;
    let Some(staged) = staged else { return Ok(None) };
    let window = slice(staged.window(), 0, piece.len)?;
    if to_client {
        fill(&job.namespace, offset, &window, scratch)?;
    }
    piece.staged = Some(staged);
    Ok(Some(window))
}

/// Copies what has a pointer, and asks engines to copy the rest.
fn begin_copies(
    job: &Job,
    piece: &mut Piece,
    parts: &[Part<'_>],
    (copier, host, owner): (&mut Copier, &Window, Owner),
) -> Result<(), AccessError> {
    let to_client = job.direction() == Direction::ToClient;
    let store = job.namespace.memory().filter(|_| piece.staged.is_none());
    for part in parts {
        let window = host.slice(part.at, part.len)?;
        match part.place {
            Place::Bucket => {}
            Place::Host(span) => match store {
                Some(store) => {
                    let offset = job.extent.offset + piece.at + part.at as u64;
                    if to_client { store.read(offset, span) } else { store.write(offset, span) }
                }
                None => move_staged(&window, span, to_client),
            },
            Place::Remote(remote, at) => {
                let copy = RemoteCopy { direction: direction(to_client), at, host: window };
                copier.push(remote, copy, owner)?;
                piece.copies += 1;
            }
        }
    }
    Ok(())
}

/// Flips a bit of what the client gets, and records it. Bits in a bit bucket reach nobody and are not recorded.
fn flip_staged(
    flip: &Flip,
    start: u64,
    parts: &[Part<'_>],
    staged: &Window,
    injector: Option<&Mutex<Injector>>,
) {
    let at = (flip.at - start) as usize;
    let reaches =
        |part: &Part<'_>| (part.at..part.at + part.len).contains(&at) && !matches!(part.place, Place::Bucket);
    if !parts.iter().any(reaches) {
        return;
    }
    let byte = staged.load_u8(at, Ordering::Relaxed);
    staged.store_u8(at, byte ^ flip.mask, Ordering::Relaxed);
    if let Some(injector) = injector {
        injector.lock().note(flip.happened(byte));
    }
}

fn refuse(job: &Job, error: &AccessError) -> Refused {
    tracing::warn!(%error, nsid = job.namespace.nsid, "no staging memory");
    Status::INTERNAL_ERROR
}

fn slice(window: &Window, offset: usize, len: usize) -> Result<Window, Refused> {
    window.slice(offset, len).map_err(|error| {
        tracing::error!(%error, "a piece of data is not where it should be");
        Status::INTERNAL_ERROR
    })
}

fn bytes_of(window: &Window) -> Result<Vec<u8>, Refused> {
    window.to_vec(0, window.len()).map_err(|_| Status::INTERNAL_ERROR)
}

fn move_staged(staged: &Window, client: VolatileSlice<'_>, to_client: bool) {
    let staged = staged.volatile();
    assert_eq!(staged.len(), client.len());
    if to_client { staged.copy_to_volatile_slice(client) } else { client.copy_to_volatile_slice(staged) }
}

/// Reads blocks into staging memory.
fn fill(namespace: &Namespace, offset: u64, into: &Window, scratch: &mut Vec<u8>) -> Result<(), Refused> {
    if let Some(store) = namespace.memory() {
        store.read(offset, into.volatile());
        return Ok(());
    }
    scratch.resize(into.len(), 0);
    namespace.read(offset, &mut scratch[..into.len()]).map_err(read_failed)?;
    into.write(0, &scratch[..into.len()]).map_err(|_| Status::INTERNAL_ERROR)
}
