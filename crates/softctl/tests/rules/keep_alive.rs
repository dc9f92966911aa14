//! Keep Alive.

use std::time::Duration;

use warpbell_hw::Device;
use warpbell_nvme::command;
use warpbell_nvme::feature::{FeatureId, FeatureSelect};
use warpbell_nvme::queue_command;

use crate::client::csts;
use crate::{cases, keep, start};

cases! {
    a_client_that_stays_silent: KeepAliveExpired, ["no Keep Alive command for 300 ms"], || {
        let (mut client, pair) = start();
        client.admin_ok(command::set_features(FeatureId::KEEP_ALIVE_TIMER, 250, 0));
        let get = command::get_features(FeatureId::KEEP_ALIVE_TIMER, FeatureSelect::CURRENT, 0);
        assert_eq!(client.admin_ok(get).dw0, 300, "rounded up to the granularity");
        for _ in 0..5 {
            client.device.advance(Duration::from_millis(290));
            client.settle();
            client.admin_ok(queue_command::keep_alive());
        }
        client.assert_clean();
        let due = client.device.next_event().unwrap();
        let left = due - warpbell_hw::Clock::now(client.device.clock());
        assert!(left <= Duration::from_millis(300) && left > Duration::from_millis(299));
        client.device.advance(left);
        client.settle();
        assert!(csts(&client.device).cfs(), "the controller stops");
        keep(client, pair)
    };
}
