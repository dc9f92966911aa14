//! Charts of measured points for a page: lines with marks, each with its words, and heat maps. Colours are classes, which
//! the page's style gives a light and a dark form; without it a chart has those of `svg`.

mod figure;
mod rows;

use std::fmt::Write;

pub use figure::{Figure, Picture};
pub use rows::{RowMark, Rows};

use crate::svg::{AXIS, COLOURS, DASHES, GRID, Scale, escaped, pair, round_step};

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 50.0;
/// Of a character of a number, about.
const CHARACTER: f64 = 7.2;
/// Kinds of lines that can be told apart.
pub const STYLES: usize = COLOURS.len();

/// Lines over common axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows, for who hears it.
    pub title: String,
    /// The input.
    pub x: ChartAxis,
    /// The result.
    pub y: ChartAxis,
    /// The lines, at most [`STYLES`] to be told apart.
    pub lines: Vec<Line>,
}

/// An axis.
#[derive(Clone, Debug, Default)]
pub struct ChartAxis {
    /// What it shows, with its unit.
    pub label: String,
    /// Whether its steps are factors.
    pub log: bool,
    /// Values with names; round ones are marked where there are none.
    pub ticks: Vec<(f64, String)>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its points.
    pub points: Vec<Mark>,
    /// Single values behind the points, which are not joined.
    pub single: Vec<Mark>,
    /// Whether its points have marks.
    pub marked: bool,
    /// Whether they are joined.
    pub joined: bool,
}

/// A point of a line.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Where.
    pub x: f64,
    /// How much.
    pub y: f64,
    /// The ends of the interval that holds the true value.
    pub range: Option<(f64, f64)>,
    /// What it says when it is pointed at.
    pub title: String,
}

/// Values over two inputs.
#[derive(Clone, Debug)]
pub struct Heat {
    /// What it shows, for who hears it.
    pub title: String,
    /// Names of the input that goes right, and of its values.
    pub columns: (String, Vec<String>),
    /// Of the one that goes down.
    pub rows: (String, Vec<String>),
    /// Column, row, value, and what the cell says when it is pointed at.
    pub cells: Vec<(usize, usize, f64, String)>,
    /// The values of the faintest and the strongest colour: maps beside each other have the same.
    pub range: (f64, f64),
}

/// A number with three digits and a unit of thousands: `1.5M`, `152k`, `0.031`.
pub fn si(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let unit = units.into_iter().find(|(unit, _)| value.abs() >= unit * 0.9995);
    let (unit, name) = unit.unwrap_or((1.0, ""));
    let value = value / unit;
    // Zeroes behind the point of 0.031 are no digits of it.
    let whole = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let digits = format!("{value:.*}", usize::try_from(2 - whole).unwrap_or(0).min(6));
    let short =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    format!("{short}{name}")
}

/// The beginning of an `svg` element of this size.
fn open(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg class=\"chart\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n",
        escaped(title)
    )
}

fn words(out: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = escaped(text);
    let _ =
        writeln!(out, "<text class=\"t\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn upright(out: &mut String, middle: f64, text: &str) {
    let _ = writeln!(
        out,
        "<text class=\"t\" transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(text)
    );
}

/// The mark of each style, around a place: shapes differ as colours and dashes do.
fn shape(style: usize, (x, y): (f64, f64), size: f64) -> String {
    let (a, b) = (size, size * 0.8);
    match style % STYLES {
        0 => format!(
            "M{:.1} {y:.1}a{a:.1} {a:.1} 0 1 0 {:.1} 0a{a:.1} {a:.1} 0 1 0 -{:.1} 0z",
            x - a,
            2.0 * a,
            2.0 * a
        ),
        1 => format!("M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z", x - b, y - b, 2.0 * b, 2.0 * b, 2.0 * b),
        2 => format!("M{x:.1} {:.1}l{a:.1} {:.1}h-{:.1}z", y - a, 1.8 * a, 2.0 * a),
        3 => format!("M{x:.1} {:.1}l{a:.1} {a:.1}l-{a:.1} {a:.1}l-{a:.1} -{a:.1}z", y - a),
        4 => format!("M{x:.1} {:.1}l{a:.1} -{:.1}h-{:.1}z", y + a, 1.8 * a, 2.0 * a),
        5 => format!(
            "M{:.1} {y:.1}h{:.1}v1.6h-{:.1}zM{:.1} {:.1}h1.6v{:.1}h-1.6z",
            x - a,
            2.0 * a,
            2.0 * a,
            x - 0.8,
            y - a,
            2.0 * a
        ),
        6 => format!("M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z", x - 0.4 * a, y - a, 0.8 * a, 2.0 * a, 0.8 * a),
        _ => format!("M{:.1} {:.1}h{:.1}v{:.1}h-{:.1}z", x - a, y - 0.4 * a, 2.0 * a, 0.8 * a, 2.0 * a),
    }
}

fn stroke(style: usize, places: &[(f64, f64)]) -> String {
    let at = style % STYLES;
    format!(
        "<polyline class=\"l s{at}\" points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\" \
         stroke-dasharray=\"{}\"/>\n",
        places.iter().map(|place| pair(*place)).collect::<Vec<_>>().join(" "),
        COLOURS[at],
        DASHES[at]
    )
}

/// The sample of a style, for a legend.
pub fn swatch(style: usize, marked: bool) -> String {
    let mut out =
        "<svg class=\"swatch\" viewBox=\"0 0 34 12\" width=\"34\" height=\"12\" aria-hidden=\"true\">"
            .to_owned();
    out += stroke(style, &[(0.0, 6.0), (34.0, 6.0)]).trim_end();
    if marked {
        let (at, path) = (style % STYLES, shape(style, (17.0, 6.0), 4.5));
        let _ = write!(out, "<path class=\"f s{at}\" d=\"{path}\" fill=\"{}\"/>", COLOURS[at]);
    }
    out + "</svg>"
}

/// The sample of a bar, for a legend.
pub fn bar_swatch() -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 34 12\" width=\"34\" height=\"12\" aria-hidden=\"true\">\
         <path class=\"f s0\" d=\"M1 1H33V11H1Z\" fill=\"{0}\" stroke=\"{0}\" fill-opacity=\"0.5\"/></svg>",
        COLOURS[0]
    )
}

