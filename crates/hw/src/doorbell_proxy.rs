//! Doorbells that a CPU thread forwards, for kernels that cannot store to the registers, and for registers behind
//! messages.
//!
//! Kernels store to a shadow page, which a thread reads and forwards: it takes each value out of the page, so that a
//! value that is written again is sent again. Host threads write the registers themselves.
//! What kernels stored goes before any later admin command and register write: a queue that is deleted and made again
//! under the same identifier must not meet the last doorbell of the old one.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Doorbell, DoorbellError, DoorbellKind, DoorbellPath, DoorbellSink, Doorbells, Qid, Window};

/// What is in the shadow of a doorbell that was not written: no doorbell has a value of more than 16 bits.
const EMPTY: u32 = u32::MAX;
/// Polls of an unchanged shadow page before the thread sleeps between polls.
const EAGER_POLLS: u32 = 20_000;
/// Between two polls after that.
const SLEEP: Duration = Duration::from_micros(100);

/// What is lost with a doorbell that could not be written. Its commands end by their deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellLost {
    /// This one; the next may be written.
    This,
    /// All from now on: the function cannot be reached any more.
    All,
}

/// Writes doorbell registers, in whichever way they are reached. It tells of what it loses.
pub trait DoorbellWriter: Send + Sync {
    /// Writes `value` to the doorbell at byte `offset` from the first doorbell.
    fn write(&self, offset: usize, value: u32) -> Result<(), DoorbellLost>;
}

/// Registers in a mapped page.
impl DoorbellWriter for Window {
    fn write(&self, offset: usize, value: u32) -> Result<(), DoorbellLost> {
        fence(Ordering::AcqRel);
        self.store_u32(offset, value, Ordering::Release);
        Ok(())
    }
}

/// Doorbells of path `Forwarded`: a shadow page, and the thread that forwards from it as long as this value lives.
pub struct DoorbellProxy {
    shadow: Arc<Shadow>,
    stride: u8,
    thread: Option<JoinHandle<()>>,
}

/// The shadow page, and the thread's orders.
struct Shadow {
    page: Window,
    writer: Box<dyn DoorbellWriter>,
    /// Bytes from one doorbell to the next.
    stride: usize,
    /// Held while values go from the page to the registers.
    forwarding: Mutex<()>,
    /// Bytes of the page in which doorbells were handed out.
    used: AtomicUsize,
    stop: AtomicBool,
}

impl DoorbellProxy {
    /// `bytes` of doorbells, `4 << stride` bytes apart, that `writer` writes.
    pub fn new(bytes: usize, stride: u8, writer: Box<dyn DoorbellWriter>) -> io::Result<DoorbellProxy> {
        let page = Window::host(bytes).map_err(io::Error::other)?;
        page.fill(0, page.len(), EMPTY as u8).map_err(io::Error::other)?;
        let (used, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (stride_bytes, forwarding) = (4 << stride, Mutex::new(()));
        let shadow = Arc::new(Shadow { page, writer, stride: stride_bytes, forwarding, used, stop });
        let forwarder = shadow.clone();
        let thread = std::thread::Builder::new().name("doorbells".to_owned());
        let thread = thread.spawn(move || forwarder.run())?;
        Ok(DoorbellProxy { shadow, stride, thread: Some(thread) })
    }

    /// In place of doorbells whose page is mapped.
    pub fn of(doorbells: &dyn Doorbells) -> io::Result<DoorbellProxy> {
        let page = doorbells.window();
        DoorbellProxy::new(page.len(), doorbells.stride(), Box::new(page))
    }

    /// Writes what kernels stored since the last poll; whether there was anything. To be called before a register is
    /// written.
    pub fn forward(&self) -> Result<bool, DoorbellLost> {
        self.shadow.forward()
    }

    /// After a reset: what was stored and not forwarded is void. Nothing of it is written once this is back.
    pub fn clear(&self) {
        let _forwarding = self.shadow.forwarding.lock();
        for offset in (0..self.shadow.page.len()).step_by(4) {
            self.shadow.page.store_u32(offset, EMPTY, Ordering::Relaxed);
        }
    }
}

impl Drop for DoorbellProxy {
    fn drop(&mut self) {
        self.shadow.stop.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that forwards doorbells panicked");
        }
    }
}

