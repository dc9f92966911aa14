//! The controller as a transport serves it to a client in another process.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use warpbell_hw::{
    DmaAccess, DmaError, DmaSource, Endpoint, InterruptError, Iova, PciIdentity, Reset, ResetKind,
};

use crate::admin::{ADMIN_CQ, ADMIN_SQ, EVENT_PAGE, SHADOW_PAGE, follow_memory};
use crate::control::Control;
use crate::core::Core;
use crate::device::SoftDevice;
use crate::memory::Claim;

/// What the function says that it is. The vendor identifier is assigned to nobody.
pub(crate) const IDENTITY: PciIdentity = PciIdentity { vendor: 0x5742, device: 0x0001, revision: 1 };

impl Endpoint for SoftDevice {
    fn pci_identity(&self) -> PciIdentity {
        IDENTITY
    }

    fn map_at(&self, iova: Iova, source: DmaSource<'_>, access: DmaAccess) -> Result<(), DmaError> {
        let core = self.core();
        let mut control = core.control.lock();
        let resumed = core.space.map_at(iova, source, access)?;
        if !resumed.is_empty() {
            core.resume(&mut control, &resumed);
        }
        Ok(())
    }

    fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let core = self.core();
        let mut control = core.control.lock();
        core.space.unmap_at(iova, len)?;
        core.let_go(&mut control);
        Ok(())
    }

    fn connect_interrupt(&self, vector: u16, event: Option<OwnedFd>) -> Result<(), InterruptError> {
        self.core().vectors.connect(vector, event)
    }

    fn client_gone(&self) {
        let core = self.core();
        core.vectors.disconnect();
        // Refused where the function was removed: then there is nothing to reset.
        if let Err(error) = core.reset(ResetKind::Function) {
            tracing::debug!(%error, "no reset for a client that is gone");
        }
        let mut control = core.control.lock();
        control.surprised = false;
        core.space.unmap_everything();
        core.let_go(&mut control);
    }
}

impl Core {
    /// Drops what all threads hold of memory that was unmapped. Queues in it are served again when it is back.
    fn let_go(&self, control: &mut Control) {
        follow_memory(control);
        let suspended = control.engine.view.claims().suspended().is_some();
        for cell in &self.poll_groups {
            let mut poll_group = cell.lock();
            if suspended { poll_group.suspend() } else { poll_group.refresh() }
        }
        let Some(pages) = &mut control.doorbell_pages else { return };
        for (name, shadows) in [(SHADOW_PAGE, true), (EVENT_PAGE, false)] {
            if control.engine.view.claims().is_lost(name) {
                pages.lose(shadows);
            }
        }
    }

    /// Queues, or the client's doorbell pages, have their memory again.
    fn resume(&self, control: &mut Control, claims: &[Claim]) {
        for claim in claims {
            match claim.owner.as_str() {
                ADMIN_SQ | ADMIN_CQ => self.reconnect_admin(control, claim),
                SHADOW_PAGE | EVENT_PAGE => self.find_doorbell_page(control, claim),
                _ => self.poll_groups.iter().for_each(|cell| cell.lock().reconnect(&self.space, claim)),
            }
        }
        control.engine.refresh();
        if control.engine.view.claims().suspended().is_some() {
            return;
        }
        for cell in &self.poll_groups {
            let mut poll_group = cell.lock();
            poll_group.refresh();
            if let Some(pages) = &control.doorbell_pages {
                poll_group.find_pages(pages);
            }
            poll_group.resume();
        }
        // What was submitted in between is found without another doorbell.
        self.admin_backlog.store(control.admin.is_some(), Ordering::Relaxed);
    }

    fn reconnect_admin(&self, control: &mut Control, claim: &Claim) {
        let Some(admin) = &mut control.admin else { return };
        let submission = claim.owner == ADMIN_SQ;
        let access = if submission { DmaAccess::READ } else { DmaAccess::WRITE };
        match self.space.window(claim.start, claim.len, access) {
            Ok(ring) if submission => admin.sq.reconnect(ring),
            Ok(ring) => admin.cq.reconnect(ring),
            Err(error) => tracing::warn!(queue = claim.owner, %error, "stays without memory"),
        }
    }

    fn find_doorbell_page(&self, control: &mut Control, claim: &Claim) {
        let Some(pages) = &mut control.doorbell_pages else { return };
        let shadows = claim.owner == SHADOW_PAGE;
        let access = if shadows { DmaAccess::READ_WRITE } else { DmaAccess::WRITE };
        match self.space.window(claim.start, claim.len, access) {
            Ok(window) => pages.found(shadows, window),
            Err(error) => tracing::warn!(page = claim.owner, %error, "stays without memory"),
        }
    }
}
