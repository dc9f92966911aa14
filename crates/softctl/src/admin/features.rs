//! Get Features and Set Features (Base 2.0, 5.15 and 5.27).

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use warpbell_nvme::Status;
use warpbell_nvme::command::{GetFeaturesCdw10, NSID_ALL, SetFeaturesCdw10};
use warpbell_nvme::experimental::WIDE_CIDS;
use warpbell_nvme::feature::{
    Arbitration, FeatureCapabilities, FeatureId, FeatureSelect, InterruptCoalescing, InterruptVectorConfig,
    NumberOfQueues,
};

use super::health::{default_threshold, selected_thresholds};
use super::{dwords_12_to_15, keep_alive};
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, field, never};
use crate::error::SoftError;

/// A feature with a value of one dword.
struct Known {
    id: FeatureId,
    default: u32,
    changeable: bool,
    saveable: bool,
    namespace: bool,
    /// Bits that may be set.
    mask: u32,
}

const fn known(id: FeatureId, default: u32, changeable: bool, mask: u32) -> Known {
    Known { id, default, changeable, saveable: changeable, namespace: false, mask }
}

const KNOWN: &[Known] = &[
    known(FeatureId::ARBITRATION, ARBITRATION, true, 0xffff_ff07),
    known(FeatureId::POWER_MANAGEMENT, 0, true, 0xe0),
    // What is selected has defaults of its own.
    known(FeatureId::TEMPERATURE_THRESHOLD, 0, true, 0x003f_ffff),
    Known { namespace: true, ..known(FeatureId::ERROR_RECOVERY, 0, true, 0xffff) },
    known(FeatureId::VOLATILE_WRITE_CACHE, 1, true, 1),
    known(FeatureId::INTERRUPT_COALESCING, 0, true, 0xffff),
    known(FeatureId::WRITE_ATOMICITY, 0, true, 1),
    known(FeatureId::ASYNC_EVENT_CONFIG, 0, true, 0x83ff),
    Known { saveable: false, ..known(FeatureId::KEEP_ALIVE_TIMER, 0, true, u32::MAX) },
];

/// The Arbitration feature without weights: a burst ends when the poller's batch does.
const ARBITRATION: u32 = 7;

/// Values that differ from the defaults.
#[derive(Debug, Default)]
pub(crate) struct Features {
    current: BTreeMap<(u8, u32), u32>,
    saved: BTreeMap<(u8, u32), u32>,
}

impl Features {
    pub(crate) fn new() -> Features {
        Features::default()
    }

    /// The current value of a feature of one dword; `scope` as [`Core::feature_scope`] says it.
    pub(super) fn value(&self, id: FeatureId, scope: u32) -> u32 {
        let default = KNOWN.iter().find(|known| known.id == id).map_or(0, |known| known.default);
        self.current.get(&(id.0, scope)).copied().unwrap_or(default)
    }

    /// The current value of a feature, if it is not the default.
    pub(super) fn set_value(&self, id: FeatureId, scope: u32) -> Option<u32> {
        self.current.get(&(id.0, scope)).copied()
    }

    /// The present value of Arbitration.
    pub(crate) fn arbitration(&self) -> Arbitration {
        let value = self.current.get(&(FeatureId::ARBITRATION.0, 0));
        Arbitration::from_bits(value.copied().unwrap_or(ARBITRATION))
    }

    /// A namespace is gone, and its values with it.
    fn forget_namespace(&mut self, nsid: u32) {
        let about = |known: &Known, key: &(u8, u32)| known.namespace && *key == (known.id.0, nsid);
        for values in [&mut self.current, &mut self.saved] {
            values.retain(|key, _| !KNOWN.iter().any(|known| about(known, key)));
        }
    }

    /// After a reset the saved values hold.
    pub(crate) fn reset(&mut self) {
        self.current = self.saved.clone();
    }
}

fn find(id: FeatureId) -> Result<&'static Known, Refused> {
    KNOWN.iter().find(|known| known.id == id).ok_or(never(Status::INVALID_FIELD))
}

