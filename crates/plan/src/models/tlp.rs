//! `tlp`: what packet headers leave of a PCIe link.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::links::{LINK, speed};
use crate::model::{Outcome, Preset, Values, model};
use crate::models::percent;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Plot, Series, powers};

inputs! {
    payload_bytes: u64 = 4096, Kind::Bytes, "B", "bytes of a transfer";
    mps_bytes: u64 = 256, Kind::Count(4096), "B", "largest payload of a packet";
    header_bytes: f64 = 24.0, Kind::Number, "B", "header, framing and check of a packet, 20 to 28";
    link: String = "gen5-x16".into(), LINK, "", "kind of link";
    link_gb_per_s: f64 = 63.02, Kind::Positive, "GB/s", "speed of one direction, where the kind is custom", measurable;
    batch: u64 = 1, Kind::Count(65535), "", "commands under one doorbell of each kind";
}

const FORMULA: &[&str] = &[
    "efficiency = payload / (payload + ceil(payload / MPS) * header)",
    "a read, towards the GPU: payload with headers + completion entry (16 + header) + request for the entry (header)",
    "a read, towards the SSD: submission entry (64 + header) + both doorbells (4 + header each) / batch",
];
const SURE: (Sure, &str) =
    (Sure::Specified, "model M10; packet overhead of 20 to 28 bytes (PCIe base specification; Intel AN 690)");
const LIMITS: &[&str] = &[
    "no flow-control and acknowledgement packets, which take one or two per cent more",
    "for small I/Os the block size and the IOPS of an SSD bind long before headers do",
];
const PRESETS: &[Preset] = &[
    Preset { name: "ssd", meaning: "one SSD's Gen5 x4 link", values: r#"{"link": "gen5-x4"}"# },
    Preset { name: "doorbell", meaning: "four bytes in a packet", values: r#"{"payload_bytes": 4}"# },
];
model!("tlp", "what do packet headers leave of a PCIe link?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn on_the_wire(&self) -> f64 {
        let payload = self.payload_bytes as f64;
        payload + self.payload_bytes.div_ceil(self.mps_bytes) as f64 * self.header_bytes
    }

    fn efficiency(&self) -> f64 {
        self.payload_bytes as f64 / self.on_the_wire()
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let (payload, header) = (input.payload_bytes as f64, input.header_bytes);
    let efficiency = input.efficiency();
    let link = speed(&input.link, input.link_gb_per_s);
    let to_gpu = input.on_the_wire() + (16.0 + header) + header;
    let to_ssd = (64.0 + header) + 2.0 * (4.0 + header) / input.batch as f64;
    let bound = match efficiency < 0.5 {
        true => format!("headers: only {} of what is sent is payload", percent(efficiency)),
        false => format!("the link: headers take {} of it", percent(1.0 - efficiency)),
    };
    Ok(Outcome::new(
        bound,
        vec![
            Figure::new("efficiency", efficiency, "", "payload, as a share of what is sent"),
            Figure::new("payload_gb_per_s", link * efficiency, "GB/s", "payload through the link"),
            Figure::new(
                "packets",
                input.payload_bytes.div_ceil(input.mps_bytes),
                "",
                "packets of a transfer",
            ),
            Figure::new("to_gpu_bytes", to_gpu, "B", "all that a read sends towards the GPU"),
            Figure::new("to_gpu_efficiency", payload / to_gpu, "", "payload, as a share of that"),
            Figure::new("to_ssd_bytes", to_ssd, "B", "all that a read sends towards the SSD"),
        ],
    ))
}

fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let line = |header_bytes: f64| {
        let at =
            |bytes: f64| Input { payload_bytes: bytes as u64, header_bytes, ..base.clone() }.efficiency();
        Series::of(format!("{header_bytes} bytes of header"), powers(2, 14), at)
    };
    let lines = [20.0, 24.0, 28.0].map(line).to_vec();
    Ok(Plot::single(
        "Payload as a share of what is sent",
        Axis::log("payload bytes"),
        Axis::linear("share of payload"),
        lines,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_packet_is_the_best_there_is() {
        let best = Input { payload_bytes: 256, ..Input::default() }.efficiency();
        for payload_bytes in 1..5000 {
            let here = Input { payload_bytes, ..Input::default() }.efficiency();
            assert!(here > 0.0 && here <= best + 1e-12, "{payload_bytes}");
        }
        assert_eq!(best, crate::links::PACKET_EFFICIENCY);
    }
}
