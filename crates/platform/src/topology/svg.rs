//! The tree as a picture: a row for each function, indented by its depth, with a line to what is above it.

use std::fmt::Write;

use super::{Leaf, Topology};

const ROW: usize = 30;
const INDENT: usize = 40;
const BOX: usize = 22;
const MARGIN: usize = 10;
/// Between the edge of a box and its words.
const PADDING: usize = 6;
/// Width of a character, of 12 pixels in a monospaced face: no face is wider.
const CHARACTER: f64 = 7.4;

/// A row: its depth, its words, its colour, and the row of what is above it.
struct Row {
    depth: usize,
    words: String,
    colour: &'static str,
    above: Option<usize>,
}

impl Row {
    /// Left edge of its box.
    fn left(&self) -> usize {
        MARGIN + self.depth * INDENT
    }

    /// Where its box must end at the earliest: its words fit in.
    fn right(&self) -> usize {
        self.left() + 2 * PADDING + (self.words.chars().count() as f64 * CHARACTER).ceil() as usize
    }
}

pub(super) fn svg(topology: &Topology) -> String {
    let mut rows = Vec::new();
    for root in &topology.roots {
        let numa = root.numa_node.map_or(String::new(), |node| format!(", NUMA node {node}"));
        let words = format!("{} root complex{numa}", root.name);
        rows.push(Row { depth: 0, words, colour: "#dddddd", above: None });
        let above = rows.len() - 1;
        root.children.iter().for_each(|leaf| push(&mut rows, leaf, 1, above));
    }
    let height = rows.len() * ROW + MARGIN;
    let width = rows.iter().map(Row::right).max().unwrap_or(0) + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"12\">\n\
         <title>PCIe tree of GPUs and SSDs</title>\n<path d=\"M0 0H{width}V{height}H0z\" fill=\"white\"/>\n"
    );
    for (index, row) in rows.iter().enumerate() {
        draw(&mut svg, index, row, width);
    }
    svg + "</svg>\n"
}

fn push(rows: &mut Vec<Row>, leaf: &Leaf, depth: usize, above: usize) {
    // Colours that people who do not see all of them can tell apart.
    let colour = match leaf.kind.as_str() {
        "SSD" => "#f0b070",
        kind if kind.starts_with("GPU") => "#80c0e8",
        _ => "#f4f4f4",
    };
    let words = format!("{}  {}", leaf.address, leaf.words());
    rows.push(Row { depth, words, colour, above: Some(above) });
    let own = rows.len() - 1;
    leaf.children.iter().for_each(|leaf| push(rows, leaf, depth + 1, own));
}

/// A box from its place on the tree to the right margin of the picture.
fn draw(svg: &mut String, index: usize, row: &Row, picture: usize) {
    let (x, y) = (row.left(), MARGIN + index * ROW);
    let (width, middle) = (picture - MARGIN - x, y + BOX / 2);
    if let Some(above) = row.above {
        let (from, start) = (x - INDENT / 2, MARGIN + above * ROW + BOX);
        let _ = writeln!(svg, "<path d=\"M{from} {start}V{middle}H{x}\" fill=\"none\" stroke=\"#555\"/>");
    }
    let colour = row.colour;
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX}\" fill=\"{colour}\" stroke=\"#555\"/>"
    );
    // The words have double spaces, which a picture would otherwise make single.
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" xml:space=\"preserve\">{}</text>",
        x + PADDING,
        y + 15,
        escaped(&row.words)
    );
}

/// Models come from devices, and may hold anything.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
