//! `reg`: what registering a buffer for DMA costs, and after how many I/Os it has paid for itself.

use crate::answer::{Figure, Sure};
use crate::error::Error;
use crate::model::{Outcome, Preset, Values, model};
use crate::models::percent;
use crate::param::{Kind, inputs, read};
use crate::plot::{Axis, Panel, Plot, Series, powers};

inputs! {
    bytes: u64 = 1 << 30, Kind::Bytes, "B", "bytes of the buffer";
    transfer_bytes: u64 = 0, Kind::MaybeBytes, "B", "bytes of one transfer; 0: the whole buffer";
    variant: String = "pages".into(), Kind::Choice(&["pages", "flat"]), "", "pages: a cost for each page; flat: one walk of the GPU's page tables";
    page_bytes: u64 = 4096, Kind::Bytes, "B", "bytes of a page", measurable;
    fixed_us: f64 = 10.0, Kind::Number, "us", "cost of any registration", measurable;
    page_us: f64 = 1.0, Kind::Number, "us", "cost of one page", measurable;
    walk_us: f64 = 20.0, Kind::Number, "us", "cost of the walk, where it is flat", measurable;
    link_gb_per_s: f64 = 12.5, Kind::Positive, "GB/s", "speed of transfers";
    direct_gb_per_s: f64 = 12.5, Kind::Positive, "GB/s", "speed of transfers on the way that was set up once";
    ios: u64 = 1, Kind::Count(1 << 40), "", "transfers";
    keep: String = "per-io".into(), Kind::Choice(&["per-io", "persistent"]), "", "per-io: registered for each transfer; persistent: once";
    setup_us: f64 = 50.0, Kind::Number, "us", "cost of setting the other way up, once", measurable;
    other_us: f64 = 200.0, Kind::Positive, "us", "registration by other means, to compare with";
}

const FORMULA: &[&str] = &[
    "T_reg = T_fixed + ceil(bytes / page) * T_page, or T_fixed + T_walk where it is flat",
    "T_x = transfer bytes / link",
    "R_eff(n) = n * T_x / (k * T_reg + n * T_x), k = n (per-io) or 1 (persistent)",
    "crossover n* = floor(T_setup / (T_reg + T_x - T'_x)) + 1, none where the bracket is not above 0",
];
const SURE: (Sure, &str) = (
    Sure::Model,
    "model M1 and M2; the default constants are those of an article, from no measurement of ours",
);
const LIMITS: &[&str] = &[
    "nothing else happens at the same time: no contention for locks of the kernel, no pages to be faulted in",
    "huge pages and merged IOMMU entries are not modelled; give another page size for them",
];
const PRESETS: &[Preset] = &[
    Preset {
        name: "cpu-lo",
        meaning: "4 KiB pages, the source's lower end",
        values: r#"{"page_bytes": 4096, "fixed_us": 5, "page_us": 0.5}"#,
    },
    Preset {
        name: "cpu-hi",
        meaning: "4 KiB pages, the source's upper end",
        values: r#"{"page_bytes": 4096, "fixed_us": 10, "page_us": 1}"#,
    },
    Preset {
        name: "gpu-flat",
        meaning: "a walk whose cost does not grow",
        values: r#"{"variant": "flat", "fixed_us": 10, "walk_us": 50}"#,
    },
    Preset {
        name: "gpu-page",
        meaning: "64 KiB pages of a GPU",
        values: r#"{"page_bytes": 65536, "fixed_us": 10, "page_us": 1}"#,
    },
];
model!("reg", "what does registering a buffer for DMA cost, and when has it paid for itself?", presets: PRESETS, plot: Some(plot));

impl Input {
    fn pages(&self) -> u64 {
        self.bytes.div_ceil(self.page_bytes)
    }

    /// One registration, in microseconds.
    pub(super) fn time_us(&self) -> f64 {
        match self.variant.as_str() {
            "flat" => self.fixed_us + self.walk_us,
            _ => self.fixed_us + self.pages() as f64 * self.page_us,
        }
    }

    fn moved_bytes(&self) -> f64 {
        if self.transfer_bytes == 0 { self.bytes as f64 } else { self.transfer_bytes as f64 }
    }

    /// The share of time that transfers are.
    fn r_eff(&self, ios: f64, gb_per_s: f64) -> f64 {
        let transfers = ios * self.moved_bytes() / gb_per_s / 1e3;
        let registrations = if self.keep == "persistent" { 1.0 } else { ios };
        transfers / (registrations * self.time_us() + transfers)
    }

    /// The same share on the way that was set up once.
    fn set_up_share(&self, ios: f64) -> f64 {
        let transfers = ios * self.moved_bytes() / self.direct_gb_per_s / 1e3;
        transfers / (self.setup_us + transfers)
    }

    fn crossover(&self) -> Option<f64> {
        let (here, there) =
            (self.moved_bytes() / self.link_gb_per_s, self.moved_bytes() / self.direct_gb_per_s);
        let saved = self.time_us() + (here - there) / 1e3;
        (saved > 0.0).then(|| (self.setup_us / saved).floor() + 1.0)
    }
}

