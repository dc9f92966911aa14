//! What users write: names of devices, fault plans, profiles, settings, sizes, options of a benchmark, traces; what is
//! on SSDs; and the two structures with text or lists in them that peers of a vfio-user socket send.

mod disk;
mod job;
mod manifest;
mod tables;
mod trace;

use std::fmt::{Debug, Display};
use std::str::FromStr;

use warpbell::{Bdf, DeviceName, Place, Target};
use warpbell_softctl::{FaultPlan, NamespaceConfig, Profile, SoftConfig, SoftDevice, StoreConfig};
use warpbell_vfio::IommuChoice;
use warpbell_vfio::pci::Name;
use warpbell_vfio::user::wire::{RegionDescription, Version};
use warpbell_workload::resident::ResidentSpec;
use warpbell_workload::trace::{ReplayCommand, parse_replay};
use warpbell_workload::{Axis, BenchOptions, ByteSize, ReplayFormat, ReplayTiming, parse_duration, sweep};

/// Bytes of memory up to which a configuration is tried out.
const SMALL: u64 = 4 << 20;

/// The first byte says which parser, the rest is what it gets. What it accepts reads the same after it was printed,
/// passes its own check and can be used; an error has something to say.
pub fn parsers(input: &[u8]) {
    let Some((which, rest)) = input.split_first() else { return };
    match which {
        b'v' => return version(rest),
        b'r' => return region(rest),
        b'e' => return disk::ext4(rest),
        b'c' => return disk::catalogue(rest),
        b'g' => return disk::partitions(rest),
        b'G' => return tables::table(rest),
        b'o' => return tables::containers(rest),
        b'C' => return tables::generations(rest),
        b'S' => return manifest::stamp(rest),
        _ => {}
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match which {
        b'd' => round_trip::<DeviceName>(text),
        b'n' => round_trip::<Name>(text),
        b'b' => drop(text.parse::<Bdf>().map(|bdf| assert_eq!(bdf.to_string().parse(), Ok(bdf)))),
        b'p' => round_trip::<Place>(text),
        b't' => round_trip::<Target>(text),
        b'i' => round_trip::<IommuChoice>(text),
        b'z' => round_trip::<ByteSize>(text),
        b'T' => drop(told(parse_duration(text))),
        b'R' => drop(told(text.parse::<ResidentSpec>())),
        b'a' => axis(text),
        b'j' => job::resolve(text),
        b'f' => fault_plan(text),
        b'P' => profile(text),
        b's' => settings(text),
        b'x' => replay(text),
        b'F' => trace::block(ReplayFormat::Fio, text),
        b'M' => trace::block(ReplayFormat::Msr, text),
        b'm' => manifest::text(text),
        _ => {}
    }
}

/// The value, or `None` where there is an error, whose text is there and can be made.
fn told<T, E: Display>(result: Result<T, E>) -> Option<T> {
    result.inspect_err(|error| assert!(!error.to_string().is_empty(), "an error that says nothing")).ok()
}

/// What is accepted prints as something that reads as the same.
fn round_trip<T: FromStr<Err: Display + Debug> + Display + Debug + PartialEq>(text: &str) {
    let Some(value) = told(text.parse::<T>()) else { return };
    let printed = value.to_string();
    let again = printed.parse::<T>();
    let again = again.unwrap_or_else(|error| panic!("{text:?} prints as {printed:?}: {error}"));
    assert_eq!(again, value, "{text:?} prints as {printed:?}");
}

fn axis(text: &str) {
    let axes: Vec<Axis> = text.split(' ').filter_map(|part| told(part.parse())).collect();
    // A sweep of one axis has a run for each value, and values were checked.
    if let [axis] = &axes[..] {
        let runs = sweep(&BenchOptions::default(), std::slice::from_ref(axis));
        assert!(told(runs).is_none_or(|runs| !runs.is_empty()), "{text:?}: an axis without values");
    } else {
        told(sweep(&BenchOptions::default(), &axes));
    }
}

fn fault_plan(text: &str) {
    let Some(plan) = told(FaultPlan::from_toml(text)) else { return };
    assert!(told(plan.validate()).is_some(), "{text:?}: accepted, and not valid");
    open(small().faults(plan));
}

fn profile(text: &str) {
    let Some(profile) = told(Profile::from_toml(text)) else { return };
    assert!(told(profile.validate()).is_some(), "{text:?}: accepted, and not valid");
    open(small().profile(Some(profile)));
}

/// Settings of the soft controller. Other files are none of the fuzzer's business.
fn settings(text: &str) {
    if ["file", "faults", "profile"].iter().any(|key| text.contains(key)) {
        return;
    }
    let Some(config) = told(SoftConfig::parse(text)) else { return };
    assert!(told(config.validate()).is_some(), "{text:?}: accepted, and not valid");
    let bytes = config.namespaces.iter().map(|namespace| match namespace.store {
        StoreConfig::Memory { bytes } => bytes,
        StoreConfig::File { .. } => SMALL,
    });
    let bytes = bytes.fold(config.controller_memory, u64::saturating_add);
    if bytes < SMALL {
        open(config);
    }
}

/// A trace that is to be submitted again.
fn replay(text: &str) {
    for ssd in told(parse_replay("fuzz", text, ReplayTiming::Asap)).into_iter().flatten() {
        let commands: u64 = ssd.warps.iter().map(|warp| warp.len() as u64).sum();
        assert_eq!(commands, ssd.commands, "{text:?}: commands are lost or invented");
        let in_order = |warp: &Vec<_>| warp.is_sorted_by_key(|command: &ReplayCommand| command.at_ns);
        assert!(ssd.warps.iter().all(in_order), "{text:?}: a command waits for a later one");
    }
}

fn small() -> SoftConfig {
    SoftConfig::new().namespaces(vec![NamespaceConfig::memory(64 << 10, 512)])
}

/// What passed all checks can be opened, and does something.
fn open(config: SoftConfig) {
    let device = SoftDevice::stepped(config);
    let device = device.unwrap_or_else(|error| panic!("a valid configuration cannot be opened: {error}"));
    device.step();
}

fn version(payload: &[u8]) {
    let Some(version) = told(Version::decode(payload)) else { return };
    let again = Version::decode(&version.encode());
    assert_eq!(again.as_ref(), Ok(&version));
    // What follows from what the peer says.
    let capabilities = version.capabilities;
    assert!(capabilities.page_size().is_power_of_two());
    let _ = (capabilities.message_fds(), capabilities.data_bytes(), capabilities.dma_maps());
}

fn region(payload: &[u8]) {
    let Some(region) = told(RegionDescription::decode(payload)) else { return };
    let encoded = region.encode(u32::MAX);
    assert_eq!(encoded.len(), region.payload_bytes());
    let again = RegionDescription::decode(&encoded).expect("what we send");
    assert_eq!((again.index, again.size, again.offset), (region.index, region.size, region.offset));
    assert_eq!(again.sparse, region.sparse);
    region.encode(0);
}
