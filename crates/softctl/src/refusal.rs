//! Names what a refused command asked for and what it could have had: the log of refusals.

use warpbell_hw::Interrupts;
use warpbell_nvme::command::{CreateIoCqCdw11, CreateIoSqCdw11, QueueIdSize};
use warpbell_nvme::{AdminOpcode, Status};

use crate::checker::Rule;
use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Engine};

/// The rule behind a status, if it is about what the client asked for.
fn rule_of(status: Status) -> Option<Rule> {
    const RULES: &[(Status, Rule)] = &[
        (Status::INVALID_FIELD, Rule::FieldValue),
        (Status::INVALID_NAMESPACE_OR_FORMAT, Rule::NamespaceIdentifier),
        (Status::LBA_OUT_OF_RANGE, Rule::LbaRange),
        (Status::NAMESPACE_WRITE_PROTECTED, Rule::WriteProtected),
        (Status::INVALID_QUEUE_IDENTIFIER, Rule::QueueIdentifier),
        (Status::INVALID_QUEUE_SIZE, Rule::QueueSize),
        (Status::INVALID_INTERRUPT_VECTOR, Rule::InterruptVector),
        (Status::INVALID_CQ, Rule::CompletionQueue),
        (Status::INVALID_QUEUE_DELETION, Rule::QueueDeletion),
        (Status::COMMAND_SEQUENCE_ERROR, Rule::CommandSequence),
        (Status::FEATURE_NOT_CHANGEABLE, Rule::FeatureAttribute),
        (Status::FEATURE_NOT_SAVEABLE, Rule::FeatureAttribute),
        (Status::FEATURE_NOT_NAMESPACE_SPECIFIC, Rule::FeatureAttribute),
        (Status::INVALID_LOG_PAGE, Rule::LogPage),
    ];
    RULES.iter().find(|(code, _)| status.same_code(*code)).map(|(_, rule)| *rule)
}

/// What a command asked for, as far as its queue tells nothing more.
fn dwords(command: Command<'_>) -> String {
    let sqe = command.sqe;
    format!("NSID {:#x}, dword 10 {:#x}, dword 11 {:#x}", sqe.nsid, sqe.cdw10, sqe.cdw11)
}

impl Engine {
    /// Logs a refused command with its `detail`; the status follows.
    fn refused(&self, rule: Rule, command: Command<'_>, detail: &str, status: Status) {
        self.checker.report(rule, format!("{command}: {detail}: {status}"));
    }

    /// An I/O command failed.
    #[cold]
    pub(crate) fn note_refusal(&self, command: Command<'_>, status: Status) {
        let Some(rule) = rule_of(status) else { return };
        let sqe = command.sqe;
        let detail = match rule {
            Rule::LbaRange => {
                let blocks = self.namespaces.active(sqe.nsid).map_or(0, |namespace| namespace.blocks);
                let (count, lba) = (sqe.blocks(), sqe.slba());
                format!("{count} blocks from {lba} on, namespace {} has {blocks}", sqe.nsid)
            }
            Rule::NamespaceIdentifier => format!("namespace {:#x} is not active", sqe.nsid),
            _ => dwords(command),
        };
        self.refused(rule, command, &detail, status);
    }
}

impl Core {
    /// An admin command failed.
    #[cold]
    pub(crate) fn note_refusal(&self, control: &Control, command: Command<'_>, status: Status) {
        let Some(rule) = rule_of(status) else { return };
        let sqe = command.sqe;
        let queue = QueueIdSize::from_bits(sqe.cdw10);
        let detail = match (rule, AdminOpcode(sqe.opcode())) {
            (Rule::QueueIdentifier, AdminOpcode::CREATE_IO_SQ)
                if !(1..=control.granted).contains(&CreateIoSqCdw11::from_bits(sqe.cdw11).cqid()) =>
            {
                let cqid = CreateIoSqCdw11::from_bits(sqe.cdw11).cqid();
                let (qid, last) = (queue.qid(), control.granted);
                format!(
                    "submission queue {qid} into completion queue {cqid}, identifiers go from 1 to {last}"
                )
            }
            (Rule::QueueIdentifier, _) => {
                format!("queue {}, identifiers go from 1 to {}", queue.qid(), control.granted)
            }
            (Rule::QueueSize, _) => {
                let (sqes, cqes) = (control.cc.iosqes(), control.cc.iocqes());
                let limit = self.config.max_entries;
                let entries = queue.entries();
                format!("{entries} entries, the limit is {limit}; CC.IOSQES is {sqes} and CC.IOCQES {cqes}")
            }
            (Rule::InterruptVector, _) => {
                let vector = CreateIoCqCdw11::from_bits(sqe.cdw11).iv();
                format!("vector {vector}, the function has {}", self.vectors.count())
            }
            (Rule::CompletionQueue, _) => {
                let cqid = CreateIoSqCdw11::from_bits(sqe.cdw11).cqid();
                format!("submission queue {} into completion queue {cqid}, which does not exist", queue.qid())
            }
            (Rule::QueueDeletion, _) => {
                let users = control.cqs.get(&queue.qid()).map_or(0, |entry| entry.users);
                format!("completion queue {}, which {users} submission queues use", queue.qid())
            }
            _ => dwords(command),
        };
        control.engine.refused(rule, command, &detail, status);
    }
}
