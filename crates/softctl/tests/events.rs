//! Asynchronous events of every kind.

mod client;

use client::{Client, expect, memory};
use warpbell_nvme::command::{self, AsyncErrorInfo, AsyncEvent, AsyncEventType, AsyncHealthInfo, NSID_ALL};
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId, FeatureSelect, TemperatureThreshold};
use warpbell_nvme::log::{CriticalWarning, ErrorLogEntry, LogPageId, SmartLog};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{Health, SoftConfig};

fn enable(client: &mut Client, config: AsyncEventConfig) {
    client.admin_ok(command::set_features(FeatureId::ASYNC_EVENT_CONFIG, config.into_bits(), 0));
}

fn request(client: &mut Client, cid: u16) {
    client.admin.push(&command::async_event_request().with_cid(cid));
    client.admin.ring();
}

/// The event that a waiting request gets.
fn event(client: &mut Client) -> (AsyncEventType, u8, u8) {
    let entry = client.admin.wait(&client.device);
    assert!(entry.status().is_ok(), "{}", entry.status());
    let event = AsyncEvent::from_bits(entry.dw0);
    (event.event_type(), event.info(), event.log_page())
}

fn health_event(info: AsyncHealthInfo) -> (AsyncEventType, u8, u8) {
    (AsyncEventType::SMART_HEALTH, info.0, LogPageId::SMART.0)
}

fn silent(client: &mut Client) {
    client.settle();
    assert_eq!(client.admin.poll(), None);
}

fn log(page: LogPageId, bytes: u32, retain: bool) -> Sqe {
    command::get_log_page(page, NSID_ALL, bytes / 4 - 1, 0, retain)
}

fn smart(client: &mut Client) -> SmartLog {
    client::parsed(&client.admin_data(log(LogPageId::SMART, 512, false)))
}

fn threshold(kelvin: u16, sensor: u8, under: u8) -> TemperatureThreshold {
    TemperatureThreshold::new().with_tmpth(kelvin).with_tmpsel(sensor).with_thsel(under)
}

fn set_threshold(threshold: TemperatureThreshold) -> Sqe {
    command::set_features(FeatureId::TEMPERATURE_THRESHOLD, threshold.into_bits(), 0)
}

fn get_threshold(client: &mut Client, sensor: u8, under: u8) -> u16 {
    let mut get = command::get_features(FeatureId::TEMPERATURE_THRESHOLD, FeatureSelect::CURRENT, 0);
    get.cdw11 = threshold(0, sensor, under).into_bits();
    TemperatureThreshold::from_bits(client.admin_ok(get).dw0).tmpth()
}

#[test]
fn each_critical_warning_that_is_enabled_has_its_event_and_its_bit() {
    let well = Health::default();
    type Bit = fn(CriticalWarning) -> bool;
    let cases: [(Health, AsyncHealthInfo, Bit, u8); 5] = [
        (well.spare(9), AsyncHealthInfo::SPARE_BELOW_THRESHOLD, |w| w.spare(), 0),
        (well.temperature(343), AsyncHealthInfo::TEMPERATURE_THRESHOLD, |w| w.temperature(), 1),
        (well.degraded(true), AsyncHealthInfo::SUBSYSTEM_RELIABILITY, |w| w.reliability(), 2),
        (well.read_only(true), AsyncHealthInfo::SUBSYSTEM_RELIABILITY, |w| w.read_only(), 3),
        (well.backup_failed(true), AsyncHealthInfo::SUBSYSTEM_RELIABILITY, |w| w.backup_failed(), 4),
    ];
    for mut client in Client::both(&SoftConfig::default()) {
        for (ill, info, bit, index) in cases {
            enable(&mut client, AsyncEventConfig::new());
            request(&mut client, 0x70);
            client.device.set_health(ill);
            assert!(bit(smart(&mut client).critical_warning), "{ill:?}");
            silent(&mut client);
            // The host enables the warning: it holds, so it is reported.
            enable(&mut client, AsyncEventConfig::new().with_smart(1 << index));
            assert_eq!(event(&mut client), health_event(info));
            request(&mut client, 0x70);
            assert!(bit(smart(&mut client).critical_warning));
            silent(&mut client);
            // It goes and comes again.
            client.device.set_health(well);
            assert_eq!(smart(&mut client).critical_warning, CriticalWarning::new());
            client.device.set_health(ill);
            assert_eq!(event(&mut client), health_event(info));
            client.device.set_health(well);
            smart(&mut client);
        }
        client.assert_clean();
    }
}

