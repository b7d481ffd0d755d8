//! Whether what is sent is received, and what is raised is awaited, within some statements: then nothing is
//! under way after them, however often they run.
//!
//! Halves that run on all ranks, or on those of one condition which the way to the peer does not change, are
//! counted as they are written. Where the ranks at both ends are told apart by different conditions, a half
//! that is written as the other end of one need not be: those are counted rank by rank, on each number of ranks
//! if these are few.

use std::collections::HashMap;

use super::domain;
use crate::ir::{AxisId, Condition, Expr, Hop, LoopId, Peer, Plan, Region, Step, StepKind};
use crate::program::Env;

/// Ranks that are looked at one by one, of all numbers of them together, at most.
const RANKS: i64 = 4096;
/// Halves that are counted rank by rank, times the ranks, at most.
const WORK: usize = 1 << 18;

/// One end of a message or a signal: the sender's, or the one that receives or awaits.
pub(super) struct Half<'a> {
    /// Whether it is a signal, and which communicator or signal it is of.
    of: (bool, u32),
    peer: &'a Peer,
    is_incoming: bool,
    times: i64,
    /// The conditions around it.
    guards: Vec<&'a Condition>,
}

impl Half<'_> {
    /// The peer as seen from the sender.
    fn way(&self) -> Peer {
        if self.is_incoming { back(self.peer) } else { self.peer.clone() }
    }

    /// How much it adds to what is under way.
    fn more(&self) -> i64 {
        if self.is_incoming { self.times.saturating_neg() } else { self.times }
    }

    /// Whether the conditions say the same of both ends.
    fn is_alike_at_both_ends(&self) -> bool {
        let Peer::Shift(hops) = self.peer else { return false };
        let mut moves = |part: &Expr| match part {
            Expr::Rank => !hops.is_empty(),
            Expr::Coordinate(axis) => hops.iter().any(|hop| hop.axis == *axis),
            _ => false,
        };
        !self.guards.iter().any(|guard| guard.any(&mut moves))
            && !hops.iter().any(|hop| hop.by.mentions_rank())
    }
}

/// Whether every iteration does the same: what it sends is received in it, what it raises is awaited in it.
pub(super) fn is_even<'a>(plan: &'a Plan, body: &'a [Step], counter: LoopId) -> bool {
    let mut halves = Vec::new();
    count(plan, body, counter, &mut halves) && balanced(plan, halves)
}

fn balanced<'a>(plan: &'a Plan, halves: Vec<Half<'a>>) -> bool {
    let mut balance = Balance::of(plan);
    balance.add(halves);
    balance.is_even()
}

/// Collects the halves of what a body sends and signals. `false` where an iteration differs from another.
pub(super) fn count<'a>(
    plan: &'a Plan,
    body: &'a [Step],
    counter: LoopId,
    halves: &mut Vec<Half<'a>>,
) -> bool {
    let mentions = |expr: &Expr| expr.any(|part| *part == Expr::Loop(counter));
    let peer_is_even = |peer: &Peer| match peer {
        Peer::Shift(hops) => !hops.iter().any(|hop| mentions(&hop.by)),
        Peer::Rank(expr) => !mentions(expr),
    };
    let half = |of: (bool, u32), peer: &'a Peer, is_incoming: bool, times: i64| Half {
        of,
        peer,
        is_incoming,
        times,
        guards: Vec::new(),
    };
    for step in body {
        let fine = match &step.kind {
            StepKind::Compute(_) | StepKind::Collective(_) => true,
            StepKind::Transfer(this) => peer_is_even(&this.peer),
            StepKind::Send(this) => {
                halves.push(half((false, this.among.0), &this.peer, false, 1));
                peer_is_even(&this.peer)
            }
            StepKind::Receive(this) => {
                halves.push(half((false, this.among.0), &this.peer, true, 1));
                peer_is_even(&this.peer)
            }
            // Puts of different iterations may meet in one window: they are compared where the regions of an
            // iteration are those of every other.
            StepKind::Put(this) => {
                let region = |region: &Region| {
                    let mut parts = region.range.iter().flat_map(|(a, b)| [a, b]);
                    !parts.any(&mentions) && !region.index.iter().any(&mentions)
                };
                if let Some(signal) = this.signal {
                    halves.push(half((true, signal.0), &this.peer, false, 1));
                }
                peer_is_even(&this.peer) && region(&this.from) && region(&this.to)
            }
            StepKind::Signal(this) => {
                halves.push(half((true, this.signal.0), &this.peer, false, 1));
                peer_is_even(&this.peer)
            }
            StepKind::Wait(this) => this.signals.iter().all(|awaited| {
                let Expr::Int(times) = awaited.times else { return false };
                halves.push(half((true, awaited.signal.0), &awaited.peer, true, times));
                peer_is_even(&awaited.peer)
            }),
            StepKind::Group(body) | StepKind::Sequence(body) => count(plan, body, counter, halves),
            StepKind::When(this) => {
                let inside = halves.len();
                !this.condition.any(&mut |part| *part == Expr::Loop(counter))
                    && count(plan, &this.body, counter, halves)
                    && {
                        let inside = halves.iter_mut().skip(inside);
                        inside.for_each(|half| half.guards.push(&this.condition));
                        true
                    }
            }
            StepKind::Loop(this) => {
                let mut inner = Vec::new();
                !mentions(&this.from)
                    && !mentions(&this.to)
                    && count(plan, &this.body, counter, &mut inner)
                    && balanced(plan, inner)
            }
        };
        if !fine {
            return false;
        }
    }
    true
}

