//! Queues for kernels, and the mailbox through which kernels are stopped.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell::{AttachOptions, Attachment, SharedMemory, Sharing, Target};
use warpbell_hw::Nsid;
use warpbell_kernels::abi::{self, Mailbox, NamespaceRef, QueueRef};
use zerocopy::IntoBytes;

use crate::buffer::BUFFERS;
use crate::error::{Answer, Code, Failure};
use crate::events::count;
use crate::handle::{Kind, Table};
use crate::lease::LEASES;
use crate::scope::{User, Users};
use crate::ssd::{OpenSsd, SSDS};

pub(crate) static QUEUES: Table<Queues> = Table::new(Kind::Queues);

/// What is made of queues and keeps them open.
const MADE: &str = "close each volume, cache, schedule and table of them first (warpbell_volume_close, \
                    warpbell_cache_close, warpbell_tiles_close, warpbell_file_table_close)";

/// Queues that a C program attached.
pub(crate) struct Queues {
    pub(crate) attachment: Attachment,
    pub(crate) mailbox: SharedMemory,
    /// Whether buffers and leases may be made.
    pub(crate) open: Mutex<bool>,
    pub(crate) runs: Users,
    /// Volumes, caches, tiles and tables of files.
    pub(crate) made: Users,
    pub(crate) ssd: Arc<OpenSsd>,
    /// Keeps the SSD open.
    _user: User,
}

/// What a C program asks for; zeros are defaults.
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) timeout_ns: u64,
    pub(crate) nsid: u32,
    pub(crate) queues: u32,
    pub(crate) warps: u32,
    pub(crate) iodepth: u32,
    pub(crate) commands_per_lane: u32,
    pub(crate) sharing: u32,
    pub(crate) replacement_queues: u32,
    pub(crate) recovery: bool,
}

impl Request {
    fn options(&self) -> Answer<AttachOptions> {
        let default = AttachOptions::default();
        let given = |value: u32, default: u32| if value == 0 { default } else { value };
        let sharing = match self.sharing {
            abi::SHARING_EXCLUSIVE => Sharing::Exclusive,
            abi::SHARING_SHARED => Sharing::Shared,
            other => {
                let rule = "must be WARPBELL_SHARING_EXCLUSIVE or WARPBELL_SHARING_SHARED";
                return Err(Failure::invalid(format!("sharing {other}: {rule}")));
            }
        };
        let queues = given(self.queues, default.queues);
        let timeout = Duration::from_nanos(self.timeout_ns);
        Ok(AttachOptions::new()
            .target(self.target)
            .nsid((self.nsid != 0).then_some(Nsid(self.nsid)))
            .queues(queues)
            .warps(given(self.warps, queues))
            .iodepth(given(self.iodepth, default.iodepth))
            .commands_per_lane((self.commands_per_lane != 0).then_some(self.commands_per_lane))
            .sharing(sharing)
            .replacement_queues(count(self.replacement_queues, default.replacement_queues))
            .recovery(self.recovery)
            .timeout(if timeout.is_zero() { default.timeout } else { timeout }))
    }
}

impl Queues {
    pub(crate) fn attach(ssd: u64, request: &Request) -> Answer<u64> {
        let ssd = SSDS.get(ssd)?;
        let user = ssd.users.enter(|| {})?;
        let attachment = ssd.ssd.attach(&request.options()?)?;
        let mailbox = attachment.target().shared(size_of::<Mailbox>())?;
        mailbox.window().write(0, Mailbox::new().as_bytes()).map_err(warpbell::Error::from)?;
        Ok(QUEUES.add(Queues {
            attachment,
            mailbox,
            open: Mutex::new(true),
            runs: Users::new("queues", "close each run first (warpbell_run_close)"),
            made: Users::new("queues", MADE),
            ssd,
            _user: user,
        }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let queues = QUEUES.close(handle, |queues| Users::close_all(&[&queues.runs, &queues.made]))?;
        // The attachment keeps the memory until its queues are deleted, which comes with the last of these.
        *queues.open.lock() = false;
        LEASES.close_those(|lease| lease.belongs_to(&queues));
        BUFFERS.close_those(|buffer| buffer.belongs_to(&queues));
        let Some(queues) = Arc::into_inner(queues) else {
            let reason = "queues: the handle is closed, but another thread is in a call with them: they are deleted at its end";
            return Err(Failure::new(Code::Busy, reason));
        };
        Ok(queues.attachment.close()?)
    }

    pub(crate) fn target(&self) -> Target {
        self.attachment.target().target()
    }

    pub(crate) fn namespace_ref(&self) -> NamespaceRef {
        self.attachment.namespace()
    }

    pub(crate) fn queue_ref(&self, index: u32) -> Answer<QueueRef> {
        let queues = self.attachment.layout().queues;
        if index >= queues {
            return Err(Failure::invalid(format!("queue {index}: there are queues 0 to {}", queues - 1)));
        }
        Ok(self.attachment.queue(index as usize)?)
    }

    /// The mailbox's address for kernels.
    pub(crate) fn mailbox(&self) -> u64 {
        self.mailbox.address()
    }

    pub(crate) fn stop(&self) {
        self.set_stop(1);
    }

    /// A new run; the first of several at a time finds no old wish to stop.
    pub(crate) fn enter_run(&self) -> Answer<User> {
        self.runs.enter(|| self.set_stop(0))
    }

    fn set_stop(&self, value: u32) {
        self.mailbox.window().store_u32(offset_of!(Mailbox, stop), value, Ordering::Release);
    }
}
