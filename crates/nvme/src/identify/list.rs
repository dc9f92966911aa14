//! Lists that Identify returns: namespaces, controllers, namespace identification descriptors.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::IDENTIFY_SIZE;
use crate::open_enum::{open_enum, zeroed};

/// Namespace List: up to 1024 identifiers in increasing order, the rest zero. 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NamespaceList {
    /// Namespace identifiers; the first zero ends the list.
    pub nsids: [u32; 1024],
}

const _: () = assert!(size_of::<NamespaceList>() == IDENTIFY_SIZE);

impl NamespaceList {
    /// The identifiers before the end of the list.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.nsids.iter().copied().take_while(|&nsid| nsid != 0)
    }

    /// Whether every entry is used: the next list starts after the last identifier.
    pub const fn is_full(&self) -> bool {
        self.nsids[self.nsids.len() - 1] != 0
    }
}

/// Controller List: up to 2047 identifiers in increasing order. 4096 bytes.
#[repr(C)]
#[derive(Clone, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ControllerList {
    /// Number of Identifiers.
    pub num: u16,
    /// Controller identifiers, of which `num` are valid.
    pub cntlids: [u16; 2047],
}

const _: () = assert!(size_of::<ControllerList>() == IDENTIFY_SIZE);

impl ControllerList {
    /// The valid identifiers; a count beyond the list is cut to it.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.cntlids.iter().copied().take(usize::from(self.num))
    }
}

zeroed!(NamespaceList, ControllerList);

open_enum! {
    /// Namespace Identifier Type.
    pub enum NsIdType: u8 {
        EUI64 = 0x1, "IEEE Extended Unique Identifier";
        NGUID = 0x2, "Namespace Globally Unique Identifier";
        UUID = 0x3, "Namespace UUID";
        CSI = 0x4, "Command Set Identifier";
    }
}

impl NsIdType {
    /// Bytes of the identifier, or `None` for a reserved type.
    pub const fn identifier_len(self) -> Option<u8> {
        match self {
            Self::EUI64 => Some(8),
            Self::NGUID | Self::UUID => Some(16),
            Self::CSI => Some(1),
            _ => None,
        }
    }
}

/// The header of a Namespace Identification Descriptor, 4 bytes; the identifier follows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct NsIdDescriptorHeader {
    /// Namespace Identifier Type.
    pub nidt: NsIdType,
    /// Namespace Identifier Length, in bytes; zero ends the list.
    pub nidl: u8,
    /// Reserved.
    pub rsvd: [u8; 2],
}

const _: () = assert!(size_of::<NsIdDescriptorHeader>() == 4);

impl NsIdDescriptorHeader {
    /// The header for an identifier of `nidl` bytes.
    pub const fn new(nidt: NsIdType, nidl: u8) -> Self {
        Self { nidt, nidl, rsvd: [0; 2] }
    }
}

/// One Namespace Identification Descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NsIdDescriptor<'a> {
    /// Namespace Identifier Type.
    pub nidt: NsIdType,
    /// The identifier, big-endian where it is a number, as long as its header says.
    pub nid: &'a [u8],
}

/// The descriptors in the data of Identify with CNS 03h, up to the end of the list or the first cut off one.
pub fn ns_id_descriptors(data: &[u8]) -> NsIdDescriptors<'_> {
    NsIdDescriptors { rest: data }
}

/// Iterator of [`ns_id_descriptors`].
#[derive(Clone, Debug)]
pub struct NsIdDescriptors<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for NsIdDescriptors<'a> {
    type Item = NsIdDescriptor<'a>;

    fn next(&mut self) -> Option<NsIdDescriptor<'a>> {
        let (header, body) = NsIdDescriptorHeader::ref_from_prefix(self.rest).ok()?;
        if header.nidl == 0 {
            return None;
        }
        let (nid, rest) = body.split_at_checked(usize::from(header.nidl))?;
        self.rest = rest;
        Some(NsIdDescriptor { nidt: header.nidt, nid })
    }
}
