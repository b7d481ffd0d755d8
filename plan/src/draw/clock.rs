//! Computes when every call starts and ends under some model of time: the longest path through
//! everything that it waits for.

use super::links::Links;

/// A model of the time that calls take.
pub(crate) trait Pace {
    /// The time of a call, once everything that it meets has arrived.
    fn takes(&self, call: u32) -> f64;

    /// The time from the start of a call until its signal has arrived.
    fn raises(&self, call: u32) -> f64;
}

/// One step per call.
pub(crate) struct Steps;

/// The start and the end of each call.
pub(crate) struct Clock {
    pub(crate) start: Vec<f64>,
    pub(crate) end: Vec<f64>,
    /// For each node, two per call and one per collective: the node that it waited for.
    causes: Vec<u32>,
    /// Whether some calls wait for one another in a cycle; their times are meaningless then.
    pub(crate) hangs: bool,
}

/// Part of a critical path: a call, and its own share of the time.
pub(crate) struct Stretch {
    pub(crate) call: u32,
    pub(crate) takes: f64,
}

const NOBODY: u32 = u32::MAX;

impl Pace for Steps {
    fn takes(&self, _: u32) -> f64 {
        1.0
    }

    fn raises(&self, _: u32) -> f64 {
        0.0
    }
}

impl Clock {
    pub(crate) fn new(links: &Links<'_>, pace: &dyn Pace) -> Self {
        let calls = links.len();
        let nodes = 2 * calls as usize + links.meetings.len() + links.exchanges.len();
        let mut edges: Vec<Vec<(u32, f64)>> = vec![Vec::new(); nodes];
        let mut missing = vec![0_u32; nodes];
        let mut edge = |from: u32, to: u32, takes: f64| {
            edges[from as usize].push((to, takes));
            missing[to as usize] += 1;
        };
        for call in 0..calls {
            edge(start(call), end(call), pace.takes(call));
            for &before in &links.before[call as usize] {
                edge(end(before), start(call), 0.0);
            }
        }
        for pair in &links.messages {
            let (from, to) = (pair.from.call, pair.to.call);
            if from != to {
                edge(start(from), end(to), pace.takes(to));
                edge(start(to), end(from), pace.takes(from));
            }
        }
        for pair in &links.signals {
            let (from, to) = (pair.from.call, pair.to.call);
            edge(start(from), end(to), pace.raises(from) + pace.takes(to));
        }
        for (hub, meeting) in (2 * calls..).zip(links.meetings.iter().chain(&links.exchanges)) {
            for port in meeting {
                edge(start(port.call), hub, 0.0);
                edge(hub, end(port.call), pace.takes(port.call));
            }
        }
        walk(&edges, missing, calls)
    }

    /// The chain of calls that determines the end, from the first to the last. Its parts sum to the
    /// whole.
    pub(crate) fn critical(&self, links: &Links<'_>, pace: &dyn Pace) -> Vec<Stretch> {
        let calls = links.len();
        let mut last: Option<u32> = None;
        for call in 0..calls {
            if last.is_none_or(|last| self.end[call as usize] > self.end[last as usize]) {
                last = Some(call);
            }
        }
        let mut path = Vec::new();
        let mut node = last.map_or(NOBODY, end);
        // A path visits no node twice; a schedule that hangs has no path.
        for _ in 0..self.causes.len() {
            if node == NOBODY || self.hangs {
                break;
            }
            let mut cause = self.causes[node as usize];
            if node < 2 * calls && node % 2 == 1 {
                let call = node / 2;
                path.push(Stretch { call, takes: pace.takes(call) });
                if cause != NOBODY && cause >= 2 * calls {
                    cause = self.causes[cause as usize];
                }
                let raised = self.end[call as usize] - pace.takes(call);
                if cause != NOBODY && cause != start(call) {
                    let takes = raised - self.start[(cause / 2) as usize];
                    if takes > 0.0 {
                        path.push(Stretch { call: cause / 2, takes });
                    }
                }
            }
            node = cause;
        }
        path.reverse();
        path
    }
}

fn walk(edges: &[Vec<(u32, f64)>], mut missing: Vec<u32>, calls: u32) -> Clock {
    let nodes = edges.len();
    let mut times = vec![0.0_f64; nodes];
    let mut causes = vec![NOBODY; nodes];
    let mut done = vec![false; nodes];
    let mut ready: Vec<u32> =
        (0..nodes as u32).filter(|node| missing[*node as usize] == 0).collect();
    let (mut hangs, mut next) = (false, 0);
    loop {
        while let Some(node) = ready.pop() {
            if std::mem::replace(&mut done[node as usize], true) {
                continue;
            }
            for &(to, takes) in &edges[node as usize] {
                let to_at = to as usize;
                if done[to_at] {
                    continue;
                }
                let time = times[node as usize] + takes;
                // Of equal causes, a call's own start says most.
                let own = to % 2 == 1 && node + 1 == to && to < 2 * calls;
                if causes[to_at] == NOBODY || time > times[to_at] || (own && time == times[to_at]) {
                    times[to_at] = time;
                    causes[to_at] = node;
                }
                missing[to_at] -= 1;
                if missing[to_at] == 0 {
                    ready.push(to);
                }
            }
        }
        while next < nodes && done[next] {
            next += 1;
        }
        if next == nodes {
            break;
        }
        // A cycle: cut it here, so that there is something to draw.
        hangs = true;
        ready.push(next as u32);
    }
    let of = |offset: usize| (0..calls as usize).map(|call| times[2 * call + offset]).collect();
    Clock { start: of(0), end: of(1), causes, hangs }
}

fn start(call: u32) -> u32 {
    2 * call
}

fn end(call: u32) -> u32 {
    2 * call + 1
}
