//! A timeline as a Mermaid sequence diagram: a participant for each rank, in the order of the
//! steps.

use std::fmt::Write;

use super::names::Detail;
use super::timeline::{ArrowKind, BarKind, Timeline};

/// The most ranks to show.
const RANKS: usize = 16;
/// The most lines: renderers refuse text that is too long.
const LINES: usize = 400;

pub(crate) fn draw(timeline: &Timeline<'_>) -> String {
    let ranks = timeline.ranks().min(RANKS);
    let mut lines: Vec<(usize, Sort, String)> = Vec::new();
    calls(timeline, ranks, &mut lines);
    arrows(timeline, ranks, &mut lines);
    meetings(timeline, ranks, &mut lines);
    lines.sort();

    let mut out = String::from("sequenceDiagram\n");
    let _ = writeln!(out, "  accTitle: {}", escape(&timeline.title()));
    for rank in 0..ranks {
        let _ = writeln!(out, "  participant r{rank} as rank {rank}");
    }
    if ranks == 0 {
        out += "  participant r0 as no rank\n";
    }
    for (_, _, line) in lines.iter().take(LINES) {
        let _ = writeln!(out, "  {line}");
    }
    let all = if ranks > 1 { format!("r0,r{}", ranks - 1) } else { "r0".to_owned() };
    if lines.len() > LINES {
        let _ = writeln!(out, "  Note over {all}: … {} more lines", lines.len() - LINES);
    }
    if timeline.ranks() > ranks {
        let _ = writeln!(out, "  Note over {all}: … {} more ranks", timeline.ranks() - ranks);
    }
    if timeline.hangs {
        let _ = writeln!(out, "  Note over {all}: it waits in a circle, and never ends");
    }
    out
}

/// The order within a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Collective(u32),
    Message(u32, u32),
    Wait(u32, u32),
    Compute(u32, u32),
}

/// Compute steps and waits: notes over their rank.
fn calls(timeline: &Timeline<'_>, ranks: usize, lines: &mut Vec<(usize, Sort, String)>) {
    for (bar, placed) in timeline.bars.iter().zip(&timeline.links.calls) {
        if bar.rank as usize >= ranks {
            continue;
        }
        let sort = match bar.kind {
            BarKind::Compute => Sort::Compute,
            BarKind::Wait => Sort::Wait,
            // Drawn with the calls that they meet.
            BarKind::Collective | BarKind::Message | BarKind::OneSided => continue,
        };
        let text: Vec<String> = timeline.names.call(placed.call, Detail::Full);
        let text: Vec<String> = text.iter().map(|line| escape(line)).collect();
        let mut note = format!("Note over r{}: {}", bar.rank, text.join("<br/>"));
        if timeline.streams.len() > 1 {
            let _ = write!(note, "<br/>on {}", escape(&timeline.names.stream(bar.stream)));
        }
        lines.push((bar.active, sort(bar.rank, placed.nth), note));
    }
}

/// Messages, puts and signals, at the step at which they are sent and received.
fn arrows(timeline: &Timeline<'_>, ranks: usize, lines: &mut Vec<(usize, Sort, String)>) {
    for arrow in timeline.arrows() {
        let [from, to] = [arrow.from, arrow.to].map(|(call, _)| &timeline.bars[call as usize]);
        let seen = [from, to].map(|bar| (bar.rank as usize) < ranks);
        let (shape, step) = match arrow.kind {
            ArrowKind::Message => ("->>", from.start.max(to.start)),
            ArrowKind::Signal => ("--)", from.start),
            ArrowKind::Event => continue,
        };
        let line = match seen {
            [true, true] => {
                format!("r{}{shape}r{}: {}", from.rank, to.rank, text(timeline, arrow.from))
            }
            [true, false] => format!("Note over r{}: {}", from.rank, text(timeline, arrow.from)),
            [false, true] if arrow.kind == ArrowKind::Message => {
                format!("Note over r{}: {}", to.rank, text(timeline, arrow.to))
            }
            _ => continue,
        };
        lines.push((step, Sort::Message(from.rank, arrow.from.0), line));
    }
    for (port, peer) in &timeline.links.silent {
        let from = &timeline.bars[port.call as usize];
        if (from.rank as usize) < ranks && (*peer as usize) < ranks {
            let text = text(timeline, (port.call, timeline.line(*port)));
            let line = format!("r{}--)r{peer}: {text}", from.rank);
            lines.push((from.start, Sort::Message(from.rank, port.call), line));
        }
    }
}

/// Collectives: one note over adjacent ranks, otherwise one over each.
fn meetings(timeline: &Timeline<'_>, ranks: usize, lines: &mut Vec<(usize, Sort, String)>) {
    for (at, meeting) in (0..).zip(&timeline.links.meetings) {
        let mut members: Vec<u32> =
            meeting.iter().map(|port| timeline.bars[port.call as usize].rank).collect();
        members.sort_unstable();
        let Some(port) = meeting.first() else { continue };
        let step = meeting.iter().map(|port| timeline.bars[port.call as usize].start).max();
        let text = text(timeline, (port.call, timeline.line(*port)));
        let beside = members.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let seen: Vec<u32> =
            members.iter().copied().filter(|rank| (*rank as usize) < ranks).collect();
        let mut push = |line| lines.push((step.unwrap_or(0), Sort::Collective(at), line));
        match &seen[..] {
            [] => {}
            [one] if members.len() == 1 => push(format!("Note over r{one}: {text}")),
            [first, .., last] if beside => push(format!("Note over r{first},r{last}: {text}")),
            seen => {
                for rank in seen {
                    let others = members.iter().filter(|other| *other != rank);
                    let others: Vec<String> = others.map(u32::to_string).collect();
                    push(format!("Note over r{rank}: {text}<br/>with {}", others.join(", ")));
                }
            }
        }
    }
}

/// A line of a call's text.
fn text(timeline: &Timeline<'_>, (call, line): (u32, usize)) -> String {
    let lines = timeline.names.call(timeline.links.calls[call as usize].call, Detail::Full);
    escape(lines.get(line).map_or("", |line| line))
}

/// Escapes characters with a meaning in Mermaid.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '#' | ';' | '<' | '&' | '"' | '%' | '`' | '{' | '}' | '\\' => {
                let _ = write!(escaped, "#{};", char as u32);
            }
            char if char.is_control() => escaped.push(' '),
            char => escaped.push(char),
        }
    }
    escaped
}
