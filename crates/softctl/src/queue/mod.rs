//! Submission and completion queues from the controller's side.

mod cq;
mod order;
mod remote;
mod sent;
mod shadow;
mod sq;

pub(crate) use cq::{Cq, TornEntry};
pub(crate) use order::Order;
pub(crate) use remote::CopiedRing;
pub(crate) use shadow::Bell;
pub(crate) use sq::Sq;

use crate::checker::Rule;

/// A doorbell value that breaks a rule: which, and how.
pub(crate) type DoorbellFault = (Rule, String);

/// Entries from `from` on up to `to` in a ring of `entries`.
#[inline]
fn distance(from: u32, to: u32, entries: u32) -> u32 {
    if to >= from { to - from } else { to + entries - from }
}
