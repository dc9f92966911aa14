//! Identify (Base 2.0, 5.17; NVM command set 1.0, 4.1.5).

use warpbell_nvme::Status;
use warpbell_nvme::command::{IdentifyCdw10, IdentifyCdw11, NSID_ALL};
use warpbell_nvme::experimental::Experimental;
use warpbell_nvme::identify::{
    Cmic, Cns, ControllerList, ControllerType, Csi, EntrySizes, Flbas, Fna, Frmw, IDENTIFY_SIZE,
    IdentifyController, IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNvmNamespace,
    IoCommandSetVector, LbaFormat, Lpa, NamespaceList, NsIdDescriptorHeader, NsIdType, Oacs, Oaes, Sanicap,
    SglSupport, Sgls, Vwc, pad_ascii,
};
use zerocopy::{Immutable, IntoBytes};

use super::firmware::GRANULARITY;
use super::log::ERROR_ENTRIES;
use super::{abort, aer, keep_alive};
use crate::config::CompletionOrder;
use crate::control::Control;
use crate::core::Core;
use crate::endpoint::IDENTITY;
use crate::engine::{Command, Refused, field, never};
use crate::serial::{FNV_BASIS, fnv};
use crate::subsystem::{Allocated, CRITICAL_TEMPERATURE, SLOTS, WARNING_TEMPERATURE};
use crate::transfer::Direction;

/// The LBA formats: format `i` has blocks of `1 << BLOCK_SHIFTS[i]` bytes.
pub(super) const BLOCK_SHIFTS: [u8; 2] = [9, 12];
/// Where Identify Namespace tells the exact length of a file: a mark, then the length in bytes.
const LENGTH_OFFSET: usize = 3712;
const LENGTH_MARK: &[u8; 8] = b"WBLENGTH";
/// The largest namespace identifier that a list may start after.
const LAST_NSID: u32 = 0xffff_fffd;

type Page = [u8; IDENTIFY_SIZE];

fn page(structure: &(impl IntoBytes + Immutable)) -> Page {
    let mut page = [0; IDENTIFY_SIZE];
    page.copy_from_slice(structure.as_bytes());
    page
}

impl Core {
    pub(super) fn identify(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        control.engine.check_reserved(command, &super::dwords_12_to_15(sqe)[..2]);
        let fields = IdentifyCdw10::from_bits(sqe.cdw10);
        let csi = IdentifyCdw11::from_bits(sqe.cdw11).csi();
        let data = match fields.cns() {
            Cns::CONTROLLER | Cns::CSI_CONTROLLER | Cns::IO_COMMAND_SETS => {
                self.identify_this(fields.cns(), csi)
            }
            Cns::CONTROLLERS => Ok(self.controllers(fields.cntid())),
            _ => control.engine.about(field::NSID, || self.identify_nsid(fields, csi, sqe.nsid)),
        };
        let known = Cns::KNOWN.contains(&fields.cns());
        let data = data.inspect_err(|status| {
            if !known || status.same_code(Status::INVALID_FIELD) {
                control.engine.location.set(field::CDW10);
            }
        })?;
        control.engine.map_data(command, IDENTIFY_SIZE, Direction::ToClient)?;
        control.engine.send(0, &data)
    }

    /// What is about the controller.
    fn identify_this(&self, cns: Cns, csi: Csi) -> Result<Page, Refused> {
        match cns {
            Cns::CONTROLLER => Ok(page(&self.identify_controller())),
            Cns::CSI_CONTROLLER => {
                nvm(csi)?;
                self.config.optional.identify().map(|data| page(&data))
            }
            _ => {
                let mut data = [0; IDENTIFY_SIZE];
                let vector = IoCommandSetVector::new().with_nvm(true).into_bits();
                data[..8].copy_from_slice(&vector.to_le_bytes());
                Ok(data)
            }
        }
    }

