//! Kernels on the CPU target in the time of their device, and those whose accesses take it (`client=h200`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::Device;
use warpbell_kernels::cpu::{AccessCosts, Hooks};
use warpbell_softctl::{ClientModel, ClientRings, SoftDevice};

use crate::Launch;
use crate::queues::flush::FlushMapping;
use crate::recovery::TableParts;

/// What kernels over an attachment's queues take of its device's virtual time.
pub(crate) struct ClientTime {
    soft: Arc<SoftDevice>,
    costs: AccessCosts,
    /// What kernels reach by way of PCIe.
    host: Vec<Range<u64>>,
}

impl ClientTime {
    /// `None` where they take none.
    pub(crate) fn new(soft: &Arc<SoftDevice>, parts: &TableParts) -> Option<ClientTime> {
        let (costs, rings) = match soft.client() {
            (ClientModel::Free, _) => return None,
            (ClientModel::H200, rings) => (AccessCosts::H200, rings),
        };
        let mut host = parts.shadows.ranges();
        host.extend(parts.queues.pages().ranges());
        host.extend(parts.queues.flush().map(FlushMapping::range));
        if rings == ClientRings::Host {
            host.extend(parts.rings.iter().flat_map(|rings| rings.ranges()));
        }
        Some(ClientTime { soft: soft.clone(), costs, host })
    }
}

/// With hooks for a device that wants to see each doorbell write, and whose time may be virtual; none where the page is
/// memory.
pub(crate) fn device_hooks(hooks: Hooks, device: &Arc<dyn Device>) -> Hooks {
    let doorbells = device.doorbells();
    let page = doorbells.window();
    match doorbells.sink() {
        Some(sink) => {
            let clock = device.clone();
            let now = move || u64::try_from(clock.clock().now().as_nanos()).unwrap_or(u64::MAX);
            hooks.doorbell_sink(page.as_ptr() as u64, page.len(), sink).clock(now)
        }
        None => hooks,
    }
}

/// The launch, charged as the last of these says, whose clock it has too.
pub(crate) fn charge<'a>(clients: impl Iterator<Item = &'a ClientTime>, launch: Launch) -> Launch {
    let clients: Vec<_> = clients.collect();
    let Some(last) = clients.last() else { return launch };
    let host = clients.iter().flat_map(|client| client.host.clone()).collect();
    let (soft, costs) = (last.soft.clone(), last.costs);
    launch.map_cpu(move |launch| launch.client(costs, host, move |until| pass(&soft, until)))
}

/// Time passes by way of the controller, which works meanwhile.
fn pass(soft: &SoftDevice, until: u64) -> u64 {
    soft.wait_until(Duration::from_nanos(until));
    u64::try_from(soft.clock().now().as_nanos()).unwrap_or(u64::MAX)
}
