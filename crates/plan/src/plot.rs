//! How an answer changes over an input: lines, as data. `svg` draws them.

use std::fmt::Write;

/// Lines over a common axis, in one or more panels.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// The input.
    pub x: Axis,
    /// The result.
    pub y: Axis,
    /// Beside each other, with the same axes.
    pub panels: Vec<Panel>,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with its unit.
    pub label: &'static str,
    /// Whether its steps are factors.
    pub log: bool,
}

/// Lines that are compared with each other.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What they have in common.
    pub title: String,
    /// The lines.
    pub series: Vec<Series>,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Series {
    /// What it shows.
    pub name: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

impl Plot {
    /// One row for each point: panel, line, x, y.
    pub fn csv(&self) -> String {
        let mut text = format!("panel,series,{},{}\n", cell(self.x.label), cell(self.y.label));
        for panel in &self.panels {
            for series in &panel.series {
                for (x, y) in &series.points {
                    let _ = writeln!(text, "{},{},{x},{y}", cell(&panel.title), cell(&series.name));
                }
            }
        }
        text
    }

    /// As a picture.
    pub fn svg(&self) -> String {
        crate::svg::draw(self)
    }

    /// One panel.
    pub(crate) fn single(title: impl Into<String>, x: Axis, y: Axis, series: Vec<Series>) -> Plot {
        Plot { title: title.into(), x, y, panels: vec![Panel { title: String::new(), series }] }
    }
}

impl Axis {
    pub(crate) fn linear(label: &'static str) -> Axis {
        Axis { label, log: false }
    }

    pub(crate) fn log(label: &'static str) -> Axis {
        Axis { label, log: true }
    }
}

impl Series {
    /// `y` at each `x`.
    pub(crate) fn of(
        name: impl Into<String>,
        xs: impl IntoIterator<Item = f64>,
        y: impl Fn(f64) -> f64,
    ) -> Series {
        Series { name: name.into(), points: xs.into_iter().map(|x| (x, y(x))).collect() }
    }
}

/// Powers of two from `first` to `last`.
pub(crate) fn powers(first: u32, last: u32) -> impl Iterator<Item = f64> {
    (first..=last).map(|power| 2f64.powi(power as i32))
}

/// A cell of CSV, quoted where it must be.
fn cell(text: &str) -> String {
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_rows_and_a_picture() {
        let line = Series::of("a, b", powers(0, 2), |x| x * 3.0);
        let plot = Plot::single("t <1>", Axis::log("x"), Axis::linear("y"), vec![line]);
        assert_eq!(plot.csv(), "panel,series,x,y\n,\"a, b\",1,3\n,\"a, b\",2,6\n,\"a, b\",4,12\n");
        let svg = plot.svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("t &lt;1&gt;") && svg.contains("<polyline"));
    }
}
