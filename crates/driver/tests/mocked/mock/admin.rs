//! The mock's admin commands.

use std::sync::atomic::Ordering;

use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::feature::{FeatureId, NumberOfQueues};
use warpbell_nvme::identify::Cns;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;
use zerocopy::IntoBytes;

use super::{MockDma, Queue, State};

impl State {
    pub(super) fn serve_admin(&mut self, dma: &MockDma, sqe: &Sqe) {
        let mut dw0 = 0;
        let status = match AdminOpcode(sqe.opcode()) {
            AdminOpcode::ASYNC_EVENT_REQUEST => return self.event_requests.push(sqe.cid()),
            AdminOpcode::IDENTIFY => self.identify(dma, sqe),
            AdminOpcode::SET_FEATURES if sqe.cdw10 as u8 == FeatureId::NUMBER_OF_QUEUES.0 => {
                let z = self.behaviour.grant.wrapping_sub(1);
                dw0 = NumberOfQueues::new().with_nsqr_z(z).with_ncqr_z(z).into_bits();
                Status::SUCCESS
            }
            AdminOpcode::CREATE_IO_CQ | AdminOpcode::CREATE_IO_SQ => self.create(sqe),
            AdminOpcode::DELETE_IO_SQ => self.delete_sq(sqe.cdw10 as u16),
            AdminOpcode::DELETE_IO_CQ => self.delete_cq(sqe.cdw10 as u16),
            AdminOpcode::SET_FEATURES => {
                self.features.push((sqe.cdw10, sqe.cdw11));
                Status::SUCCESS
            }
            AdminOpcode::GET_LOG_PAGE => {
                let bytes = (((sqe.cdw10 >> 16) + 1) * 4) as usize;
                scatter(dma, sqe, &vec![sqe.cdw12 as u8 ^ 0x5a; bytes]);
                Status::SUCCESS
            }
            AdminOpcode::ABORT => {
                dw0 = 1;
                Status::SUCCESS
            }
            AdminOpcode(0xc1) => {
                // A vendor command: returns each of its pages filled with the page's number.
                let pages: Vec<u8> = (0..sqe.cdw10).flat_map(|page| vec![page as u8; 4096]).collect();
                scatter(dma, sqe, &pages);
                Status::SUCCESS
            }
            _ => Status::SUCCESS,
        };
        if !std::mem::take(&mut self.mute) {
            self.post(dma, 0, sqe.cid(), status, dw0);
        }
    }

    fn delete_sq(&mut self, qid: u16) -> Status {
        match self.queues.get_mut(&qid).filter(|queue| queue.has_sq) {
            Some(queue) => {
                queue.has_sq = false;
                Status::SUCCESS
            }
            None => Status::INVALID_QUEUE_IDENTIFIER,
        }
    }

    fn delete_cq(&mut self, qid: u16) -> Status {
        match self.queues.get(&qid) {
            None => Status::INVALID_QUEUE_IDENTIFIER,
            Some(queue) if queue.has_sq => Status::INVALID_QUEUE_DELETION,
            Some(_) => {
                self.queues.remove(&qid);
                Status::SUCCESS
            }
        }
    }

    fn create(&mut self, sqe: &Sqe) -> Status {
        let cdw10 = command::QueueIdSize::from_bits(sqe.cdw10);
        let is_cq = AdminOpcode(sqe.opcode()) == AdminOpcode::CREATE_IO_CQ;
        let entries = cdw10.entries();
        if is_cq {
            let cq_base = sqe.prp1();
            let queue = Queue { sq_base: 0, cq_base, entries, sq_head: 0, cq_tail: 0, has_sq: false };
            self.queues.insert(cdw10.qid(), queue);
        } else if let Some(queue) = self.queues.get_mut(&cdw10.qid()) {
            (queue.sq_base, queue.has_sq) = (sqe.prp1(), true);
        } else {
            return Status::INVALID_FIELD;
        }
        Status::SUCCESS
    }

    fn identify(&self, dma: &MockDma, sqe: &Sqe) -> Status {
        match Cns(sqe.cdw10 as u8) {
            Cns::CONTROLLER => scatter(dma, sqe, self.behaviour.identify.as_bytes()),
            Cns::ACTIVE_NAMESPACES => {
                let after = self.behaviour.namespaces.keys().copied().filter(|nsid| *nsid > sqe.nsid);
                let mut list: Vec<u32> = after.take(1024).collect();
                list.resize(1024, 0);
                scatter(dma, sqe, list.as_bytes());
            }
            Cns::NAMESPACE => match self.behaviour.namespaces.get(&sqe.nsid) {
                Some(namespace) => scatter(dma, sqe, namespace.as_bytes()),
                None => return Status::INVALID_NAMESPACE_OR_FORMAT,
            },
            _ => return Status::INVALID_FIELD,
        }
        Status::SUCCESS
    }
}

/// Writes data where the command's PRPs say.
fn scatter(dma: &MockDma, sqe: &Sqe, data: &[u8]) {
    for (index, page) in data.chunks(4096).enumerate() {
        let pages = data.len().div_ceil(4096);
        let address = match index {
            0 => sqe.prp1(),
            1 if pages == 2 => sqe.prp2(),
            _ => {
                let (list, at) = dma.find(sqe.prp2() + (index as u64 - 1) * 8);
                list.load_u64(at, Ordering::Relaxed)
            }
        };
        let (window, at) = dma.find(address);
        window.write(at, page).unwrap();
    }
}
