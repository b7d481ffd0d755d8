//! Distances that count with a loop, around a ring of any number of ranks.
//!
//! Here no rank stands for the others: a loop over the ranks has more iterations the more of them there are.
//! But where every rank runs the same statements, in the same iterations, a place in the program (a statement
//! and the iterations around it) is the same on all of them, and places have one order. So it is enough that
//! nothing waits for a later place:
//!
//! * Both halves of a transfer are at one place, in one group. What p sends q and what q receives from p are
//!   the same places in the same order, so that each message meets its own other half, whatever distances
//!   lead to one rank.
//! * What a loop of signals raises is awaited by one later loop with the same bounds and the distance backwards:
//!   the wait of q in iteration k is for the rank at which q is the peer of iteration k. So between any two
//!   ranks both loops count equally often, and if the loops that raise and those that wait come in one order,
//!   the signals that a loop waits for are those of its own partner: of earlier places.
//! * On one rank, a unit waits for units of earlier places alone.
//!
//! Every edge leads to a later place, or from the starts to the ends of one: no circuit. Without puts, and with
//! one communicator, nothing else is left but lengths and what is filled, which are proved as for all plans, and
//! what is written and read.

use std::collections::HashSet;

use crate::ir::{
    AxisId, BufferId, Coverage, Expr, Hop, Launch, Loop, LoopId, Peer, Plan, Region, Role, Step,
    StepKind, Transfer, Values, Version,
};

/// From this NCCL on, a captured signal does not wait for the one before it.
const UNLIMITED: Version = Version(2, 32, 0);

/// Whether a plan is such that no number of ranks hangs, mismatches or races, if its lengths are right and a
/// few small numbers of ranks are. `false` says nothing.
pub(super) fn are_common(plan: &Plan) -> bool {
    let [axis] = &plan.axes[..] else { return false };
    let [among] = &plan.communicators[..] else { return false };
    let credit = plan.launch == Launch::Captured && plan.target < UNLIMITED;
    // From one or a few ranks on, without a gap: the first ones are looked at one by one.
    let first = matches!(axis.extent, Values::AtLeast(first) if (1..=4).contains(&first));
    let mut walk =
        Walk { plan, raises: Vec::new(), waits: Vec::new(), read: HashSet::new(), counts: false };
    first
        && !credit
        && among.axes == [AxisId(0)]
        && plan.promises.is_empty()
        && plan.computes.is_empty()
        && plan.buffers.iter().all(|buffer| buffer.copies == 1 && buffer.array.is_none())
        && walk.steps(&plan.steps, None)
        && (0..).zip(&plan.buffers).all(|(id, buffer)| match buffer.role {
            // Written by the caller, so that nothing is read too early, and never left unwritten.
            Role::In | Role::InOut => true,
            // Filled as a whole, which is proved, and never read.
            Role::Out => {
                let is_it = |covered: &Coverage| {
                    covered.region.buffer == BufferId(id) && covered.region.range.is_none()
                };
                plan.covers.iter().any(is_it) && !walk.read.contains(&BufferId(id))
            }
            Role::Local => false,
        })
        && walk.counts
        && walk.waits_for_what_is_raised()
}

struct Walk<'a> {
    plan: &'a Plan,
    /// Signals that are raised, in order: which, in which loop, how far.
    raises: Vec<Round<'a>>,
    /// Signals that are awaited, and by how far they are away from who raises them.
    waits: Vec<Round<'a>>,
    /// Buffers that something reads.
    read: HashSet<BufferId>,
    /// Whether some distance counts with a loop: else one rank stands for the others.
    counts: bool,
}

/// A signal in a loop over distances, or in none.
struct Round<'a> {
    /// Which statement this is, at the top.
    at: usize,
    signal: u32,
    bounds: Option<(&'a Expr, &'a Expr, bool)>,
    /// Some times the counter, and a number.
    by: (i64, i64),
}

