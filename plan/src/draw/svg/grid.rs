//! The geometry of lanes and steps, sized by their text.

use std::collections::HashMap;

use super::canvas::{Area, CHAR, LINE, measure};
use crate::draw::names::Detail;
use crate::draw::timeline::Timeline;
use crate::draw::width::{columns, fit};
use crate::ir::StreamId;

/// The most ranks with lanes of their own.
const RANKS: usize = 16;
/// The most steps to draw.
const STEPS: usize = 64;
/// The most lines of a bar.
const LINES: usize = 6;
/// The most columns of a bar's line, and of a stream's name.
const LABEL: usize = 44;
const STREAM: usize = 20;
/// Padding around text in a bar.
const PAD: usize = 6;
/// The distance between tracks of wires, in a channel and in a gutter.
const CHANNEL: usize = 6;
const GUTTER: usize = 8;
/// Room for an arrowhead at either side of a gutter.
const HEAD: usize = 13;

/// A lane: a stream of a rank.
pub(super) struct Lane {
    pub(super) rank: u32,
    pub(super) stream: Option<StreamId>,
    /// The number of lines of its highest bar.
    lines: usize,
    /// The number of tracks above its bars.
    pub(super) tracks: usize,
    pub(super) y: usize,
}

/// Lanes, columns, and the bars' text.
pub(super) struct Grid {
    pub(super) lanes: Vec<Lane>,
    of: HashMap<(u32, StreamId), usize>,
    /// For each call, the text of its bar.
    pub(super) labels: Vec<Vec<String>>,
    pub(super) ranks: usize,
    pub(super) steps: usize,
    /// For each step, the width of its bars, and their left edge.
    widths: Vec<usize>,
    lefts: Vec<usize>,
    /// The right edge of the lanes' names.
    pub(super) left: usize,
    /// The top of the lane for the ranks that are left out.
    pub(super) rest: usize,
}

impl Grid {
    pub(super) fn new(timeline: &Timeline<'_>) -> Self {
        let ranks = timeline.ranks().min(RANKS);
        let steps = timeline.steps.min(STEPS);
        let mut grid = Self {
            lanes: lanes(timeline, ranks),
            of: HashMap::new(),
            labels: Vec::with_capacity(timeline.bars.len()),
            ranks,
            steps,
            widths: vec![5 * CHAR; steps],
            lefts: vec![0; steps],
            left: 0,
            rest: 0,
        };
        for (at, lane) in grid.lanes.iter().enumerate() {
            if let Some(stream) = lane.stream {
                grid.of.insert((lane.rank, stream), at);
            }
        }
        for (at, bar) in timeline.bars.iter().enumerate() {
            let labels = label(timeline, at);
            if let Some(lane) = grid.lane(timeline, at as u32) {
                let lane = &mut grid.lanes[lane];
                lane.lines = lane.lines.max(labels.len());
                if bar.active < steps {
                    let widest = labels.iter().map(|line| measure(line)).max().unwrap_or(0);
                    let width = &mut grid.widths[bar.active];
                    *width = (*width).max(widest + 2 * PAD);
                }
            }
            grid.labels.push(labels);
        }
        let names = grid.lanes.iter().map(|lane| measure(&grid.lane_name(timeline, lane)));
        let first = measure(&format!("rank {}", ranks.saturating_sub(1)));
        grid.left = 12 + first + 2 * CHAR + names.max().unwrap_or(0) + CHAR;
        if timeline.ranks() > ranks {
            // Wires to them end beside their number.
            grid.left = grid.left.max(12 + measure(&rest(timeline.ranks() - ranks)));
        }
        grid
    }

    /// The lane of a call, if it has one.
    pub(super) fn lane(&self, timeline: &Timeline<'_>, call: u32) -> Option<usize> {
        let bar = &timeline.bars[call as usize];
        self.of.get(&(bar.rank, bar.stream)).copied()
    }

    /// A lane's name beside its rank; empty if there is only one stream.
    pub(super) fn lane_name(&self, timeline: &Timeline<'_>, lane: &Lane) -> String {
        match lane.stream {
            Some(stream) if timeline.streams.len() > 1 => {
                fit(&timeline.names.stream(stream), STREAM)
            }
            _ => String::new(),
        }
    }

