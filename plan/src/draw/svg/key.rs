//! The legend: meanings of colours and lines.

use super::canvas::{Area, CHAR, Canvas, FAINT, LINE, Towards, measure};
use super::wires::WireKind;
use crate::draw::timeline::{ArrowKind, BarKind};

/// The fill and edge colours of a bar.
pub(super) fn colours(kind: BarKind) -> (&'static str, &'static str) {
    match kind {
        BarKind::Compute => ("#fff3c4", "#bf8700"),
        BarKind::Collective => ("#ece2ff", "#8250df"),
        BarKind::Message => ("#dcecff", "#0969da"),
        BarKind::OneSided => ("#d3f3e6", "#1a7f5a"),
        BarKind::Wait => ("#eff2f5", "#6e7781"),
    }
}

/// The colour and the dash pattern of a wire.
pub(super) fn line(kind: WireKind) -> (&'static str, &'static str) {
    match kind {
        WireKind::Arrow(ArrowKind::Message) => ("#0969da", r#" stroke-width="1.5""#),
        WireKind::Arrow(ArrowKind::Signal) => ("#1a7f5a", r#" stroke-width="1.5""#),
        WireKind::Arrow(ArrowKind::Event) => ("#818b98", r#" stroke-dasharray="2 3""#),
        WireKind::Collective => ("#8250df", r#" stroke-width="2""#),
    }
}

/// The fill and edge colours of the waiting part of a bar.
pub(super) const WAITING: (&str, &str) = ("#ffffff", "#9aa4ae");

/// An entry of the legend.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Entry {
    Bar(BarKind),
    Waiting,
    Wire(WireKind),
}

impl Entry {
    fn text(self) -> &'static str {
        match self {
            Self::Bar(BarKind::Compute) => "compute",
            Self::Bar(BarKind::Collective) => "collective",
            Self::Bar(BarKind::Message) => "messages",
            Self::Bar(BarKind::OneSided) => "put, signal",
            Self::Bar(BarKind::Wait) => "wait",
            Self::Waiting => "waits for another rank",
            Self::Wire(WireKind::Arrow(ArrowKind::Message)) => "message",
            Self::Wire(WireKind::Arrow(ArrowKind::Signal)) => "data or signal",
            Self::Wire(WireKind::Arrow(ArrowKind::Event)) => "event between streams",
            Self::Wire(WireKind::Collective) => "one collective",
        }
    }
}

/// Draws the entries in lines of that width. Returns their bottom.
pub(super) fn draw(
    canvas: &mut Canvas,
    entries: &[Entry],
    x0: usize,
    y0: usize,
    right: usize,
) -> usize {
    let (mut x, mut y) = (x0, y0);
    for entry in entries {
        let width = 28 + measure(entry.text()) + 2 * CHAR;
        if x > x0 && x + width > right {
            (x, y) = (x0, y + LINE + 4);
        }
        let mark = Area { x, y: y + 3, width: 20, height: 12 };
        match *entry {
            Entry::Bar(kind) => {
                let (fill, edge) = colours(kind);
                canvas.boxed(mark, fill, edge, false);
            }
            Entry::Waiting => canvas.boxed(mark, WAITING.0, WAITING.1, true),
            Entry::Wire(kind) => {
                let (ink, style) = line(kind);
                let end = if kind == WireKind::Collective { x + 20 } else { x + 14 };
                canvas.path(&[(x, y + 9), (end, y + 9)], ink, style, false);
                if kind == WireKind::Collective {
                    canvas.dot((x + 3, y + 9), ink);
                    canvas.dot((x + 18, y + 9), ink);
                } else {
                    canvas.head((x + 21, y + 9), Towards::Right, ink);
                }
            }
        }
        canvas.text(x + 28, y, entry.text(), FAINT);
        x += width;
    }
    y + LINE
}
