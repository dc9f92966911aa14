//! What keeps an object open: others that were made of it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Answer, Code, Failure};

/// How many objects of one kind use another.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    /// What they use.
    object: &'static str,
    /// One and several of them, in words, with the function that closes one.
    what: &'static str,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    count: usize,
    closed: bool,
}

/// One user. It counts until it is dropped.
#[derive(Debug)]
pub(crate) struct User(Arc<Mutex<State>>);

impl Users {
    /// None yet. `what` says how one is closed: "close each run first (warpbell_run_close)".
    pub(crate) fn new(object: &'static str, what: &'static str) -> Users {
        Users { object, what, state: Arc::default() }
    }

    /// One more, unless the object was closed meanwhile. `first` runs before it counts if it is the only one.
    pub(crate) fn enter(&self, first: impl FnOnce()) -> Answer<User> {
        let mut state = self.state.lock();
        if state.closed {
            let text = format!("{}: the handle was closed meanwhile by another thread", self.object);
            return Err(Failure::new(Code::Handle, text));
        }
        if state.count == 0 {
            first();
        }
        state.count += 1;
        Ok(User(self.state.clone()))
    }

    /// Refused while there are users.
    pub(crate) fn none(&self) -> Answer<()> {
        let state = self.state.lock();
        if state.count == 0 { Ok(()) } else { Err(self.busy(state.count)) }
    }

    /// No more users from now on, or refused while there are some.
    pub(crate) fn close(&self) -> Answer<()> {
        Users::close_all(&[self])
    }

    /// The same for users of several kinds: all of them are closed, or none.
    pub(crate) fn close_all(all: &[&Users]) -> Answer<()> {
        let mut states: Vec<_> = all.iter().map(|users| users.state.lock()).collect();
        if let Some((users, state)) = all.iter().zip(&states).find(|(_, state)| state.count != 0) {
            return Err(users.busy(state.count));
        }
        states.iter_mut().for_each(|state| state.closed = true);
        Ok(())
    }

    fn busy(&self, count: usize) -> Failure {
        Failure::new(Code::Busy, format!("{}: still in use, {count} open: {}", self.object, self.what))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.0.lock().count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_keep_it_open_and_nobody_enters_what_is_closed() {
        let users = Users::new("queues", "close each run first");
        let mut firsts = 0;
        let one = users.enter(|| firsts += 1).unwrap();
        let two = users.enter(|| firsts += 1).unwrap();
        drop(one);
        assert_eq!(users.close().unwrap_err().text, "queues: still in use, 1 open: close each run first");
        drop(two);
        assert_eq!((users.none(), users.close()), (Ok(()), Ok(())));
        assert_eq!(users.enter(|| firsts += 1).unwrap_err().code, Code::Handle);
        assert_eq!(firsts, 1);
    }

    #[test]
    fn users_of_several_kinds_are_closed_together() {
        let (runs, made) = (Users::new("queues", "close runs"), Users::new("queues", "close volumes"));
        let one = made.enter(|| ()).unwrap();
        let text = Users::close_all(&[&runs, &made]).unwrap_err().text;
        assert_eq!(text, "queues: still in use, 1 open: close volumes");
        assert!(runs.enter(|| ()).is_ok(), "nothing was closed");
        drop(one);
        assert_eq!(Users::close_all(&[&runs, &made]), Ok(()));
        assert_eq!(runs.enter(|| ()).unwrap_err().code, Code::Handle);
    }
}
