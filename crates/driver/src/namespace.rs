//! Namespaces: which there are, their size and format, and why some cannot be used.

use std::fmt;

use warpbell_hw::Nsid;
use warpbell_nvme::identify::{
    Cns, Csi, IdentifyController, IdentifyNamespace, LbaFormat, NamespaceList, NsIdType, ns_id_descriptors,
};
use warpbell_nvme::register::Vs;
use warpbell_nvme::status::{Retry, Status};

use crate::DriverError;
use crate::core::Core;

/// The most namespaces that a controller may have attached: each costs commands, and a controller that goes on and on
/// would never be open.
const MAX_NAMESPACES: usize = 4096;
/// The most bytes of a logical block that this driver takes.
const MAX_BLOCK: u64 = 1 << 16;
/// Where the vendor specific bytes of Identify Namespace begin.
const VENDOR_BYTES: usize = 384;
/// Where a controller over a file tells the file's exact length: a mark, then the length in bytes.
const LENGTH_MARK: (usize, &[u8; 8]) = (3712, b"WBLENGTH");

/// A namespace that this driver can use: NVM command set, no metadata, no protection information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier.
    pub nsid: Nsid,
    /// Size in logical blocks.
    pub blocks: u64,
    /// Bytes of a logical block: a power of two from 512.
    pub block_size: u32,
    /// Which of its formats is in use.
    pub format_index: u8,
    /// The format in use.
    pub format: LbaFormat,
    /// The length in bytes of what the namespace shows, if the controller tells: a file need not end with a
    /// block.
    pub exact_bytes: Option<u64>,
    /// Whether the controller refuses writes.
    pub write_protected: bool,
    /// Blocks of an I/O boundary that commands should not cross; 0 if there is none.
    pub optimal_boundary: u16,
    /// Identifiers that outlive the controller.
    pub ids: NamespaceIds,
}

impl Namespace {
    /// Size in bytes: whole blocks.
    pub fn bytes(&self) -> u64 {
        self.blocks * u64::from(self.block_size)
    }
}

/// Globally unique identifiers of a namespace, big-endian, where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceIds {
    /// IEEE Extended Unique Identifier.
    pub eui64: Option<[u8; 8]>,
    /// Namespace Globally Unique Identifier.
    pub nguid: Option<[u8; 16]>,
    /// Universally unique identifier.
    pub uuid: Option<[u8; 16]>,
}

/// A namespace that this driver does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedNamespace {
    /// Its identifier.
    pub nsid: Nsid,
    /// Why.
    pub reason: Refusal,
}

/// Why a namespace is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its blocks carry metadata.
    Metadata {
        /// Bytes of metadata per block.
        bytes: u16,
    },
    /// Its blocks carry protection information.
    Protection {
        /// The type, 1 to 3.
        kind: u8,
    },
    /// Its blocks are of a size that this driver does not take.
    BlockSize {
        /// LBADS: log2 of the size in bytes.
        lbads: u8,
    },
    /// It has no blocks.
    Empty,
    /// Its size in bytes does not fit 64 bits.
    TooLarge {
        /// Its size in blocks.
        blocks: u64,
    },
    /// It is not of the NVM command set.
    CommandSet(Csi),
    /// The controller could not say what it is.
    Identify(Status),
}

impl fmt::Display for RefusedNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.nsid, self.reason)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Metadata { bytes } => write!(f, "{bytes} bytes of metadata per block are not supported"),
            Refusal::Protection { kind } => write!(f, "protection information type {kind} is not supported"),
            Refusal::BlockSize { lbads } => {
                write!(f, "blocks of 2^{lbads} bytes: must be 512 to {MAX_BLOCK} bytes")
            }
            Refusal::Empty => write!(f, "size 0 blocks: must be at least 1"),
            Refusal::TooLarge { blocks } => write!(f, "size {blocks} blocks: does not fit 2^64 bytes"),
            Refusal::CommandSet(csi) => write!(f, "{csi} is not supported"),
            Refusal::Identify(status) => write!(f, "Identify failed: {status}"),
        }
    }
}

impl Core {
    /// Every active namespace: those to use, and those refused.
    pub(crate) fn identify_namespaces(
        &self,
        controller: &IdentifyController,
        version: Vs,
    ) -> Result<(Vec<Namespace>, Vec<RefusedNamespace>), DriverError> {
        let (mut namespaces, mut refused) = (Vec::new(), Vec::new());
        for nsid in self.active_namespaces(controller, version)? {
            match self.identify_namespace(nsid, version)? {
                Ok(namespace) => namespaces.push(namespace),
                Err(reason) => {
                    let namespace = RefusedNamespace { nsid, reason };
                    tracing::warn!(device = %self.name(), "{namespace}");
                    refused.push(namespace);
                }
            }
        }
        Ok((namespaces, refused))
    }