#[test]
fn an_event_is_masked_until_its_log_is_read_without_rae() {
    let mut client = Client::stepped(SoftConfig::default());
    enable(&mut client, AsyncEventConfig::new().with_smart(0b111));
    request(&mut client, 1);
    request(&mut client, 2);
    client.device.set_health(Health::new().spare(0));
    assert_eq!(event(&mut client), health_event(AsyncHealthInfo::SPARE_BELOW_THRESHOLD));
    client.device.set_health(Health::new().spare(0).degraded(true));
    silent(&mut client);
    client.admin_data(log(LogPageId::SMART, 512, true));
    silent(&mut client);
    client.admin_data(log(LogPageId::ERROR_INFORMATION, 64, false));
    silent(&mut client);
    // A type does not mask another.
    client.device.report_error(AsyncErrorInfo::TRANSIENT_INTERNAL_ERROR);
    let error = (AsyncEventType::ERROR, AsyncErrorInfo::TRANSIENT_INTERNAL_ERROR.0, 1);
    assert_eq!(event(&mut client), error);
    smart(&mut client);
    request(&mut client, 3);
    assert_eq!(event(&mut client), health_event(AsyncHealthInfo::SUBSYSTEM_RELIABILITY));
    client.assert_clean();
}

#[test]
fn temperatures_cross_their_thresholds_both_ways() {
    let mut client = Client::stepped(SoftConfig::default());
    enable(&mut client, AsyncEventConfig::new().with_smart(0b10));
    assert_eq!(get_threshold(&mut client, 0, 0), 343);
    assert_eq!([get_threshold(&mut client, 1, 0), get_threshold(&mut client, 2, 1)], [u16::MAX, 0]);
    let at = |kelvin| Health::new().temperature(kelvin).sensors([kelvin; 2]);
    let expected = health_event(AsyncHealthInfo::TEMPERATURE_THRESHOLD);
    request(&mut client, 1);
    client.device.set_health(at(342));
    silent(&mut client);
    client.admin_ok(set_threshold(threshold(340, 0, 0)));
    assert_eq!(event(&mut client), expected, "the threshold came to the temperature");
    smart(&mut client);
    request(&mut client, 1);
    client.device.set_health(at(300));
    client.admin_ok(set_threshold(threshold(290, 0, 1)));
    silent(&mut client);
    client.device.set_health(at(290));
    assert_eq!(event(&mut client), expected, "too cold");
    smart(&mut client);
    // All sensors at once, of one type.
    client.admin_ok(set_threshold(threshold(320, 0xf, 0)));
    assert_eq!([0, 1, 2].map(|sensor| get_threshold(&mut client, sensor, 0)), [320; 3]);
    assert_eq!(get_threshold(&mut client, 0, 1), 290);
    client.device.set_health(at(300));
    smart(&mut client);
    request(&mut client, 1);
    client.device.set_health(at(300).sensors([300, 320]));
    assert_eq!(event(&mut client), expected, "sensor 2");
    for bad in [threshold(300, 3, 0), threshold(300, 14, 0), threshold(300, 0, 2)] {
        expect(&mut client, set_threshold(bad), Status::INVALID_FIELD);
    }
    client.assert_clean();
}

#[test]
fn errors_of_the_controller_are_events_and_log_entries() {
    for info in [
        AsyncErrorInfo::DIAGNOSTIC_FAILURE,
        AsyncErrorInfo::PERSISTENT_INTERNAL_ERROR,
        AsyncErrorInfo::TRANSIENT_INTERNAL_ERROR,
        AsyncErrorInfo::FIRMWARE_IMAGE_LOAD_ERROR,
    ] {
        for mut client in Client::both(&SoftConfig::default()) {
            request(&mut client, 1);
            client.device.report_error(info);
            let page = LogPageId::ERROR_INFORMATION;
            assert_eq!(event(&mut client), (AsyncEventType::ERROR, info.0, page.0));
            let entry: ErrorLogEntry = client::parsed(&client.admin_data(log(page, 64, false)));
            assert_eq!((entry.sqid, entry.cid, entry.error_count), (u16::MAX, u16::MAX, 1));
            assert!(entry.status.status().same_code(Status::INTERNAL_ERROR));
        }
    }
}

#[test]
fn a_reset_forgets_requests_and_events() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    enable(&mut client, AsyncEventConfig::new().with_smart(0xff));
    request(&mut client, 1);
    client.device.report_error(AsyncErrorInfo::TRANSIENT_INTERNAL_ERROR);
    client.device.set_health(Health::new().degraded(true));
    let device = client.device.clone();
    warpbell_hw::Device::reset(&*device).reset(warpbell_hw::ResetKind::Function).unwrap();
    let mut client = Client::start(device);
    request(&mut client, 1);
    silent(&mut client);
    client.assert_clean();
}
