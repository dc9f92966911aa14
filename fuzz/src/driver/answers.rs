//! The synthetic controller's answers to commands, and where their data goes.

use std::sync::atomic::Ordering;

use warpbell_nvme::command::{CreateIoSqCdw11, QueueIdSize, Sqe};
use warpbell_nvme::feature::{FeatureId, NumberOfQueues};
use warpbell_nvme::identify::Cns;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;
use zerocopy::IntoBytes;

use super::controller::Controller;
use super::space::User;

const PAGE: u64 = 4096;

impl Controller {
    /// What a good controller would do. `None`: it answers when something has happened.
    pub(super) fn execute(&mut self, qid: u16, sqe: &Sqe) -> Option<(Status, u32)> {
        if qid != 0 {
            return Some((Status::SUCCESS, 0));
        }
        let mut dw0 = 0;
        let status = match AdminOpcode(sqe.opcode()) {
            AdminOpcode::ASYNC_EVENT_REQUEST => {
                self.event_requests.push(sqe.cid());
                return None;
            }
            AdminOpcode::IDENTIFY => self.identify(sqe),
            AdminOpcode::SET_FEATURES if sqe.cdw10 as u8 == FeatureId::NUMBER_OF_QUEUES.0 => {
                let granted = self.grant.wrapping_sub(1);
                dw0 = NumberOfQueues::new().with_nsqr_z(granted).with_ncqr_z(granted).into_bits();
                Status::SUCCESS
            }
            AdminOpcode::GET_FEATURES => {
                dw0 = sqe.cdw11;
                Status::SUCCESS
            }
            AdminOpcode::CREATE_IO_CQ => self.create_cq(sqe),
            AdminOpcode::CREATE_IO_SQ => self.create_sq(sqe),
            AdminOpcode::DELETE_IO_SQ | AdminOpcode::DELETE_IO_CQ => self.delete(sqe),
            AdminOpcode::DBBUF_CONFIG => {
                for base in [sqe.prp1(), sqe.prp2()] {
                    self.space.begin(User::Doorbells, base, PAGE);
                }
                self.shadows = Some([sqe.prp1(), sqe.prp2()]);
                Status::SUCCESS
            }
            AdminOpcode::ABORT => {
                dw0 = 1;
                Status::SUCCESS
            }
            _ => Status::SUCCESS,
        };
        Some((status, dw0))
    }

    fn create_cq(&mut self, sqe: &Sqe) -> Status {
        let (fields, base) = (QueueIdSize::from_bits(sqe.cdw10), sqe.prp1());
        let queue = self.queues.entry(fields.qid()).or_default();
        if queue.cq_entries != 0 {
            return Status::INVALID_FIELD;
        }
        (queue.cq_base, queue.cq_entries) = (base, fields.entries());
        self.space.begin(User::Cq(fields.qid()), base, u64::from(fields.entries()) * 16);
        Status::SUCCESS
    }

    fn create_sq(&mut self, sqe: &Sqe) -> Status {
        let (fields, base) = (QueueIdSize::from_bits(sqe.cdw10), sqe.prp1());
        let cqid = CreateIoSqCdw11::from_bits(sqe.cdw11).cqid();
        let Some(queue) = self.queues.get_mut(&fields.qid()) else { return Status::INVALID_FIELD };
        if cqid != fields.qid() || queue.sq_entries != 0 {
            return Status::INVALID_FIELD;
        }
        (queue.sq_base, queue.sq_entries) = (base, fields.entries());
        // What lies behind all that can be mapped is the controller's own.
        if base < 1 << 48 {
            self.space.begin(User::Sq(fields.qid()), base, u64::from(fields.entries()) * 64);
        }
        Status::SUCCESS
    }

    fn delete(&mut self, sqe: &Sqe) -> Status {
        let qid = sqe.cdw10 as u16;
        let Some(queue) = self.queues.get_mut(&qid).filter(|_| qid != 0) else {
            return Status::INVALID_FIELD;
        };
        if AdminOpcode(sqe.opcode()) == AdminOpcode::DELETE_IO_SQ {
            queue.sq_entries = 0;
            self.space.end(|user| user == User::Sq(qid));
        } else if queue.sq_entries != 0 {
            return Status::INVALID_FIELD;
        } else {
            self.queues.remove(&qid);
            self.space.end(|user| user == User::Cq(qid));
        }
        Status::SUCCESS
    }

