//! What the host asks of the controller, seen from between the two: registers, admin commands, mapped memory. It knows
//! nothing of what the driver means by it.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::{Iova, Window};
use warpbell_nvme::register::{Aqa, Cc, offset};
use warpbell_nvme::{AdminOpcode, Status};
use zerocopy::IntoBytes;

/// An admin command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdminCommand {
    /// When the controller was told of it.
    pub(super) at: Duration,
    pub(super) opcode: AdminOpcode,
    pub(super) cid: u16,
    pub(super) cdw10: u32,
    /// When it was completed, and how.
    pub(super) done: Option<(Duration, Status)>,
    /// DW0 of its completion.
    pub(super) result: u32,
}

impl AdminCommand {
    /// The queue that it creates or deletes, or whose command it aborts.
    pub(super) fn qid(&self) -> u16 {
        self.cdw10 as u16
    }

    /// Of an Abort: the command that it is about.
    pub(super) fn aborted_cid(&self) -> u16 {
        (self.cdw10 >> 16) as u16
    }

    /// When it was completed with success, by a time.
    pub(super) fn succeeded(&self) -> Option<Duration> {
        self.done.filter(|(_, status)| status.is_ok()).map(|(at, _)| at)
    }
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Admin commands, in the order in which they were announced.
    pub(super) commands: Vec<AdminCommand>,
    /// When CC.EN was cleared.
    pub(super) disabled: Vec<Duration>,
    /// When it was cleared last before it was set again: in between the controller was disabled.
    pub(super) forgotten: Option<Duration>,
    enabled: bool,
    ring: Ring,
    mapped: BTreeMap<u64, Window>,
}

/// The admin queue.
#[derive(Debug, Default)]
struct Ring {
    asq: u64,
    acq: u64,
    sq_entries: u32,
    cq_entries: u32,
    tail: u32,
    posted: u32,
    /// Of `Seen::commands`, those that this queue has: from here on.
    first: usize,
}

/// See [`Seen`].
#[derive(Debug, Default)]
pub(super) struct Wire(Mutex<Seen>);

impl Wire {
    /// The host writes a register.
    pub(super) fn writes(&self, now: Duration, at: u32, value: u64) {
        let mut seen = self.0.lock();
        match at {
            offset::AQA => {
                let sizes = Aqa::from_bits(value as u32);
                seen.ring.sq_entries = u32::from(sizes.asqs_z()) + 1;
                seen.ring.cq_entries = u32::from(sizes.acqs_z()) + 1;
            }
            offset::ASQ => seen.ring.asq = value,
            offset::ACQ => seen.ring.acq = value,
            offset::CC => {
                let enable = Cc::from_bits(value as u32).en();
                if seen.enabled && !enable {
                    seen.disabled.push(now);
                }
                if enable && !seen.enabled {
                    seen.forgotten = seen.disabled.last().copied();
                    let first = seen.commands.len();
                    seen.ring = Ring { tail: 0, posted: 0, first, ..std::mem::take(&mut seen.ring) };
                }
                seen.enabled = enable;
            }
            _ => {}
        }
    }

    /// The host rings the admin submission queue's doorbell.
    pub(super) fn rings(&self, now: Duration, tail: u32) {
        let mut seen = self.0.lock();
        let Some((window, base)) = seen.memory(seen.ring.asq) else { return };
        while seen.ring.sq_entries != 0 && seen.ring.tail != tail % seen.ring.sq_entries {
            let mut entry = [0u32; 16];
            let at = base + seen.ring.tail as usize * size_of_val(&entry);
            if window.read(at, entry.as_mut_bytes()).is_err() {
                return;
            }
            seen.commands.push(AdminCommand {
                at: now,
                opcode: AdminOpcode(entry[0] as u8),
                cid: (entry[0] >> 16) as u16,
                cdw10: entry[10],
                done: None,
                result: 0,
            });
            seen.ring.tail = (seen.ring.tail + 1) % seen.ring.sq_entries;
        }
    }

    /// Takes note of the completions that lie in the admin completion ring.
    pub(super) fn look(&self, now: Duration) {
        let mut seen = self.0.lock();
        if !seen.enabled || seen.ring.cq_entries == 0 {
            return;
        }
        let Some((window, base)) = seen.memory(seen.ring.acq) else { return };
        loop {
            let mut entry = [0u32; 4];
            let (slot, lap) =
                (seen.ring.posted % seen.ring.cq_entries, seen.ring.posted / seen.ring.cq_entries);
            if window.read(base + slot as usize * size_of_val(&entry), entry.as_mut_bytes()).is_err()
                || (entry[3] >> 16 ^ lap) & 1 == 0
            {
                return;
            }
            seen.ring.posted += 1;
            let (cid, first) = (entry[3] as u16, seen.ring.first);
            let of = seen.commands[first..]
                .iter_mut()
                .find(|command| command.cid == cid && command.done.is_none());
            if let Some(command) = of {
                command.done = Some((now, Status::from_bits((entry[3] >> 17) as u16)));
                command.result = entry[0];
            }
        }
    }

    /// Memory becomes the controller's too.
    pub(super) fn maps(&self, iova: Iova, window: &Window) {
        self.0.lock().mapped.insert(iova.0, window.clone());
    }

    /// It is no longer.
    pub(super) fn unmaps(&self, iova: Iova) {
        self.0.lock().mapped.remove(&iova.0);
    }

    /// Bytes that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        self.0.lock().mapped.values().map(|window| window.len() as u64).sum()
    }

    /// What was seen so far.
    pub(super) fn read<R>(&self, look: impl FnOnce(&Seen) -> R) -> R {
        look(&self.0.lock())
    }
}

impl Seen {
    /// The mapped memory that an address lies in, and where in it.
    fn memory(&self, iova: u64) -> Option<(Window, usize)> {
        let (first, window) = self.mapped.range(..=iova).next_back()?;
        let at = (iova - first) as usize;
        (at < window.len()).then(|| (window.clone(), at))
    }

    /// Whether the controller has not answered an admin command, requests for events aside.
    pub(super) fn is_unanswered(&self) -> bool {
        let waits =
            |sent: &AdminCommand| sent.done.is_none() && sent.opcode != AdminOpcode::ASYNC_EVENT_REQUEST;
        self.commands[self.ring.first..].iter().any(waits)
    }

    /// Admin commands of one kind.
    pub(super) fn of(&self, opcode: AdminOpcode) -> impl Iterator<Item = &AdminCommand> {
        self.commands.iter().filter(move |command| command.opcode == opcode)
    }
}
