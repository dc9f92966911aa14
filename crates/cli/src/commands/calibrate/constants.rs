//! Which constants of models a measured quantity is, and why the others are not measured.

use warpbell_workload::calibrate::Quantity;

/// The constants that a quantity is the value of, as `MODEL.INPUT`.
pub fn of(quantity: Quantity) -> &'static [&'static str] {
    match quantity {
        Quantity::RegistrationFixed => &["reg.fixed_us", "ckpt.fixed_us"],
        Quantity::RegistrationPage => &["reg.page_us", "ckpt.page_us"],
        Quantity::Fence => &["fence.fence_ns", "ckpt.fence_ns"],
        Quantity::Entry => &["fence.sqe_ns"],
        Quantity::Doorbell => &["fence.doorbell_ns"],
        Quantity::Poll => &["completion.read_ns"],
        Quantity::Latency => &[
            "queues.latency_us",
            "completion.latency_us",
            "stripe.latency_us",
            "tiers.nvme_us",
            "situation.latency_us",
        ],
        Quantity::Interrupt => &["completion.interrupt_us"],
        Quantity::Bandwidth => &[
            "contention.source_gb_per_s",
            "pipeline.ssd_gb_per_s",
            "fabric.ssd_gb_per_s",
            "datapath.media_gb_per_s",
            "stripe.ssd_gb_per_s",
            "kv.gb_per_s",
            "tiers.nvme_gb_per_s",
            "situation.ssd_gb_per_s",
        ],
        Quantity::Iops => &["stripe.ssd_iops"],
        Quantity::Copy => &["datapath.copy_gb_per_s"],
    }
}

/// The page that `reg.page_us` is of: the two belong together.
pub const PAGE: (&str, u64) = ("reg.page_bytes", 4096);

/// Constants that nothing here measures, by the reason.
pub const UNKNOWN: &[(&str, &[&str])] = &[
    ("no counter of an adapter's or IOMMU's misses is at hand", &["mtt.entries", "mtt.miss_us"]),
    ("needs memory of a GPU that is mapped by one walk", &["reg.walk_us"]),
    ("it is of another way than registration, which is yours to name", &["reg.setup_us"]),
    (
        "needs an SSD that writes into memory of a GPU",
        &[
            "tlp.link_gb_per_s",
            "datapath.link_gb_per_s",
            "kv.link_gb_per_s",
            "stripe.link_gb_per_s",
            "stripe.link_efficiency",
            "pipeline.link_gb_per_s",
            "fabric.link_gb_per_s",
            "fabric.link_efficiency",
            "ckpt.shared_gb_per_s",
        ],
    ),
    (
        "needs several SSDs behind one PCIe switch",
        &[
            "contention.base_latency_us",
            "contention.upstream_gb_per_s",
            "contention.downstream_gb_per_s",
            "contention.efficiency",
            "contention.switch_ns",
            "stripe.switches_gb_per_s",
            "stripe.efficiency",
            "pipeline.efficiency",
            "fabric.uplink_gb_per_s",
            "fabric.root_gb_per_s",
        ],
    ),
    ("needs a network adapter", &["pipeline.hca_gb_per_s", "fabric.nic_gb_per_s"]),
    (
        "needs an SSD on a network",
        &["datapath.network_us", "datapath.network_gb_per_s", "tiers.fabric_us", "fabric.latency_us"],
    ),
    ("needs memory behind CXL", &["tiers.cxl_ns", "tiers.cxl_gb_per_s"]),
    ("the latency that is measured has the software's part in it", &["datapath.media_us"]),
    ("it is of the way that a preset stands for", &["datapath.software_us", "datapath.cpu_us"]),
    ("it is of writing too, and calibration only reads", &["ckpt.ssd_gb_per_s"]),
    (
        "it is of your workload: give it",
        &["loader.load_share", "kv.compute_ms", "tiles.load_us", "tiles.compute_us", "tiles.jitter_us"],
    ),
];

#[cfg(test)]
mod tests {
    use warpbell_plan::Calibration;

    use super::*;

    #[test]
    fn every_constant_is_measured_or_has_a_reason_and_units_agree() {
        let mut known = vec![PAGE.0];
        for quantity in Quantity::ALL {
            for name in of(quantity) {
                let unit =
                    Calibration::names().into_iter().find(|(known, _)| known == name).map(|(_, unit)| unit);
                assert_eq!(unit, Some(quantity.unit()), "{name}");
                known.push(name);
            }
        }
        known.extend(UNKNOWN.iter().flat_map(|(_, names)| names.iter()));
        known.sort_unstable();
        let mut all: Vec<String> = Calibration::names().into_iter().map(|(name, _)| name).collect();
        all.sort_unstable();
        assert_eq!(known, all);
    }
}
