//! Identify (Base 2.0, 5.17; NVM command set 1.0, 4.1.5).

use warpbell_nvme::Status;
use warpbell_nvme::command::{IdentifyCdw10, IdentifyCdw11};
use warpbell_nvme::identify::{
    Cns, ControllerList, ControllerType, Csi, EntrySizes, Flbas, Frmw, IDENTIFY_SIZE, IdentifyController,
    IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNvmController, IdentifyNvmNamespace,
    IoCommandSetVector, LbaFormat, Lpa, NamespaceList, NsIdDescriptorHeader, NsIdType, Oaes, Oncs,
    SglSupport, Sgls, Vwc, pad_ascii,
};
use zerocopy::{Immutable, IntoBytes};

use super::aer;
use super::log::ERROR_ENTRIES;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Refused, never};
use crate::registers::VERSION;
use crate::store::Namespace;
use crate::transfer::Direction;

/// The controller's identifier in its subsystem.
const CONTROLLER_ID: u16 = 1;
/// ACL: outstanding Aborts, zero-based.
const ABORT_LIMIT_Z: u8 = 3;
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
        let cns = IdentifyCdw10::from_bits(sqe.cdw10).cns();
        let csi = IdentifyCdw11::from_bits(sqe.cdw11).csi();
        let data = self.identify_data(cns, csi, sqe.nsid)?;
        control.engine.map_data(command, IDENTIFY_SIZE, Direction::ToClient)?;
        control.engine.send(0, &data)
    }

    fn identify_data(&self, cns: Cns, csi: Csi, nsid: u32) -> Result<Page, Refused> {
        let nvm = if csi == Csi::NVM { Ok(()) } else { Err(never(Status::INVALID_FIELD)) };
        match cns {
            Cns::NAMESPACE => Ok(page(&self.identify_namespace(self.active(nsid)?))),
            Cns::CONTROLLER => Ok(page(&self.identify_controller())),
            Cns::ACTIVE_NAMESPACES => self.namespace_list(nsid),
            Cns::NAMESPACE_DESCRIPTORS => Ok(self.descriptors(self.active(nsid)?)),
            Cns::CSI_NAMESPACE => {
                nvm?;
                self.active(nsid)?;
                Ok(page(&IdentifyNvmNamespace::zeroed()))
            }
            Cns::CSI_CONTROLLER => {
                nvm?;
                Ok(page(&IdentifyNvmController::zeroed()))
            }
            Cns::CSI_ACTIVE_NAMESPACES => {
                nvm?;
                self.namespace_list(nsid)
            }
            Cns::INDEPENDENT_NAMESPACE => Ok(page(&independent(self.active(nsid)?))),
            Cns::CONTROLLERS => {
                let mut list = ControllerList { num: 1, ..ControllerList::default() };
                list.cntlids[0] = CONTROLLER_ID;
                Ok(page(&list))
            }
            Cns::IO_COMMAND_SETS => {
                let mut data = [0; IDENTIFY_SIZE];
                let vector = IoCommandSetVector::new().with_nvm(true).into_bits();
                data[..8].copy_from_slice(&vector.to_le_bytes());
                Ok(data)
            }
            _ => Err(never(Status::INVALID_FIELD)),
        }
    }

    fn active(&self, nsid: u32) -> Result<&Namespace, Refused> {
        let index = (nsid as usize).wrapping_sub(1);
        self.namespaces.get(index).ok_or(never(Status::INVALID_NAMESPACE_OR_FORMAT))
    }

    fn namespace_list(&self, after: u32) -> Result<Page, Refused> {
        if after > LAST_NSID {
            return Err(never(Status::INVALID_NAMESPACE_OR_FORMAT));
        }
        let mut list = NamespaceList::zeroed();
        let following = self.namespaces.iter().map(|namespace| namespace.nsid).filter(|nsid| *nsid > after);
        list.nsids.iter_mut().zip(following).for_each(|(slot, nsid)| *slot = nsid);
        Ok(page(&list))
    }

    fn identify_controller(&self) -> IdentifyController {
        let mut data = IdentifyController::zeroed();
        data.sn = pad_ascii(&self.config.serial);
        data.mn = pad_ascii(&self.config.model);
        data.fr = pad_ascii(&self.config.firmware);
        data.rab = 5;
        data.mdts = self.config.mdts;
        data.cntlid = CONTROLLER_ID;
        data.ver = VERSION;
        data.oaes = Oaes::new().with_namespace_attribute(true);
        data.cntrltype = ControllerType::IO;
        data.acl_z = ABORT_LIMIT_Z;
        data.aerl_z = aer::LIMIT_Z;
        data.frmw = Frmw::new().with_slot1_read_only(true).with_slots(1);
        data.lpa = Lpa::new().with_command_effects(true).with_extended_data(true).with_supported_pages(true);
        data.elpe_z = (ERROR_ENTRIES - 1) as u8;
        data.wctemp = 343;
        data.cctemp = 353;
        let bytes: u128 = self.namespaces.iter().map(|ns| u128::from(ns.blocks) << ns.shift).sum();
        data.tnvmcap = bytes.into();
        data.sqes = EntrySizes::new().with_min(6).with_max(6);
        data.cqes = EntrySizes::new().with_min(4).with_max(4);
        data.nn = self.namespaces.len() as u32;
        data.oncs = Oncs::new()
            .with_compare(true)
            .with_dataset_management(true)
            .with_write_zeroes(true)
            .with_save_select(true)
            .with_verify(true);
        data.vwc = Vwc::new().with_present(true).with_flush_all(3);
        if self.config.sgl {
            data.sgls = Sgls::new().with_support(SglSupport::ANY_ALIGNMENT).with_bit_bucket(true);
        }
        let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", text(&self.uuid(0)));
        data.subnqn[..nqn.len()].copy_from_slice(nqn.as_bytes());
        data
    }

    fn identify_namespace(&self, namespace: &Namespace) -> IdentifyNamespace {
        let mut data = IdentifyNamespace::zeroed();
        data.nsze = namespace.blocks;
        data.ncap = namespace.blocks;
        data.nuse = namespace.blocks;
        data.flbas = Flbas::new();
        // Deallocated blocks read as zero, and Write Zeroes deallocates.
        data.dlfeat = 1 | 1 << 3;
        data.nvmcap = (u128::from(namespace.blocks) << namespace.shift).into();
        data.nsattr = u8::from(!namespace.writable);
        data.lbaf[0] = LbaFormat::new().with_lbads(namespace.shift);
        if let Some(length) = namespace.reported_length() {
            let at = LENGTH_OFFSET - (IDENTIFY_SIZE - data.vs.len());
            data.vs[at..at + 8].copy_from_slice(LENGTH_MARK);
            data.vs[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
        }
        data
    }

    fn descriptors(&self, namespace: &Namespace) -> Page {
        let mut data = [0; IDENTIFY_SIZE];
        let mut at = 0;
        let mut push = |kind, identifier: &[u8]| {
            let header = NsIdDescriptorHeader::new(kind, identifier.len() as u8);
            data[at..at + 4].copy_from_slice(header.as_bytes());
            data[at + 4..at + 4 + identifier.len()].copy_from_slice(identifier);
            at += 4 + identifier.len();
        };
        push(NsIdType::UUID, &self.uuid(namespace.nsid));
        push(NsIdType::CSI, &[Csi::NVM.0]);
        data
    }

    /// A UUID (version 8) made of the serial number and `nsid`, so that it stays the same from run to run.
    fn uuid(&self, nsid: u32) -> [u8; 16] {
        let text = format!("{}/{nsid}", self.config.serial);
        let hash = |basis: u64| {
            text.bytes()
                .fold(basis, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
        };
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&hash(0xcbf2_9ce4_8422_2325).to_be_bytes());
        uuid[8..].copy_from_slice(&hash(0x9ae1_6a3b_2f90_404f).to_be_bytes());
        uuid[6] = uuid[6] & 0x0f | 0x80;
        uuid[8] = uuid[8] & 0x3f | 0x80;
        uuid
    }
}

fn independent(namespace: &Namespace) -> IdentifyNamespaceIndependent {
    let mut data = IdentifyNamespaceIndependent::zeroed();
    data.nsattr = u8::from(!namespace.writable);
    data.nstat = 1;
    data
}

fn text(uuid: &[u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
