//! What Warpbell's soft controller offers beyond the specification, in fields that this leaves to vendors.
//! `docs/soft-controller.md` describes it for users.

use crate::command::Sqe;
use crate::completion::Cqe;
use crate::feature::FeatureId;
use crate::identify::IdentifyController;
use crate::open_enum::dword;

/// Set Features with bit 0 of CDW11 set: command identifiers have 32 bits. Before the first I/O queue is created.
pub const WIDE_CIDS: FeatureId = FeatureId(0xc0);

/// What the vendor specific bytes of Identify Controller begin with where [`Experimental`] follows: byte 3072 on.
const MARK: &[u8; 8] = b"WARPBELL";

dword! {
    /// Identify Controller bytes 3083:3080, behind the mark.
    pub struct Experimental: u32 {
        /// 0, completions of each submission queue come in the order of submission.
        pub ordered_completions: bool,
        /// 1, [`WIDE_CIDS`] can be set.
        pub wide_cids: bool,
        #[bits(30)]
        __: u32,
    }
}

impl Experimental {
    /// What a controller offers: nothing without the mark.
    pub fn of(identify: &IdentifyController) -> Experimental {
        let [b0, b1, b2, b3] = [8, 9, 10, 11].map(|at| identify.vs[at]);
        match identify.vs.starts_with(MARK) {
            true => Experimental::from_bits(u32::from_le_bytes([b0, b1, b2, b3])),
            false => Experimental::new(),
        }
    }

    /// Offers it.
    pub fn put(self, identify: &mut IdentifyController) {
        identify.vs[..8].copy_from_slice(MARK);
        identify.vs[8..12].copy_from_slice(&self.into_bits().to_le_bytes());
    }
}

impl Sqe {
    /// The 32-bit command identifier: bits 15:0 in the identifier's field, 31:16 in dword 2 bits 15:0.
    pub const fn wide_cid(&self) -> u32 {
        self.cid() as u32 | self.cdw2 << 16
    }
}

impl Cqe {
    /// The 32-bit command identifier: bits 15:0 in the identifier's field, 31:16 in dword 1 bits 15:0.
    pub const fn wide_cid(&self) -> u32 {
        self.cid as u32 | self.dw1 << 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_needs_the_mark() {
        let mut identify = IdentifyController::zeroed();
        identify.vs[8] = 3;
        assert_eq!(Experimental::of(&identify), Experimental::new());
        let offer = Experimental::new().with_wide_cids(true);
        offer.put(&mut identify);
        assert_eq!(Experimental::of(&identify), offer);
        assert_eq!(identify.vs[..12], *b"WARPBELL\x02\0\0\0");
    }

    #[test]
    fn identifiers_have_their_halves_apart() {
        let sqe = Sqe { cdw2: 0x1234, ..Sqe::new(2, 1) }.with_cid(0x5678);
        assert_eq!(sqe.wide_cid(), 0x1234_5678);
        let cqe = Cqe { cid: 0x5678, dw1: 0x1234, ..Cqe::zeroed() };
        assert_eq!(cqe.wide_cid(), 0x1234_5678);
    }
}
