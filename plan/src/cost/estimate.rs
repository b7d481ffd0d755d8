//! Estimates the time of a schedule.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bytes::Groups;
use super::topology::Topology;
use crate::draw::{Clock, Links, Pace};
use crate::ir::{Location, Plan, StreamId};
use crate::lower::{Schedule, Work};

/// The estimated time of a schedule, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Until the last call ends.
    pub total: f64,
    /// Until each rank's last call ends.
    pub ranks: Vec<f64>,
    /// The use of each stream of each rank.
    pub streams: Vec<Busy>,
    /// The chain of calls that determines the end, in order: their parts sum to the total.
    pub critical: Vec<CriticalCall>,
    /// Whether calls wait for one another in a cycle. Then the schedule never ends, the times are
    /// meaningless, and there is no chain. Schedules of checked plans never do.
    pub hangs: bool,
}

/// A stream of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Busy {
    /// Its rank.
    pub rank: u32,
    /// The stream.
    pub stream: StreamId,
    /// Seconds in which its calls do work.
    pub busy: f64,
    /// Seconds in which a call is launched and waits for other ranks.
    pub waits: f64,
}

/// A call of the critical path.
#[derive(Clone, Debug, PartialEq)]
pub struct CriticalCall {
    /// Its rank.
    pub rank: u32,
    /// Its index among the rank's calls.
    pub call: u32,
    /// The statements that it comes from.
    pub from: Vec<Location>,
    /// Seconds of the total that it accounts for.
    pub seconds: f64,
    /// Its share of the total, from 0 to 1.
    pub share: f64,
}

/// A compute step whose cost is requested.
#[derive(Clone, Copy, Debug)]
pub struct Computes<'a> {
    /// The rank that runs it.
    pub rank: u32,
    /// Its name.
    pub name: &'a str,
    /// Its numeric arguments.
    pub arguments: &'a [i64],
}

/// Estimates a schedule whose compute steps take no time.
pub fn estimate(plan: &Plan, schedule: &Schedule, topology: &Topology) -> Estimate {
    estimate_with(plan, schedule, topology, |_| Duration::ZERO)
}

/// Estimates a schedule; `computes` returns the time of a compute step, including its launch.
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
        Work::Assign { to, of, .. } => groups.assigns(placed.rank, to, of),
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

/// The time of every call.
struct Seconds(Vec<f64>);

impl Pace for Seconds {
    fn takes(&self, call: u32) -> f64 {
        self.0[call as usize]
    }

    /// A signal arrives when the call that raises it ends, if that call waits for nothing.
    fn raises(&self, call: u32) -> f64 {
        self.0[call as usize]
    }
}
