//! Requests that wait for their replies.

use std::collections::HashMap;

use super::super::error::Object;
use super::super::socket::Message;
use super::super::wire::Command;

/// What is known about one request.
struct Request {
    command: Command,
    object: Object,
    state: State,
}

enum State {
    /// A thread waits for it.
    Waiting,
    /// The reply is there, for that thread to take.
    Arrived(Message),
    /// Nobody waits: its reply is checked when it comes.
    Posted,
    /// Whoever waited has given up.
    Abandoned,
}

/// What a thread that waits finds.
pub(super) enum Outcome {
    Waiting,
    Arrived(Message),
    Ended(String),
}

/// What to do with a reply that came.
#[derive(Debug)]
pub(super) enum Settled {
    /// Somebody waits for it.
    Delivered,
    /// It belonged to a write that nobody waits for: so much for it.
    Posted { object: Object, errno: Option<u32> },
    /// Too late.
    Late { command: Command, object: Object },
    /// It answers no request; what it should have been.
    Unexpected(String),
}

/// All of them, by message identifier.
pub(super) struct Pending {
    requests: HashMap<u16, Request>,
    next: u16,
    posted: usize,
    ended: Option<String>,
}

impl Pending {
    pub(super) fn new() -> Pending {
        Pending { requests: HashMap::new(), next: 1, posted: 0, ended: None }
    }

    pub(super) fn ended(&self) -> Option<&str> {
        self.ended.as_deref()
    }

    /// Returns whether this is the first reason.
    pub(super) fn end(&mut self, reason: String) -> bool {
        let first = self.ended.is_none();
        self.ended.get_or_insert(reason);
        first
    }

    /// Requests whose replies nobody waits for.
    pub(super) fn posted(&self) -> usize {
        self.posted
    }

    /// An identifier that no request has; `None` if there is none.
    pub(super) fn begin(&mut self, command: Command, object: Object, posted: bool) -> Option<u16> {
        if self.requests.len() > usize::from(u16::MAX) {
            return None;
        }
        while self.requests.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        let state = if posted { State::Posted } else { State::Waiting };
        self.posted += usize::from(posted);
        self.requests.insert(id, Request { command, object, state });
        Some(id)
    }

    /// What has become of a request that a thread waits for. A reply is taken.
    pub(super) fn outcome(&mut self, id: u16) -> Outcome {
        let arrived = self.requests.get(&id).is_some_and(|one| matches!(one.state, State::Arrived(_)));
        if arrived && let Some(Request { state: State::Arrived(message), .. }) = self.requests.remove(&id) {
            return Outcome::Arrived(message);
        }
        match &self.ended {
            Some(reason) => Outcome::Ended(reason.clone()),
            None => Outcome::Waiting,
        }
    }

    /// A thread waits no longer. Its reply, if it is there after all.
    pub(super) fn give_up(&mut self, id: u16) -> Option<Message> {
        let Outcome::Arrived(message) = self.outcome(id) else {
            if let Some(request) = self.requests.get_mut(&id) {
                request.state = State::Abandoned;
            }
            return None;
        };
        Some(message)
    }

    /// A reply came.
    pub(super) fn settle(&mut self, message: Message) -> Settled {
        let header = message.header;
        let Some(request) = self.requests.get_mut(&header.id) else {
            return Settled::Unexpected(format!("a reply with identifier {} to nothing", header.id));
        };
        let (command, object) = (request.command, request.object);
        if header.command() != Some(command) {
            let found = super::super::socket::CommandNumber(header.number);
            return Settled::Unexpected(format!("a reply to {found} where one to {command} was due"));
        }
        match request.state {
            State::Waiting => {
                request.state = State::Arrived(message);
                return Settled::Delivered;
            }
            State::Arrived(_) => return Settled::Unexpected(format!("two replies to one {command}")),
            State::Posted | State::Abandoned => {}
        }
        let posted = matches!(request.state, State::Posted);
        self.requests.remove(&header.id);
        if posted {
            self.posted -= 1;
            return Settled::Posted { object, errno: header.refused() };
        }
        Settled::Late { command, object }
    }
}