    /// What is about a namespace, or a list of them.
    fn identify_nsid(&self, fields: IdentifyCdw10, csi: Csi, nsid: u32) -> Result<Page, Refused> {
        let nvm_page = || page(&IdentifyNvmNamespace::zeroed());
        match fields.cns() {
            Cns::NAMESPACE if nsid == NSID_ALL => Ok(page(&common_namespace())),
            Cns::NAMESPACE => self.about_active(nsid, |one| page(&identify_namespace(one))),
            Cns::ACTIVE_NAMESPACES => namespace_list(nsid, self.active_after(nsid)),
            Cns::NAMESPACE_DESCRIPTORS => {
                self.active(nsid)?;
                self.about_allocated(nsid, |one| self.descriptors(one))
            }
            Cns::CSI_NAMESPACE => nvm(csi).and_then(|()| self.about_active(nsid, |_| nvm_page())),
            Cns::CSI_ACTIVE_NAMESPACES => {
                nvm(csi).and_then(|()| namespace_list(nsid, self.active_after(nsid)))
            }
            Cns::INDEPENDENT_NAMESPACE => self.about_active(nsid, |one| page(&independent(one))),
            Cns::ALLOCATED_NAMESPACES => namespace_list(nsid, self.allocated_after(nsid)),
            Cns::ALLOCATED_NAMESPACE => self.about_allocated(nsid, |one| page(&identify_namespace(one))),
            Cns::CSI_ALLOCATED_NAMESPACES => {
                nvm(csi).and_then(|()| namespace_list(nsid, self.allocated_after(nsid)))
            }
            Cns::CSI_ALLOCATED_NAMESPACE => {
                nvm(csi).and_then(|()| self.about_allocated(nsid, |_| nvm_page()))
            }
            Cns::ATTACHED_CONTROLLERS => self
                .about_allocated(nsid, |one| controller_list(one.attached.range(fields.cntid()..).copied())),
            _ => Err(never(Status::INVALID_FIELD)),
        }
    }

    fn valid(&self, nsid: u32) -> Result<(), Refused> {
        if nsid == 0 || nsid > self.subsystem.last_nsid {
            return Err(never(Status::INVALID_NAMESPACE_OR_FORMAT));
        }
        Ok(())
    }

    /// An inactive NSID is none to work with.
    pub(super) fn active(&self, nsid: u32) -> Result<(), Refused> {
        self.valid(nsid)?;
        let state = self.subsystem.state();
        let active = state.namespaces.get(&nsid).is_some_and(|one| one.attached.contains(&self.cntlid));
        if active { Ok(()) } else { Err(never(Status::INVALID_FIELD)) }
    }

    /// A page about an active namespace; of an inactive one there are zeros.
    fn about_active(&self, nsid: u32, page: impl FnOnce(&Allocated) -> Page) -> Result<Page, Refused> {
        self.valid(nsid)?;
        let state = self.subsystem.state();
        let one = state.namespaces.get(&nsid).filter(|one| one.attached.contains(&self.cntlid));
        Ok(one.map_or([0; IDENTIFY_SIZE], page))
    }

    /// A page about a namespace, attached or not; of an unallocated NSID there are zeros.
    fn about_allocated(&self, nsid: u32, page: impl FnOnce(&Allocated) -> Page) -> Result<Page, Refused> {
        self.valid(nsid)?;
        Ok(self.subsystem.state().namespaces.get(&nsid).map_or([0; IDENTIFY_SIZE], page))
    }

    /// The active namespaces after `after`.
    pub(super) fn active_after(&self, after: u32) -> Vec<u32> {
        let state = self.subsystem.state();
        let attached = |one: &&Allocated| one.attached.contains(&self.cntlid);
        let nsids = state.namespaces.values().filter(attached).map(|one| one.namespace.nsid);
        nsids.filter(|nsid| *nsid > after).collect()
    }

    fn allocated_after(&self, after: u32) -> Vec<u32> {
        self.subsystem.state().namespaces.keys().copied().filter(|nsid| *nsid > after).collect()
    }

