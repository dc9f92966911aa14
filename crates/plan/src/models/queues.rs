//! `queues`: how many commands must be in flight, in how many queues, with which identifiers and how much memory.

mod cid;

use cid::Layout;

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::least;
use crate::number::shown;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    iops: f64 = 0.0, Kind::Number, "1/s", "I/Os a second; 0: those that the bandwidth makes";
    bandwidth_gb_per_s: f64 = 80.0, Kind::Positive, "GB/s", "bandwidth to reach";
    io_bytes: u64 = 4096, Kind::Bytes, "B", "bytes of an I/O";
    latency_us: f64 = 100.0, Kind::Positive, "us", "time of an I/O", measurable;
    depth: u64 = 1024, Kind::Count(65536), "", "entries of a queue; one stays free";
    granted: u64 = 128, Kind::Count(65535), "", "queue pairs that the controller grants";
    warps: u64 = 8448, Kind::Count(1 << 32), "", "warps that submit";
    warps_per_queue: u64 = 64, Kind::Count(65536), "", "warps that share a queue pair";
    warp_bits: u64 = 6, Kind::Whole(16), "", "bits of the identifier that name the warp";
    local_bits: u64 = 10, Kind::Whole(16), "", "bits of the identifier that the warp counts";
    warp: u64 = 1, Kind::Whole(65535), "", "a warp whose identifier to show";
    local: u64 = 5, Kind::Whole(65535), "", "its command";
}

const FORMULA: &[&str] = &[
    "in flight = I/Os a second * latency (Little's law), I/Os a second = bandwidth / size",
    "queues = max(ceil(in flight / (depth - 1)), ceil(warps / warps of a queue)), at most those granted",
    "memory of a queue pair = depth * (64 + 16) bytes",
    "tag = warp << 16 | local (32 bits, a handle); on the wire: queue = warp mod Q, CID = (warp div Q) << L | local, never 0xFFFF",
    "in flight of a queue <= min(65535, depth - 1, identifiers)",
];
const SURE: (Sure, &str) = (
    Sure::Specified,
    "model M8; Little's law, entry sizes and the 16 bits of a CID are those of the NVMe base specification",
);
const LIMITS: &[&str] = &[
    "means only: bursts and tails need more in flight than Little's law says",
    "memory is that of rings alone, without PRP lists and completion slots",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "bulk",
        meaning: "80 GB/s in I/Os of 128 KiB",
        values: r#"{"bandwidth_gb_per_s": 80, "io_bytes": 131072}"#,
    },
    Preset {
        name: "h200",
        meaning: "a queue for each of 132 multiprocessors, 64 warps on each",
        values: r#"{"warps": 8448, "warps_per_queue": 64, "granted": 1024}"#,
    },
    Preset {
        name: "hundred-thousand",
        meaning: "100,000 threads on 128 queue pairs",
        values: r#"{"warps": 3125, "warps_per_queue": 25, "granted": 128}"#,
    },
];
model!("queues", "how many commands in flight, in how many queues, with which identifiers?", presets: PRESETS, plot: Some(plot));

const ENTRY_BYTES: u64 = 64 + 16;
/// The value that means "no command" in the Error log is never an identifier.
const IDENTIFIERS: u64 = 65_535;

impl Input {
    fn iops(&self) -> f64 {
        if self.iops > 0.0 { self.iops } else { self.bandwidth_gb_per_s * 1e9 / self.io_bytes as f64 }
    }

    fn in_flight(&self) -> f64 {
        self.iops() * self.latency_us / 1e6
    }

    fn layout(&self) -> Layout {
        Layout { warp_bits: self.warp_bits as u32, local_bits: self.local_bits as u32 }
    }

    fn check(&self) -> Result<(), Error> {
        if self.depth < 2 {
            return Err(Error::value("depth", self.depth, "a queue of one entry is always full; 2 at least"));
        }
        let bits = self.warp_bits + self.local_bits;
        if bits > 16 {
            return Err(Error::Together(format!("warp_bits and local_bits: {bits} bits; a CID has 16")));
        }
        Ok(())
    }

