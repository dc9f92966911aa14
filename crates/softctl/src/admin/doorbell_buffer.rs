//! Doorbell Buffer Config (Base 2.0, 5.8).
//!
//! The admin queue keeps its registers: clients write them whether or not they also keep a shadow.

use warpbell_hw::{DmaAccess, Shadow, Window};
use warpbell_nvme::Status;
use warpbell_nvme::data::page_offset;

use super::dwords_12_to_15;
use crate::checker::Rule;
use crate::config::DoorbellBufferMode;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, never};
use crate::queue::{Cq, Sq};
use crate::test_hooks::Defect;

/// How messages name the pages.
pub(crate) const SHADOW_PAGE: &str = "shadow doorbell page";
pub(crate) const EVENT_PAGE: &str = "EventIdx page";

/// The client's two pages: entry `2 * QID + isCQ` of each is at that many strides.
pub(crate) struct DoorbellPages {
    shadows: Window,
    events: Window,
    stride: u8,
    /// Length of each in bytes.
    page: u64,
}

impl DoorbellPages {
    pub(crate) fn entry(&self, qid: u16, head: bool) -> Option<Shadow> {
        let at = (2 * usize::from(qid) + usize::from(head)) * (4 << self.stride);
        Some(Shadow { entry: self.shadows.slice(at, 4).ok()?, event: self.events.slice(at, 4).ok()? })
    }

    /// One of the pages was unmapped: the shadow doorbells, or EventIdx.
    pub(crate) fn lose(&mut self, shadows: bool) {
        match Window::host(self.page as usize) {
            Ok(nowhere) => self.found(shadows, nowhere),
            Err(error) => tracing::error!(%error, "no memory in place of a lost doorbell page"),
        }
    }

    /// One of the pages is mapped again: the shadow doorbells, or EventIdx.
    pub(crate) fn found(&mut self, shadows: bool, window: Window) {
        *(if shadows { &mut self.shadows } else { &mut self.events }) = window;
    }
}

/// Bytes that the entries of so many queue pairs, and of the admin queue, take of a page.
fn need(stride: u8, pairs: u16) -> u64 {
    (8u64 << stride) * (u64::from(pairs) + 1)
}

impl Core {
    /// Whether the client's doorbell pages, if there are any, have entries for so many queue pairs.
    pub(super) fn doorbell_pages_hold(&self, control: &Control, pairs: u16) -> bool {
        control.doorbell_pages.as_ref().is_none_or(|pages| need(pages.stride, pairs) <= pages.page)
    }

    /// Whether Doorbell Buffer Config is offered.
    pub(crate) fn offers_doorbell_buffer(&self) -> bool {
        self.config.doorbell_buffer != DoorbellBufferMode::Off
    }

    fn rechecks(&self) -> bool {
        self.config.defect != Some(Defect::NoRecheck)
    }

    pub(super) fn doorbell_buffer_config(
        &self,
        control: &mut Control,
        command: Command<'_>,
    ) -> Result<(), Refused> {
        let sqe = command.sqe;
        let page = control.cc.page_size();
        control.engine.check_reserved(command, &[("dword 10", sqe.cdw10), ("dword 11", sqe.cdw11)]);
        control.engine.check_reserved(command, &dwords_12_to_15(sqe));
        let need = need(self.config.stride, control.granted);
        if need > page {
            let (granted, stride) = (control.granted, self.config.stride);
            tracing::warn!(granted, stride, need, page, "a doorbell buffer page is too small");
            return Err(never(Status::INVALID_FIELD));
        }
        for address in [sqe.prp1(), sqe.prp2()] {
            if page_offset(address, page) != 0 {
                let what = format_args!("doorbell buffer {address:#x} has a page offset");
                control.engine.violation(Rule::PrpOffset, command, what);
                return Err(never(Status::INVALID_FIELD));
            }
        }
        let window = |address, access| {
            self.space.window(address, page, access).map_err(|error| {
                let what = format_args!("doorbell buffer: {error}");
                control.engine.violation(Rule::of_access(&error), command, what);
                never(Status::DATA_TRANSFER_ERROR)
            })
        };
        let shadows = window(sqe.prp1(), DmaAccess::READ_WRITE)?;
        let events = window(sqe.prp2(), DmaAccess::WRITE)?;
        self.claim_doorbell_pages(control, command, ([sqe.prp1(), sqe.prp2()], page))?;
        let stride = self.config.stride;
        control.doorbell_pages = Some(DoorbellPages { shadows, events, stride, page });
        // The pages of an earlier command may have been unmapped; these are not.
        control.engine.refresh();
        for poll_group in &self.poll_groups {
            let mut poll_group = poll_group.lock();
            poll_group.refresh();
            poll_group.take_doorbells();
            let (sqs, cqs) = poll_group.queues_mut();
            sqs.iter_mut().for_each(|sq| self.shadow_existing_sq(control, sq));
            cqs.iter_mut().for_each(|cq| self.shadow_existing_cq(control, cq));
        }
        Ok(())
    }

    /// Claims new pages in place of those of an earlier command, which may be the same. If they cannot be had, queues
    /// go on with the old ones.
    fn claim_doorbell_pages(
        &self,
        control: &Control,
        command: Command<'_>,
        (bases, page): ([u64; 2], u64),
    ) -> Result<(), Refused> {
        let wanted = [(SHADOW_PAGE, bases[0], page), (EVENT_PAGE, bases[1], page)];
        self.space.claim_anew(&wanted).map_err(|other| {
            let what =
                format_args!("{page} bytes each at {:#x} and {:#x}, where {other}", bases[0], bases[1]);
            control.engine.violation(Rule::QueueOverlap, command, what);
            never(Status::INVALID_FIELD)
        })
    }

    /// After a reset clients write registers again.
    pub(crate) fn forget_doorbell_pages(&self, control: &mut Control) {
        if control.doorbell_pages.take().is_some() {
            self.space.release(SHADOW_PAGE);
            self.space.release(EVENT_PAGE);
        }
    }

    /// A queue made before the command: its doorbells go on where they are.
    fn shadow_existing_sq(&self, control: &Control, sq: &mut Sq) {
        let Some(shadow) = self.doorbell_entry(control, sq.id, false) else { return };
        shadow.entry.store_u32(0, sq.raw(), std::sync::atomic::Ordering::Release);
        sq.bell.attach(shadow, sq.raw(), self.rechecks());
    }

    fn shadow_existing_cq(&self, control: &Control, cq: &mut Cq) {
        let Some(shadow) = self.doorbell_entry(control, cq.id, true) else { return };
        shadow.entry.store_u32(0, cq.raw(), std::sync::atomic::Ordering::Release);
        cq.bell.attach(shadow, cq.raw(), self.rechecks());
    }

    fn doorbell_entry(&self, control: &Control, qid: u16, head: bool) -> Option<Shadow> {
        let claims = control.engine.view.claims();
        if claims.is_lost(SHADOW_PAGE) || claims.is_lost(EVENT_PAGE) {
            return None;
        }
        control.doorbell_pages.as_ref()?.entry(qid, head)
    }

    /// A new queue, whose entries the client has zeroed.
    pub(super) fn shadow_new_sq(&self, control: &Control, sq: &mut Sq) {
        if let Some(shadow) = self.doorbell_entry(control, sq.id, false) {
            sq.bell.attach(shadow, 0, self.rechecks());
        }
    }

    pub(super) fn shadow_new_cq(&self, control: &Control, cq: &mut Cq) {
        if let Some(shadow) = self.doorbell_entry(control, cq.id, true) {
            cq.bell.attach(shadow, 0, self.rechecks());
        }
    }
}