/// How much more is sent, or raised, than received or awaited.
pub(super) struct Balance<'a> {
    plan: &'a Plan,
    /// By communicator or signal, the way from the sender, and the conditions.
    written: Sums<((bool, u32), Peer, Vec<&'a Condition>)>,
    /// Whether the conditions around some half differ between its ends.
    by_rank: bool,
    /// By number of ranks, communicator or signal, sender and receiver: of the first ones.
    paired: Sums<(usize, (bool, u32), i64, i64)>,
    halves: Vec<Half<'a>>,
    counted: usize,
}

impl<'a> Balance<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self {
            plan,
            written: Sums::default(),
            by_rank: false,
            paired: Sums::default(),
            halves: Vec::new(),
            counted: 0,
        }
    }

    pub(super) fn add(&mut self, halves: Vec<Half<'a>>) {
        for half in &halves {
            self.by_rank |= !half.is_alike_at_both_ends();
            self.written.add((half.of, half.way(), half.guards.clone()), half.more());
        }
        self.halves.extend(halves);
    }

    pub(super) fn is_even(&mut self) -> bool {
        (!self.by_rank && self.written.uneven == 0) || self.is_even_by_rank()
    }

    /// Counted between each two ranks, where all numbers of ranks are listed.
    fn is_even_by_rank(&mut self) -> bool {
        let Some(all) = extents(self.plan) else { return false };
        let ranks: i64 = all.iter().map(|extents| extents.iter().product::<i64>()).sum();
        if ranks > RANKS || self.halves.len().saturating_mul(ranks as usize) > WORK {
            return false;
        }
        for half in &self.halves[self.counted..] {
            for (at, extents) in all.iter().enumerate() {
                for rank in 0..extents.iter().product() {
                    let Some(peer) = partner(self.plan, half, extents, rank) else { return false };
                    let Some(peer) = peer else { continue };
                    let (from, to) = if half.is_incoming { (peer, rank) } else { (rank, peer) };
                    self.paired.add((at, half.of, from, to), half.more());
                }
            }
            self.counted += 1;
        }
        self.paired.uneven == 0
    }
}

/// Sums, and how many of them are not zero.
struct Sums<K> {
    of: HashMap<K, i64>,
    uneven: usize,
}

impl<K> Default for Sums<K> {
    fn default() -> Self {
        Self { of: HashMap::new(), uneven: 0 }
    }
}

impl<K: Eq + std::hash::Hash> Sums<K> {
    fn add(&mut self, key: K, more: i64) {
        let of = self.of.entry(key).or_default();
        self.uneven -= usize::from(*of != 0);
        *of = of.saturating_add(more);
        self.uneven += usize::from(*of != 0);
    }
}

/// All extents of the axes together, where they are listed and few.
fn extents(plan: &Plan) -> Option<Vec<Vec<i64>>> {
    let mut all = vec![Vec::new()];
    for axis in &plan.axes {
        let values = domain::all(&axis.extent)?;
        if values.len().saturating_mul(all.len()) > RANKS as usize
            || !values.iter().all(|value| (1..=RANKS).contains(value))
        {
            return None;
        }
        let longer = |extents: &Vec<i64>| {
            let extents = extents.clone();
            values.iter().map(move |value| [&extents[..], &[*value]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
        if all.iter().any(|extents| extents.iter().product::<i64>() > RANKS) {
            return None;
        }
    }
    Some(all)
}

/// The rank at the other end, if this rank has the half at all; `None` where this depends on more than the
/// ranks.
fn partner(plan: &Plan, half: &Half<'_>, extents: &[i64], rank: i64) -> Option<Option<i64>> {
    let known = |expr: &Expr| {
        !expr.any(|part| matches!(part, Expr::Param(_) | Expr::Element(..) | Expr::Loop(_)))
    };
    let size = extents.iter().product();
    let env = Env { extents, size, params: &[], counters: &[], rank };
    for guard in &half.guards {
        if guard.any(&mut |part| !known(part)) {
            return None;
        }
        if !env.holds(guard).ok()? {
            return Some(None);
        }
    }
    match half.peer {
        Peer::Shift(hops) => {
            let mut there = rank;
            for hop in hops {
                if !known(&hop.by) {
                    return None;
                }
                let Some(next) = hopped(extents, there, hop, env.eval(&hop.by).ok()?) else {
                    return Some(None);
                };
                there = next;
            }
            Some(Some(there))
        }
        // Its number in the communicator, which is that of all ranks.
        Peer::Rank(number) => {
            let are_all = |axes: &[AxisId]| axes == [AxisId(0)];
            let whole = plan.axes.len() == 1
                && plan.communicators.iter().all(|among| are_all(&among.axes))
                && known(number);
            if whole { Some(Some(env.eval(number).ok()?)) } else { None }
        }
    }
}

/// The rank that a hop leads to, if it is there.
fn hopped(extents: &[i64], rank: i64, hop: &Hop, by: i64) -> Option<i64> {
    let after: i64 = extents[hop.axis.index() + 1..].iter().product();
    let extent = extents[hop.axis.index()];
    let place = rank / after % extent;
    let there = place.saturating_add(by);
    let there = if hop.wrap { there.rem_euclid(extent) } else { there };
    (0..extent).contains(&there).then_some(rank + (there - place) * after)
}

/// The way back, simplified where it is a number.
fn back(peer: &Peer) -> Peer {
    match peer {
        Peer::Shift(hops) => Peer::Shift(
            hops.iter()
                .map(|hop| {
                    let by = match &hop.by {
                        Expr::Int(by) => Expr::Int(by.saturating_neg()),
                        other => Expr::Int(0) - other.clone(),
                    };
                    Hop { by, ..hop.clone() }
                })
                .collect(),
        ),
        Peer::Rank(_) => peer.clone(),
    }
}