fn wide_cids(control: &Control, select: FeatureSelect) -> u32 {
    match select {
        FeatureSelect::SUPPORTED_CAPABILITIES => FeatureCapabilities::new().with_changeable(true).into_bits(),
        FeatureSelect::CURRENT => control.wide_cids.into(),
        _ => 0,
    }
}

/// 32-bit command identifiers (experimental), before the first I/O queue.
fn set_wide_cids(control: &mut Control, save: bool, value: u32) -> Result<u32, Refused> {
    if value > 1 {
        return Err(never(Status::INVALID_FIELD));
    }
    if save {
        return Err(never(Status::FEATURE_NOT_SAVEABLE));
    }
    if !control.sqs.is_empty() || !control.cqs.is_empty() {
        return Err(never(Status::COMMAND_SEQUENCE_ERROR));
    }
    control.wide_cids = value == 1;
    Ok(0)
}

impl Core {
    /// The namespace that a value belongs to: 0 for the controller.
    fn feature_scope(&self, known: &Known, nsid: u32, set: bool) -> Result<u32, Refused> {
        if !known.namespace {
            let specific = nsid != 0 && nsid != NSID_ALL;
            return if specific && set { Err(never(Status::FEATURE_NOT_NAMESPACE_SPECIFIC)) } else { Ok(0) };
        }
        let all = nsid == NSID_ALL && set;
        if !all {
            self.active(nsid)?;
        }
        Ok(nsid)
    }

    /// Drops the values of namespaces that were deleted.
    fn forget_deleted(&self, control: &mut Control) {
        let deleted = self.subsystem.state().take_deleted(self.cntlid);
        deleted.into_iter().for_each(|nsid| control.features.forget_namespace(nsid));
    }

    pub(super) fn get_features(&self, control: &mut Control, command: Command<'_>) -> Result<u32, Refused> {
        self.forget_deleted(control);
        let sqe = command.sqe;
        let fields = GetFeaturesCdw10::from_bits(sqe.cdw10);
        control.engine.check_reserved(command, &[("dword 10 bits 31:11", sqe.cdw10 >> 11)]);
        let (id, select) = (fields.fid(), fields.sel());
        if select.into_bits() > FeatureSelect::SUPPORTED_CAPABILITIES.into_bits() {
            return Err(control.engine.blame(field::CDW10 + 1, Status::INVALID_FIELD));
        }
        match id {
            FeatureId::NUMBER_OF_QUEUES => return Ok(self.number_of_queues(control, select)),
            FeatureId::INTERRUPT_VECTOR_CONFIG => return self.vector_config(sqe.cdw11, select),
            WIDE_CIDS if self.config.wide_cids => return Ok(wide_cids(control, select)),
            id if self.has_data(id) => return self.get_data_feature(control, command, id, select),
            _ => {}
        }
        let known = control.engine.about(field::CDW10, || find(id))?;
        if select == FeatureSelect::SUPPORTED_CAPABILITIES {
            let capabilities = FeatureCapabilities::new()
                .with_saveable(known.saveable)
                .with_namespace_specific(known.namespace)
                .with_changeable(known.changeable);
            return Ok(capabilities.into_bits());
        }
        let (mut scope, mut default) = (self.feature_scope(known, sqe.nsid, false)?, known.default);
        if id == FeatureId::TEMPERATURE_THRESHOLD {
            let (selected, threshold) = selected_thresholds(control, sqe.cdw11, false)?[0];
            (scope, default) = (selected, default_threshold(threshold).into_bits());
        }
        let key = (id.0, scope);
        let values = match select {
            FeatureSelect::CURRENT => control.features.current.get(&key),
            FeatureSelect::SAVED => control.features.saved.get(&key),
            _ => None,
        };
        let value = values.copied().unwrap_or(default);
        let current = select == FeatureSelect::CURRENT && id == FeatureId::POWER_MANAGEMENT;
        Ok(if current { self.present_power(control, value) } else { value })
    }

