//! One event: what the device library wrote, in words.

use serde::{Deserialize, Serialize};
use warpbell::LaneTrace;
use warpbell_kernels::abi::{self, TraceEvent};
use warpbell_nvme::NvmOpcode;

/// Something that a lane did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// When, on the kernel's clock.
    pub clock_ns: u64,
    /// The warp of the launch.
    pub warp: u32,
    /// Its lane.
    pub lane: u32,
    /// The queue.
    pub qid: u16,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// What a lane did. An `index` is the low 23 bits of a count of entries from the start of the queue's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// A group of lanes began to use the queue.
    Attach {
        /// Grows with every replacement of a lost queue.
        epoch: u64,
        /// The warp's place among those of the queue.
        warp_slot: u32,
    },
    /// A command was written into its entry.
    Submit {
        /// Command identifier.
        cid: u32,
        /// Tells commands with the same identifier apart.
        generation: u32,
        /// Of its entry.
        index: u32,
        /// NVMe opcode.
        opcode: u8,
        /// First block.
        lba: u64,
        /// Blocks; 0 of commands without any.
        blocks: u32,
    },
    /// The submission queue's tail was told to the controller.
    SqDoorbell {
        /// Behind the last entry told of.
        index: u32,
        /// As it was written.
        value: u32,
        /// Whether the register was written, or its shadow in memory was enough.
        register: bool,
    },
    /// The completion queue's head was told to the controller.
    CqDoorbell {
        /// Behind the last entry told of.
        index: u32,
        /// As it was written.
        value: u32,
        /// As of `SqDoorbell`.
        register: bool,
    },
    /// Completions were collected.
    Reap {
        /// Of the first.
        index: u32,
        /// How many.
        completions: u32,
        /// Those among them that no pending command owned.
        spurious: u32,
    },
    /// A command was answered.
    Complete {
        /// Command identifier.
        cid: u32,
        /// As of its submission.
        generation: u32,
        /// 0: success; else as results have it.
        status: u32,
    },
    /// A lane wanted to submit a command and could not.
    Refuse {
        /// Why.
        status: u32,
    },
    /// A command that had timed out has completed: its identifier is free.
    Late {
        /// Command identifier.
        cid: u32,
    },
}

impl Event {
    /// What one lane wrote. Events of a kind that this version does not know are left out.
    pub fn of_lane(trace: &LaneTrace) -> impl Iterator<Item = Event> {
        trace.events.iter().filter_map(move |event| {
            let qid = (event.what >> abi::TRACE_QUEUE_SHIFT) as u16;
            let what = What::of(event)?;
            Some(Event { clock_ns: event.clock_ns, warp: trace.warp, lane: trace.lane, qid, what })
        })
    }
}

impl What {
    fn of(event: &TraceEvent) -> Option<What> {
        let TraceEvent { value, cid, detail, index, .. } = *event;
        let (generation, low) = (detail >> abi::TRACE_GENERATION_SHIFT, detail & 0xffff);
        let register = value == u64::from(abi::TRACE_REGISTER);
        Some(match event.what & 0xff {
            abi::TRACE_ATTACH => What::Attach { epoch: value, warp_slot: index },
            abi::TRACE_SUBMIT => {
                let opcode = (event.what >> abi::TRACE_OPCODE_SHIFT) as u8;
                let blocks = if opcode == NvmOpcode::FLUSH.0 { 0 } else { low + 1 };
                What::Submit { cid, generation, index, opcode, lba: value, blocks }
            }
            abi::TRACE_SQ_DOORBELL => What::SqDoorbell { index, value: detail, register },
            abi::TRACE_CQ_DOORBELL => What::CqDoorbell { index, value: detail, register },
            abi::TRACE_REAP => What::Reap { index, completions: detail, spurious: value as u32 },
            abi::TRACE_COMPLETE => What::Complete { cid, generation, status: low },
            abi::TRACE_REFUSE => What::Refuse { status: detail },
            abi::TRACE_LATE => What::Late { cid },
            _ => return None,
        })
    }
}

/// The word for an opcode.
pub(super) fn opcode_word(opcode: u8) -> &'static str {
    match NvmOpcode(opcode) {
        NvmOpcode::FLUSH => "flush",
        NvmOpcode::READ => "read",
        NvmOpcode::WRITE => "write",
        _ => "command",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_words() {
        let raw = |kind, detail, value| TraceEvent {
            clock_ns: 9,
            value,
            what: kind | 2 << abi::TRACE_OPCODE_SHIFT | 7 << abi::TRACE_QUEUE_SHIFT,
            cid: 3,
            detail,
            index: 5,
        };
        let generation = 4 << abi::TRACE_GENERATION_SHIFT;
        let events = vec![
            raw(abi::TRACE_SUBMIT, generation | 0xffff, 1 << 40),
            raw(abi::TRACE_SQ_DOORBELL, 6, 1),
            raw(abi::TRACE_REAP, 32, 2),
            raw(abi::TRACE_COMPLETE, generation | abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT, 0),
            raw(99, 0, 0),
        ];
        let trace = LaneTrace { warp: 1, lane: 2, written: 5, events };
        let events: Vec<Event> = Event::of_lane(&trace).collect();
        let whats: Vec<What> = events.iter().map(|event| event.what).collect();
        let submit =
            What::Submit { cid: 3, generation: 4, index: 5, opcode: 2, lba: 1 << 40, blocks: 65_536 };
        assert_eq!(
            whats,
            [
                submit,
                What::SqDoorbell { index: 5, value: 6, register: true },
                What::Reap { index: 5, completions: 32, spurious: 2 },
                What::Complete { cid: 3, generation: 4, status: 0x8001 },
            ]
        );
        assert!(events.iter().all(|event| (event.warp, event.lane, event.qid) == (1, 2, 7)));
        let json = serde_json::to_value(events[1]).unwrap();
        let expected = serde_json::json!({"clock_ns": 9, "warp": 1, "lane": 2, "qid": 7,
            "event": "sq_doorbell", "index": 5, "value": 6, "register": true});
        assert_eq!(json, expected);
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), events[1]);
    }
}
