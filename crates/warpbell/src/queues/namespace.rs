//! A namespace as kernels see it: its blocks, what its SSD takes by one command, and which commands that has.

use warpbell_driver::{Controller, Namespace};
use warpbell_kernels::abi;
use warpbell_nvme::identify::Oncs;

use crate::{DataPointerKind, KernelQueues};

/// The argument that names a namespace behind these queues.
pub(super) fn namespace_ref(
    controller: &Controller,
    namespace: &Namespace,
    by: DataPointerKind,
    queues: &KernelQueues,
) -> abi::NamespaceRef {
    let block_bytes = u64::from(namespace.block_size);
    let by_prp = if by == DataPointerKind::Prp { u64::from(abi::PRP_LIST_MAX) * 4096 } else { u64::MAX };
    let (identify, limits) = (controller.identify(), controller.command_limits());
    let transfer = controller.max_transfer_bytes().unwrap_or(u64::MAX).min(by_prp);
    let zeroes = limits.zeroes_bytes.map(|bytes| bytes / block_bytes);
    let pointer = if by == DataPointerKind::Sgl { abi::NAMESPACE_SGL } else { 0 };
    // Not even one block.
    let no_zeroes = if zeroes == Some(0) { abi::NAMESPACE_NO_WRITE_ZEROES } else { 0 };
    abi::NamespaceRef {
        blocks: namespace.blocks,
        nsid: namespace.nsid.get(),
        block_shift: namespace.block_size.trailing_zeros(),
        max_blocks: (transfer / block_bytes).clamp(1, 65536) as u32,
        flags: pointer | missing(identify.oncs) | no_zeroes,
        crdt: [identify.crdt1, identify.crdt2, identify.crdt3].map(u32::from),
        zeroes_blocks: zeroes.map_or(0, |blocks| blocks.min(65536) as u32),
        ..queues.namespace()
    }
}

/// The flags of commands that a controller does not have.
fn missing(has: Oncs) -> u32 {
    let flag = |has, flag| if has { 0 } else { flag };
    flag(has.compare(), abi::NAMESPACE_NO_COMPARE)
        | flag(has.write_zeroes(), abi::NAMESPACE_NO_WRITE_ZEROES)
        | flag(has.dataset_management(), abi::NAMESPACE_NO_DEALLOCATE)
}
