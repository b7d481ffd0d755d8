//! Routes of arrows: between the bars of neighbouring lanes, and in the gutters between steps,
//! where there is no text.

use super::grid::Grid;
use crate::draw::timeline::{ArrowKind, Timeline};

/// An arrow, or a collective, with its route.
pub(super) struct Wire {
    pub(super) kind: WireKind,
    /// It ends at the right side of bars, in the gutter after this step.
    pub(super) gutter: usize,
    pub(super) from: Vec<End>,
    pub(super) to: Vec<End>,
    /// For a wire that continues to the left side of a bar at a later step: that step, and the
    /// lane.
    pub(super) later: Option<(usize, usize)>,
    /// Its tracks: in its gutter, in the channel, in the last gutter.
    pub(super) track: usize,
    pub(super) channel: usize,
    pub(super) last: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WireKind {
    Arrow(ArrowKind),
    Collective,
}

/// The height of a wire's end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    /// A line of a bar: lane, line.
    Line(usize, usize),
    /// Where an event leaves the bar of a call.
    Leaves(usize, u32),
    /// Where an event enters a bar.
    Enters(usize),
    /// The lane of the ranks that are left out.
    Rest,
}

impl End {
    fn y(self, grid: &Grid) -> usize {
        match self {
            Self::Line(lane, line) => grid.line(lane, line),
            Self::Leaves(lane, call) => grid.leaves(lane, call),
            Self::Enters(lane) => grid.enters(lane),
            Self::Rest => grid.rest + 16,
        }
    }
}

/// The gap between two wires on one track of a gutter, so that they do not look like one.
const APART: usize = 8;

/// All wires between drawn bars.
pub(super) fn collect(timeline: &Timeline<'_>, grid: &Grid) -> Vec<Wire> {
    let mut wires = Vec::new();
    let end = |(call, line): (u32, usize)| {
        let lane = grid.lane(timeline, call);
        lane.map_or(End::Rest, |lane| End::Line(lane, grid.shown(call, line)))
    };
    for arrow in timeline.arrows() {
        let [a, b] = [arrow.from.0, arrow.to.0].map(|call| &timeline.bars[call as usize]);
        let (from, to) = (end(arrow.from), end(arrow.to));
        if from == to {
            continue;
        }
        let kind = WireKind::Arrow(arrow.kind);
        let lane = grid.lane(timeline, arrow.to.0);
        let (gutter, from, to, later) = match arrow.kind {
            ArrowKind::Message => (a.start.max(b.start), from, to, None),
            ArrowKind::Signal => {
                let later = (b.active > a.start).then_some(b.active).zip(lane);
                (a.start, from, to, later)
            }
            ArrowKind::Event => {
                let (Some(own), Some(lane)) = (grid.lane(timeline, arrow.from.0), lane) else {
                    continue;
                };
                let ends = (End::Leaves(own, arrow.from.0), End::Enters(lane));
                (a.active, ends.0, ends.1, Some((b.start.max(a.active + 1), lane)))
            }
        };
        if gutter < grid.steps && later.is_none_or(|(step, _)| step < grid.steps) {
            wires.push(Wire::new(kind, gutter, vec![from], vec![to], later));
        }
    }
    for (port, peer) in &timeline.links.silent {
        let from = end((port.call, timeline.line(*port)));
        let to = grid.lanes.iter().position(|lane| lane.rank == *peer);
        let to = to.map_or(End::Rest, End::Enters);
        let gutter = timeline.bars[port.call as usize].start;
        if from != to && gutter < grid.steps {
            let kind = WireKind::Arrow(ArrowKind::Signal);
            wires.push(Wire::new(kind, gutter, vec![from], vec![to], None));
        }
    }
    for meeting in timeline.meetings() {
        let gutter = meeting.iter().map(|(call, _)| timeline.bars[*call as usize].start).max();
        let mut ends: Vec<End> = meeting.into_iter().map(end).collect();
        ends.sort_unstable();
        ends.dedup();
        if ends.len() > 1 && gutter.is_some_and(|gutter| gutter < grid.steps) {
            let gutter = gutter.unwrap_or(0);
            wires.push(Wire::new(WireKind::Collective, gutter, ends, Vec::new(), None));
        }
    }
    wires.sort_by(|a, b| {
        (a.kind, a.gutter, &a.from, &a.to).cmp(&(b.kind, b.gutter, &b.from, &b.to))
    });
    wires.dedup_by(|a, b| (a.kind, a.gutter, &a.from, &a.to) == (b.kind, b.gutter, &b.from, &b.to));
    wires
}