fn answer(input: &Input) -> Result<Outcome, Error> {
    let time = input.time_us();
    let transfer = input.moved_bytes() / input.link_gb_per_s / 1e3;
    let share = time / (time + transfer);
    let more = if time > transfer { "registration" } else { "the link" };
    let bound = format!("{more}: registering is {} of one transfer that is registered for", percent(share));
    Ok(Outcome::new(
        bound,
        vec![
            Figure::new("pages", input.pages(), "", "pages to register"),
            Figure::new("time_us", time, "us", "one registration"),
            Figure::new("transfer_us", transfer, "us", "one transfer"),
            Figure::new("registration_share", share, "", "registration, as a share of both"),
            Figure::new(
                "r_eff",
                input.r_eff(input.ios as f64, input.link_gb_per_s),
                "",
                "share of time that transfers are, over all of them",
            ),
            Figure::new(
                "crossover_ios",
                input.crossover(),
                "",
                "transfers after which setting the other way up has paid",
            ),
            Figure::new(
                "times_other",
                time / input.other_us,
                "",
                "one registration, as a multiple of the other means",
            ),
        ],
    ))
}

/// The surface of R_eff: sizes, counts and links.
fn plot(values: &Values) -> Result<Plot, Error> {
    let base: Input = read(values)?;
    let panel = |gb_per_s: f64| {
        let at = |bytes: f64| Input {
            bytes: bytes as u64,
            transfer_bytes: 0,
            link_gb_per_s: gb_per_s,
            direct_gb_per_s: gb_per_s,
            ..base.clone()
        };
        Panel { title: format!("{gb_per_s} GB/s"), series: lines(&base.keep, at) }
    };
    Ok(Plot {
        title: format!("R_eff: share of time that transfers are ({})", base.keep),
        x: Axis::log("bytes of the buffer and of each transfer"),
        y: Axis::linear("R_eff, share of time"),
        panels: [12.5, 25.0, 50.0].map(panel).to_vec(),
    })
}

/// A line for each number of transfers. Registered for each transfer, R_eff is the same for any number: one line, and
/// beside it the way that is set up once, which it crosses where that pays.
fn lines(keep: &str, at: impl Fn(f64) -> Input) -> Vec<Series> {
    let counts = [1.0, 4.0, 16.0, 64.0, 256.0];
    let line = |name: String, share: &dyn Fn(&Input) -> f64| {
        Series::of(name, powers(12, 30), |bytes| share(&at(bytes)))
    };
    if keep == "persistent" {
        let kept =
            |ios: f64| line(format!("transfers: {ios}"), &|input| input.r_eff(ios, input.link_gb_per_s));
        return counts.map(kept).to_vec();
    }
    let each = line("registered for each".into(), &|input| input.r_eff(1.0, input.link_gb_per_s));
    let once = |ios: f64| line(format!("set up once, transfers: {ios}"), &|input| input.set_up_share(ios));
    std::iter::once(each).chain(counts.map(once)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_eff_grows_with_transfers_and_falls_with_speed() {
        let input = Input { keep: "persistent".into(), bytes: 1 << 20, ..Input::default() };
        for count in 1..100 {
            let here = input.r_eff(f64::from(count), 12.5);
            assert!(input.r_eff(f64::from(count + 1), 12.5) > here);
            assert!(input.r_eff(f64::from(count), 25.0) < here);
        }
        assert!(input.r_eff(1e12, 12.5) > 0.999_999);
        let each = Input { keep: "per-io".into(), ..input };
        assert_eq!(each.r_eff(1.0, 12.5), each.r_eff(64.0, 12.5));
    }

    #[test]
    fn nothing_is_gained_where_the_other_way_is_slower_by_more() {
        let slow = Input { direct_gb_per_s: 0.001, ..Input::default() };
        assert_eq!(slow.crossover(), None);
    }

    #[test]
    fn the_surface_crosses_where_the_crossover_says() {
        let plot = plot(&(MODEL.defaults)()).unwrap();
        let series = &plot.panels[0].series;
        let each = &series[0].points;
        for (line, ios) in series[1..].iter().zip([1.0, 4.0, 16.0, 64.0, 256.0]) {
            for ((bytes, once), (_, registered)) in line.points.iter().zip(each) {
                let input = Input { bytes: *bytes as u64, ..Input::default() };
                assert_eq!(once > registered, input.crossover().unwrap() <= ios, "{bytes} {ios}");
            }
        }
        let ahead =
            |line: &Series| line.points.iter().zip(each).filter(|(once, each)| once.1 > each.1).count();
        // One transfer pays for large buffers alone, 16 for any.
        assert_eq!([ahead(&series[1]), ahead(&series[2]), ahead(&series[3])], [13, 17, 19]);
    }

    #[test]
    fn the_surface_has_a_point_for_each_size_count_and_link() {
        let plot = plot(&(MODEL.defaults)()).unwrap();
        assert_eq!(plot.csv().lines().count(), 1 + 19 * 6 * 3);
    }
}
