//! What a driver may ask a controller for, and only some have.

use std::fmt;
use std::sync::Arc;

/// What only some controllers offer, and options may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Doorbell Buffer Config ([`DoorbellBuffer::On`](crate::DoorbellBuffer::On)).
    DoorbellBuffer,
    /// 32-bit command identifiers.
    WideCids,
}

/// A controller that does not offer what options ask for.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{device}: it does not offer {asked} ({})", asked.field())]
pub struct NotOffered {
    /// The device's name.
    pub device: Arc<str>,
    /// What they ask for.
    pub asked: Offer,
}

impl Offer {
    /// Where the controller says that it does not offer it.
    pub fn field(self) -> &'static str {
        match self {
            Offer::DoorbellBuffer => "OACS bit 8 is 0",
            Offer::WideCids => "byte 3080 of Identify Controller, behind its mark, has bit 1 clear",
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Offer::DoorbellBuffer => "Doorbell Buffer Config",
            Offer::WideCids => "32-bit command identifiers",
        })
    }
}
