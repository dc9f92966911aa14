//! Features with a data buffer, and power states.

use warpbell_nvme::command;
use warpbell_nvme::feature::{ApstEntry, ApstTable, FeatureId, HostBehavior, PowerManagement};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::SoftConfig;
use zerocopy::IntoBytes;

use crate::client::Client;
use crate::{Scene, admin, admin_on, cases, data, keep, with};

fn set(client: &Client, feature: FeatureId, cdw11: u32, bytes: &[u8]) -> Sqe {
    client.fill(0, bytes);
    command::set_features(feature, cdw11, 0).with_prp(data(client), 0)
}

fn power(ps: u8, wh: u8) -> Sqe {
    let value = PowerManagement::new().with_ps(ps).with_wh(wh).into_bits();
    command::set_features(FeatureId::POWER_MANAGEMENT, value, 0)
}

/// Sets a table of autonomous power state transitions, on a controller that has states 0 to 2.
fn table(cdw11: u32, entry: ApstEntry, status: Status) -> Scene {
    let config = SoftConfig::parse("size=1m,poison=on,power=8W+50mW:1ms:1ms:nops+5mW:nops");
    let (mut client, pair) = with(config.expect("a good configuration"));
    let mut table = ApstTable::default();
    table.0[0] = entry;
    let feature = FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION;
    admin_on(&mut client, |client| set(client, feature, cdw11, table.as_bytes()), status);
    keep(client, pair)
}

/// Sets Host Behavior Support with one byte changed.
fn behavior(at: usize, value: u8, status: Status) -> Scene {
    let mut bytes = HostBehavior::new(1, 0, 0).as_bytes().to_vec();
    bytes[at] = value;
    admin(move |client| set(client, FeatureId::HOST_BEHAVIOR_SUPPORT, 0, &bytes), status)
}

cases! {
    a_power_state_that_there_is_not: FieldValue, ["opcode 09h", "dword 11 0x5"], || {
        admin(|_| power(5, 0), Status::INVALID_FIELD)
    };
    a_workload_that_is_reserved: FieldValue, ["opcode 09h", "dword 11 0xa0"], || {
        admin(|_| power(0, 5), Status::INVALID_FIELD)
    };
    an_idle_transition_to_an_operational_state: FieldValue, ["opcode 09h"], || {
        table(1, ApstEntry::new().with_itps(0).with_itpt(100), Status::INVALID_FIELD)
    };
    reserved_bits_of_an_idle_transition: ReservedField, ["entry 0 of the table is 0x"], || {
        table(1, ApstEntry::from_bits(1 << 40 | 1 << 3 | 100 << 8), Status::SUCCESS)
    };
    reserved_bits_of_autonomous_power: ReservedField, ["dword 11 bits 31:1"], || {
        table(3, ApstEntry::new().with_itps(1).with_itpt(100), Status::SUCCESS)
    };
    reserved_bytes_of_host_behavior: ReservedField, ["bytes 511:3 of Host Behavior Support"], || {
        behavior(511, 1, Status::SUCCESS)
    };
    a_host_behavior_that_there_is_not: FieldValue, ["opcode 09h"], || behavior(0, 2, Status::INVALID_FIELD);
}
