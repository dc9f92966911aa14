//! Power states: what Identify says, how long changes take, and what brings the controller back.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod client;

use std::time::Duration;

use client::{Client, Pair, csts, memory};
use warpbell_hw::Device;
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::feature::{ApstEntry, ApstTable, FeatureId, FeatureSelect, PowerManagement};
use warpbell_nvme::register::{Shn, Shst, offset};
use warpbell_nvme::{Cqe, Status};
use warpbell_softctl::{SoftConfig, SoftDevice};
use zerocopy::IntoBytes;

const MS: Duration = Duration::from_millis(1);
const STATES: &str = "size=1m,power=8W+4W:2ms:1ms+50mW:10ms:20ms:nops+5mW:30ms:60ms:nops";

fn both() -> [Client; 2] {
    Client::both(&SoftConfig::parse(STATES).unwrap())
}

fn now(client: &Client) -> Duration {
    client.device.clock().now()
}

fn set(state: u8) -> Sqe {
    let value = PowerManagement::new().with_ps(state).into_bits();
    command::set_features(FeatureId::POWER_MANAGEMENT, value, 0)
}

fn state(client: &mut Client) -> u8 {
    let get = command::get_features(FeatureId::POWER_MANAGEMENT, FeatureSelect::CURRENT, 0);
    PowerManagement::from_bits(client.admin_ok(get).dw0).ps()
}

/// Runs something and says how long it took.
fn timed<T>(client: &mut Client, run: impl FnOnce(&mut Client) -> T) -> (T, Duration) {
    let start = now(client);
    let done = run(client);
    (done, now(client) - start)
}

fn read(client: &mut Client, pair: &mut Pair) -> Cqe {
    let at = client.buffer.iova().0;
    pair.run(&client.device, &command::read(1, 7, 0).with_cid(9).with_prp(at, 0))
}

#[test]
fn identify_says_what_the_states_are() {
    for mut client in both() {
        let identify = client.identify_controller();
        let states = identify.power_state_descriptors();
        let powers: Vec<_> = states.iter().map(|one| one.max_power_tenth_mw()).collect();
        assert_eq!(powers, [80_000, 40_000, 500, 50]);
        assert_eq!((states[2].entry_latency(), states[2].exit_latency()), (10 * MS, 20 * MS));
        assert_eq!([0, 1, 2, 3].map(|index| states[index].is_operational()), [true, true, false, false]);
        assert!(identify.supports_apst());
        client.assert_clean();
    }
    for mut client in Client::both(&memory(1 << 20, 512)) {
        let identify = client.identify_controller();
        assert_eq!((identify.power_states(), identify.supports_apst()), (1, false));
        client::expect(&mut client, set(1), Status::INVALID_FIELD);
        client.admin_ok(set(0));
    }
}

#[test]
fn a_change_completes_when_the_controller_is_there() {
    for mut client in both() {
        let (_, took) = timed(&mut client, |client| client.admin_ok(set(2)));
        assert!(took >= 10 * MS, "{took:?}");
        assert_eq!(state(&mut client), 2);
        let (_, took) = timed(&mut client, |client| client.admin_ok(set(1)));
        assert!(took >= (20 + 2) * MS, "{took:?}");
        let (_, took) = timed(&mut client, |client| client.admin_ok(set(1)));
        assert!(!client.device.is_stepped() || took < MS, "it is there: {took:?}");
        client::expect(&mut client, set(4), Status::INVALID_FIELD);
        assert_eq!(state(&mut client), 1);
        client.assert_clean();
    }
}

#[test]
fn io_brings_the_controller_back_and_admin_commands_leave_it_alone() {
    for mut client in both() {
        let mut pair = client.pair(1, 16);
        client.admin_ok(set(1));
        client.admin_ok(set(3));
        client.identify_controller();
        assert_eq!(state(&mut client), 3);
        let (entry, took) = timed(&mut client, |client| read(client, &mut pair));
        assert!(entry.status().is_ok() && took >= (60 + 2) * MS, "{entry:?} {took:?}");
        assert_eq!(state(&mut client), 1, "the last operational state");
        client.assert_clean();
    }
}

#[test]
fn stepped_an_operational_state_costs_nothing() {
    let [mut client, _] = both();
    let mut pair = client.pair(1, 16);
    let (entry, took) = timed(&mut client, |client| read(client, &mut pair));
    assert!(entry.status().is_ok() && took < MS, "{took:?}");
}

fn table() -> ApstTable {
    let mut table = ApstTable::default();
    table.0[0] = ApstEntry::new().with_itps(2).with_itpt(50);
    table.0[2] = ApstEntry::new().with_itps(3).with_itpt(200);
    table
}

#[test]
fn stepped_it_goes_to_sleep_by_itself() {
    let [mut client, _] = both();
    let mut pair = client.pair(1, 16);
    let (feature, table) = (FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION, table());
    client.set_data_feature(feature, 1, table.as_bytes(), Status::SUCCESS);
    let get = command::get_features(feature, FeatureSelect::CURRENT, 0);
    assert_eq!(client.admin_data(get)[..256], *table.as_bytes());
    read(&mut client, &mut pair);
    client.device.advance(49 * MS);
    assert_eq!(state(&mut client), 0);
    client.device.advance(MS);
    assert_eq!(state(&mut client), 2);
    client.device.advance(220 * MS);
    assert_eq!((state(&mut client), client.device.power_state()), (3, 3));
    client.device.advance(100 * MS);
    let (_, took) = timed(&mut client, |client| read(client, &mut pair));
    assert!(took >= 60 * MS && took < 62 * MS, "{took:?}");
    assert_eq!(state(&mut client), 0);

    client.set_data_feature(feature, 0, table.as_bytes(), Status::SUCCESS);
    client.device.advance(1000 * MS);
    assert_eq!(state(&mut client), 0, "switched off");
    client.assert_clean();
}

#[test]
fn tables_that_lead_to_wrong_states_are_refused() {
    for mut client in both() {
        for wrong in [1, 4] {
            let mut table = table();
            table.0[0].set_itps(wrong);
            let status = Status::INVALID_FIELD.with_dnr(true);
            client.set_data_feature(
                FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION,
                1,
                table.as_bytes(),
                status,
            );
        }
        client.assert_clean();
    }
}

#[test]
fn a_reset_brings_the_controller_back_to_state_0() {
    for mut client in both() {
        client.admin_ok(set(3));
        client.device.reset().reset(warpbell_hw::ResetKind::Function).unwrap();
        let mut client = Client::start(client.device.clone());
        assert_eq!(state(&mut client), 0);
        let mut pair = client.pair(1, 16);
        assert!(read(&mut client, &mut pair).status().is_ok());
    }
}

#[test]
fn a_shutdown_takes_its_time() {
    for stepped in [false, true] {
        let config = memory(1 << 20, 512).shutdown_time(40 * MS);
        let device =
            if stepped { SoftDevice::stepped(config) } else { SoftDevice::threaded(config) }.unwrap();
        let mut client = Client::start(device);
        assert_eq!(client.identify_controller().rtd3e, 40_000);
        let start = now(&client);
        let cc = client::configuration().with_en(true).with_shn(Shn::NORMAL);
        client.device.registers().write32(offset::CC, cc.into_bits());
        assert_eq!(csts(&client.device).shst(), Shst::OCCURRING);
        client::wait_csts(&client.device, |csts| csts.shst() == Shst::COMPLETE);
        assert!(now(&client) - start >= 40 * MS);
        client.assert_clean();
    }
}