    fn number_of_queues(&self, control: &Control, select: FeatureSelect) -> u32 {
        if select == FeatureSelect::SUPPORTED_CAPABILITIES {
            return FeatureCapabilities::new().with_changeable(true).into_bits();
        }
        let pairs = match select {
            FeatureSelect::CURRENT => control.granted,
            _ => self.config.queue_pairs,
        };
        NumberOfQueues::new().with_nsqr_z(pairs - 1).with_ncqr_z(pairs - 1).into_bits()
    }

    fn vector_config(&self, cdw11: u32, select: FeatureSelect) -> Result<u32, Refused> {
        if select == FeatureSelect::SUPPORTED_CAPABILITIES {
            return Ok(FeatureCapabilities::new().with_changeable(true).into_bits());
        }
        let vector = InterruptVectorConfig::from_bits(cdw11).iv();
        let exempt = self.vectors.exempt(vector).ok_or(never(Status::INVALID_FIELD))?;
        let exempt = exempt && select == FeatureSelect::CURRENT;
        Ok(InterruptVectorConfig::new().with_iv(vector).with_cd(exempt).into_bits())
    }

    fn set_vector_config(&self, control: &Control, command: Command<'_>, save: bool) -> Result<u32, Refused> {
        let value = command.sqe.cdw11;
        control.engine.check_reserved(command, &[("dword 11 bits 31:17", value >> 17)]);
        if save {
            return Err(never(Status::FEATURE_NOT_SAVEABLE));
        }
        let config = InterruptVectorConfig::from_bits(value);
        if self.vectors.exempt(config.iv()).is_none() {
            return Err(control.engine.blame(field::CDW11, Status::INVALID_FIELD));
        }
        self.vectors.set_exempt(config.iv(), config.cd());
        Ok(0)
    }

    /// Follows the feature's value.
    pub(crate) fn gather_interrupts(&self, control: &Control) {
        let value = control.features.current.get(&(FeatureId::INTERRUPT_COALESCING.0, 0));
        self.vectors.configure(InterruptCoalescing::from_bits(value.copied().unwrap_or_default()));
    }

    pub(super) fn set_features(&self, control: &mut Control, command: Command<'_>) -> Result<u32, Refused> {
        self.forget_deleted(control);
        let sqe = command.sqe;
        let fields = SetFeaturesCdw10::from_bits(sqe.cdw10);
        control.engine.check_reserved(command, &[("dword 10 bits 30:8", sqe.cdw10 >> 8 & 0x7f_ffff)]);
        control.engine.check_reserved(command, &dwords_12_to_15(sqe));
        let (id, mut value) = (fields.fid(), sqe.cdw11);
        if id == FeatureId::KEEP_ALIVE_TIMER {
            value = keep_alive::rounded(value);
        }
        match id {
            FeatureId::NUMBER_OF_QUEUES => return self.grant_queues(control, fields.sv(), value),
            FeatureId::INTERRUPT_VECTOR_CONFIG => {
                return self.set_vector_config(control, command, fields.sv());
            }
            WIDE_CIDS if self.config.wide_cids => return set_wide_cids(control, fields.sv(), value),
            id if self.has_data(id) => return self.set_data_feature(control, command, id, fields.sv()),
            _ => {}
        }
        self.set_value_feature(control, command, (id, value))
    }