/// An axis with its place on the picture.
struct Placed {
    scale: Scale,
    ticks: Vec<(f64, String)>,
}

impl Placed {
    fn of(axis: &ChartAxis, values: impl Iterator<Item = f64> + Clone) -> Placed {
        let scale = match axis.log {
            true => Scale::around(values),
            false if axis.ticks.is_empty() => Scale::from_zero(values),
            false => Scale::beside(values),
        };
        let ticks = match axis.ticks.is_empty() {
            true => scale.round_marks().into_iter().map(|mark| (mark, si(mark))).collect(),
            false => axis.ticks.clone(),
        };
        Placed { scale, ticks }
    }

    /// Without those whose words would lie on the words before them.
    fn apart(&self, length: f64) -> Vec<(f64, &str)> {
        let mut free = f64::NEG_INFINITY;
        let mut shown = Vec::new();
        for (value, name) in &self.ticks {
            let (place, half) =
                (self.scale.place(*value) * length, name.chars().count() as f64 * CHARACTER / 2.0);
            if place - half > free {
                free = place + half + 4.0;
                shown.push((*value, name.as_str()));
            }
        }
        shown
    }
}

impl Chart {
    /// The picture, an element of a page.
    pub fn picture(&self) -> Picture {
        let all = || self.lines.iter().flat_map(|line| line.points.iter().chain(&line.single));
        let heights = || {
            all().flat_map(|mark| {
                [
                    mark.y,
                    mark.range.map_or(mark.y, |range| range.0),
                    mark.range.map_or(mark.y, |range| range.1),
                ]
            })
        };
        let x = Placed::of(&self.x, all().map(|mark| mark.x));
        let y = Placed::of(&self.y, heights());
        let mut out = open(WIDTH, HEIGHT, &self.title);
        self.frame(&mut out, &x, &y);
        let at = |mark: (f64, f64)| {
            let (right, up) = (x.scale.place(mark.0), y.scale.place(mark.1));
            (LEFT + right * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM))
        };
        for (style, line) in self.lines.iter().enumerate() {
            line.draw(&mut out, style, &at);
        }
        Picture { width: WIDTH, height: HEIGHT, svg: out + "</svg>\n" }
    }

    fn frame(&self, out: &mut String, x: &Placed, y: &Placed) {
        let (width, height) = (WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut line = |class: &str, colour: &str, path: String| {
            let _ = writeln!(out, "<path class=\"{class}\" d=\"{path}\" fill=\"none\" stroke=\"{colour}\"/>");
        };
        for (value, _) in x.apart(width) {
            line("g", GRID, format!("M{:.1} {TOP}V{bottom}", LEFT + x.scale.place(value) * width));
        }
        for (value, _) in &y.ticks {
            line("g", GRID, format!("M{LEFT} {:.1}H{right}", bottom - y.scale.place(*value) * height));
        }
        line("a", AXIS, format!("M{LEFT} {TOP}V{bottom}H{right}"));
        for (value, name) in x.apart(width) {
            words(out, (LEFT + x.scale.place(value) * width, bottom + 17.0), "middle", name);
        }
        for (value, name) in &y.ticks {
            words(out, (LEFT - 7.0, bottom - y.scale.place(*value) * height + 4.0), "end", name);
        }
        words(out, (LEFT + width / 2.0, HEIGHT - 9.0), "middle", &self.x.label);
        upright(out, TOP + height / 2.0, &self.y.label);
    }
}

