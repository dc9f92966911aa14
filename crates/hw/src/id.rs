//! Newtypes for address spaces and identifiers, so that mixing two of them does not compile.

use std::fmt;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal, $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The plain number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, $format), self.0)
            }
        }
    };
}

identifier! {
    /// An address as the device sees it: what goes into PRP and SGL entries and queue base registers.
    Iova(u64), "iova ", "{:#x}"
}
identifier! {
    /// A queue identifier; 0 is the admin queue pair.
    Qid(u16), "queue ", "{}"
}
identifier! {
    /// A command identifier, unique among the outstanding commands of one submission queue.
    Cid(u16), "command ", "{:#06x}"
}
identifier! {
    /// A logical block address, in blocks of the namespace's format.
    Lba(u64), "LBA ", "{}"
}
identifier! {
    /// A namespace identifier; 0xffffffff addresses all namespaces where a command allows it.
    Nsid(u32), "namespace ", "{}"
}

impl Iova {
    /// The address `bytes` further on; `None` past the end of the address space.
    pub fn checked_add(self, bytes: u64) -> Option<Iova> {
        self.0.checked_add(bytes).map(Iova)
    }
}

/// The block so many further on.
impl std::ops::Add<u64> for Lba {
    type Output = Lba;

    fn add(self, blocks: u64) -> Lba {
        Lba(self.0 + blocks)
    }
}

impl Qid {
    /// The admin queue pair.
    pub const ADMIN: Qid = Qid(0);
}

impl Nsid {
    /// The broadcast value: all namespaces.
    pub const ALL: Nsid = Nsid(u32::MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_name_themselves() {
        assert_eq!(Iova(0x1000).to_string(), "iova 0x1000");
        assert_eq!(Cid(7).to_string(), "command 0x0007");
        assert_eq!(Lba(9).to_string(), "LBA 9");
    }

    #[test]
    fn iova_addition_is_checked() {
        assert_eq!(Iova(1).checked_add(2), Some(Iova(3)));
        assert_eq!(Iova(u64::MAX).checked_add(1), None);
    }
}