    /// Sets a feature that is no more than its value.
    fn set_value_feature(
        &self,
        control: &mut Control,
        command: Command<'_>,
        (id, value): (FeatureId, u32),
    ) -> Result<u32, Refused> {
        let fields = SetFeaturesCdw10::from_bits(command.sqe.cdw10);
        let known = control.engine.about(field::CDW10, || find(id))?;
        let scope = self.feature_scope(known, command.sqe.nsid, true)?;
        let mask = if id == FeatureId::POWER_MANAGEMENT { self.power_mask() } else { known.mask };
        if value & !mask != 0 || id == FeatureId::POWER_MANAGEMENT && !self.has_power_state(value) {
            return Err(control.engine.blame(field::CDW11, Status::INVALID_FIELD));
        }
        if fields.sv() && !known.saveable {
            return Err(never(Status::FEATURE_NOT_SAVEABLE));
        }
        if !known.changeable {
            let same = value == known.default;
            return if same { Ok(0) } else { Err(never(Status::FEATURE_NOT_CHANGEABLE)) };
        }
        let values: Vec<_> = match id {
            FeatureId::TEMPERATURE_THRESHOLD => selected_thresholds(control, value, true)?
                .into_iter()
                .map(|(scope, threshold)| (scope, threshold.into_bits()))
                .collect(),
            _ if scope == NSID_ALL => self.active_after(0).into_iter().map(|nsid| (nsid, value)).collect(),
            _ => vec![(scope, value)],
        };
        if id == FeatureId::VOLATILE_WRITE_CACHE {
            self.switch_write_cache(control, value != 0).map_err(|error| {
                tracing::error!(%error, "a write cache cannot be switched off");
                Status::WRITE_FAULT
            })?;
        }
        for (scope, value) in values {
            control.features.current.insert((id.0, scope), value);
            if fields.sv() {
                control.features.saved.insert((id.0, scope), value);
            }
        }
        self.apply_feature(control, id, value);
        Ok(0)
    }

    /// What a feature's new value changes besides itself.
    fn apply_feature(&self, control: &mut Control, id: FeatureId, value: u32) {
        match id {
            FeatureId::TEMPERATURE_THRESHOLD | FeatureId::ASYNC_EVENT_CONFIG => self.watch_health(control),
            FeatureId::INTERRUPT_COALESCING => self.gather_interrupts(control),
            FeatureId::KEEP_ALIVE_TIMER => self.set_keep_alive(control, value),
            FeatureId::POWER_MANAGEMENT => self.enter_power_state(control, value),
            FeatureId::ARBITRATION => self
                .poll_groups
                .iter()
                .for_each(|cell| cell.lock().set_arbitration(Arbitration::from_bits(value))),
            _ => {}
        }
    }

    /// Switches the write cache. What is in a cache that is switched off becomes durable; if that fails, it stays on.
    fn switch_write_cache(&self, control: &Control, on: bool) -> Result<(), SoftError> {
        let write_through = &control.engine.write_through;
        let was_off = write_through.swap(!on, Ordering::AcqRel);
        if on || was_off {
            return Ok(());
        }
        self.subsystem.flush_all().inspect_err(|_| write_through.store(false, Ordering::Release))
    }

    /// After a reset, follows the feature's value, which may be a saved one. A reset cannot be refused: what it could
    /// not do is in the error log, and the feature says what holds.
    pub(crate) fn restore_write_cache(&self, control: &mut Control) {
        let key = (FeatureId::VOLATILE_WRITE_CACHE.0, 0);
        let on = control.features.current.get(&key).is_none_or(|on| *on != 0);
        if let Err(error) = self.switch_write_cache(control, on) {
            tracing::error!(%error, "a write cache cannot be switched off by a reset");
            self.errors.note_internal(Status::WRITE_FAULT);
            control.features.current.insert(key, 1);
        }
    }

    /// Number of Queues, which must come before the first I/O queue.
    fn grant_queues(&self, control: &mut Control, save: bool, value: u32) -> Result<u32, Refused> {
        let asked = NumberOfQueues::from_bits(value);
        if asked.nsqr_z() == u16::MAX || asked.ncqr_z() == u16::MAX {
            return Err(never(Status::INVALID_FIELD));
        }
        if save {
            return Err(never(Status::FEATURE_NOT_SAVEABLE));
        }
        if !control.sqs.is_empty() || !control.cqs.is_empty() {
            return Err(never(Status::COMMAND_SEQUENCE_ERROR));
        }
        let asked = asked.submission_queues().max(asked.completion_queues());
        let limit = self.config.queue_pairs;
        let granted = self.config.grant.unwrap_or(asked.min(limit.into()) as u16);
        if !self.doorbell_pages_hold(control, granted) {
            // Queues without a place in the doorbell buffer would be served from registers that nobody writes.
            return Err(never(Status::COMMAND_SEQUENCE_ERROR));
        }
        control.granted = granted;
        Ok(self.number_of_queues(control, FeatureSelect::CURRENT))
    }
}
