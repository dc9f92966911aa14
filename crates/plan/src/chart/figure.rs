//! A picture with its legend: an element of a page, or a file of its own.

use std::fmt::Write;

use super::{CHARACTER, words};
use crate::svg::escaped;

/// A drawn picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// In pixels.
    pub width: f64,
    /// In pixels.
    pub height: f64,
    /// An `svg` element of this size.
    pub svg: String,
}

/// A picture, its heading and its legend.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What it shows.
    pub heading: String,
    /// The picture.
    pub picture: Picture,
    /// A sample of each style, an `svg` element of 34 times 12 pixels, and what has that style.
    pub key: Vec<(String, String)>,
}

const EDGE: f64 = 12.0;
const LINE: f64 = 18.0;
/// From the left end of a sample to its name.
const NAME: f64 = 42.0;
/// Of a page whose text is as wide as that of the pictures.
const LEAST_WIDTH: f64 = 420.0;

impl Figure {
    /// An element of a page.
    pub fn html(&self) -> String {
        let mut out = format!("<figure>\n<h3>{}</h3>\n{}", escaped(&self.heading), self.picture.svg);
        if !self.key.is_empty() {
            out.push_str("<ul class=\"key\">\n");
            for (sample, name) in &self.key {
                let _ = writeln!(out, "<li>{sample}<span>{}</span></li>", escaped(name));
            }
            out.push_str("</ul>\n");
        }
        out + "</figure>\n"
    }

    /// A file: light, on white, without a style sheet, which programs that make PDF do not read. `title` stands above the
    /// picture, in place of its heading, and `notes` below.
    pub fn file(&self, title: &str, notes: &[String]) -> String {
        let names = self.key.iter().map(|(_, name)| NAME + length(name));
        let inside = names.chain([self.picture.width, LEAST_WIDTH, length(title)]).fold(0.0, f64::max);
        let notes: Vec<String> = notes.iter().flat_map(|note| folded(note, inside)).collect();
        let lines = (1 + self.key.len() + notes.len()) as f64;
        let (width, height) = (inside + 2.0 * EDGE, self.picture.height + lines * LINE + 2.0 * EDGE);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        let mut y = EDGE + LINE;
        words(&mut out, (EDGE, y - 6.0), "start", title);
        let _ = writeln!(out, "<g transform=\"translate({EDGE} {y})\">\n{}</g>", self.picture.svg);
        y += self.picture.height;
        for (sample, name) in &self.key {
            let _ = writeln!(out, "<g transform=\"translate({EDGE} {:.1})\">{sample}</g>", y + 1.0);
            words(&mut out, (EDGE + NAME, y + 11.0), "start", name);
            y += LINE;
        }
        for note in &notes {
            words(&mut out, (EDGE, y + 13.0), "start", note);
            y += LINE;
        }
        out + "</svg>\n"
    }
}

/// About, in pixels.
fn length(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Lines of at most this length in pixels, where its words allow it.
fn folded(text: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if length(line) + length(word) + CHARACTER <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(key: &[&str]) -> Figure {
        let svg = "<svg class=\"chart\" width=\"100\" height=\"50\"></svg>\n".to_owned();
        Figure {
            heading: "a < b".to_owned(),
            picture: Picture { width: 100.0, height: 50.0, svg },
            key: key
                .iter()
                .map(|name| ("<svg class=\"swatch\"></svg>".to_owned(), (*name).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn a_file_has_the_picture_its_legend_and_its_notes() {
        let text = figure(&["one & two"]).file("a < b", &["not a hardware figure".to_owned()]);
        for part in
            ["a &lt; b", "one &amp; two", "class=\"chart\"", "class=\"swatch\"", ">not a hardware figure<"]
        {
            assert_eq!(text.matches(part).count(), 1, "{part}: {text}");
        }
        assert!(text.contains("height=\"128\""), "50 of the picture, three lines, two edges: {text}");
    }

    #[test]
    fn a_file_is_as_wide_as_its_longest_name() {
        let name = "n".repeat(100);
        let text = figure(&[&name]).file("", &[]);
        assert!(text.contains("width=\"786\""), "{text}");
    }

    #[test]
    fn long_notes_are_folded_and_lose_no_word() {
        let note = "word ".repeat(40);
        let lines = folded(note.trim_end(), 200.0);
        assert!(lines.len() > 5 && lines.iter().all(|line| length(line) <= 200.0), "{lines:?}");
        assert_eq!(lines.join(" "), note.trim_end());
    }
}
