//! `completion`: polling against interrupts: when a completion is noticed, and what that costs.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    iops: f64 = 1e6, Kind::Positive, "1/s", "I/Os a second";
    latency_us: f64 = 80.0, Kind::Positive, "us", "time of an I/O", measurable;
    read_ns: f64 = 700.0, Kind::Positive, "ns", "a read of the completion queue, by where it lies", measurable;
    back_off_ns: f64 = 0.0, Kind::Number, "ns", "pause between two looks";
    interrupt_us: f64 = 2.0, Kind::Positive, "us", "from interrupt to handler, and CPU time of one", measurable;
    coalesce: u64 = 1, Kind::Count(256), "", "completions that share an interrupt";
    coalesce_us: f64 = 100.0, Kind::Number, "us", "longest that an interrupt is held back";
    queues: u64 = 128, Kind::Count(65535), "", "queue pairs";
    depth: u64 = 1024, Kind::Count(65536), "", "entries of a queue";
}

const FORMULA: &[&str] = &[
    "noticed by polling after T_read + T_read / 2 + back-off / 2",
    "noticed by interrupt after T_irq + min((k - 1) / (2 * IOPS), TIME)",
    "CPU cores for interrupts = IOPS * T_irq / k; looks at an I/O = latency / (T_read + back-off)",
    "commands in flight <= queues * min(depth - 1, 65535), either way",
];
const SURE: (Sure, &str) = (
    Sure::Model,
    "model M11; T_read is a placeholder until it is measured where the queue lies, T_irq is that of an article",
);
const LIMITS: &[&str] = &[
    "a processor that polls is busy all the time; what else it could do is not counted",
    "interrupt vectors (at most 2,048 of a function) bound how many handlers there are, not how many commands are in flight",
];
const PRESETS: &[Preset] = &[
    Preset { name: "coalesced", meaning: "32 completions an interrupt", values: r#"{"coalesce": 32}"# },
    Preset {
        name: "hundred-ns",
        meaning: "the source's 100 ns of notice, as reads of 67 ns",
        values: r#"{"read_ns": 66.67}"#,
    },
];
model!("completion", "polling or interrupts: when is a completion noticed, and at which cost?", presets: PRESETS, plot: Some(plot));

impl Input {
    /// How long completions wait for others, without and with the limit.
    fn held_back_us(&self) -> (f64, f64) {
        let unlimited = (self.coalesce - 1) as f64 / (2.0 * self.iops) * 1e6;
        (unlimited, unlimited.min(self.coalesce_us))
    }

    fn poll_us(&self) -> f64 {
        (1.5 * self.read_ns + self.back_off_ns / 2.0) / 1e3
    }

    fn interrupt_notice_us(&self) -> f64 {
        self.interrupt_us + self.held_back_us().1
    }

    fn bound(&self) -> String {
        let ahead = self.interrupt_notice_us() - self.poll_us();
        let sooner = if ahead >= 0.0 { "polling" } else { "interrupts" };
        let (ahead, latency) = (shown(ahead.abs()), shown(self.latency_us));
        format!("{sooner} notices {ahead} us sooner, of an I/O that takes {latency} us")
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let (unlimited, held_back) = input.held_back_us();
    let (poll, interrupt) = (input.poll_us(), input.interrupt_notice_us());
    let each = (input.depth.saturating_sub(1)).min(65_535);
    Ok(Outcome::new(
        input.bound(),
        vec![
            Figure::new("poll_notice_us", poll, "us", "from completion entry to notice, polling"),
            Figure::new("interrupt_notice_us", interrupt, "us", "the same by interrupt"),
            Figure::new("held_back_us", held_back, "us", "part of it that waits for other completions"),
            Figure::new("held_back_without_limit_us", unlimited, "us", "the same if nothing limited it"),
            Figure::new(
                "cpu_cores",
                input.iops * input.interrupt_us / 1e6 / input.coalesce as f64,
                "",
                "CPU cores that interrupts take",
            ),
            Figure::new(
                "polls_per_io",
                input.latency_us * 1e3 / (input.read_ns + input.back_off_ns),
                "",
                "looks at one I/O, alone in its queue",
            ),
            Figure::new(
                "poll_share",
                poll / input.latency_us,
                "",
                "notice by polling, as a share of the I/O",
            ),
            Figure::new("interrupt_share", interrupt / input.latency_us, "", "the same by interrupt"),
            Figure::new(
                "in_flight_limit",
                input.queues * each,
                "",
                "commands that can be in flight, either way",
            ),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let poll = Series::of("polling", powers(0, 6), |_| base.poll_us());
    let line = |iops: f64| {
        let at =
            |coalesce: f64| Input { coalesce: coalesce as u64, iops, ..base.clone() }.interrupt_notice_us();
        Series::of(format!("interrupts, {} I/Os a second", shown(iops)), powers(0, 6), at)
    };
    let lines = vec![poll, line(1e6), line(1e5)];
    Ok(Plot::single(
        "From completion entry to notice",
        Axis::log("completions an interrupt"),
        Axis::linear("time, us"),
        lines,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalescing_waits_longer_and_costs_less_up_to_its_limit() {
        for coalesce in 1..255 {
            let at = |coalesce| Input { coalesce, iops: 1e4, ..Input::default() };
            let (here, more) = (at(coalesce), at(coalesce + 1));
            assert!(more.interrupt_notice_us() >= here.interrupt_notice_us());
            assert!(more.held_back_us().1 <= here.coalesce_us);
        }
    }
}
