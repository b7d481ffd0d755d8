//! A timeline: time to the right, a lane for each rank and stream.

use super::canvas::{ALARM, Area, CHAR, Canvas, FAINT, INK, LINE, RULE, Towards, measure};
use super::grid::{Grid, rest};
use super::key::{Entry, WAITING, colours, draw as key, line};
use super::wires::{self, Wire, WireKind};
use crate::draw::names::Detail;
use crate::draw::timeline::{BarKind, Timeline};
use crate::draw::width::{fit, wrap};

/// The margin of the picture.
const MARGIN: usize = 12;
/// The minimal width.
const NARROW: usize = 480;

pub(crate) fn draw(timeline: &Timeline<'_>) -> String {
    let mut grid = Grid::new(timeline);
    let mut wires = wires::collect(timeline, &grid);
    wires::channels(&mut wires, &mut grid);
    // Tracks depend on heights, and heights on the title, whose lines depend on the width. The
    // width without tracks is enough for the title.
    let more_ranks = timeline.ranks() - grid.ranks;
    let more_steps = timeline.steps - grid.steps;
    grid.place_lanes(0, more_ranks > 0);
    let tracks = wires::gutters(&mut wires, &grid);
    let steps_end = grid.place_steps(&tracks);
    let more = format!("… {more_steps} more steps");
    let after = if more_steps > 0 { measure(&more) + MARGIN } else { 0 };
    let right = (steps_end + after).max(NARROW - MARGIN);

    let mut canvas = Canvas::default();
    let mut y = MARGIN;
    for text in wrap(&timeline.title(), (right - MARGIN) / CHAR) {
        canvas.bold(MARGIN, y, &text, INK);
        y += LINE;
    }
    if timeline.hangs {
        for text in wrap(HANGS, (right - MARGIN) / CHAR) {
            canvas.bold(MARGIN, y, &text, ALARM);
            y += LINE;
        }
    }
    y += 8;
    ruler(&mut canvas, &grid, y);
    if more_steps > 0 {
        canvas.text(steps_end, y, &more, FAINT);
    }
    let lanes_end = grid.place_lanes(y + LINE + 6, more_ranks > 0);
    names(&mut canvas, timeline, &grid, right, more_ranks);
    for call in 0..timeline.links.len() {
        bar(&mut canvas, timeline, &grid, call, steps_end);
    }
    for wire in &wires {
        draw_wire(&mut canvas, &grid, wire);
    }
    let entries = entries(timeline, &grid, &wires);
    let end = key(&mut canvas, &entries, MARGIN, lanes_end + 10, right);
    canvas.finish(&timeline.title(), right + MARGIN, end + MARGIN)
}

const HANGS: &str = "It waits in a circle: from some step on, nothing that is drawn here happens.";

/// The steps' numbers.
fn ruler(canvas: &mut Canvas, grid: &Grid, y: usize) {
    for step in 0..grid.steps {
        let (text, middle) = (step.to_string(), (grid.begins(step) + grid.ends(step)) / 2);
        canvas.text(middle - measure(&text) / 2, y, &text, FAINT);
    }
}

/// The ranks' bands and names, and the lanes' names.
fn names(canvas: &mut Canvas, timeline: &Timeline<'_>, grid: &Grid, right: usize, more: usize) {
    let ends: Vec<usize> =
        grid.lanes.iter().skip(1).map(|lane| lane.y).chain([grid.rest]).collect();
    for rank in 0..grid.ranks {
        let own = |at: &usize| grid.lanes[*at].rank as usize == rank;
        let lanes: Vec<usize> = (0..grid.lanes.len()).filter(own).collect();
        let (Some(&first), Some(&last)) = (lanes.first(), lanes.last()) else { continue };
        let y = grid.lanes[first].y;
        if rank % 2 == 0 {
            let area = Area { x: MARGIN / 2, y, width: right - MARGIN / 2, height: ends[last] - y };
            canvas.fill(area, 4, "#f6f8fa");
        }
        canvas.bold(MARGIN, grid.line(first, 0) - LINE / 2, &format!("rank {rank}"), INK);
    }
    let names_at = MARGIN + measure(&format!("rank {}", grid.ranks.saturating_sub(1))) + 2 * CHAR;
    for (at, lane) in grid.lanes.iter().enumerate() {
        let name = grid.lane_name(timeline, lane);
        if !name.is_empty() {
            canvas.text(names_at, grid.line(at, 0) - LINE / 2, &name, FAINT);
        }
    }
    if more > 0 {
        canvas.path(&[(MARGIN, grid.rest), (right, grid.rest)], RULE, "", false);
        canvas.text(MARGIN, grid.rest + 8, &rest(more), FAINT);
    }
}

