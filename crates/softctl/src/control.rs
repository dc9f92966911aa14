//! The control plane: registers, the admin queue and everything that admin commands change. One lock holds it.
//!
//! Lock order: control before poll group. A poller lets go of its poll group before it takes the control lock. Nobody holds two control
//! locks; `subsystem` says how controllers reach each other.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use warpbell_nvme::register::{Aqa, Cc, Csts, Shst};

use crate::admin::{DoorbellPages, Events, Features, LateAdmin};
use crate::cmb::Cmb;
use crate::engine::Engine;
use crate::fault::Incident;
use crate::queue::{Cq, Sq};
use crate::subsystem::Download;

/// The admin queue pair.
pub(crate) struct AdminQueue {
    pub(crate) sq: Sq,
    pub(crate) cq: Cq,
}

/// An I/O submission queue that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqEntry {
    pub(crate) poll_group: usize,
    pub(crate) cqid: u16,
}

/// An I/O completion queue that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CqEntry {
    pub(crate) poll_group: usize,
    /// Submission queues that complete into it.
    pub(crate) users: u32,
}

/// A change of CSTS that takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transition {
    /// RDY becomes 1.
    Enable,
    /// RDY becomes 0.
    Disable,
    /// SHST becomes complete.
    Shutdown,
}

/// Everything behind the control lock.
pub(crate) struct Control {
    pub(crate) cc: Cc,
    pub(crate) csts: Csts,
    pub(crate) aqa: Aqa,
    pub(crate) asq: u64,
    pub(crate) acq: u64,
    /// What CSTS becomes next, and when.
    pub(crate) transition: Option<(Duration, Transition)>,
    pub(crate) admin: Option<AdminQueue>,
    pub(crate) engine: Engine,
    pub(crate) sqs: BTreeMap<u16, SqEntry>,
    pub(crate) cqs: BTreeMap<u16, CqEntry>,
    /// I/O queue pairs that may be created.
    pub(crate) granted: u16,
    pub(crate) features: Features,
    pub(crate) events: Events,
    /// A firmware image that is being downloaded.
    pub(crate) download: Download,
    /// Critical warnings that were reported and still hold.
    pub(crate) warned: u8,
    /// Whether command identifiers of I/O queues have 32 bits.
    pub(crate) wide_cids: bool,
    pub(crate) cmb: Cmb,
    /// The client's doorbell pages, once it told of them.
    pub(crate) doorbell_pages: Option<DoorbellPages>,
    /// Admin completions that a fault delays.
    pub(crate) late: Vec<LateAdmin>,
    /// Admin commands that a fault lets hang.
    pub(crate) hung: Vec<u16>,
    /// When the change of power state is over that the command at hand asked for.
    pub(crate) settled: Option<Duration>,
    /// What a fault in an admin command does to the whole controller.
    pub(crate) incident: Option<Incident>,
    /// The controller was reset by itself: the client may not know yet.
    pub(crate) surprised: bool,
    pub(crate) random: Xoshiro256PlusPlus,
}

impl Control {
    pub(crate) fn new(engine: Engine, cmb: Cmb, granted: u16, seed: u64) -> Control {
        Control {
            cc: Cc::new(),
            csts: Csts::new(),
            aqa: Aqa::new(),
            asq: 0,
            acq: 0,
            transition: None,
            admin: None,
            engine,
            sqs: BTreeMap::new(),
            cqs: BTreeMap::new(),
            granted,
            features: Features::new(),
            events: Events::default(),
            download: Download::default(),
            warned: 0,
            wide_cids: false,
            cmb,
            doorbell_pages: None,
            late: Vec::new(),
            hung: Vec::new(),
            settled: None,
            incident: None,
            surprised: false,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// Whether to take its power away now would be unsafe: it is ready and was not shut down.
    pub(crate) fn in_use(&self) -> bool {
        self.csts.rdy() && self.csts.shst() != Shst::COMPLETE
    }

    /// Takes a command out of those that hang; false if it is not one.
    pub(crate) fn unhang(&mut self, cid: u16) -> bool {
        let found = self.hung.iter().position(|hung| *hung == cid);
        found.map(|index| self.hung.swap_remove(index)).is_some()
    }

    /// Whether commands are executed.
    pub(crate) fn running(&self) -> bool {
        self.csts.rdy() && !self.csts.cfs() && self.admin.is_some()
    }
}
