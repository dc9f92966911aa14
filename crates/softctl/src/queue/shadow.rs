//! A doorbell as the controller reads it: a register, or, after Doorbell Buffer Config (Base 2.0, 5.8), the client's
//! shadow of it.
//!
//! A busy controller polls the shadow, and the client writes no register. Before it stops polling it says so in
//! EventIdx: the client writes the register when it passes that value. The order is what matters: EventIdx, a full
//! fence, another poll of the shadow, and only then sleep. Without the second poll an update that the client made
//! in between would be seen by nobody.

use std::sync::atomic::{Ordering, fence};

use warpbell_hw::{Shadow, Window};

/// What a register holds while a controller sleeps on it. No queue has such an entry, so any write shows.
const UNWRITTEN: u32 = u32::MAX;

/// How far the controller has gone to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// It polls the shadow.
    Awake,
    /// It saw nothing new, and is about to say so.
    Arming,
    /// It wrote EventIdx, and has to poll again.
    Rechecking,
    /// It waits for the register.
    Asleep,
}

struct Shadowed {
    at: Shadow,
    watch: Watch,
    /// The shadow's value when it was last polled.
    value: u32,
    /// Writes of the register that were noticed.
    traps: u64,
    recheck: bool,
}

/// One doorbell.
pub(crate) struct Bell {
    register: Window,
    /// What is polled: the register, or the shadow of an awake controller.
    watched: Window,
    /// The value of `watched` when it was last polled.
    seen: u32,
    shadow: Option<Box<Shadowed>>,
}

impl Bell {
    /// The doorbell of a new queue, whose register starts at zero.
    pub(crate) fn new(register: Window) -> Bell {
        register.store_u32(0, 0, Ordering::Relaxed);
        Bell { watched: register.clone(), register, seen: 0, shadow: None }
    }

    /// From now on the client writes the shadow. `value` is what the doorbell last had.
    pub(crate) fn attach(&mut self, at: Shadow, value: u32, recheck: bool) {
        at.event.store_u32(0, value, Ordering::Relaxed);
        self.watched = at.entry.clone();
        self.seen = value;
        self.shadow = Some(Box::new(Shadowed { at, watch: Watch::Awake, value, traps: 0, recheck }));
    }

    /// Whether the client writes a shadow.
    #[inline]
    pub(crate) fn shadowed(&self) -> bool {
        self.shadow.is_some()
    }

    /// A new value, if there is one.
    #[inline]
    pub(crate) fn poll(&mut self) -> Option<u32> {
        // Acquire: queue entry accesses before the doorbell store, the doorbell load before queue entry accesses.
        let value = self.watched.load_u32(0, Ordering::Acquire);
        if value == self.seen {
            return None;
        }
        if self.shadow.is_some() {
            return self.poll_shadow();
        }
        self.seen = value;
        Some(value)
    }

    /// Something changed: the shadow, or the register of a sleeping controller.
    fn poll_shadow(&mut self) -> Option<u32> {
        let shadow = self.shadow.as_deref_mut()?;
        if shadow.watch == Watch::Asleep {
            shadow.traps += 1;
            self.watched = shadow.at.entry.clone();
        }
        shadow.watch = Watch::Awake;
        let value = shadow.at.entry.load_u32(0, Ordering::Acquire);
        let new = value != shadow.value;
        (shadow.value, self.seen) = (value, value);
        new.then_some(value)
    }

    /// Goes to sleep, unless there is something new after all.
    pub(crate) fn doze(&mut self) {
        let Some(shadow) = self.shadow.as_deref_mut() else { return };
        if shadow.watch == Watch::Asleep || self.watched.load_u32(0, Ordering::Acquire) != self.seen {
            return;
        }
        // A write that this overwrites came after its shadow's, which the recheck then sees.
        let before = self.register.swap_u32(0, UNWRITTEN, Ordering::AcqRel);
        shadow.traps += u64::from(before != UNWRITTEN && before != 0);
        shadow.arm();
        if shadow.recheck && shadow.at.entry.load_u32(0, Ordering::Acquire) != shadow.value {
            return;
        }
        shadow.watch = Watch::Asleep;
        self.watched = self.register.clone();
        self.seen = UNWRITTEN;
    }

    /// Register writes noticed since the last call.
    pub(crate) fn take_traps(&mut self) -> u64 {
        self.shadow.as_deref_mut().map_or(0, |shadow| std::mem::take(&mut shadow.traps))
    }

    /// Stepped mode: whether a step has something to poll.
    pub(crate) fn awake(&self) -> bool {
        self.shadow.as_ref().is_some_and(|shadow| shadow.watch != Watch::Asleep)
    }

    /// Stepped mode: one step of polling, or of going to sleep. A new value, if there is one.
    pub(crate) fn step(&mut self) -> Option<u32> {
        let shadow = self.shadow.as_deref_mut()?;
        if shadow.watch == Watch::Arming {
            shadow.arm();
            shadow.watch = if shadow.recheck { Watch::Rechecking } else { Watch::Asleep };
            return None;
        }
        let value = shadow.at.entry.load_u32(0, Ordering::Acquire);
        if value == shadow.value {
            shadow.watch = if shadow.watch == Watch::Rechecking { Watch::Asleep } else { Watch::Arming };
            return None;
        }
        shadow.watch = Watch::Awake;
        (shadow.value, self.seen) = (value, value);
        Some(value)
    }