impl Wire {
    fn new(
        kind: WireKind,
        gutter: usize,
        from: Vec<End>,
        to: Vec<End>,
        later: Option<(usize, usize)>,
    ) -> Self {
        Self { kind, gutter, from, to, later, track: 0, channel: 0, last: 0 }
    }

    /// The heights at which it begins and ends. A wire to the next step leaves a line slightly
    /// lower than one enters it, so that two wires do not look like one.
    pub(super) fn heights(&self, grid: &Grid) -> (Vec<usize>, Option<usize>) {
        let apart = |end: &End| match end {
            End::Line(..) if self.kind == WireKind::Arrow(ArrowKind::Signal) => 4,
            End::Rest => 6,
            _ => 0,
        };
        let from = self.from.iter().map(|end| end.y(grid) + apart(end)).collect();
        (from, self.to.first().map(|end| end.y(grid) - apart(end)))
    }

    /// Whether it runs through a channel, past other steps.
    pub(super) fn is_long(&self) -> bool {
        self.later.is_some_and(|(step, _)| step > self.gutter + 1)
    }
}

/// Assigns long wires tracks above the lanes in which they end.
pub(super) fn channels(wires: &mut [Wire], grid: &mut Grid) {
    for lane in 0..grid.lanes.len() {
        let mine = |wire: &Wire| wire.is_long() && wire.later.is_some_and(|(_, to)| to == lane);
        let asked: Vec<(usize, usize, usize)> = (0..wires.len())
            .filter(|at| mine(&wires[*at]))
            .map(|at| (wires[at].gutter, wires[at].later.map_or(0, |(step, _)| step - 1), at))
            .collect();
        grid.lanes[lane].tracks = assign(asked, 0, |at, track| wires[at].channel = track);
    }
}

/// Assigns all wires tracks in gutters. Returns the number of tracks of each gutter.
pub(super) fn gutters(wires: &mut [Wire], grid: &Grid) -> Vec<usize> {
    let mut asked: Vec<Vec<(usize, usize, usize)>> = vec![Vec::new(); grid.steps];
    for (at, wire) in wires.iter().enumerate() {
        let (mut ys, to) = wire.heights(grid);
        let span = |ys: &[usize]| {
            let (low, high) = (ys.iter().min(), ys.iter().max());
            (low.copied().unwrap_or(0), high.copied().unwrap_or(0))
        };
        match wire.later {
            Some((step, lane)) if wire.is_long() => {
                let channel = grid.channel(lane, wire.channel);
                let to = to.unwrap_or(channel);
                ys.push(channel);
                let (low, high) = span(&ys);
                asked[wire.gutter].push((low, high, 2 * at));
                let (low, high) = span(&[channel, to]);
                asked[step - 1].push((low, high, 2 * at + 1));
            }
            _ => {
                ys.extend(to);
                let (low, high) = span(&ys);
                asked[wire.gutter].push((low, high, 2 * at));
            }
        }
    }
    let give = |asked| {
        assign(asked, APART, |at, track| {
            let wire = &mut wires[at / 2];
            if at % 2 == 0 { wire.track = track } else { wire.last = track }
        })
    };
    asked.into_iter().map(give).collect()
}

/// Assigns each interval the first track on which it is not close to another, short ones first.
/// Returns the number of tracks.
fn assign(
    mut asked: Vec<(usize, usize, usize)>,
    apart: usize,
    mut give: impl FnMut(usize, usize),
) -> usize {
    asked.sort_by_key(|&(low, high, at)| (high - low, low, at));
    let mut tracks: Vec<Vec<(usize, usize)>> = Vec::new();
    for (low, high, at) in asked {
        let free = |taken: &Vec<(usize, usize)>| {
            taken.iter().all(|&(a, b)| high + apart < a || b + apart < low)
        };
        let track = tracks.iter().position(free).unwrap_or(tracks.len());
        if track == tracks.len() {
            tracks.push(Vec::new());
        }
        tracks[track].push((low, high));
        give(at, track);
    }
    tracks.len()
}
