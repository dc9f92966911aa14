//! Commands that make and unmake namespaces.

use warpbell_nvme::Sqe;
use warpbell_nvme::command::{self, NsAttachmentSelect, NsManagementSelect};
use warpbell_nvme::identify::{Cns, ControllerList, Flbas, IdentifyNamespace, NamespaceList};
use zerocopy::IntoBytes;

use super::{Client, parsed};

pub fn wish(blocks: u64, format: u8) -> IdentifyNamespace {
    let mut data = IdentifyNamespace::zeroed();
    (data.nsze, data.ncap) = (blocks, blocks);
    data.flbas = Flbas::new().with_index_lower(format);
    data
}

pub fn create(client: &Client, data: &IdentifyNamespace) -> Sqe {
    client.fill(0, data.as_bytes());
    command::ns_management(0, NsManagementSelect::CREATE).with_prp(client.buffer.iova().0, 0)
}

pub fn created(client: &mut Client, blocks: u64, format: u8) -> u32 {
    let sqe = create(client, &wish(blocks, format));
    client.admin_ok(sqe).dw0
}

pub fn attachment(client: &Client, nsid: u32, select: NsAttachmentSelect, cntlids: &[u16]) -> Sqe {
    let mut list = ControllerList { num: cntlids.len() as u16, ..ControllerList::default() };
    list.cntlids[..cntlids.len()].copy_from_slice(cntlids);
    client.fill(0, list.as_bytes());
    command::ns_attachment(nsid, select).with_prp(client.buffer.iova().0, 0)
}

pub fn attach(client: &mut Client, nsid: u32) {
    let sqe = attachment(client, nsid, NsAttachmentSelect::ATTACH, &[1]);
    client.admin_ok(sqe);
}

pub fn list(client: &mut Client, cns: Cns, after: u32) -> Vec<u32> {
    let list: NamespaceList = parsed(&client.admin_data(command::identify(cns, after)));
    list.iter().collect()
}

pub fn delete(nsid: u32) -> Sqe {
    command::ns_management(nsid, NsManagementSelect::DELETE)
}
