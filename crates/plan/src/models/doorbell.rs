//! `doorbell`: writes to doorbells, where they lie, and shadow doorbells (DBBUF).

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    iops: f64 = 1e6, Kind::Positive, "1/s", "commands a second";
    sq_batch: u64 = 1, Kind::Count(65535), "", "commands under one submission doorbell";
    cq_batch: u64 = 1, Kind::Count(65535), "", "completions under one completion doorbell";
    crossed_share: f64 = 1.0, Kind::Share, "", "with shadow doorbells: share of updates that cross EventIdx; 0: the controller polls";
    dstrd: u64 = 0, Kind::Whole(15), "", "CAP.DSTRD: doorbells are 4 << DSTRD bytes apart";
    mps: u64 = 0, Kind::Whole(15), "", "CC.MPS: a page has 4096 << MPS bytes";
    io_queues: u64 = 128, Kind::Count(65535), "", "I/O queue pairs";
    queue: u64 = 1, Kind::Whole(65535), "", "queue whose doorbells to show";
    old: u64 = 0, Kind::Whole(65535), "", "shadow value before";
    new: u64 = 1, Kind::Whole(65535), "", "shadow value now";
    event_idx: u64 = 0, Kind::Whole(65535), "", "EventIdx that the controller asks for";
}

const FORMULA: &[&str] = &[
    "register writes of a command = (1 / submission batch + 1 / completion batch) * share that crosses EventIdx",
    "doorbell of SQ y = 0x1000 + 2y * (4 << DSTRD), of CQ y = 0x1000 + (2y + 1) * (4 << DSTRD)",
    "DBBUF fits where 8 * 2^DSTRD * (I/O queues + 1) <= 2^(12 + MPS); the specification's own rule counts half of that",
    "ring = (new - event_idx - 1) mod 2^16 < (new - old) mod 2^16",
];
const SURE: (Sure, &str) =
    (Sure::Specified, "model M9; NVMe base specification (doorbells, CAP.DSTRD, Doorbell Buffer Config)");
const LIMITS: &[&str] = &[
    "shadow doorbells are for emulated controllers; SSDs seldom have them",
    "a larger stride and shadow doorbells work against each other: the buffer is one page",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "warp",
        meaning: "a warp's 32 commands under one doorbell",
        values: r#"{"sq_batch": 32, "cq_batch": 32}"#,
    },
    Preset {
        name: "polled-shadow",
        meaning: "shadow doorbells of a controller that polls",
        values: r#"{"crossed_share": 0}"#,
    },
    Preset {
        name: "widest-stride",
        meaning: "DSTRD 4 and 32 queues",
        values: r#"{"dstrd": 4, "io_queues": 32}"#,
    },
];
model!("doorbell", "how many doorbell writes, where, and do shadow doorbells fit?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn writes_per_command(&self) -> f64 {
        (1.0 / self.sq_batch as f64 + 1.0 / self.cq_batch as f64) * self.crossed_share
    }

    fn offset(&self, index: u64) -> u64 {
        0x1000 + index * (4 << self.dstrd)
    }

    /// Queues that a page of shadow doorbells has room for, by entries of `bytes` before the stride, without admin.
    fn shadowed(&self, bytes: u64) -> u64 {
        ((1u64 << (12 + self.mps)) / (bytes << self.dstrd)).saturating_sub(1)
    }

    fn rings(&self) -> bool {
        let (old, new, event) = (self.old as u16, self.new as u16, self.event_idx as u16);
        new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
    }

    /// The page of shadow doorbells where it is too small, and register writes otherwise.
    fn bound(&self, shadowed: u64) -> String {
        match self.io_queues <= shadowed {
            true => format!("register writes: {} a command", shown(self.writes_per_command())),
            false => {
                format!("the page of shadow doorbells: room for {shadowed} I/O queues of {}", self.io_queues)
            }
        }
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let shadowed = input.shadowed(8);
    let writes = input.writes_per_command();
    let rate = input.iops / input.sq_batch as f64 * input.crossed_share;
    Ok(Outcome::new(
        input.bound(shadowed),
        vec![
            Figure::new("writes_per_command", writes, "", "register writes of a command"),
            Figure::new("sq_doorbells_per_s", rate, "1/s", "submission doorbells a second"),
            Figure::new(
                "writes_per_s",
                writes * input.iops,
                "1/s",
                "register writes a second, of both kinds",
            ),
            Figure::new(
                "sq_offset",
                input.offset(2 * input.queue),
                "B",
                "submission doorbell of the queue, in BAR0",
            ),
            Figure::new("cq_offset", input.offset(2 * input.queue + 1), "B", "its completion doorbell"),
            Figure::new(
                "shadowed_io_queues",
                shadowed,
                "",
                "I/O queue pairs that a page of shadow doorbells has room for",
            ),
            Figure::new(
                "shadowed_by_rule",
                input.shadowed(4),
                "",
                "the same by the specification's own rule, which forgets one of each pair",
            ),
            Figure::new("shadow_fits", input.io_queues <= shadowed, "", "whether the I/O queue pairs fit"),
            Figure::new("rings", input.rings(), "", "whether the update crosses EventIdx"),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |crossed_share: f64| {
        let at = |batch: f64| {
            Input { sq_batch: batch as u64, cq_batch: batch as u64, crossed_share, ..base.clone() }
                .writes_per_command()
        };
        Series::of(format!("{} % of updates cross EventIdx", crossed_share * 100.0), powers(0, 6), at)
    };
    let lines = [1.0, 0.5, 0.1].map(line).to_vec();
    Ok(Plot::single(
        "Register writes of a command",
        Axis::log("commands under one doorbell"),
        Axis::linear("register writes"),
        lines,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether stepping from `old` to `new`, one by one, passes the value after `event`.
    fn passes(old: u16, new: u16, event: u16) -> bool {
        let steps = new.wrapping_sub(old);
        (1..=steps).any(|step| old.wrapping_add(step) == event.wrapping_add(1))
    }

    #[test]
    fn event_idx_is_crossed_where_its_successor_is_passed_also_across_the_wrap() {
        for old in [0u16, 1, 100, 32767, 65530, 65535] {
            for step in [0u16, 1, 2, 5, 9, 300] {
                for event in [0u16, 1, 2, 99, 104, 32768, 65529, 65530, 65534, 65535] {
                    let new = old.wrapping_add(step);
                    let input = Input {
                        old: old.into(),
                        new: new.into(),
                        event_idx: event.into(),
                        ..Input::default()
                    };
                    assert_eq!(input.rings(), passes(old, new, event), "{old} {new} {event}");
                }
            }
        }
    }
}