    /// The subsystem's controllers, from `first` on.
    fn controllers(&self, first: u16) -> Page {
        let state = self.subsystem.state();
        controller_list(state.cntlids().filter(|cntlid| *cntlid >= first))
    }

    fn identify_controller(&self) -> IdentifyController {
        let mut data = IdentifyController::zeroed();
        self.identify_subsystem(&mut data);
        self.identify_commands(&mut data);
        self.identify_power(&mut data);
        data.mdts = self.config.mdts;
        data.cntlid = self.cntlid;
        data.ver = self.config.version;
        data.cntrltype = ControllerType::IO;
        data.rab = 5;
        let offer = Experimental::new()
            .with_ordered_completions(matches!(self.config.order, CompletionOrder::Submission { .. }))
            .with_wide_cids(self.config.wide_cids);
        if offer != Experimental::new() {
            offer.put(&mut data);
        }
        [data.crdt1, data.crdt2, data.crdt3] = self.config.retry_delays;
        data.rtd3e = u32::try_from(self.config.shutdown_time.as_micros()).unwrap_or(u32::MAX);
        data.sqes = EntrySizes::new().with_min(6).with_max(6);
        data.cqes = EntrySizes::new().with_min(4).with_max(4);
        if self.config.sgl {
            data.sgls = Sgls::new().with_support(SglSupport::ANY_ALIGNMENT).with_bit_bucket(true);
        }
        data
    }

    /// What the controllers of the subsystem have in common: names, namespaces, firmware and media.
    fn identify_subsystem(&self, data: &mut IdentifyController) {
        let subsystem = &self.subsystem;
        (data.vid, data.ssvid) = (IDENTITY.vendor, IDENTITY.vendor);
        data.sn = pad_ascii(&subsystem.serial);
        data.mn = pad_ascii(&subsystem.model);
        let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", text(&self.uuid("0")));
        data.subnqn[..nqn.len()].copy_from_slice(nqn.as_bytes());
        data.cmic = Cmic::new().with_multi_controller(subsystem.several);
        data.frmw =
            Frmw::new().with_slot1_read_only(true).with_slots(SLOTS).with_activation_without_reset(true);
        data.fwug = GRANULARITY;
        data.wctemp = WARNING_TEMPERATURE;
        data.cctemp = CRITICAL_TEMPERATURE;
        data.nn = subsystem.last_nsid;
        let state = subsystem.state();
        data.fr = state.firmware.revision();
        data.tnvmcap = state.total_capacity().into();
        data.unvmcap = u128::from(state.unallocated).into();
    }

    /// Commands, features, logs and events that the controller has.
    fn identify_commands(&self, data: &mut IdentifyController) {
        data.oaes = Oaes::new()
            .with_namespace_attribute(true)
            .with_firmware_activation(true)
            .with_subsystem_shutdown(true);
        data.oacs = Oacs::new()
            .with_ns_management(true)
            .with_format_nvm(true)
            .with_firmware(true)
            .with_dbbuf(self.offers_doorbell_buffer());
        data.oncs = self.config.optional.oncs();
        data.kas = keep_alive::GRANULARITY;
        data.acl_z = abort::LIMIT_Z;
        data.aerl_z = aer::LIMIT_Z;
        data.lpa = Lpa::new().with_command_effects(true).with_extended_data(true).with_supported_pages(true);
        data.elpe_z = (ERROR_ENTRIES - 1) as u8;
        // After a sanitize operation nothing more happens to the media.
        data.sanicap = Sanicap::new().with_ces(true).with_bes(true).with_ows(true).with_nodmmas(1);
        data.fna = Fna::new().with_crypto_erase(true);
        data.vwc = Vwc::new().with_present(true).with_flush_all(3);
    }

