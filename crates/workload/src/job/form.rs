//! Fields of a job as reports have them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use warpbell_hw::Nsid;

/// As reports have it.
pub(super) fn number<S: Serializer>(nsid: &Nsid, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u32(nsid.get())
}

/// As reports have it.
pub(super) fn namespace<'de, D: Deserializer<'de>>(from: D) -> Result<Nsid, D::Error> {
    u32::deserialize(from).map(Nsid)
}

pub(super) fn nanoseconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_nanos() as u64).serialize(serializer)
}

pub(super) fn whole_ns<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    nanoseconds(&Some(*time), serializer)
}

pub(super) fn of_ns<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    Ok(Duration::from_nanos(u64::deserialize(from)?))
}

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(from)?.map(Duration::from_nanos))
}

pub(super) fn shared<T: Serialize, S: Serializer>(
    value: &Option<Arc<T>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_deref().serialize(serializer)
}

pub(super) fn own<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Arc<T>>, D::Error> {
    Ok(Option::<T>::deserialize(from)?.map(Arc::new))
}
