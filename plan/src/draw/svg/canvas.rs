//! A picture in progress, in whole pixels.

use std::fmt::Write;

use crate::draw::width::columns;

/// The width of a column of text. The widest monospace fonts take 0.62 of the font's size.
pub(super) const CHAR: usize = 8;
/// The distance between lines of text.
pub(super) const LINE: usize = 17;
/// The distance from the top of a line to its baseline.
const BASE: usize = 13;

/// Text on the background, and less important text.
pub(super) const INK: &str = "#1f2328";
pub(super) const FAINT: &str = "#59636e";
/// Errors.
pub(super) const ALARM: &str = "#cf222e";
/// The background.
pub(super) const PAPER: &str = "#ffffff";
/// Separators.
pub(super) const RULE: &str = "#d1d9e0";

/// The elements so far.
#[derive(Default)]
pub(super) struct Canvas {
    body: String,
}

/// A rectangle.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Canvas {
    /// A filled rectangle; `round` is the radius of its corners.
    pub(super) fn fill(&mut self, area: Area, round: usize, fill: &str) {
        let Area { x, y, width, height } = area;
        let _ = writeln!(
            self.body,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="{round}" fill="{fill}"/>"#
        );
    }

    /// A filled rectangle with an edge.
    pub(super) fn boxed(&mut self, area: Area, fill: &str, edge: &str, dashed: bool) {
        let Area { x, y, width, height } = area;
        let dash = if dashed { r#" stroke-dasharray="4 3""# } else { "" };
        let _ = writeln!(
            self.body,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" fill="{fill}" stroke="{edge}"{dash}/>"#
        );
    }

    /// A line of text with its top left corner at this point.
    pub(super) fn text(&mut self, x: usize, y: usize, text: &str, ink: &str) {
        self.styled(x, y, text, ink, "");
    }

    pub(super) fn bold(&mut self, x: usize, y: usize, text: &str, ink: &str) {
        self.styled(x, y, text, ink, r#" font-weight="bold""#);
    }

    fn styled(&mut self, x: usize, y: usize, text: &str, ink: &str, style: &str) {
        let (y, text) = (y + BASE, escape(text));
        let _ = writeln!(self.body, r#"<text x="{x}" y="{y}" fill="{ink}"{style}>{text}</text>"#);
    }

    /// A line through these points. `halo` separates it from lines that it crosses.
    pub(super) fn path(&mut self, points: &[(usize, usize)], ink: &str, style: &str, halo: bool) {
        let mut d = String::new();
        for (nth, (x, y)) in points.iter().enumerate() {
            let _ = write!(d, "{}{x} {y}", if nth == 0 { "M" } else { " L" });
        }
        if halo {
            let _ = writeln!(
                self.body,
                r#"<path d="{d}" fill="none" stroke="{PAPER}" stroke-width="4" stroke-opacity="0.8"/>"#
            );
        }
        let _ = writeln!(self.body, r#"<path d="{d}" fill="none" stroke="{ink}"{style}/>"#);
    }

    /// An arrowhead with its point here.
    pub(super) fn head(&mut self, (x, y): (usize, usize), towards: Towards, ink: &str) {
        let (x, y) = (x as i64, y as i64);
        let (a, b) = match towards {
            Towards::Left => ((x + 7, y - 4), (x + 7, y + 4)),
            Towards::Right => ((x - 7, y - 4), (x - 7, y + 4)),
            Towards::Down => ((x - 4, y - 7), (x + 4, y - 7)),
        };
        let _ = writeln!(
            self.body,
            r#"<path d="M{x} {y} L{} {} L{} {} Z" fill="{ink}"/>"#,
            a.0, a.1, b.0, b.1
        );
    }

    pub(super) fn dot(&mut self, (x, y): (usize, usize), ink: &str) {
        let _ = writeln!(self.body, r#"<circle cx="{x}" cy="{y}" r="3" fill="{ink}"/>"#);
    }

    /// Gives the elements up to [`close`](Self::close) this tooltip.
    pub(super) fn open(&mut self, tip: &str) {
        let _ = writeln!(self.body, "<g><title>{}</title>", escape(tip));
    }

    pub(super) fn close(&mut self) {
        self.body += "</g>\n";
    }

    /// The whole picture.
    pub(super) fn finish(self, title: &str, width: usize, height: usize) -> String {
        let (body, title) = (self.body, escape(title));
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="13" xml:space="preserve">
<title>{title}</title>
<rect x="0" y="0" width="{width}" height="{height}" fill="{PAPER}"/>
{body}</svg>
"#
        )
    }
}

/// The direction of an arrow.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Towards {
    Left,
    Right,
    Down,
}

/// The width of a text.
pub(super) fn measure(text: &str) -> usize {
    columns(text) * CHAR
}

/// Escapes text for XML, and drops characters that XML cannot contain.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' => escaped.push('\n'),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                escaped.push(' ');
            }
            char => escaped.push(char),
        }
    }
    escaped
}