/// A call: the waiting part first, the active part in the last of its steps.
fn bar(canvas: &mut Canvas, timeline: &Timeline<'_>, grid: &Grid, call: u32, end: usize) {
    let Some(lane) = grid.lane(timeline, call) else { return };
    let bar = &timeline.bars[call as usize];
    if bar.start >= grid.steps {
        return;
    }
    let placed = &timeline.links.calls[call as usize];
    canvas.open(&tip(timeline, placed.call));
    if bar.start < bar.active {
        let last = bar.active.min(grid.steps) - 1;
        let mut area = grid.bar(lane, call, bar.start, last);
        // Up to the active part, or to the end of the drawn steps.
        let to = if bar.active < grid.steps { grid.begins(bar.active) } else { end };
        area.width = to - area.x;
        canvas.boxed(area, WAITING.0, WAITING.1, true);
    }
    if bar.active >= grid.steps {
        let room = (grid.ends(bar.start) - grid.begins(bar.start)) / CHAR;
        let (x, mut y) = grid.text(lane, bar.start);
        for text in &grid.labels[call as usize] {
            canvas.text(x, y, &fit(text, room.saturating_sub(2)), FAINT);
            y += LINE;
        }
    } else {
        let (fill, edge) = colours(bar.kind);
        canvas.boxed(grid.bar(lane, call, bar.active, bar.active), fill, edge, false);
        let (x, mut y) = grid.text(lane, bar.active);
        for text in &grid.labels[call as usize] {
            canvas.text(x, y, text, INK);
            y += LINE;
        }
    }
    canvas.close();
}

/// All of a call's text, and its location.
fn tip(timeline: &Timeline<'_>, call: &crate::lower::Call) -> String {
    const MOST: usize = 64;
    let mut lines = timeline.names.call(call, Detail::Full);
    if lines.len() > MOST {
        let more = lines.len() - MOST;
        lines.truncate(MOST);
        lines.push(format!("… {more} more"));
    }
    let mut places: Vec<u32> = call.from.iter().map(|at| at.line).collect();
    places.sort_unstable();
    places.dedup();
    if !places.is_empty() {
        let places: Vec<String> = places.iter().map(u32::to_string).collect();
        let word = if places.len() == 1 { "line" } else { "lines" };
        lines.push(format!("{word} {}", places.join(", ")));
    }
    lines.join("\n")
}

fn draw_wire(canvas: &mut Canvas, grid: &Grid, wire: &Wire) {
    let (ink, style) = line(wire.kind);
    let (side, track) = (grid.ends(wire.gutter), grid.track(wire.gutter, wire.track));
    let (from, to) = wire.heights(grid);
    if wire.kind == WireKind::Collective {
        let (low, high) = (from.iter().min(), from.iter().max());
        let (Some(&low), Some(&high)) = (low, high) else { return };
        canvas.path(&[(track, low), (track, high)], ink, style, true);
        for &y in &from {
            canvas.path(&[(side, y), (track, y)], ink, style, true);
            canvas.dot((side, y), ink);
        }
        return;
    }
    let (Some(&from), Some(to)) = (from.first(), to) else { return };
    let mut points = vec![(side, from), (track, from)];
    let (end, towards) = match wire.later {
        None => ((side, to), Towards::Left),
        Some((step, _)) => ((grid.begins(step), to), Towards::Right),
    };
    let mut last = track;
    if let Some((step, lane)) = wire.later.filter(|_| wire.is_long()) {
        let channel = grid.channel(lane, wire.channel);
        last = grid.track(step - 1, wire.last);
        points.extend([(track, channel), (last, channel)]);
    }
    points.push((last, to));
    // The line ends inside the arrowhead, which would be blunt otherwise.
    let short = if towards == Towards::Left { end.0 + 5 } else { end.0 - 5 };
    points.push((short, to));
    canvas.path(&points, ink, style, true);
    canvas.head(end, towards, ink);
}

/// The kinds that occur in the picture.
fn entries(timeline: &Timeline<'_>, grid: &Grid, wires: &[Wire]) -> Vec<Entry> {
    let drawn = |call: usize| {
        let bar = &timeline.bars[call];
        grid.lane(timeline, call as u32).is_some() && bar.start < grid.steps
    };
    let bars: Vec<_> = timeline.bars.iter().enumerate().filter(|(call, _)| drawn(*call)).collect();
    let mut entries = Vec::new();
    for kind in
        [BarKind::Compute, BarKind::Collective, BarKind::Message, BarKind::OneSided, BarKind::Wait]
    {
        if bars.iter().any(|(_, bar)| bar.kind == kind) {
            entries.push(Entry::Bar(kind));
        }
    }
    if bars.iter().any(|(_, bar)| bar.start < bar.active) {
        entries.push(Entry::Waiting);
    }
    let mut kinds: Vec<WireKind> = wires.iter().map(|wire| wire.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    entries.extend(kinds.into_iter().map(Entry::Wire));
    entries
}
