//! How kernels of a target reach doorbells.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpbell_base::Time;
use warpbell_gpu::Gpu;
use warpbell_gpu::routes::{self, DoorbellAccess, DoorbellRoute};
use warpbell_hw::{Device, DoorbellKind, DoorbellPath, DoorbellProxy, Doorbells, Nsid, Qid};

use crate::launch::ring;
use crate::queues::memory::Memory;
use crate::queues::proof::{KERNEL_LIMIT, Proof, Rung};
use crate::{Error, OpenTarget, SharedMemory, offered};

/// From the end of a kernel that rang to the answer. An idle SSD answers a Flush in well under a millisecond.
const MAPPED_LIMIT: Duration = Duration::from_millis(100);
/// The same by way of a CPU thread, behind which there is no other way.
const FORWARDED_LIMIT: Duration = Duration::from_secs(5);

/// How kernels are to ring doorbells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoorbellChoice {
    /// By themselves where that is proven, else by way of a CPU thread, with the reason.
    #[default]
    Auto,
    /// By themselves; an error where that cannot be proven.
    Mapped,
    /// By way of a CPU thread; an error where nothing forwards.
    Forwarded,
}

/// A choice of no known form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}': expected auto, mapped or forwarded")]
pub struct DoorbellChoiceError(String);

impl FromStr for DoorbellChoice {
    type Err = DoorbellChoiceError;

    fn from_str(text: &str) -> Result<DoorbellChoice, DoorbellChoiceError> {
        match text {
            "auto" => Ok(DoorbellChoice::Auto),
            "mapped" => Ok(DoorbellChoice::Mapped),
            "forwarded" => Ok(DoorbellChoice::Forwarded),
            _ => Err(DoorbellChoiceError(text.to_owned())),
        }
    }
}

impl fmt::Display for DoorbellChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DoorbellChoice::Auto => "auto",
            DoorbellChoice::Mapped => "mapped",
            DoorbellChoice::Forwarded => "forwarded",
        })
    }
}

/// How doorbells of an SSD are to be reached, and what that is tried with.
pub(crate) struct DoorbellRequest<'a> {
    pub(crate) source: &'a Memory,
    pub(crate) choice: DoorbellChoice,
    /// The namespace that a Flush goes to.
    pub(crate) nsid: Nsid,
    /// For the SSD to answer one of the host's.
    pub(crate) limit: Duration,
    /// Whether a kernel of an earlier proof may still ring. Then there is no other proof.
    pub(crate) left: &'a Arc<AtomicBool>,
}

/// The doorbells of a device, for kernels of a target. All of them: also of queues that are created later.
pub(crate) struct DoorbellMapping {
    device: Arc<dyn Device>,
    way: Way,
    /// Why kernels do not store to the registers.
    refused: Option<String>,
}

enum Way {
    /// On the CPU: the page itself, or a proxy's.
    Page(SharedMemory, Option<Arc<DoorbellProxy>>),
    /// On a GPU.
    Gpu(DoorbellAccess),
}

impl DoorbellMapping {
    pub(crate) fn new(target: &OpenTarget, request: &DoorbellRequest<'_>) -> Result<DoorbellMapping, Error> {
        let device = request.device().clone();
        let Some(gpu) = target.gpu() else {
            let proxy = request.proxy()?;
            let page = proxy.as_ref().map_or_else(|| device.doorbells().window(), |proxy| proxy.window());
            let way = Way::Page(target.share(page)?, proxy);
            return Ok(DoorbellMapping { device, way, refused: None });
        };
        in_real_time(target, device.as_ref())?;
        let (access, refused) = request.on_gpu(target, gpu)?;
        if let Some(refused) = &refused {
            tracing::warn!(%refused, "doorbells of kernels go by way of a CPU thread");
        }
        Ok(DoorbellMapping { device, way: Way::Gpu(access), refused })
    }

    /// Where kernels find one doorbell.
    pub(crate) fn address(&self, qid: Qid, kind: DoorbellKind) -> Result<u64, Error> {
        let doorbells: &dyn Doorbells = self.device.doorbells();
        Ok(match &self.way {
            Way::Page(page, None) => page.address() + doorbells.doorbell(qid, kind)?.offset() as u64,
            Way::Page(page, Some(proxy)) => page.address() + proxy.doorbell(qid, kind)?.offset() as u64,
            Way::Gpu(access) => access.address(doorbells, qid, kind)?,
        })
    }

    /// How a kernel's store reaches the register, and why not directly.
    pub(crate) fn path(&self) -> (DoorbellPath, Option<&str>) {
        let path = match &self.way {
            Way::Page(_, None) => self.device.doorbells().path(),
            Way::Page(_, Some(proxy)) => proxy.path(),
            Way::Gpu(access) => access.path(),
        };
        (path, self.refused.as_deref())
    }
}

