//! What a section of the page shows: text and pictures, in their order.

use warpbell_plan::chart::Figure;

/// What stands between two headings.
#[derive(Debug, Default)]
pub struct Body {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Html(String),
    Figures(Layout, Vec<Figure>),
}

/// How pictures stand beside each other.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    /// Of one size, as many in a row as there is room for.
    Grid,
    /// Of their own sizes.
    Row,
}

impl Body {
    /// HTML, or nothing.
    pub fn html(mut self, html: impl Into<String>) -> Body {
        let html = html.into();
        if !html.is_empty() {
            self.parts.push(Part::Html(html));
        }
        self
    }

    /// Pictures, or nothing.
    pub fn figures(mut self, layout: Layout, figures: Vec<Figure>) -> Body {
        if !figures.is_empty() {
            self.parts.push(Part::Figures(layout, figures));
        }
        self
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// All of it.
    pub fn text(&self) -> String {
        self.parts.iter().map(Part::text).collect()
    }

    /// Its pictures.
    pub fn pictures(&self) -> impl Iterator<Item = &Figure> {
        self.parts.iter().flat_map(|part| match part {
            Part::Html(_) => &[],
            Part::Figures(_, figures) => figures.as_slice(),
        })
    }
}

impl Part {
    fn text(&self) -> String {
        let (layout, figures) = match self {
            Part::Html(text) => return text.clone(),
            Part::Figures(layout, figures) => (layout, figures),
        };
        let class = match layout {
            Layout::Grid => "grid",
            Layout::Row => "row",
        };
        let figures: String = figures.iter().map(Figure::html).collect();
        format!("<div class=\"{class}\">\n{figures}</div>\n")
    }
}

impl From<String> for Body {
    fn from(html: String) -> Body {
        Body::default().html(html)
    }
}
