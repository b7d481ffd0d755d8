//! A problem as a Mermaid flowchart: a frame for each rank, and arrows for waits.

use std::fmt::Write;

use super::mermaid::escape;
use super::story::{ArrowKind, Story};
use super::width::wrap;

/// Columns of a box.
const WIDTH: usize = 40;

pub(crate) fn draw(story: &Story<'_>) -> String {
    let mut out = String::from("flowchart LR\n");
    let _ = writeln!(out, "  accTitle: {}", escape(&story.title()));
    let _ = writeln!(out, "  title[\"{}\"]", text(&format!("error: {}", story.title()), 60));
    for (nth, rank) in story.ranks.iter().enumerate() {
        let lines: Vec<usize> =
            (0..story.lines.len()).filter(|line| story.column(story.lines[*line]) == nth).collect();
        let _ = writeln!(out, "  subgraph rank{rank} [\"rank {rank}\"]");
        for line in &lines {
            let (place, said) = story.said(story.lines[*line]);
            let place = if place.is_empty() { String::new() } else { format!("{place}<br/>") };
            let _ = writeln!(out, "    s{line}[\"{place}{}\"]", text(&said, WIDTH));
        }
        if lines.is_empty() {
            let _ = writeln!(out, "    none{rank}[\" \"]");
        }
        out += "  end\n";
    }
    if story.ranks.is_empty() {
        for (nth, line) in story.lines.iter().enumerate() {
            let _ = writeln!(out, "  s{nth}[\"{}\"]", text(&story.said(line).1, WIDTH));
        }
    }
    for arrow in &story.arrows {
        let shape = match arrow.kind {
            ArrowKind::WaitsFor => "==>",
            ArrowKind::After => "-->",
            ArrowKind::NoOrder => "<-.->",
        };
        let (from, to) = (arrow.from, arrow.to);
        let _ = writeln!(out, "  s{from} {shape}|{}| s{to}", arrow.kind.text());
    }
    if story.more > 0 {
        let _ = writeln!(out, "  more[\"… {} more lines\"]", story.more);
    }
    for (nth, help) in story.problem.help.iter().enumerate() {
        let _ = writeln!(out, "  help{nth}([\"{}\"])", text(&format!("help: {help}"), 60));
    }
    out += "  classDef wrong stroke:#cf222e,stroke-width:2px\n";
    let wrong: Vec<String> = (0..story.lines.len()).map(|line| format!("s{line}")).collect();
    if story.circle || story.arrows.iter().any(|arrow| arrow.kind == ArrowKind::NoOrder) {
        let _ = writeln!(out, "  class {} wrong", wrong.join(","));
    }
    out
}

fn text(text: &str, width: usize) -> String {
    let lines: Vec<String> = wrap(text, width).iter().map(|line| escape(line)).collect();
    lines.join("<br/>")
}