impl Shadow {
    /// Forwards until told to stop, or until nothing can be written any more.
    fn run(&self) {
        let mut idle = 0;
        while !self.stop.load(Ordering::Relaxed) {
            match self.forward() {
                Err(DoorbellLost::All) => return,
                // A way that failed for once takes the next doorbells.
                Ok(true) | Err(DoorbellLost::This) => idle = 0,
                Ok(false) if idle < EAGER_POLLS => {
                    idle += 1;
                    std::hint::spin_loop();
                    if idle % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
                Ok(false) => std::thread::sleep(SLEEP),
            }
        }
    }

    fn forward(&self) -> Result<bool, DoorbellLost> {
        let _forwarding = self.forwarding.lock();
        let mut any = false;
        for offset in (0..self.used.load(Ordering::Relaxed)).step_by(self.stride) {
            if self.page.load_u32(offset, Ordering::Relaxed) == EMPTY {
                continue;
            }
            // Acquire: the ring's entries were written before the doorbell.
            let value = self.page.swap_u32(offset, EMPTY, Ordering::AcqRel);
            self.writer.write(offset, value)?;
            any = true;
        }
        Ok(any)
    }
}

/// A doorbell write of a host thread. The writer tells of those it loses.
impl DoorbellSink for Shadow {
    fn ring(&self, offset: usize, value: u32) {
        if offset == 0 {
            // The admin submission queue.
            let _ = self.forward();
        }
        let _ = self.writer.write(offset, value);
    }
}

impl Doorbells for DoorbellProxy {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Forwarded
    }

    fn stride(&self) -> u8 {
        self.stride
    }

    fn window(&self) -> Window {
        self.shadow.page.clone()
    }

    /// None: memory can be written in every case.
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        None
    }

    fn doorbell(&self, qid: Qid, kind: DoorbellKind) -> Result<Doorbell, DoorbellError> {
        let (offset, len) = (self.offset(qid, kind), self.shadow.page.len());
        let doorbell = Doorbell::new(&self.shadow.page, offset);
        let doorbell = doorbell.ok_or(DoorbellError::Outside { qid, offset, len })?;
        self.shadow.used.fetch_max(offset + 4, Ordering::Relaxed);
        Ok(doorbell.with_sink(self.shadow.clone()))
    }
}

/// A place for the proxy of a function whose doorbells are mapped: it is made when kernels need it. Until then nothing
/// of it is there but a check of an empty slot before each register write and admin doorbell.
#[derive(Default)]
pub struct ProxySlot(OnceLock<Arc<DoorbellProxy>>);

/// The doorbell of the admin submission queue: kernels' doorbells go first.
struct AdminDoorbell {
    slot: Arc<ProxySlot>,
    page: Window,
}

impl ProxySlot {
    /// The proxy; made now, if there is none yet.
    pub fn get(&self, doorbells: &dyn Doorbells) -> io::Result<Arc<DoorbellProxy>> {
        if let Some(proxy) = self.0.get() {
            return Ok(proxy.clone());
        }
        let made = Arc::new(DoorbellProxy::of(doorbells)?);
        // Another thread's may be there by now; then ours ends unused.
        Ok(self.0.get_or_init(|| made).clone())
    }

    /// Before a register is written.
    pub fn forward(&self) {
        if let Some(proxy) = self.0.get() {
            // The writer tells of what it loses.
            let _ = proxy.forward();
        }
    }

    /// After a reset.
    pub fn clear(&self) {
        if let Some(proxy) = self.0.get() {
            proxy.clear();
        }
    }

    /// The doorbell of the admin submission queue in a mapped page.
    pub fn admin_doorbell(self: &Arc<Self>, page: &Window) -> Option<Doorbell> {
        let sink = AdminDoorbell { slot: self.clone(), page: page.clone() };
        Some(Doorbell::new(page, 0)?.with_sink(Arc::new(sink)))
    }
}

impl DoorbellSink for AdminDoorbell {
    fn ring(&self, offset: usize, value: u32) {
        self.slot.forward();
        // A mapped page loses nothing.
        let _ = DoorbellWriter::write(&self.page, offset, value);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::BASE_PAGE;

    /// A page of doorbells 8 bytes apart.
    struct Page(Window);
    impl Doorbells for Page {
        fn path(&self) -> DoorbellPath {
            DoorbellPath::Mapped
        }
        fn stride(&self) -> u8 {
            1
        }
        fn window(&self) -> Window {
            self.0.clone()
        }
        fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
            None
        }
    }

    /// Keeps what is written, in order.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<(usize, u32)>>>);
    impl DoorbellWriter for Log {
        fn write(&self, offset: usize, value: u32) -> Result<(), DoorbellLost> {
            self.0.lock().push((offset, value));
            match value {
                404 => Err(DoorbellLost::All),
                _ => Ok(()),
            }
        }
    }

    fn until(what: &str, is: impl Fn() -> bool) {
        let started = Instant::now();
        while !is() {
            assert!(started.elapsed() < Duration::from_secs(60), "{what} did not come");
            std::thread::yield_now();
        }
    }

    fn page() -> Window {
        Window::host(BASE_PAGE).unwrap()
    }