    fn active_namespaces(
        &self,
        controller: &IdentifyController,
        version: Vs,
    ) -> Result<Vec<Nsid>, DriverError> {
        if !version.at_least(1, 1) {
            // The list came with version 1.1; before, identifiers were dense.
            self.check_namespaces(controller.nn as usize)?;
            return Ok((1..=controller.nn).map(Nsid).collect());
        }
        let mut active = Vec::new();
        loop {
            let after = active.last().map_or(0, |nsid: &Nsid| nsid.0);
            let list: Box<NamespaceList> = self.identify(Cns::ACTIVE_NAMESPACES, after)?;
            // Identifiers that do not increase would make this loop endless.
            let known = active.len();
            active.extend(list.iter().filter(|&nsid| nsid > after).map(Nsid));
            self.check_namespaces(active.len())?;
            if !list.is_full() || active.len() == known {
                return Ok(active);
            }
        }
    }

    fn check_namespaces(&self, count: usize) -> Result<(), DriverError> {
        if count <= MAX_NAMESPACES {
            return Ok(());
        }
        let (what, need) = ("the number of active namespaces", "at most 4096");
        Err(DriverError::Unsupported { device: self.name(), what, value: count as u64, need })
    }

    /// The outer error is the controller's, the inner one the namespace's.
    fn identify_namespace(&self, nsid: Nsid, version: Vs) -> Result<Result<Namespace, Refusal>, DriverError> {
        let mut ids = NamespaceIds::default();
        if version.at_least(1, 3) {
            let descriptors = self.identify::<[u8; 4096]>(Cns::NAMESPACE_DESCRIPTORS, nsid.0);
            match descriptors.map(|data| read_descriptors(&data[..])) {
                Ok((_, Some(csi))) if csi != Csi::NVM => return Ok(Err(Refusal::CommandSet(csi))),
                Ok((found, _)) => ids = found,
                // Older controllers need not have the list, and nothing depends on it.
                Err(error) if error.status().is_some_and(|status| status.retry() == Retry::Never) => {}
                Err(error) => return refusal(error),
            }
        }
        match self.identify::<IdentifyNamespace>(Cns::NAMESPACE, nsid.0) {
            Ok(data) => Ok(describe(nsid, &data, ids)),
            Err(error) => refusal(error),
        }
    }
}

/// The controller answered, but did not tell.
fn refusal<T>(error: DriverError) -> Result<Result<T, Refusal>, DriverError> {
    error.status().map(|status| Err(Refusal::Identify(status))).ok_or(error)
}

/// The first of `old` of which nothing is known, as the controller answered with a status of the moment: it may be as it
/// was.
pub(crate) fn unknown(old: &[Namespace], refused: &[RefusedNamespace]) -> Option<(Nsid, Status)> {
    refused.iter().find_map(|RefusedNamespace { nsid, reason }| match reason {
        Refusal::Identify(status) if status.retry() != Retry::Never => {
            old.iter().any(|namespace| namespace.nsid == *nsid).then_some((*nsid, *status))
        }
        _ => None,
    })
}

fn describe(nsid: Nsid, data: &IdentifyNamespace, mut ids: NamespaceIds) -> Result<Namespace, Refusal> {
    let format = data.current_format();
    let block_size = data.block_bytes().filter(|bytes| *bytes <= MAX_BLOCK);
    let block_size = block_size.ok_or(Refusal::BlockSize { lbads: format.lbads() })?;
    if data.dps & 0b111 != 0 {
        return Err(Refusal::Protection { kind: data.dps & 0b111 });
    }
    if format.ms() != 0 {
        return Err(Refusal::Metadata { bytes: format.ms() });
    }
    if data.nsze == 0 {
        return Err(Refusal::Empty);
    }
    let bytes = data.size_bytes().ok_or(Refusal::TooLarge { blocks: data.nsze })?;
    ids.eui64 = ids.eui64.or((data.eui64 != [0; 8]).then_some(data.eui64));
    ids.nguid = ids.nguid.or((data.nguid != [0; 16]).then_some(data.nguid));
    Ok(Namespace {
        nsid,
        blocks: data.nsze,
        block_size: block_size as u32,
        format_index: data.flbas.index(data.lba_formats()),
        format,
        exact_bytes: exact_bytes(&data.vs, bytes),
        write_protected: data.nsattr & 1 != 0,
        optimal_boundary: data.noiob,
        ids,
    })
}