    fn descriptors(&self, one: &Allocated) -> Page {
        let mut data = [0; IDENTIFY_SIZE];
        let mut at = 0;
        let mut push = |kind, identifier: &[u8]| {
            let header = NsIdDescriptorHeader::new(kind, identifier.len() as u8);
            data[at..at + 4].copy_from_slice(header.as_bytes());
            data[at + 4..at + 4 + identifier.len()].copy_from_slice(identifier);
            at += 4 + identifier.len();
        };
        let nsid = one.namespace.nsid;
        let name = match one.edition {
            0 => nsid.to_string(),
            // An NSID may be used again; the UUID may not.
            edition => format!("{nsid}/{edition}"),
        };
        push(NsIdType::UUID, &self.uuid(&name));
        push(NsIdType::CSI, &[Csi::NVM.0]);
        data
    }

    /// A UUID (version 8) made of the serial number and `name`, so that it stays the same from run to run.
    fn uuid(&self, name: &str) -> [u8; 16] {
        let text = format!("{}/{name}", self.subsystem.serial);
        let hash = |basis| fnv(basis, text.as_bytes());
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&hash(FNV_BASIS).to_be_bytes());
        uuid[8..].copy_from_slice(&hash(0x9ae1_6a3b_2f90_404f).to_be_bytes());
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }
}

/// The only I/O command set.
fn nvm(csi: Csi) -> Result<(), Refused> {
    if csi == Csi::NVM { Ok(()) } else { Err(never(Status::INVALID_FIELD)) }
}

fn namespace_list(after: u32, following: Vec<u32>) -> Result<Page, Refused> {
    if after > LAST_NSID {
        return Err(never(Status::INVALID_NAMESPACE_OR_FORMAT));
    }
    let mut list = NamespaceList::zeroed();
    list.nsids.iter_mut().zip(following).for_each(|(slot, nsid)| *slot = nsid);
    Ok(page(&list))
}

fn controller_list(cntlids: impl Iterator<Item = u16>) -> Page {
    let mut list = ControllerList::default();
    for (slot, cntlid) in list.cntlids.iter_mut().zip(cntlids) {
        *slot = cntlid;
        list.num += 1;
    }
    page(&list)
}

/// What all namespaces have in common.
fn common_namespace() -> IdentifyNamespace {
    let mut data = IdentifyNamespace::zeroed();
    data.nlbaf_z = (BLOCK_SHIFTS.len() - 1) as u8;
    // Formats take no time: never any of it remains.
    data.fpi = 1 << 7;
    // Deallocated blocks read as zero, and Write Zeroes deallocates.
    data.dlfeat = 1 | 1 << 3;
    for (format, shift) in data.lbaf.iter_mut().zip(BLOCK_SHIFTS) {
        *format = LbaFormat::new().with_lbads(shift);
    }
    data
}

fn identify_namespace(one: &Allocated) -> IdentifyNamespace {
    let namespace = &one.namespace;
    let mut data = common_namespace();
    data.nsze = namespace.blocks;
    data.ncap = namespace.blocks;
    data.nuse = namespace.blocks;
    let format = BLOCK_SHIFTS.iter().position(|shift| *shift == namespace.shift).unwrap_or(0);
    data.flbas = Flbas::new().with_index_lower(format as u8);
    data.nmic = u8::from(one.shared);
    data.nvmcap = (u128::from(namespace.blocks) << namespace.shift).into();
    data.nsattr = u8::from(!namespace.writable);
    if let Some(length) = namespace.reported_length() {
        let at = LENGTH_OFFSET - (IDENTIFY_SIZE - data.vs.len());
        data.vs[at..at + 8].copy_from_slice(LENGTH_MARK);
        data.vs[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
    }
    data
}

fn independent(one: &Allocated) -> IdentifyNamespaceIndependent {
    let mut data = IdentifyNamespaceIndependent::zeroed();
    data.nmic = u8::from(one.shared);
    data.nsattr = u8::from(!one.namespace.writable);
    data.fpi = 1 << 7;
    data.nstat = 1;
    data
}

fn text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