    #[test]
    fn what_a_kernel_stores_reaches_the_register() {
        let page = Page(page());
        let proxy = DoorbellProxy::of(&page).unwrap();
        assert_eq!((proxy.path(), proxy.stride()), (DoorbellPath::Forwarded, 1));
        let doorbell = proxy.doorbell(Qid(3), DoorbellKind::CqHead).unwrap();
        assert_eq!(doorbell.offset(), 7 * 8);
        let shadow = proxy.window();
        assert_eq!(
            doorbell.as_ptr().cast::<u8>(),
            shadow.as_ptr().wrapping_add(56),
            "kernels see the shadow"
        );
        shadow.store_u32(56, 17, Ordering::Release);
        until("the doorbell", || page.0.load_u32(56, Ordering::Acquire) == 17);
        doorbell.ring(18);
        assert_eq!(page.0.load_u32(56, Ordering::Acquire), 18, "a host thread writes the register itself");
    }

    #[test]
    fn a_value_that_is_stored_again_is_written_again() {
        let log = Log::default();
        let proxy = DoorbellProxy::new(BASE_PAGE, 0, Box::new(log.clone())).unwrap();
        proxy.doorbell(Qid(1), DoorbellKind::SqTail).unwrap();
        for count in 1..=3 {
            proxy.window().store_u32(8, 5, Ordering::Release);
            until("the doorbell", || log.0.lock().len() == count);
        }
        assert_eq!(*log.0.lock(), [(8, 5); 3]);
        assert!(!proxy.forward().unwrap(), "each value goes once");
    }

    #[test]
    fn kernels_doorbells_go_before_an_admin_command() {
        let log = Log::default();
        let proxy = DoorbellProxy::new(BASE_PAGE, 0, Box::new(log.clone())).unwrap();
        let admin = proxy.doorbell(Qid::ADMIN, DoorbellKind::SqTail).unwrap();
        proxy.doorbell(Qid(1), DoorbellKind::SqTail).unwrap();
        for tail in 1..200 {
            proxy.window().store_u32(8, tail, Ordering::Release);
            admin.ring(tail);
            assert_eq!(log.0.lock().split_off(0), [(8, tail), (0, tail)]);
        }
    }

    #[test]
    fn what_was_stored_before_a_reset_is_void() {
        let log = Log::default();
        let proxy = DoorbellProxy::new(BASE_PAGE, 0, Box::new(log.clone())).unwrap();
        // Not handed out, so that the thread does not poll it.
        proxy.window().store_u32(16, 9, Ordering::Relaxed);
        proxy.clear();
        proxy.doorbell(Qid(7), DoorbellKind::CqHead).unwrap();
        assert_eq!((proxy.forward(), log.0.lock().len()), (Ok(false), 0));
    }

    #[test]
    fn a_way_that_is_gone_ends_the_thread() {
        let log = Log::default();
        let proxy = DoorbellProxy::new(BASE_PAGE, 0, Box::new(log.clone())).unwrap();
        proxy.doorbell(Qid(1), DoorbellKind::SqTail).unwrap();
        proxy.window().store_u32(8, 404, Ordering::Release);
        let thread = proxy.thread.as_ref().unwrap();
        until("the end", || thread.is_finished());
        assert_eq!(*log.0.lock(), [(8, 404)]);
    }

    #[test]
    fn a_slot_orders_admin_doorbells_once_it_has_a_proxy() {
        let page = Page(page());
        let slot = Arc::new(ProxySlot::default());
        let admin = slot.admin_doorbell(&page.0).unwrap();
        admin.ring(1);
        assert_eq!(page.0.load_u32(0, Ordering::Relaxed), 1, "with no proxy it is a store");
        let proxy = slot.get(&page).unwrap();
        assert!(Arc::ptr_eq(&proxy, &slot.get(&page).unwrap()));
        proxy.doorbell(Qid(1), DoorbellKind::SqTail).unwrap();
        for tail in 1..200 {
            proxy.window().store_u32(16, tail, Ordering::Release);
            admin.ring(tail);
            assert_eq!(page.0.load_u32(16, Ordering::Relaxed), tail, "the kernel's doorbell went first");
        }
        proxy.window().store_u32(16, 1000, Ordering::Release);
        slot.forward();
        assert_eq!(page.0.load_u32(16, Ordering::Relaxed), 1000);
    }

    #[test]
    fn a_queue_outside_the_page_is_named() {
        let proxy = DoorbellProxy::of(&Page(page())).unwrap();
        let error = proxy.doorbell(Qid(256), DoorbellKind::SqTail).err().unwrap().to_string();
        assert_eq!(error, "doorbell of queue 256 at offset 0x1000: only 0x1000 bytes are mapped");
    }
}