    /// Commands that one queue can have in flight.
    fn queue_limit(&self) -> (&'static str, f64) {
        let by_layout = self.layout().usable() as f64;
        least(&[
            ("the entries of a queue", (self.depth - 1) as f64),
            ("the identifiers of the layout", by_layout),
            ("the 65,535 identifiers of a queue", IDENTIFIERS as f64),
        ])
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    input.check()?;
    let in_flight = input.in_flight();
    let (why, limit) = input.queue_limit();
    let for_depth = (in_flight / limit).ceil().max(1.0);
    let for_warps = input.warps.div_ceil(input.warps_per_queue) as f64;
    let wanted = for_depth.max(for_warps);
    let queues = wanted.min(input.granted as f64);
    let bound = match (queues < wanted, for_depth >= for_warps) {
        (true, _) => {
            format!("the grant: {} queue pairs are wanted, {} granted", shown(wanted), input.granted)
        }
        (false, true) => {
            format!("{why}: {} commands in flight need {} queues", shown(in_flight), shown(for_depth))
        }
        (false, false) => format!("the warps: {} of them, {} on a queue", input.warps, input.warps_per_queue),
    };
    let mut results = vec![
        Figure::new("iops", input.iops(), "1/s", "I/Os a second"),
        Figure::new("in_flight", in_flight, "", "commands in flight"),
        Figure::new("queues_for_depth", for_depth, "", "queues that hold them"),
        Figure::new("queues_for_warps", for_warps, "", "queues that the warps want"),
        Figure::new("queues", queues, "", "queues to ask for"),
        Figure::new(
            "reaches_in_flight",
            queues * limit >= in_flight,
            "",
            "whether they hold what must be in flight",
        ),
        Figure::new("in_flight_per_queue", limit, "", "commands that one queue holds at most"),
    ];
    results.extend(memory(input, queues as u64));
    results.extend(identifiers(input, queues as u64));
    Ok(Outcome::new(bound, results))
}

/// What the rings take.
fn memory(input: &Input, queues: u64) -> Vec<Figure> {
    let each = input.depth * ENTRY_BYTES;
    let warps = input.warps as f64 / input.granted as f64;
    vec![
        Figure::new(
            "warps_per_granted_queue",
            warps,
            "",
            "warps on each queue if all that are granted are used",
        ),
        Figure::new("bytes_per_queue", each, "B", "rings of a queue pair"),
        Figure::new("bytes_of_queues", queues * each, "B", "rings of all of them"),
        Figure::new("bytes_of_granted", input.granted * each, "B", "rings if all that are granted are used"),
    ]
}

/// What the layout makes of a command of a warp.
fn identifiers(input: &Input, queues: u64) -> Vec<Figure> {
    let (layout, tag) = (input.layout(), input.warp << 16 | input.local);
    let shifted = (input.warp << input.local_bits | input.local) & 0xffff;
    let (wire, fits) = (layout.cid(input.warp, input.local, queues), layout.fits(input.warps_per_queue));
    vec![
        Figure::new("identifiers", layout.usable(), "", "identifiers of the layout"),
        Figure::new("layout_fits", fits, "", "whether each warp of a queue has identifiers of its own"),
        Figure::new("tag", tag, "", "warp << 16 | local: a handle"),
        Figure::new("tag_as_cid", tag & 0xffff, "", "what 16 bits keep of it: warps collide"),
        Figure::new("shifted_as_cid", shifted, "", "warp << L | local in 16 bits"),
        Figure::new("cid", wire, "", "identifier on the wire; none where the layout has none for the warp"),
    ]
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |bandwidth_gb_per_s: f64| {
        let at = |bytes: f64| {
            Input { iops: 0.0, io_bytes: bytes as u64, bandwidth_gb_per_s, ..base.clone() }.in_flight()
        };
        Series::of(format!("{bandwidth_gb_per_s} GB/s"), powers(12, 20), at)
    };
    let lines = [14.0, 57.6, 80.0, 100.0].map(line).to_vec();
    Ok(Plot::single(
        "Commands in flight",
        Axis::log("bytes of an I/O"),
        Axis::linear("commands in flight"),
        lines,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        for (input, words) in [
            (
                Input { depth: 1, ..Input::default() },
                "depth '1': a queue of one entry is always full; 2 at least",
            ),
            (Input { warp_bits: 7, ..Input::default() }, "warp_bits and local_bits: 17 bits; a CID has 16"),
        ] {
            assert_eq!(answer(&input).unwrap_err().to_string(), words);
        }
    }

    #[test]
    fn a_grant_that_is_too_small_is_said() {
        let outcome = answer(&Input { granted: 7, ..Input::default() }).unwrap();
        assert_eq!(outcome.bound, "the grant: 132 queue pairs are wanted, 7 granted");
    }
}