/// The exact length in the vendor specific bytes, if it is there and can be true.
fn exact_bytes(vendor: &[u8], limit: u64) -> Option<u64> {
    let (at, mark) = (LENGTH_MARK.0 - VENDOR_BYTES, LENGTH_MARK.1);
    let rest = vendor.get(at..)?.strip_prefix(mark)?;
    let length = u64::from_le_bytes(*rest.first_chunk()?);
    if length > limit {
        tracing::warn!(length, limit, "exact length of a namespace is beyond its blocks; ignored");
        return None;
    }
    Some(length)
}

fn read_descriptors(data: &[u8]) -> (NamespaceIds, Option<Csi>) {
    let (mut ids, mut csi) = (NamespaceIds::default(), None);
    for descriptor in ns_id_descriptors(data) {
        match descriptor.nidt {
            NsIdType::EUI64 => ids.eui64 = descriptor.nid.try_into().ok(),
            NsIdType::NGUID => ids.nguid = descriptor.nid.try_into().ok(),
            NsIdType::UUID => ids.uuid = descriptor.nid.try_into().ok(),
            NsIdType::CSI => csi = descriptor.nid.first().copied().map(Csi),
            _ => {}
        }
    }
    (ids, csi)
}

/// Namespaces that are not the same in both lists.
pub(crate) fn differences(old: &[Namespace], new: &[Namespace]) -> Vec<Nsid> {
    let missing = |from: &[Namespace], other: &[Namespace]| {
        from.iter().filter(|namespace| !other.contains(namespace)).map(|namespace| namespace.nsid).collect()
    };
    let mut changed: Vec<Nsid> = missing(old, new);
    changed.extend(missing(new, old));
    changed.sort_unstable();
    changed.dedup();
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Box<IdentifyNamespace> {
        let mut data = Box::new(IdentifyNamespace::zeroed());
        data.nsze = 100;
        data.lbaf[0] = LbaFormat::new().with_lbads(9);
        data
    }

    fn refusal(change: impl FnOnce(&mut IdentifyNamespace)) -> String {
        let mut data = plain();
        change(&mut data);
        let reason = describe(Nsid(3), &data, NamespaceIds::default()).unwrap_err();
        RefusedNamespace { nsid: Nsid(3), reason }.to_string()
    }

    #[test]
    fn a_plain_namespace_is_taken() {
        let namespace = describe(Nsid(1), &plain(), NamespaceIds::default()).unwrap();
        assert_eq!((namespace.blocks, namespace.block_size, namespace.bytes()), (100, 512, 51_200));
        assert_eq!(namespace.exact_bytes, None);
    }

    #[test]
    fn refusals_name_the_reason() {
        let metadata = refusal(|data| data.lbaf[0].set_ms(8));
        assert_eq!(metadata, "namespace 3: 8 bytes of metadata per block are not supported");
        assert!(refusal(|data| data.dps = 2).contains("protection information type 2"));
        assert!(refusal(|data| data.lbaf[0].set_lbads(8)).contains("2^8 bytes"));
        assert!(refusal(|data| data.lbaf[0].set_lbads(17)).contains("2^17 bytes"));
        assert!(refusal(|data| data.nsze = 0).contains("size 0 blocks"));
        assert!(refusal(|data| data.nsze = u64::MAX).contains("does not fit"));
    }

    #[test]
    fn the_exact_length_must_be_marked_and_possible() {
        let mut data = plain();
        let at = LENGTH_MARK.0 - VENDOR_BYTES;
        data.vs[at + 8..at + 16].copy_from_slice(&51_000u64.to_le_bytes());
        assert_eq!(exact_bytes(&data.vs, 51_200), None);
        data.vs[at..at + 8].copy_from_slice(LENGTH_MARK.1);
        assert_eq!(exact_bytes(&data.vs, 51_200), Some(51_000));
        assert_eq!(exact_bytes(&data.vs, 50_000), None);
    }

    #[test]
    fn differences_are_named_once() {
        let one = describe(Nsid(1), &plain(), NamespaceIds::default()).unwrap();
        let grown = Namespace { blocks: 101, ..one.clone() };
        let two = Namespace { nsid: Nsid(2), ..one.clone() };
        assert_eq!(differences(std::slice::from_ref(&one), &[grown, two]), [Nsid(1), Nsid(2)]);
        assert!(differences(std::slice::from_ref(&one), std::slice::from_ref(&one)).is_empty());
    }
}
