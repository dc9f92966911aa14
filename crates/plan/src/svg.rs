//! Draws plots: panels beside each other, lines, axes with round marks, a legend.

use std::fmt::Write;

use crate::number::shown;
use crate::plot::{Axis, Panel, Plot};

const PANEL: (f64, f64) = (330.0, 260.0);
const LEFT: f64 = 70.0;
const TOP: f64 = 60.0;
const GAP: f64 = 30.0;
const BELOW: f64 = 60.0;
const LEGEND_ROW: f64 = 16.0;
pub(crate) const GRID: &str = "#ddd";
pub(crate) const AXIS: &str = "#555";
/// Okabe and Ito's colours, which people who see fewer colours tell apart too.
pub(crate) const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"];

/// Dashes of the lines, each another: where lines lie on each other, all of them show.
pub(crate) const DASHES: [&str; 8] = ["none", "9 5", "3 4", "14 4 3 4", "6 8", "2 8", "14 10", "1 3"];

/// Where values of an axis lie.
pub(crate) struct Scale {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) log: bool,
}

impl Scale {
    /// Over all values; linear axes start at zero.
    fn over(values: impl Iterator<Item = f64> + Clone, axis: &Axis) -> Scale {
        let smallest = values.clone().filter(|value| !axis.log || *value > 0.0).fold(f64::INFINITY, f64::min);
        let largest = values.fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = match axis.log {
            true => (smallest, largest),
            false => (smallest.min(0.0), largest),
        };
        match from.is_finite() && to > from {
            true => Scale { from, to, log: axis.log },
            false => Scale { from: 0.0, to: 1.0, log: false },
        }
    }

    /// Up to a round mark, so that no line lies on the edge without a number beside it.
    fn up_to_a_mark(self) -> Scale {
        if self.log {
            return self;
        }
        let step = round_step((self.to - self.from) / 5.0);
        Scale { to: (self.to / step * (1.0 - 1e-9)).ceil() * step, ..self }
    }

    /// From 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.log {
            true => (value.max(self.from) / self.from).ln() / (self.to / self.from).ln(),
            false => (value - self.from) / (self.to - self.from),
        }
    }

    pub(crate) fn marks(&self) -> Vec<f64> {
        match self.log {
            true => self.log_marks(),
            false => {
                let step = round_step((self.to - self.from) / 5.0);
                let first = (self.from / step).ceil() as i64;
                let last = (self.to / step * (1.0 + 1e-9)).floor() as i64;
                (first..=last).map(|count| count as f64 * step).collect()
            }
        }
    }

    /// About six: powers of two where the axis begins with one, and powers of ten elsewhere.
    fn log_marks(&self) -> Vec<f64> {
        let octaves = (self.to / self.from).log2();
        let factor = match octaves {
            _ if self.from.log2().fract() != 0.0 => 10.0,
            octaves if octaves <= 8.0 => 2.0,
            octaves if octaves <= 16.0 => 8.0,
            _ => 64.0,
        };
        let mut marks = vec![];
        let mut mark = if factor == 10.0 { 10f64.powf(self.from.log10().ceil()) } else { self.from };
        while mark <= self.to * (1.0 + 1e-9) {
            marks.push(mark);
            mark *= factor;
        }
        marks
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
pub(crate) fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= step * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

pub(crate) fn draw(plot: &Plot) -> String {
    let points = || plot.panels.iter().flat_map(|panel| &panel.series).flat_map(|series| &series.points);
    let x = Scale::over(points().map(|point| point.0), &plot.x);
    let y = Scale::over(points().map(|point| point.1), &plot.y).up_to_a_mark();
    let rows = plot.panels.iter().map(|panel| panel.series.len()).max().unwrap_or(0) as f64;
    let count = plot.panels.len() as f64;
    let width = LEFT + count * (PANEL.0 + GAP);
    let height = TOP + PANEL.1 + BELOW + rows * LEGEND_ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text(&mut out, (LEFT, 22.0), "start", 14, &plot.title);
    let middle = TOP + PANEL.1 / 2.0;
    let _ = writeln!(
        out,
        "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(plot.y.label)
    );
    for (index, one) in plot.panels.iter().enumerate() {
        panel(&mut out, one, LEFT + index as f64 * (PANEL.0 + GAP), (&x, &y), (plot.x.label, index == 0));
    }
    out + "</svg>\n"
}

/// A panel whose left edge is at `left`; the first names the marks of the y axis.
fn panel(out: &mut String, panel: &Panel, left: f64, (x, y): (&Scale, &Scale), (label, first): (&str, bool)) {
    let at =
        |point: (f64, f64)| (left + x.place(point.0) * PANEL.0, TOP + (1.0 - y.place(point.1)) * PANEL.1);
    let (bottom, right) = (TOP + PANEL.1, left + PANEL.0);
    text(out, (left + PANEL.0 / 2.0, TOP - 10.0), "middle", 12, &panel.title);
    for mark in x.marks() {
        let place = at((mark, y.from)).0;
        line(out, (place, TOP), (place, bottom), GRID);
        text(out, (place, bottom + 16.0), "middle", 10, &short(mark, x.log));
    }
    for mark in y.marks() {
        let place = at((x.from, mark)).1;
        line(out, (left, place), (right, place), GRID);
        if first {
            text(out, (left - 6.0, place + 4.0), "end", 10, &short(mark, false));
        }
    }
    line(out, (left, TOP), (left, bottom), AXIS);
    line(out, (left, bottom), (right, bottom), AXIS);
    text(out, (left + PANEL.0 / 2.0, bottom + 36.0), "middle", 11, label);
    for (index, series) in panel.series.iter().enumerate() {
        let row = bottom + BELOW + index as f64 * LEGEND_ROW;
        polyline(out, index, series.points.iter().map(|point| at(*point)));
        polyline(out, index, [(left, row - 4.0), (left + 30.0, row - 4.0)].into_iter());
        text(out, (left + 36.0, row), "start", 11, &series.name);
    }
}

/// A line of the plot, or its sample in the legend.
fn polyline(out: &mut String, index: usize, places: impl Iterator<Item = (f64, f64)>) {
    let (colour, dashes) = (COLOURS[index % COLOURS.len()], DASHES[index % DASHES.len()]);
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
        places.map(pair).collect::<Vec<_>>().join(" ")
    );
}