impl DoorbellRequest<'_> {
    /// Loads the kernel that a proof of `target` runs, which may be compiled for it: where there is a proof.
    pub(crate) fn prepare(&self, target: &OpenTarget) -> Result<(), Error> {
        let proves = target.gpu().is_some() && !self.device().doorbells().window().memory().is_ordinary();
        if proves && self.choice != DoorbellChoice::Forwarded { ring::load(target) } else { Ok(()) }
    }

    fn device(&self) -> &Arc<dyn Device> {
        self.source.controller().device()
    }

    /// The proxy that was asked for; none where stores to the device's own page are as they should be.
    fn proxy(&self) -> Result<Option<Arc<DoorbellProxy>>, Error> {
        offered::doorbell_proxy(self.device(), self.choice)
    }

    /// The way for kernels of a GPU, and why it is not the registers themselves where it could have been.
    fn on_gpu(&self, target: &OpenTarget, gpu: &Arc<Gpu>) -> Result<(DoorbellAccess, Option<String>), Error> {
        let device = self.device().as_ref();
        if self.proxy()?.is_some() {
            return Ok((routes::forwarded_doorbells(gpu, device)?, None));
        }
        let granted = self.source.controller().granted_queues();
        let (route, mapped) = routes::mapped_doorbells(gpu, device, granted);
        if route != DoorbellRoute::IoMemory {
            // Memory that the controller's process polls: what is registered is reached.
            return Ok((mapped?, None));
        }
        let (proof, refused) = match mapped {
            Ok(access) => match self.prove(target, &access)? {
                Proven::Yes => return Ok((access, None)),
                Proven::No(proof, reason) => (proof, reason),
            },
            Err(error) => (None, error.to_string()),
        };
        if self.choice == DoorbellChoice::Mapped {
            return Err(Error::doorbells(device, format!("mapped was asked for, and {refused}")));
        }
        let access = routes::forwarded_doorbells(gpu, device)
            .map_err(|error| Error::doorbells(device, format!("{refused}; {error}")))?;
        // The Flush that nobody heard of is rung again, by the other way.
        let Some(proof) = proof else { return Ok((access, Some(refused))) };
        let reason = match proof.ring(&access, FORWARDED_LIMIT)? {
            Rung::Answered => return Ok((access, Some(refused))),
            Rung::Unanswered(_) => format!(
                "{refused}; forwarded by a CPU thread it was not answered within {FORWARDED_LIMIT:?} either"
            ),
            Rung::NotRun => format!("{refused}; {}", not_run()),
        };
        Err(Error::doorbells(device, reason))
    }

    /// Whether a kernel's store to a register that was mapped arrives.
    fn prove(&self, target: &OpenTarget, access: &DoorbellAccess) -> Result<Proven, Error> {
        if self.source.controller().uses_doorbell_buffer() {
            let reason =
                "shadow doorbells hide whether a store to the register arrives; without them: --dbbuf off";
            return Ok(Proven::No(None, reason.to_owned()));
        }
        if self.left.load(Ordering::Acquire) {
            return Ok(Proven::No(None, not_run()));
        }
        let proof = Proof::begin(target, self.source, self.nsid, (self.limit, self.left))?;
        Ok(match proof.ring(access, MAPPED_LIMIT) {
            Ok(Rung::Answered) => Proven::Yes,
            Ok(Rung::Unanswered(proof)) => {
                let limit = MAPPED_LIMIT;
                let reason = format!(
                    "a kernel's store to the mapped doorbell brought no completion within {}",
                    Time(limit)
                );
                Proven::No(Some(proof), reason)
            }
            Ok(Rung::NotRun) => Proven::No(None, not_run()),
            Err(error) => Proven::No(None, format!("no kernel could be run to prove them: {error}")),
        })
    }
}

enum Proven {
    Yes,
    /// Why not, and a Flush that is still to be rung.
    No(Option<Box<Proof>>, String),
}

fn not_run() -> String {
    format!("the kernel that was to prove them did not end within {KERNEL_LIMIT:?}: another may fill the GPU")
}

/// A GPU's clock cannot be stepped, nor its doorbells be handed over one by one.
fn in_real_time(target: &OpenTarget, device: &dyn Device) -> Result<(), Error> {
    if device.clock().passes_by_itself() && device.doorbells().sink().is_none() {
        return Ok(());
    }
    Err(Error::Argument {
        object: "target",
        value: target.target().to_string(),
        limit: format!(
            "{} works in virtual time, which needs the CPU target (--target cpu)",
            device.info().name
        ),
    })
}
