//! Adding to an eventfd that somebody else holds, too, without ever waiting.
//!
//! Whether write(2) waits for room in an eventfd is up to O_NONBLOCK, which belongs to the open file: whoever sent the
//! descriptor may change it at any time, and fill the counter. What the kernel itself adds never waits. It does so when
//! an asynchronous request ends that names the eventfd (io_submit(2), IOCB_FLAG_RESFD); the request is a read of nothing.
// UNSAFETY: Linux's native asynchronous I/O has no safe interface.
#![expect(unsafe_code, reason = "system calls of asynchronous I/O")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::MemfdFlags;

/// Requests that a context holds, at least.
const REQUESTS: libc::c_long = 8;
/// The request that names an eventfd.
const FLAG_RESFD: u32 = 1;
const COMMAND_READ: u16 = 0;

/// `struct iocb` of the kernel.
#[repr(C)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    command: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

const _: () = assert!(size_of::<Request>() == 64);

/// `struct io_event` of the kernel.
#[repr(C)]
#[derive(Clone, Copy)]
struct Ended([u64; 4]);

/// Adds to eventfds.
#[derive(Debug)]
pub(super) struct Notifier {
    context: libc::c_ulong,
    /// An empty file, to read nothing from.
    file: OwnedFd,
}

fn outcome(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Notifier {
    pub(super) fn new() -> io::Result<Notifier> {
        let file = rustix::fs::memfd_create("warpbell-interrupts", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: writes one number.
        outcome(unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS, &raw mut context) })?;
        Ok(Notifier { context, file })
    }

    /// Adds one to an eventfd, at once. A counter that is full stays full.
    pub(super) fn add(&self, event: impl AsFd) -> io::Result<()> {
        match self.submit(event.as_fd().as_raw_fd() as u32) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.forget_ended()?;
                self.submit(event.as_fd().as_raw_fd() as u32)?;
            }
            other => other?,
        }
        self.forget_ended()
    }

    fn submit(&self, event: u32) -> io::Result<()> {
        let mut request = Request {
            data: 0,
            key: 0,
            rw_flags: 0,
            command: COMMAND_READ,
            priority: 0,
            file: self.file.as_raw_fd() as u32,
            buffer: 0,
            bytes: 0,
            offset: 0,
            reserved: 0,
            flags: FLAG_RESFD,
            event,
        };
        let mut requests = [&raw mut request];
        let (one, list): (libc::c_long, _) = (1, requests.as_mut_ptr());
        // SAFETY: the kernel reads the request before this returns, and it has no buffer.
        outcome(unsafe { libc::syscall(libc::SYS_io_submit, self.context, one, list) }).map(|_| ())
    }

    /// Takes the requests that have ended out of the context, so that it does not fill.
    fn forget_ended(&self) -> io::Result<()> {
        let mut ended = [Ended([0; 4]); REQUESTS as usize];
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let (none, most): (libc::c_long, _) = (0, REQUESTS);
        let list = ended.as_mut_ptr();
        // SAFETY: writes at most as many results as there is room for.
        outcome(unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, none, most, list, &raw const now)
        })
        .map(|_| ())
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        // SAFETY: made by `new`, destroyed once.
        if let Err(error) = outcome(unsafe { libc::syscall(libc::SYS_io_destroy, self.context) }) {
            tracing::debug!(%error, "not destroyed");
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn count(event: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[test]
    fn it_adds_and_never_waits() {
        let notifier = Notifier::new().unwrap();
        for flags in [EventfdFlags::empty(), EventfdFlags::NONBLOCK] {
            let event = eventfd(0, flags).unwrap();
            for _ in 0..100 {
                notifier.add(&event).unwrap();
            }
            assert_eq!(count(&event), 100);
            // Full: write(2) would wait for ever.
            rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
            for _ in 0..100 {
                notifier.add(&event).unwrap();
            }
            assert!(count(&event) >= u64::MAX - 1);
            notifier.add(&event).unwrap();
            assert_eq!(count(&event), 1);
        }
    }

    #[test]
    fn what_is_no_eventfd_is_refused_and_left_alone() {
        let notifier = Notifier::new().unwrap();
        let (mut reader, writer) = std::io::pipe().unwrap();
        assert!(notifier.add(&writer).is_err());
        drop(writer);
        assert_eq!(std::io::Read::read(&mut reader, &mut [0; 8]).unwrap(), 0, "nothing was written");
    }
}
