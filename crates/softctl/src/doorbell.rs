//! The doorbell registers: memory that pollers read, or, in stepped mode, a sink that sees each write.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use warpbell_hw::{
    BASE_PAGE, DoorbellPath, DoorbellSink, Doorbells, HostMemory, Memory, MemoryError, Window,
};
use warpbell_nvme::register::Shst;

use crate::checker::Rule;
use crate::core::Core;

/// The doorbell registers of one controller.
pub(crate) struct DoorbellPage {
    window: Window,
    stride: u8,
    /// Registers: two for each queue identifier.
    count: usize,
    sink: OnceLock<Arc<Sink>>,
}

impl DoorbellPage {
    /// Registers for the queue identifiers 0 to `highest`.
    pub(crate) fn new(highest: u16, stride: u8) -> Result<DoorbellPage, MemoryError> {
        let count = 2 * (usize::from(highest) + 1);
        // Base pages: a client in another process maps them from their file, whatever its page size is.
        // It lies in the file where the doorbells lie in a BAR, behind a page for the registers.
        let memory =
            HostMemory::named(warpbell_hw::DOORBELL_MEMORY, BASE_PAGE + count * (4 << stride), BASE_PAGE)?;
        let len = memory.len() - BASE_PAGE;
        let window = Window::whole(memory).slice(BASE_PAGE, len)?;
        Ok(DoorbellPage { window, stride, count, sink: OnceLock::new() })
    }

    /// From now on each write goes to the controller and not to memory.
    pub(crate) fn forward_to(&self, core: Weak<Core>) {
        self.sink.get_or_init(|| Arc::new(Sink { core }));
    }

    fn offset_of(&self, index: usize) -> usize {
        index * (4 << self.stride)
    }

    /// The register with this index, if there is one: 2 for each queue identifier, tail first.
    pub(crate) fn word(&self, index: usize) -> Option<Window> {
        if index >= self.count {
            return None;
        }
        self.window.slice(self.offset_of(index), 4).ok()
    }

    pub(crate) fn load(&self, index: usize) -> u32 {
        self.window.load_u32(self.offset_of(index), Ordering::Acquire)
    }

    pub(crate) fn clear(&self, index: usize) {
        self.window.store_u32(self.offset_of(index), 0, Ordering::Relaxed);
    }

    pub(crate) fn clear_all(&self) {
        (0..self.count).for_each(|index| self.clear(index));
    }
}

impl Doorbells for DoorbellPage {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Mapped
    }

    fn stride(&self) -> u8 {
        self.stride
    }

    fn window(&self) -> Window {
        self.window.clone()
    }

    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        self.sink.get().map(|sink| sink.clone() as Arc<dyn DoorbellSink>)
    }
}

/// Takes the doorbell writes of a stepped controller.
struct Sink {
    core: Weak<Core>,
}

impl DoorbellSink for Sink {
    fn ring(&self, offset: usize, value: u32) {
        if let Some(core) = self.core.upgrade() {
            core.ring_doorbell(offset, value);
        }
    }
}

impl Core {
    /// A write of a doorbell that is seen as such.
    fn ring_doorbell(&self, offset: usize, value: u32) {
        if self.removed() {
            return;
        }
        let stride = 4 << self.config.stride;
        let (index, rest) = (offset / stride, offset % stride);
        let (qid, head) = (index / 2, index % 2 == 1);
        let name = if head { "completion" } else { "submission" };
        let Ok(qid) = u16::try_from(qid) else { return self.no_doorbell(offset, value) };
        if rest != 0 || qid > self.config.highest_qid() {
            return self.no_doorbell(offset, value);
        }
        let mut control = self.control.lock();
        // A client whose controller failed by itself cannot know it before it looks.
        if control.surprised || control.csts.rdy() && control.csts.cfs() {
            return;
        }
        if !control.csts.rdy() || control.csts.cfs() {
            let detail =
                format!("doorbell of {name} queue {qid} set to {value} while the controller is not ready");
            return self.checker.report(Rule::NotReady, detail);
        }
        let known = if qid == 0 {
            self.ring_admin(&mut control, head, value);
            true
        } else if head {
            let poll_group = control.cqs.get(&qid).map(|entry| entry.poll_group);
            poll_group.is_some_and(|poll_group| self.poll_groups[poll_group].lock().ring_cq(qid, value))
        } else {
            let poll_group = control.sqs.get(&qid).map(|entry| entry.poll_group);
            poll_group.is_some_and(|poll_group| self.poll_groups[poll_group].lock().ring_sq(qid, value))
        };
        if !known {
            let detail = format!("{name} queue {qid} does not exist; its doorbell was set to {value}");
            self.checker.report_doorbell(Rule::DoorbellRegister, detail);
        }
    }

    fn no_doorbell(&self, offset: usize, value: u32) {
        let detail = format!("no doorbell at offset {offset:#x}, where {value} was written");
        self.checker.report_doorbell(Rule::DoorbellRegister, detail);
    }

    fn ring_admin(&self, control: &mut crate::control::Control, head: bool, value: u32) {
        let shut_down = control.csts.shst() != Shst::NORMAL_OPERATION;
        let Some(admin) = &mut control.admin else { return };
        let statistics = &mut control.engine.statistics;
        let result = if head {
            statistics.cq_doorbells += 1;
            admin.cq.ring_doorbell(value)
        } else {
            statistics.sq_doorbells += 1;
            if shut_down {
                let detail = "the admin queue's tail moved after a shutdown was asked for".to_owned();
                self.checker.report(Rule::CommandAfterShutdown, detail);
            }
            admin.sq.ring_doorbell(value)
        };
        if let Err((rule, detail)) = result {
            self.checker.report_doorbell(rule, detail);
        }
    }
}