impl Line {
    fn draw(&self, out: &mut String, style: usize, at: &impl Fn((f64, f64)) -> (f64, f64)) {
        let (class, colour) = (style % STYLES, COLOURS[style % STYLES]);
        let places: Vec<_> = self.points.iter().map(|mark| at((mark.x, mark.y))).collect();
        if self.joined && places.len() > 1 {
            out.push_str(&stroke(style, &places));
        }
        let mut dot = |kind: &str, path: String, title: &str| {
            let _ = writeln!(
                out,
                "<path class=\"{kind} s{class}\" d=\"{path}\" fill=\"{colour}\" stroke=\"{colour}\"><title>{}</title></path>",
                escaped(title)
            );
        };
        for mark in &self.single {
            dot("one", shape(style, at((mark.x, mark.y)), 2.2), &mark.title);
        }
        for mark in self.points.iter().filter(|_| self.marked) {
            let (x, y) = at((mark.x, mark.y));
            let bar = mark.range.filter(|(low, high)| low < high).map(|(low, high)| {
                let (low, high) = (at((mark.x, low)).1, at((mark.x, high)).1);
                format!("M{:.1} {low:.1}h8v1h-3.5V{high:.1}h3.5v-1h-8v1h3.5V{low:.1}h-3.5z", x - 4.0)
            });
            dot("f", shape(style, (x, y), 4.5) + &bar.unwrap_or_default(), &mark.title);
        }
    }
}

impl Heat {
    /// The picture, an element of a page.
    pub fn picture(&self) -> Picture {
        let names = self.rows.1.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
        let widest = self.columns.1.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
        let (left, cell) = (34.0 + names * CHARACTER, (54.0f64.max(widest * CHARACTER + 8.0), 28.0));
        let (columns, rows) = (self.columns.1.len() as f64, self.rows.1.len() as f64);
        let (width, height) = ((left + columns * cell.0 + 10.0).max(260.0), TOP + rows * cell.1 + BOTTOM);
        let mut out = open(width, height, &self.title);
        let (least, most) = self.range;
        for (column, row, value, title) in &self.cells {
            let (x, y) = (left + *column as f64 * cell.0, TOP + *row as f64 * cell.1);
            let share = if most > least { (value - least) / (most - least) } else { 0.5 };
            let _ = writeln!(
                out,
                "<rect class=\"h s0\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\" \
                 fill-opacity=\"{:.2}\"><title>{}</title></rect>",
                cell.0 - 2.0,
                cell.1 - 2.0,
                COLOURS[0],
                0.05 + 0.5 * share,
                escaped(title)
            );
            words(&mut out, (x + cell.0 / 2.0 - 1.0, y + cell.1 / 2.0 + 3.0), "middle", &si(*value));
        }
        for (index, name) in self.columns.1.iter().enumerate() {
            let x = left + (index as f64 + 0.5) * cell.0;
            words(&mut out, (x, TOP + rows * cell.1 + 15.0), "middle", name);
        }
        for (index, name) in self.rows.1.iter().enumerate() {
            words(&mut out, (left - 6.0, TOP + (index as f64 + 0.5) * cell.1 + 4.0), "end", name);
        }
        words(&mut out, (left + columns * cell.0 / 2.0, height - 9.0), "middle", &self.columns.0);
        upright(&mut out, TOP + rows * cell.1 / 2.0, &self.rows.0);
        Picture { width, height, svg: out + "</svg>\n" }
    }
}

impl Scale {
    /// Over values whose steps are factors, up to 1, 2 or 5 times a power of ten on both sides.
    fn around(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let positive = || values.clone().filter(|value| *value > 0.0);
        let (from, to) = (positive().fold(f64::INFINITY, f64::min), positive().fold(0.0, f64::max));
        match from.is_finite() {
            true if to > from * 1.05 => {
                Scale { from: one_two_five(from, false), to: one_two_five(to, true), log: true }
            }
            true => Scale { from: from / 2.0, to: to * 2.0, log: true },
            false => Scale { from: 0.1, to: 1.0, log: true },
        }
    }

    /// From zero to a round mark.
    fn from_zero(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let most = values.fold(0.0, f64::max);
        let step = round_step(if most > 0.0 { most } else { 1.0 } / 5.0);
        Scale { from: 0.0, to: ((most / step * (1.0 - 1e-9)).ceil() * step).max(step), log: false }
    }