    /// Stepped mode: the register was written.
    pub(crate) fn wake(&mut self) {
        if let Some(shadow) = &mut self.shadow {
            shadow.watch = Watch::Awake;
        }
    }

    /// The client unmapped its pages: what it writes there is not seen any more, and EventIdx reaches nobody.
    pub(crate) fn lose_pages(&mut self) {
        let Some(shadow) = self.shadow.as_deref_mut() else { return };
        let nowhere = Window::host(8).and_then(|window| Ok((window.slice(0, 4)?, window.slice(4, 4)?)));
        match nowhere {
            Ok((entry, event)) => {
                entry.store_u32(0, shadow.value, Ordering::Relaxed);
                if shadow.watch != Watch::Asleep {
                    self.watched = entry.clone();
                }
                shadow.at = Shadow { entry, event };
            }
            Err(error) => tracing::error!(%error, "no memory in place of a lost doorbell page"),
        }
    }

    /// The client's pages are back. What it reads in EventIdx may be old, so the shadow is polled again.
    pub(crate) fn find_pages(&mut self, at: Shadow) {
        let Some(shadow) = self.shadow.as_deref_mut() else { return };
        self.watched = at.entry.clone();
        self.seen = shadow.value;
        shadow.watch = Watch::Awake;
        shadow.at = at;
    }

    /// Lets go of the register: it reads zero again.
    pub(crate) fn retire(&self) {
        self.register.store_u32(0, 0, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn register(&self) -> &Window {
        &self.register
    }
}

impl Shadowed {
    /// Asks for the register to be written when the client passes the value last seen.
    fn arm(&self) {
        self.at.event.store_u32(0, self.value, Ordering::Release);
        // The client stores its shadow, fences, and loads EventIdx: one of the two sees the other's store.
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bell(recheck: bool) -> (Bell, Shadow, Window) {
        let memory = Window::host(4096).unwrap();
        let word = |at| memory.slice(at, 4).unwrap();
        let (shadow, register) = (Shadow { entry: word(0), event: word(64) }, word(128));
        let mut bell = Bell::new(register.clone());
        bell.attach(shadow.clone(), 0, recheck);
        (bell, shadow, register)
    }

    #[test]
    fn lost_pages_are_neither_read_nor_written() {
        let (pages, register) = (Window::host(8).unwrap(), Window::host(4).unwrap());
        let at = Shadow { entry: pages.slice(0, 4).unwrap(), event: pages.slice(4, 4).unwrap() };
        let mut bell = Bell::new(register);
        bell.attach(at, 3, true);
        bell.lose_pages();
        pages.store_u32(0, 7, Ordering::Relaxed);
        pages.store_u32(4, 0xc5, Ordering::Relaxed);
        assert_eq!(bell.poll(), None);
        bell.doze();
        assert_eq!(pages.load_u32(4, Ordering::Relaxed), 0xc5, "EventIdx is the client's memory again");
    }

    #[test]
    fn an_awake_controller_polls_the_shadow_and_a_sleeping_one_the_register() {
        let (mut bell, shadow, register) = bell(true);
        shadow.entry.store_u32(0, 3, Ordering::Release);
        assert_eq!((bell.poll(), bell.poll()), (Some(3), None));
        bell.doze();
        assert_eq!(shadow.event.load_u32(0, Ordering::Relaxed), 3, "wake me when you pass 3");
        shadow.entry.store_u32(0, 4, Ordering::Release);
        assert_eq!(bell.poll(), None, "asleep");
        register.store_u32(0, 4, Ordering::Release);
        assert_eq!((bell.poll(), bell.poll()), (Some(4), None));
        assert_eq!((bell.take_traps(), bell.take_traps()), (1, 0));
    }

    #[test]
    fn stepped_it_looks_again_after_it_wrote_eventidx() {
        let (mut bell, shadow, _) = bell(true);
        assert_eq!((bell.step(), bell.step()), (None, None));
        shadow.entry.store_u32(0, 1, Ordering::Release);
        assert!(bell.awake());
        assert_eq!(bell.step(), Some(1), "the recheck finds it");
        (0..3).for_each(|_| assert_eq!(bell.step(), None));
        assert!(!bell.awake());
        bell.wake();
        assert!(bell.awake());
    }

    #[test]
    fn without_the_recheck_an_update_is_lost() {
        let (mut bell, shadow, _) = bell(false);
        shadow.entry.store_u32(0, 1, Ordering::Release);
        assert_eq!((bell.step(), bell.step()), (Some(1), None));
        shadow.entry.store_u32(0, 2, Ordering::Release);
        let event = shadow.event.load_u32(0, Ordering::Relaxed);
        assert!(!Shadow::crossed(event as u16, 1, 2), "the client does not ring");
        assert_eq!(bell.step(), None);
        assert!(!bell.awake(), "asleep with an update that nobody will ring for");
    }
}
