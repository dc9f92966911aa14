//! What changes a subsystem: namespaces, formats, sanitize operations, firmware.
//!
//! [`Controller::namespaces`] stays as it was when the controller was opened; [`Controller::current_namespaces`] asks
//! again.

use std::time::Duration;

use warpbell_hw::Nsid;
use warpbell_nvme::command::{
    self, CommitAction, FirmwareCommitCdw10, FormatNvmCdw10, NsAttachmentSelect, NsManagementSelect,
    SanitizeCdw10, SecureErase,
};
use warpbell_nvme::identify::{ControllerList, Flbas, IdentifyNamespace};
use warpbell_nvme::log::{LogPageId, SanitizeStatusLog};
use zerocopy::{FromZeros, IntoBytes};

use crate::controller::Controller;
use crate::data::Data;
use crate::{DriverError, Namespace, RefusedNamespace};

/// Bytes of one Firmware Image Download, unless the controller asks for more: a page.
const FIRMWARE_PIECE: usize = 4096;

warpbell_base::options! {
    /// A namespace to create.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NamespaceSpec {
        /// Size and capacity in logical blocks.
        pub blocks: u64,
        /// Index of the LBA format, 0 to 63; Identify Namespace lists them.
        pub format_index: u8,
        /// Whether several controllers may have it attached.
        pub shared: bool,
    } no new
}

impl NamespaceSpec {
    /// So many blocks in the first format, for one controller.
    pub fn new(blocks: u64) -> NamespaceSpec {
        NamespaceSpec { blocks, format_index: 0, shared: false }
    }
}

impl Controller {
    /// The namespaces that are attached now: those that this driver can use, and those that it refuses.
    pub fn current_namespaces(&self) -> Result<(Vec<Namespace>, Vec<RefusedNamespace>), DriverError> {
        self.core.identify_namespaces(&self.identify, self.version)
    }

    /// Formats a namespace, or with [`Nsid::ALL`] all that are attached, in the LBA format `format_index`. Their data is
    /// lost. It may take as long as `within`.
    pub fn format(
        &self,
        nsid: Nsid,
        format_index: u8,
        erase: SecureErase,
        within: Duration,
    ) -> Result<(), DriverError> {
        let fields = FormatNvmCdw10::new().with_lba_format(format_index).with_ses(erase);
        let sqe = command::format_nvm(nsid.0, fields);
        self.core.execute_within(sqe, Data::None, within).map(|_| ())
    }

    /// Starts a sanitize operation of the whole subsystem, or leaves its failure mode; `pattern` is for overwrites. It goes
    /// on in the background: [`Controller::sanitize_status`] tells how far.
    pub fn sanitize(&self, fields: SanitizeCdw10, pattern: u32) -> Result<(), DriverError> {
        self.core.execute(command::sanitize(fields, pattern), Data::None).map(|_| ())
    }

    /// How the last sanitize operation goes, or went.
    pub fn sanitize_status(&self) -> Result<Box<SanitizeStatusLog>, DriverError> {
        self.fixed_log(LogPageId::SANITIZE_STATUS, Nsid(0), self.log_limit())
    }

    /// Creates a namespace, attached to no controller.
    pub fn create_namespace(&self, spec: NamespaceSpec) -> Result<Nsid, DriverError> {
        let mut data = IdentifyNamespace::zeroed();
        (data.nsze, data.ncap) = (spec.blocks, spec.blocks);
        let (lower, upper) = (spec.format_index & 0xf, spec.format_index >> 4 & 3);
        data.flbas = Flbas::new().with_index_lower(lower).with_index_upper(upper);
        data.nmic = u8::from(spec.shared);
        let sqe = command::ns_management(0, NsManagementSelect::CREATE);
        Ok(Nsid(self.core.execute(sqe, Data::Out(data.as_bytes()))?.dw0))
    }

    /// Deletes a namespace, or with [`Nsid::ALL`] all of the subsystem.
    pub fn delete_namespace(&self, nsid: Nsid) -> Result<(), DriverError> {
        let sqe = command::ns_management(nsid.0, NsManagementSelect::DELETE);
        self.core.execute(sqe, Data::None).map(|_| ())
    }

    /// Attaches a namespace to this controller.
    pub fn attach_namespace(&self, nsid: Nsid) -> Result<(), DriverError> {
        self.change_attachment(nsid, NsAttachmentSelect::ATTACH)
    }

    /// Detaches a namespace from this controller.
    pub fn detach_namespace(&self, nsid: Nsid) -> Result<(), DriverError> {
        self.change_attachment(nsid, NsAttachmentSelect::DETACH)
    }

    fn change_attachment(&self, nsid: Nsid, select: NsAttachmentSelect) -> Result<(), DriverError> {
        let mut list = ControllerList::new_zeroed();
        (list.num, list.cntlids[0]) = (1, self.identify.cntlid);
        let sqe = command::ns_attachment(nsid.0, select);
        self.core.execute(sqe, Data::Out(list.as_bytes())).map(|_| ())
    }

    /// Downloads a firmware image, of whole dwords, piece by piece; [`Controller::commit_firmware`] does something with it.
    pub fn download_firmware(&self, image: &[u8]) -> Result<(), DriverError> {
        let granularity = match self.identify.fwug {
            0 | 0xff => FIRMWARE_PIECE,
            units => usize::from(units) * FIRMWARE_PIECE,
        };
        let len = image.len();
        if len == 0 || !len.is_multiple_of(4) {
            return Err(DriverError::FirmwareLength { device: self.name(), len });
        }
        for (piece, at) in image.chunks(granularity).zip((0..).step_by(granularity / 4)) {
            let sqe = command::firmware_image_download((piece.len() / 4 - 1) as u32, at);
            self.core.execute(sqe, Data::Out(piece))?;
        }
        Ok(())
    }

    /// Puts the downloaded image into a slot, or activates a slot, as `action` says; slot 0 leaves the choice to the
    /// controller.
    pub fn commit_firmware(&self, slot: u8, action: CommitAction) -> Result<(), DriverError> {
        let fields = FirmwareCommitCdw10::new().with_fs(slot).with_ca(action);
        self.core.execute(command::firmware_commit(fields), Data::None).map(|_| ())
    }
}