    /// The line of a bar that shows a line of its call.
    pub(super) fn shown(&self, call: u32, line: usize) -> usize {
        line.min(self.labels[call as usize].len().saturating_sub(1))
    }

    /// Places the lanes below each other, once their channels are known. Returns their bottom.
    pub(super) fn place_lanes(&mut self, top: usize, more: bool) -> usize {
        let mut y = top;
        for lane in &mut self.lanes {
            lane.y = y;
            y += lane.above() + lane.lines * LINE + 2 * PAD + 6;
        }
        self.rest = y;
        if more { y + LINE + 18 } else { y }
    }

    /// Places the steps beside each other, once the tracks of the gutters are known. Returns their
    /// right edge.
    pub(super) fn place_steps(&mut self, tracks: &[usize]) -> usize {
        let mut x = self.left;
        for ((left, width), tracks) in self.lefts.iter_mut().zip(&self.widths).zip(tracks) {
            *left = x;
            x += width + 2 * HEAD + tracks * GUTTER;
        }
        x
    }

    /// The left and right edges of the bars of a step.
    pub(super) fn begins(&self, step: usize) -> usize {
        self.lefts[step]
    }

    pub(super) fn ends(&self, step: usize) -> usize {
        self.lefts[step] + self.widths[step]
    }

    /// A track of the gutter after a step.
    pub(super) fn track(&self, step: usize, track: usize) -> usize {
        self.ends(step) + HEAD + GUTTER / 2 + track * GUTTER
    }

    /// A track of the channel above a lane's bars.
    pub(super) fn channel(&self, lane: usize, track: usize) -> usize {
        self.lanes[lane].y + 6 + track * CHANNEL
    }

    /// The bar of a call between two steps that are both drawn.
    pub(super) fn bar(&self, lane: usize, call: u32, from: usize, to: usize) -> Area {
        let (x, y) = (self.begins(from), self.top(lane));
        let height = self.labels[call as usize].len() * LINE + 2 * PAD;
        Area { x, y, width: self.ends(to) - x, height }
    }

    /// The top of a lane's bars.
    fn top(&self, lane: usize) -> usize {
        self.lanes[lane].y + self.lanes[lane].above()
    }

    /// The middle of a line of a bar.
    pub(super) fn line(&self, lane: usize, line: usize) -> usize {
        self.top(lane) + PAD + line * LINE + LINE / 2
    }

    /// The top of the first line of a bar's text.
    pub(super) fn text(&self, lane: usize, step: usize) -> (usize, usize) {
        (self.begins(step) + PAD, self.top(lane) + PAD)
    }

    /// The heights at which an event enters and leaves a bar, clear of its text.
    pub(super) fn enters(&self, lane: usize) -> usize {
        self.top(lane) + 4
    }

    pub(super) fn leaves(&self, lane: usize, call: u32) -> usize {
        self.top(lane) + self.labels[call as usize].len() * LINE + 2 * PAD - 4
    }
}

impl Lane {
    /// The height of the channel above its bars.
    fn above(&self) -> usize {
        8 + self.tracks * CHANNEL
    }
}

/// The label for the ranks that are left out.
pub(super) fn rest(ranks: usize) -> String {
    format!("… {ranks} more ranks")
}

fn lanes(timeline: &Timeline<'_>, ranks: usize) -> Vec<Lane> {
    let lane = |rank, stream| Lane { rank, stream, lines: 1, tracks: 0, y: 0 };
    let mut lanes = Vec::new();
    for rank in 0..ranks as u32 {
        let before = lanes.len();
        for stream in &timeline.streams {
            let of = &timeline.schedule.ranks[rank as usize].calls;
            if of.iter().any(|call| call.stream == *stream) {
                lanes.push(lane(rank, Some(*stream)));
            }
        }
        if lanes.len() == before {
            lanes.push(lane(rank, None));
        }
    }
    lanes
}

fn label(timeline: &Timeline<'_>, call: usize) -> Vec<String> {
    let mut lines = timeline.names.call(timeline.links.calls[call].call, Detail::Full);
    if lines.len() > LINES {
        let more = lines.len() - (LINES - 1);
        lines.truncate(LINES - 1);
        lines.push(format!("… {more} more"));
    }
    for line in &mut lines {
        if columns(line) > LABEL {
            *line = fit(line, LABEL);
        }
    }
    if lines.is_empty() {
        lines.push("-".to_owned());
    }
    lines
}