impl<'a> Walk<'a> {
    fn steps(&mut self, steps: &'a [Step], around: Option<(usize, &'a Loop)>) -> bool {
        steps.iter().enumerate().all(|(at, step)| {
            let place = around.map_or(at, |(at, _)| at);
            let counter = around.map(|(_, around)| around.counter);
            let bounds = around.map(|(_, around)| (&around.from, &around.to, around.reverse));
            match &step.kind {
                StepKind::Compute(this) => {
                    this.reads.iter().all(|region| self.region(region, false))
                        && this.writes.iter().all(|region| self.region(region, true))
                }
                StepKind::Transfer(this) => {
                    let Some((slope, _)) = distance(&this.peer, counter) else { return false };
                    self.counts |= slope != 0;
                    self.region(&this.from, false)
                        && self.region(&this.to, true)
                        && self.are_apart(&this.from, &this.to)
                }
                // A loop with a signal has nothing else: then its iterations are counted by one number.
                StepKind::Signal(this) if around.is_none() || steps.len() == 1 => {
                    let Some(by) = distance(&this.peer, counter) else { return false };
                    self.counts |= by.0 != 0;
                    self.raises.push(Round { at: place, signal: this.signal.0, bounds, by });
                    true
                }
                StepKind::Wait(this) if around.is_none() || steps.len() == 1 => {
                    let [awaited] = &this.signals[..] else { return false };
                    let Some((slope, more)) = distance(&awaited.peer, counter) else {
                        return false;
                    };
                    let (Some(slope), Some(more)) = (slope.checked_neg(), more.checked_neg())
                    else {
                        return false;
                    };
                    let (signal, by) = (awaited.signal.0, (slope, more));
                    self.waits.push(Round { at: place, signal, bounds, by });
                    awaited.times == Expr::Int(1)
                }
                StepKind::Group(body) => self.group(body, counter),
                StepKind::Loop(this) if around.is_none() => {
                    over_ranks(this) && self.steps(&this.body, Some((at, this)))
                }
                _ => false,
            }
        })
    }

    /// A group of transfers is one place. All of it is at once, so what it writes are parts: that they are apart
    /// is proved with the lengths, and whole buffers may be empty at the first sizes.
    fn group(&mut self, body: &'a [Step], counter: Option<LoopId>) -> bool {
        let mut transfers = Vec::new();
        if !grouped(body, counter, &mut transfers) {
            return false;
        }
        let written: HashSet<_> = transfers.iter().map(|(of, _)| of.to.buffer).collect();
        transfers.iter().all(|(of, counter)| {
            let Some((slope, _)) = distance(&of.peer, *counter) else { return false };
            self.counts |= slope != 0;
            self.region(&of.from, false)
                && self.region(&of.to, true)
                && self.are_apart(&of.from, &of.to)
                && of.to.range.is_some()
                && (of.from.range.is_some() || !written.contains(&of.from.buffer))
        })
    }

    /// A region that may be read or written: inputs are not written, at whichever size.
    fn region(&mut self, region: &Region, writes: bool) -> bool {
        if !writes {
            self.read.insert(region.buffer);
        }
        let role = self.plan.buffers[region.buffer.index()].role;
        region.index.is_none() && !region.next && !(writes && role == Role::In)
    }

    /// Whether what is sent and received are of one element, and in different buffers or parts of one. (Whether
    /// parts are apart is proved with the lengths; whole buffers may be empty at the first sizes.)
    fn are_apart(&self, from: &Region, to: &Region) -> bool {
        let buffers = &self.plan.buffers;
        buffers[from.buffer.index()].element == buffers[to.buffer.index()].element
            && (from.buffer != to.buffer || (from.range.is_some() && to.range.is_some()))
    }

    /// Whether the k-th that waits is for the k-th that raises, which is earlier.
    fn waits_for_what_is_raised(&self) -> bool {
        self.raises.len() == self.waits.len()
            && self.raises.iter().zip(&self.waits).all(|(raise, wait)| {
                raise.at < wait.at
                    && raise.signal == wait.signal
                    && raise.bounds == wait.bounds
                    && raise.by == wait.by
            })
    }
}

/// The transfers of a group, each with the counter of the one loop around it; `false` where there is more.
fn grouped<'a>(
    steps: &'a [Step],
    counter: Option<LoopId>,
    found: &mut Vec<(&'a Transfer, Option<LoopId>)>,
) -> bool {
    steps.iter().all(|step| match &step.kind {
        StepKind::Transfer(this) => {
            found.push((this, counter));
            true
        }
        StepKind::Loop(this) if counter.is_none() => {
            over_ranks(this) && grouped(&this.body, Some(this.counter), found)
        }
        _ => false,
    })
}

/// A loop from one of the first numbers to about the number of ranks, or to a small number: the first numbers of
/// ranks show each of its statements.
fn over_ranks(this: &Loop) -> bool {
    let small = |expr: &Expr| matches!(expr, Expr::Int(value) if (0..=4).contains(value));
    let to = match &this.to {
        Expr::Add(to, more) | Expr::Sub(to, more) if small(more) => to,
        to => to,
    };
    small(&this.from) && (small(&this.to) || matches!(to, Expr::Size | Expr::Extent(AxisId(0))))
}

/// How far around the ring a peer is: some times the counter, and a number. The same on every rank.
fn distance(peer: &Peer, counter: Option<LoopId>) -> Option<(i64, i64)> {
    let Peer::Shift(hops) = peer else { return None };
    match &hops[..] {
        [] => Some((0, 0)),
        [Hop { axis: AxisId(0), by, wrap: true }] => {
            let (slope, more) = linear(by, counter)?;
            // Far from the end of 64 bits for every number of ranks there may be.
            let small = |value: i64| (-1024..=1024).contains(&value);
            (small(slope) && small(more)).then_some((slope, more))
        }
        _ => None,
    }
}

fn linear(expr: &Expr, counter: Option<LoopId>) -> Option<(i64, i64)> {
    match expr {
        Expr::Int(value) => Some((0, *value)),
        Expr::Loop(id) if Some(*id) == counter => Some((1, 0)),
        Expr::Add(a, b) => {
            let ((x, c), (y, d)) = (linear(a, counter)?, linear(b, counter)?);
            Some((x.checked_add(y)?, c.checked_add(d)?))
        }
        Expr::Sub(a, b) => {
            let ((x, c), (y, d)) = (linear(a, counter)?, linear(b, counter)?);
            Some((x.checked_sub(y)?, c.checked_sub(d)?))
        }
        Expr::Mul(a, b) => match (linear(a, counter)?, linear(b, counter)?) {
            ((0, by), (x, c)) | ((x, c), (0, by)) => Some((x.checked_mul(by)?, c.checked_mul(by)?)),
            _ => None,
        },
        _ => None,
    }
}