    /// With room on both sides, for values that have names.
    fn beside(values: impl Iterator<Item = f64> + Clone) -> Scale {
        let (from, to) =
            (values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max));
        let room = if to > from { (to - from) * 0.04 } else { 0.5 };
        if from.is_finite() {
            Scale { from: from - room, to: to + room, log: false }
        } else {
            Scale { from: 0.0, to: 1.0, log: false }
        }
    }

    /// Powers of ten, with twice and five times these where there would be less than four.
    fn round_marks(&self) -> Vec<f64> {
        if !self.log {
            return self.marks();
        }
        let inside = |mark: &f64| (self.from * (1.0 - 1e-9)..=self.to * (1.0 + 1e-9)).contains(mark);
        let powers = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let tens: Vec<f64> = powers.clone().map(|power| 10f64.powi(power)).filter(inside).collect();
        if tens.len() >= 4 {
            return tens;
        }
        powers
            .flat_map(|power| [1.0, 2.0, 5.0].map(|factor| factor * 10f64.powi(power)))
            .filter(inside)
            .collect()
    }
}

/// The next 1, 2 or 5 times a power of ten, above or below.
fn one_two_five(value: f64, above: bool) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let mut steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power);
    match above {
        true => steps.find(|step| *step >= value * (1.0 - 1e-9)).unwrap_or(value),
        false => steps.rev().find(|step| *step <= value * (1.0 + 1e-9)).unwrap_or(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(places: &[(f64, f64)]) -> Vec<Mark> {
        let mark = |(x, y): &(f64, f64)| Mark { x: *x, y: *y, range: None, title: format!("{x}: <{y}>") };
        places.iter().map(mark).collect()
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (1500.0, "1.5k"),
            (123_456.0, "123k"),
            (999_700.0, "1M"),
            (2e6, "2M"),
            (0.031, "0.031"),
            (0.8, "0.8"),
            (12.34, "12.3"),
            (-5.0, "-5"),
        ] {
            assert_eq!(si(value), text);
        }
    }

    #[test]
    fn every_point_is_a_mark_with_its_words() {
        let points = marks(&[(1.0, 10.0), (2.0, 25.0), (4.0, 70.0)]);
        let line = Line { single: marks(&[(1.0, 9.0)]), points, marked: true, joined: true };
        let axis = |log| ChartAxis { label: "a & b".to_owned(), log, ticks: vec![] };
        let svg =
            Chart { title: "t".to_owned(), x: axis(true), y: axis(true), lines: vec![line] }.picture().svg;
        assert_eq!((svg.matches("<title>").count(), svg.matches("<polyline").count()), (4, 1));
        assert!(svg.contains("<title>2: &lt;25&gt;</title>") && svg.contains("a &amp; b"), "{svg}");
        let widest =
            svg.split(['"', ' ', ',']).filter_map(|word| word.parse::<f64>().ok()).fold(0.0, f64::max);
        assert!(widest <= WIDTH, "nothing lies outside: {widest}");
    }

    #[test]
    fn axes_end_at_round_values_around_all() {
        let scale = Scale::around([12e3, 83e3].into_iter());
        assert!(
            (scale.from - 1e4).abs() < 1e-6 && (scale.to - 1e5).abs() < 1e-6,
            "{} {}",
            scale.from,
            scale.to
        );
        assert_eq!(
            scale.round_marks().iter().map(|mark| si(*mark)).collect::<Vec<_>>(),
            ["10k", "20k", "50k", "100k"]
        );
        assert!(Scale::around([5.0].into_iter()).to > 5.0, "one value has room, too");
        assert_eq!(Scale::from_zero([0.0].into_iter()).to, 0.2);
    }

    #[test]
    fn names_do_not_lie_on_each_other() {
        let ticks: Vec<(f64, String)> =
            (0..200).map(|value| (f64::from(value), format!("name {value}"))).collect();
        let placed = Placed { scale: Scale { from: 0.0, to: 199.0, log: false }, ticks };
        let shown = placed.apart(400.0);
        assert!((2..10).contains(&shown.len()), "{}", shown.len());
    }

    #[test]
    fn a_heat_map_has_a_cell_for_each_value() {
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let heat = Heat {
            title: "t".to_owned(),
            columns: ("c".to_owned(), names(&["1", "2"])),
            rows: ("r".to_owned(), names(&["4k", "8k"])),
            cells: vec![(0, 0, 1.0, "a".to_owned()), (1, 1, 3000.0, "b".to_owned())],
            range: (1.0, 3000.0),
        };
        let svg = heat.picture().svg;
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains(">3k<") && svg.contains("fill-opacity=\"0.55\""), "{svg}");
    }
}
