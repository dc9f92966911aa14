//! Values of named rows: bars from zero, or marks on a scale of factors.

use std::fmt::Write;

use super::{CHARACTER, ChartAxis, Picture, Placed, STYLES, TOP, open, shape, words};
use crate::svg::{AXIS, COLOURS, GRID, escaped};

const ROW: f64 = 24.0;
const PLOT: f64 = 320.0;
const RIGHT: f64 = 34.0;
const BELOW: f64 = 46.0;

/// Values of named rows, which go right from their names.
#[derive(Clone, Debug)]
pub struct Rows {
    /// What it shows, for who hears it.
    pub title: String,
    /// What the values are.
    pub axis: ChartAxis,
    /// Names of the rows, from the top.
    pub names: Vec<String>,
    /// The values.
    pub marks: Vec<RowMark>,
}

/// A value of a row.
#[derive(Clone, Debug)]
pub struct RowMark {
    /// Which row.
    pub row: usize,
    /// Its style.
    pub style: usize,
    /// Whether it is a bar from zero, and no mark.
    pub bar: bool,
    /// How much.
    pub value: f64,
    /// The ends of the interval that holds the true value.
    pub range: Option<(f64, f64)>,
    /// What it says when it is pointed at.
    pub title: String,
}

impl Rows {
    /// The picture, an element of a page.
    pub fn picture(&self) -> Picture {
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
        let (left, bottom) = (16.0 + longest * CHARACTER, TOP + self.names.len() as f64 * ROW);
        let values = self.marks.iter().flat_map(|mark| {
            let (low, high) = mark.range.unwrap_or((mark.value, mark.value));
            [mark.value, low, high]
        });
        let placed = Placed::of(&self.axis, values);
        let (width, height) = (left + PLOT + RIGHT, bottom + BELOW);
        let mut out = open(width, height, &self.title);
        self.frame(&mut out, &placed, (left, bottom));
        let at = |value: f64| left + placed.scale.place(value) * PLOT;
        // Marks lie on bars, whatever the order in which they come.
        let (bars, marks): (Vec<&RowMark>, Vec<&RowMark>) = self.marks.iter().partition(|mark| mark.bar);
        bars.into_iter().chain(marks).for_each(|mark| mark.draw(&mut out, left, &at));
        Picture { width, height, svg: out + "</svg>\n" }
    }

    fn frame(&self, out: &mut String, placed: &Placed, (left, bottom): (f64, f64)) {
        for (value, name) in placed.apart(PLOT) {
            let x = left + placed.scale.place(value) * PLOT;
            let _ = writeln!(
                out,
                "<path class=\"g\" d=\"M{x:.1} {TOP}V{bottom}\" fill=\"none\" stroke=\"{GRID}\"/>"
            );
            words(out, (x, bottom + 17.0), "middle", name);
        }
        let _ = writeln!(
            out,
            "<path class=\"a\" d=\"M{left} {TOP}V{bottom}H{:.1}\" fill=\"none\" stroke=\"{AXIS}\"/>",
            left + PLOT
        );
        for (index, name) in self.names.iter().enumerate() {
            words(out, (left - 7.0, TOP + (index as f64 + 0.5) * ROW + 4.0), "end", name);
        }
        words(out, (left + PLOT / 2.0, bottom + BELOW - 9.0), "middle", &self.axis.label);
    }
}

impl RowMark {
    fn draw(&self, out: &mut String, left: f64, at: &impl Fn(f64) -> f64) {
        let middle = TOP + (self.row as f64 + 0.5) * ROW;
        let (class, x) = (self.style % STYLES, at(self.value));
        let (path, opacity) = match self.bar {
            true => (format!("M{left:.1} {:.1}H{x:.1}v14H{left:.1}z", middle - 7.0), "0.5"),
            false => (shape(self.style, (x, middle), 4.5), "1"),
        };
        let (colour, title) = (COLOURS[class], escaped(&self.title));
        let _ = writeln!(
            out,
            "<path class=\"f s{class}\" d=\"{path}\" fill=\"{colour}\" fill-opacity=\"{opacity}\" \
             stroke=\"{colour}\"><title>{title}</title></path>"
        );
        if let Some((low, high)) = self.range.filter(|(low, high)| low < high) {
            let (low, high) = (at(low), at(high));
            let _ = writeln!(
                out,
                "<path class=\"w\" d=\"M{low:.1} {:.1}v8m0 -4H{high:.1}m0 -4v8\" fill=\"none\" stroke=\"{AXIS}\" \
                 stroke-width=\"1.5\"/>",
                middle - 4.0
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_drawn_with_its_words_inside_the_picture() {
        let mark = |row, bar: bool, value, range| RowMark {
            row,
            style: usize::from(!bar),
            bar,
            value,
            range,
            title: format!("<{value}>"),
        };
        let rows = Rows {
            title: "t & u".to_owned(),
            axis: ChartAxis { label: "IOPS".to_owned(), ..ChartAxis::default() },
            names: vec!["one".to_owned(), "a longer one".to_owned()],
            marks: vec![
                mark(0, false, 4.0, None),
                mark(0, true, 10.0, Some((8.0, 12.0))),
                mark(1, true, 0.0, None),
            ],
        };
        let text = rows.picture().svg;
        for title in ["&lt;4&gt;", "&lt;10&gt;", "&lt;0&gt;", "t &amp; u"] {
            assert_eq!(text.matches(title).count(), 1, "{title}: {text}");
        }
        assert_eq!(text.matches("class=\"w\"").count(), 1, "one interval: {text}");
        let first = text.find("&lt;10&gt;").unwrap();
        assert!(first < text.find("&lt;4&gt;").unwrap(), "a mark lies on its bar");
        assert!(!text.contains("NaN"));
    }
}