    fn identify(&mut self, sqe: &Sqe) -> Status {
        let page = match Cns(sqe.cdw10 as u8) {
            Cns::CONTROLLER => self.identify.as_bytes().to_vec(),
            Cns::ACTIVE_NAMESPACES => {
                let after = self.namespaces.keys().copied().filter(|nsid| *nsid > sqe.nsid);
                let mut list: Vec<u32> = after.take(1024).collect();
                list.resize(1024, 0);
                list.as_bytes().to_vec()
            }
            Cns::NAMESPACE => match self.namespaces.get(&sqe.nsid) {
                Some(namespace) => namespace.as_bytes().to_vec(),
                None => return Status::INVALID_NAMESPACE_OR_FORMAT,
            },
            _ => return Status::INVALID_FIELD,
        };
        self.scatter(sqe, 0, &page);
        Status::SUCCESS
    }

    /// Bytes that a command of the admin queue moves, as far as this controller knows.
    fn data_bytes(sqe: &Sqe) -> u64 {
        match AdminOpcode(sqe.opcode()) {
            _ if sqe.prp1() == 0 => 0,
            AdminOpcode::GET_LOG_PAGE => {
                (u64::from(sqe.cdw10 >> 16) + 1 + (u64::from(sqe.cdw11 & 0xffff) << 16)) * 4
            }
            AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD => (u64::from(sqe.cdw10) + 1) * 4,
            AdminOpcode::CREATE_IO_CQ | AdminOpcode::CREATE_IO_SQ | AdminOpcode::DBBUF_CONFIG => 0,
            _ => PAGE,
        }
    }

    /// The pages of a command's data.
    fn pages(&self, sqe: &Sqe) -> Vec<u64> {
        let count = Self::data_bytes(sqe).div_ceil(PAGE);
        let list = |index: u64| {
            let entry = self.space.window(sqe.prp2() + index * 8, 8);
            entry.map_or(0, |entry| entry.load_u64(0, Ordering::Relaxed))
        };
        match count {
            0 => vec![],
            1 => vec![sqe.prp1()],
            2 => vec![sqe.prp1(), sqe.prp2()],
            count => std::iter::once(sqe.prp1()).chain((0..count - 1).map(list)).collect(),
        }
    }

    /// The data, and the list that describes it, is the controller's until the command has completed.
    pub(super) fn claim_data(&mut self, sqe: &Sqe) {
        let pages = self.pages(sqe);
        let list = (pages.len() > 2).then(|| sqe.prp2());
        for page in pages.into_iter().chain(list) {
            self.space.begin(User::Command(0, sqe.cid()), page, PAGE);
        }
    }

    /// Writes into a command's data.
    fn scatter(&mut self, sqe: &Sqe, at: u64, bytes: &[u8]) {
        let Some(page) = self.pages(sqe).get((at / PAGE) as usize).copied() else { return };
        let room = (PAGE - at % PAGE) as usize;
        if let Some(window) = self.space.window(page + at % PAGE, bytes.len().min(room)) {
            window.write(0, &bytes[..bytes.len().min(room)]).expect("a window of that length");
        }
    }

    /// Changes some of a command's data, or writes the input over it.
    pub(super) fn spoil(&mut self, sqe: &Sqe, all: bool) {
        let len = Self::data_bytes(sqe);
        if len == 0 || sqe.opcode() & 3 != 2 {
            return;
        }
        if all {
            let count = usize::from(self.choices.byte());
            let bytes = self.choices.take(count).to_vec();
            // Over and over, so that lists are long.
            for at in (0..len).step_by(bytes.len().max(1)).take(if bytes.is_empty() { 0 } else { 4096 }) {
                self.scatter(sqe, at, &bytes);
            }
            return;
        }
        for _ in 0..=self.choices.below(8) {
            let at = self.choices.number(600) % len;
            let byte = self.choices.byte();
            self.scatter(sqe, at, &[byte]);
        }
    }
}