pub(crate) fn pair((x, y): (f64, f64)) -> String {
    format!("{x:.1},{y:.1}")
}

/// A mark: bytes and counts of a log axis as powers of 1024 where they are.
fn short(mark: f64, log: bool) -> String {
    let units = [(1u64 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let whole = units.into_iter().find(|(unit, _)| log && mark >= *unit as f64 && mark % *unit as f64 == 0.0);
    match whole {
        Some((unit, name)) => format!("{}{name}", shown(mark / unit as f64)),
        None => shown(mark),
    }
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    );
}

fn text(out: &mut String, (x, y): (f64, f64), anchor: &str, size: u32, words: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{}</text>",
        escaped(words)
    );
}

/// Words in a document of XML or HTML, also in quotes.
pub fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn marks_are_round_and_inside() {
        let scale = Scale::over([0.0, 57.6].into_iter(), &Axis::linear("y"));
        assert_eq!(scale.marks(), [0.0, 20.0, 40.0]);
        let log = Scale::over([1024.0, 4096.0].into_iter(), &Axis::log("x"));
        assert_eq!(log.marks(), [1024.0, 2048.0, 4096.0]);
        assert_eq!((log.place(1024.0), log.place(2048.0), log.place(4096.0)), (0.0, 0.5, 1.0));
        assert_eq!((short(1048576.0, true), short(1.5, false)), ("1Mi".to_owned(), "1.5".to_owned()));
        let odd = Scale::over([0.301, 1233.0].into_iter(), &Axis::log("us"));
        assert_eq!(odd.marks(), [1.0, 10.0, 100.0, 1000.0]);
        let up = Scale::over([0.0, 57.6].into_iter(), &Axis::linear("y")).up_to_a_mark();
        assert_eq!((up.to, up.marks()), (60.0, vec![0.0, 20.0, 40.0, 60.0]));
        // One point alone has no extent.
        assert_eq!(Scale::over([3.0].into_iter(), &Axis::log("x")).place(0.5), 0.5);
    }

    #[test]
    fn lines_that_lie_on_each_other_can_be_told_apart() {
        let mut out = String::new();
        (0..COLOURS.len()).for_each(|index| polyline(&mut out, index, [(0.0, 0.0), (1.0, 1.0)].into_iter()));
        let dashes: BTreeSet<&str> = out.lines().filter_map(|line| line.split("dasharray").nth(1)).collect();
        assert_eq!(dashes.len(), COLOURS.len(), "{dashes:?}");
    }
}
