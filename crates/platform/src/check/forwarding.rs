//! Whether root complexes forward requests between devices, as far as Linux knows: the rule of `host_bridge_whitelist` in
//! its `drivers/pci/p2pdma.c`, which VFIO does not consult. In one point we are stricter: not between NUMA nodes.

use warpbell_vfio::Bdf;

use super::obstacle::Unrouted;
use crate::PortKind;
use crate::machine::{Machine, PciNode, Role};
use crate::topology::Relation;

const INTEL: u16 = 0x8086;

/// Whether those of Linux's list forward requests to devices of another one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Forwarding {
    /// `REQ_SAME_HOST_BRIDGE`: only between their own ports.
    Own,
    /// To other root complexes too.
    Others,
}

/// `pci_p2pdma_whitelist`, without what no GPU hangs on: accelerators of Intel's processors, processors other than x86.
const FORWARDING: [(u16, u16, Forwarding); 10] = [
    // Sandy Bridge-E.
    (INTEL, 0x3c00, Forwarding::Own),
    (INTEL, 0x3c01, Forwarding::Own),
    // Haswell-E.
    (INTEL, 0x2f00, Forwarding::Own),
    (INTEL, 0x2f01, Forwarding::Own),
    // Skylake-E: four root ports, and the DMI port.
    (INTEL, 0x2030, Forwarding::Others),
    (INTEL, 0x2031, Forwarding::Others),
    (INTEL, 0x2032, Forwarding::Others),
    (INTEL, 0x2033, Forwarding::Others),
    (INTEL, 0x2020, Forwarding::Others),
    // Ice Lake-SP, Sapphire Rapids and newer.
    (INTEL, 0x09a2, Forwarding::Others),
];

/// Whether requests of one device get to the other through the root complex; if not, why.
pub(super) fn routed(machine: &Machine, gpu: Bdf, ssd: Bdf, relation: Relation) -> Result<(), Unrouted> {
    let root = |bdf| machine.node(bdf).map_or("-", |node| node.root.as_str());
    let (of_gpu, of_ssd) = (root(gpu), root(ssd));
    match relation {
        Relation::System => Err(Unrouted::System { of_gpu: of_gpu.to_owned(), of_ssd: of_ssd.to_owned() }),
        _ if machine.cpu.vendor.as_deref() == Some("AuthenticAMD") && machine.cpu.family >= Some(0x17) => {
            Ok(())
        }
        Relation::Node => {
            let apart = |why| Unrouted::Apart {
                of_gpu: of_gpu.to_owned(),
                of_ssd: of_ssd.to_owned(),
                why: Box::new(why),
            };
            forwards(machine, of_gpu, Forwarding::Others).map_err(apart)?;
            forwards(machine, of_ssd, Forwarding::Others).map_err(apart)
        }
        _ => forwards(machine, of_gpu, Forwarding::Own),
    }
}

fn forwards(machine: &Machine, root: &str, wanted: Forwarding) -> Result<(), Unrouted> {
    let Some(first) = first_of(machine, root) else {
        return Err(Unrouted::Unknown { root: root.to_owned() });
    };
    let (vendor, device) = (first.function.vendor, first.function.device);
    let known = FORWARDING.iter().find(|one| (one.0, one.1) == (vendor, device)).map(|one| one.2);
    match (known, wanted) {
        (Some(Forwarding::Others), _) | (Some(Forwarding::Own), Forwarding::Own) => Ok(()),
        (Some(Forwarding::Own), Forwarding::Others) => {
            Err(Unrouted::OwnPorts { root: root.to_owned(), vendor, device })
        }
        (None, _) => Err(Unrouted::Unlisted { vendor, device }),
    }
}

/// The function that Linux knows a root complex by: the first on its bus, if that is device 0, function 0, or a root
/// port. Of which class it is does not matter.
fn first_of<'a>(machine: &'a Machine, root: &str) -> Option<&'a PciNode> {
    let on_bus = machine.functions.iter().flatten().filter(|node| node.parent.is_none() && node.root == root);
    let first = on_bus.min_by_key(|node| node.bdf)?;
    let is_first_slot = (first.bdf.device, first.bdf.function) == (0, 0);
    (is_first_slot || first.role == Role::Port(PortKind::Root)).then_some(first)
}
