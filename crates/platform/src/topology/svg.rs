//! The tree as a picture: a row for each function, indented by its depth, with a line to what is above it.

use std::fmt::Write;

use super::{Leaf, Topology};

const ROW: usize = 30;
const INDENT: usize = 40;
const BOX: usize = 22;
const WIDTH: usize = 900;

/// A row: its depth, its words, its colour, and the row of what is above it.
struct Row {
    depth: usize,
    words: String,
    colour: &'static str,
    above: Option<usize>,
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
    let height = (rows.len() + 1) * ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"monospace\" \
         font-size=\"12\">\n<title>PCIe tree of GPUs and SSDs</title>\n"
    );
    for (index, row) in rows.iter().enumerate() {
        draw(&mut svg, index, row);
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

fn draw(svg: &mut String, index: usize, row: &Row) {
    let (x, y) = (10 + row.depth * INDENT, 10 + index * ROW);
    let (width, middle) = (WIDTH - 20 - x, y + BOX / 2);
    if let Some(above) = row.above {
        let (from, start) = (x - INDENT / 2, 10 + above * ROW + BOX);
        let _ = writeln!(svg, "<path d=\"M{from} {start}V{middle}H{x}\" fill=\"none\" stroke=\"#555\"/>");
    }
    let colour = row.colour;
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX}\" fill=\"{colour}\" stroke=\"#555\"/>"
    );
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\">{}</text>", x + 6, y + 15, escaped(&row.words));
}

/// Models come from devices, and may hold anything.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
