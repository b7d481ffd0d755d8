//! From a schedule to seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bytes::Groups;
use super::topology::Topology;
use crate::draw::{Clock, Links, Pace};
use crate::ir::{Location, Plan, StreamId};
use crate::lower::{Schedule, Work};

/// What a schedule takes, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Until the last call ends.
    pub total: f64,
    /// Until each rank's last call ends.
    pub ranks: Vec<f64>,
    /// What each stream of each rank does meanwhile.
    pub streams: Vec<Busy>,
    /// The chain of calls that the end waits for, in order: their parts sum to the total.
    pub critical: Vec<CriticalCall>,
    /// Whether calls wait for one another in a circle. Then the schedule never ends, the times mean nothing,
    /// and no chain is given. No schedule of a checked plan does.
    pub hangs: bool,
}

/// A stream of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Whose it is.
    pub rank: u32,
    /// Which.
    pub stream: StreamId,
    /// Seconds in which its calls do something.
    pub busy: f64,
    /// Seconds in which a call is launched and waits for other ranks.
    pub waits: f64,
}

/// A call of the critical path.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalCall {
    /// Whose it is.
    pub rank: u32,
    /// Its place among the rank's calls.
    pub call: u32,
    /// The plan's statements that it comes from.
    pub from: Vec<Location>,
    /// Seconds of the total that are its own.
    pub seconds: f64,
    /// Which share of the total that is, from 0 to 1.
    pub share: f64,
}

/// A compute step whose cost is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Computes<'a> {
    /// On which rank it runs.
    pub rank: u32,
    /// What it is called.
    pub name: &'a str,
    /// The numbers that it gets.
    pub arguments: &'a [i64],
}

/// Estimates a schedule whose compute steps take no time.
pub fn estimate(plan: &Plan, schedule: &Schedule, topology: &Topology) -> Estimate {
    estimate_with(plan, schedule, topology, |_| Duration::ZERO)
}

/// Estimates a schedule; `computes` says what a compute step takes, its launch included.
pub fn estimate_with(
    plan: &Plan,
    schedule: &Schedule,
    topology: &Topology,
    computes: impl Fn(Computes<'_>) -> Duration,
) -> Estimate {
    let links = Links::new(plan, schedule);
    let mut groups = Groups::new(plan, topology, &links);
    let seconds = links.calls.iter().map(|placed| match &placed.call.work {
        Work::Group(operations) => groups.takes(placed.rank, operations),
        Work::Kernel { operations, legs } => {
            let own = groups.kernel(placed.rank, operations, legs);
            own.unwrap_or_else(|| groups.takes(placed.rank, operations))
        }
        Work::Compute { name, arguments, .. } => {
            let rank = placed.rank;
            computes(Computes { rank, name, arguments }).as_secs_f64()
        }
    });
    let seconds = Seconds(seconds.collect());
    let clock = Clock::new(&links, &seconds);

    let mut ranks = vec![0.0_f64; schedule.ranks.len()];
    let mut streams: BTreeMap<(u32, StreamId), Busy> = BTreeMap::new();
    for (at, placed) in links.calls.iter().enumerate() {
        let (rank, stream) = (placed.rank, placed.call.stream);
        let end = &mut ranks[rank as usize];
        *end = end.max(clock.end[at]);
        let of = streams.entry((rank, stream));
        let of = of.or_insert(Busy { rank, stream, busy: 0.0, waits: 0.0 });
        of.busy += seconds.0[at];
        of.waits += (clock.end[at] - clock.start[at] - seconds.0[at]).max(0.0);
    }
    let total = ranks.iter().copied().fold(0.0, f64::max);
    let critical = clock.critical(&links, &seconds).into_iter().map(|stretch| {
        let placed = &links.calls[stretch.call as usize];
        let share = if total > 0.0 { stretch.takes / total } else { 0.0 };
        CriticalCall {
            rank: placed.rank,
            call: placed.nth,
            from: placed.call.from.clone(),
            seconds: stretch.takes,
            share,
        }
    });
    let critical = critical.collect();
    let streams = streams.into_values().collect();
    Estimate { total, ranks, streams, critical, hangs: clock.hangs }
}

/// What every call takes.
struct Seconds(Vec<f64>);

impl Pace for Seconds {
    fn takes(&self, call: u32) -> f64 {
        self.0[call as usize]
    }

    /// A signal is there when the call that raises it ends, if that one waits for nothing.
    fn raises(&self, call: u32) -> f64 {
        self.0[call as usize]
    }
}
