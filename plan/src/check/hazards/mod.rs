//! A9 and A10: nobody reads or writes what another is writing.
//!
//! On one rank, memory itself orders the units that touch it. What is left are puts, which write
//! another rank's memory, and gets, which read it: only signals order them with what is done there.

mod caller;
mod clash;
mod gets;
mod help;
mod turns;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::alike;
use super::instance::Instance;
use super::links::Links;
use super::orders::Orders;
use super::report::Report;
use crate::ir::Plan;
use crate::program::{Budget, NONE, OpKind, Program, Span};

/// Whether there is something to ask.
pub(crate) fn is_asked(instance: &Instance<'_>) -> bool {
    instance.program.ops.iter().any(|op| matches!(op.kind, OpKind::Put | OpKind::Get))
}

/// How many runs show everything that one run can do to a later one.
pub(crate) fn runs(plan: &Plan) -> usize {
    match plan.replayed {
        false => 1,
        true if plan.buffers.iter().any(|buffer| buffer.window && buffer.copies == 2) => 3,
        true => 2,
    }
}

/// An access to one object of one rank.
#[derive(Clone, Copy)]
struct Access {
    /// Of all runs.
    unit: u32,
    op: u32,
    span: Span,
    writes: bool,
}

/// A put's access, which lasts until its arrival, a unit of the target; or a get's, which lasts
/// until its own unit ends.
#[derive(Clone, Copy)]
struct Incoming {
    access: Access,
    arrival: Option<u32>,
}

#[derive(Default)]
struct Uses {
    own: Vec<Access>,
    puts: Vec<Incoming>,
    gets: Vec<Incoming>,
}

pub(crate) fn check(
    instance: &Instance<'_>,
    links: &Links,
    orders: &Orders,
    budget: &mut Budget,
    report: &mut Report<'_>,
) {
    let program = instance.program;
    let runs = runs(instance.plan);
    let symmetric = alike::everywhere(program);
    // Around rings every rank's memory is used alike: one rank's is enough.
    let asked = |rank: u32| rank == 0 || !symmetric;
    let uses = collect(program, links, runs, asked);
    for ((rank, _), uses) in &uses {
        let mut found = Vec::new();
        let compare = Comparison { program, orders, rank: *rank };
        if !compare.all(uses, budget, &mut found) {
            return report.too_large("what may happen to windows at the same time");
        }
        // Who uses the memory is told before who else puts there: it is often the cause.
        found.sort_by_key(|(_, other): &(_, Access)| {
            program.ops[other.op as usize].kind == OpKind::Put
        });
        for (put, other) in &found {
            let clash = Clash { program, orders, rank: *rank, put, other };
            match program.ops[put.access.op as usize].kind {
                OpKind::Get => clash.tell_get(report),
                _ => clash.tell(report),
            }
        }
        if !gets::initialised(&compare, uses, budget, report)
            || !caller::check(&compare, uses, runs, budget, report)
        {
            return report.too_large("what may happen to windows at the same time");
        }
    }
}

/// The uses of objects that other ranks put into or read, for the ranks selected by `asked`, by rank
/// and object.
fn collect(
    program: &Program,
    links: &Links,
    runs: usize,
    asked: impl Fn(u32) -> bool,
) -> BTreeMap<(u32, u32), Uses> {
    let units = program.units.len() as u32;
    let is_none = |span: Span| span.object == NONE || span.is_empty();
    let mut uses: BTreeMap<(u32, u32), Uses> = BTreeMap::new();
    for run in 0..runs {
        let id = |unit: u32| run as u32 * units + unit;
        for arrival in &links.signals.arrivals {
            let op = &program.ops[arrival.put as usize];
            let object = program.objects.in_run(op.target.object, run);
            let span = Span { object, ..op.target };
            if is_none(span) || !asked(op.peer) {
                continue;
            }
            let access = Access { unit: id(op.unit), op: arrival.put, span, writes: true };
            let arrival = arrival.wait.and_then(|(unit, later)| {
                let run = run + usize::from(later);
                (run < runs).then(|| run as u32 * units + unit)
            });
            uses.entry((op.peer, object)).or_default().puts.push(Incoming { access, arrival });
        }
        let gets = (0..).zip(&program.ops).filter(|(_, op)| op.kind == OpKind::Get);
        for (at, op) in gets.filter(|(_, op)| !is_none(op.source) && asked(op.peer)) {
            let object = program.objects.in_run(op.source.object, run);
            let span = Span { object, ..op.source };
            let access = Access { unit: id(op.unit), op: at, span, writes: false };
            let get = Incoming { access, arrival: Some(access.unit) };
            uses.entry((op.peer, object)).or_default().gets.push(get);
        }
    }
    for run in 0..runs {
        for (at, unit) in (0..).zip(&program.units) {
            if !asked(unit.rank) {
                continue;
            }
            for (op_at, op) in (unit.first_op..).zip(program.ops_of(unit)) {
                let target = if op.kind == OpKind::Put { Span::NOTHING } else { op.target };
                for (span, writes) in [(op.read(), false), (target, true)] {
                    if is_none(span) {
                        continue;
                    }
                    let object = program.objects.in_run(span.object, run);
                    if let Some(uses) = uses.get_mut(&(unit.rank, object)) {
                        let span = Span { object, ..span };
                        let unit = run as u32 * units + at;
                        uses.own.push(Access { unit, op: op_at, span, writes });
                    }
                }
            }
        }
    }
    uses
}

/// Uses of the same elements by one stream of one rank, in the order of issue: the uses that have
/// ended at any moment come first.
struct Alike {
    span: Span,
    uses: Vec<Incoming>,
}

/// What own accesses, or puts, are alike by.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    rank: u32,
    stream: u16,
    communicator: u16,
    signal: u32,
    start: u64,
    end: u64,
    writes: bool,
}

impl Comparison<'_> {
    fn alike(&self, uses: impl Iterator<Item = Incoming>, is_put: bool) -> Vec<Alike> {
        let mut places: HashMap<Key, usize> = HashMap::new();
        let mut all: Vec<Alike> = Vec::new();
        for (at, using) in uses.enumerate() {
            let Access { unit, op, span, writes } = using.access;
            let unit = &self.program.units[(unit % self.orders.units) as usize];
            let op = &self.program.ops[op as usize];
            // Puts with a signal are awaited in their order; of those without, each is for itself.
            let alone = is_put && op.signal == NONE;
            let key = Key {
                rank: unit.rank,
                stream: unit.stream,
                communicator: if is_put { op.communicator } else { 0 },
                signal: if alone { NONE - 1 - at as u32 } else { op.signal },
                start: span.start,
                end: span.end,
                writes,
            };
            let new = all.len();
            let place = *places.entry(key).or_insert(new);
            if place == new {
                all.push(Alike { span, uses: Vec::new() });
            }
            all[place].uses.push(using);
        }
        all
    }
}

struct Comparison<'a> {
    program: &'a Program,
    orders: &'a Orders,
    rank: u32,
}

/// For each unit and rank asked so far, the progress that every stream of the rank has surely made
/// when the unit starts.
type Frontiers = HashMap<(u32, u32), Vec<u32>>;

impl Comparison<'_> {
    /// The progress of the streams of a rank when a unit starts.
    fn frontier<'f>(
        &self,
        unit: u32,
        rank: u32,
        known: &'f mut Frontiers,
        budget: &mut Budget,
    ) -> Option<&'f Vec<u32>> {
        Some(match known.entry((unit, rank)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.orders.frontier(unit, rank, budget)?),
        })
    }

    /// The rank of a unit of any run.
    fn rank_of(&self, unit: u32) -> u32 {
        self.program.units[(unit % self.orders.units) as usize].rank
    }

    fn stream(&self, unit: u32) -> usize {
        usize::from(self.program.units[(unit % self.orders.units) as usize].stream)
    }

    /// Whether a unit has ended when so much of its rank has.
    fn is_in(&self, unit: u32, frontier: &[u32]) -> bool {
        self.orders.clocks.place(unit) <= frontier[self.stream(unit)]
    }

    /// Compares every put with every other use of its object, and every get with every write of it.
    /// `false` where that took too long.
    fn all(&self, uses: &Uses, budget: &mut Budget, found: &mut Vec<(Incoming, Access)>) -> bool {
        let mut known = Frontiers::new();
        let own = uses.own.iter().map(|&access| Incoming { access, arrival: None });
        let own = self.alike(own, false);
        let puts = self.alike(uses.puts.iter().copied(), true);
        let gets = self.alike(uses.gets.iter().copied(), false);
        for (of, is_get) in
            puts.iter().map(|of| (of, false)).chain(gets.iter().map(|of| (of, true)))
        {
            if !budget.take(1 + (own.len() + puts.len()) as u64 / 16) {
                return false;
            }
            for (others, are_puts) in [(&own, false), (&puts, true)] {
                let matters = |other: &&Alike| {
                    of.span.overlaps(other.span) && (!is_get || other.uses[0].access.writes)
                };
                for other in others.iter().filter(matters) {
                    for using in &of.uses {
                        match self.pair(using, other, are_puts, &mut known, budget) {
                            None => return false,
                            Some(None) => {}
                            Some(Some(clash)) => found.push((*using, clash)),
                        }
                    }
                }
            }
        }
        true
    }

    /// The first of these uses that is not ordered with a put or a get. `None` if the search takes
    /// too long.
    fn pair(
        &self,
        put: &Incoming,
        other: &Alike,
        are_puts: bool,
        known: &mut Frontiers,
        budget: &mut Budget,
    ) -> Option<Option<Access>> {
        let units = self.orders.units;
        let first_run = |unit: u32| unit < units;
        // Two later runs are to each other as two earlier ones.
        let considered = if first_run(put.access.unit) {
            other.uses.len()
        } else {
            other.uses.partition_point(|using| first_run(using.access.unit))
        };
        if !budget.take(8) {
            return None;
        }
        let frontier = self.frontier(put.access.unit, self.rank, known, budget)?;
        let before = other.uses[..considered].partition_point(|using| {
            let end = if are_puts { using.arrival } else { Some(using.access.unit) };
            end.is_some_and(|unit| self.is_in(unit, frontier))
        });
        let is_itself = |using: &Incoming| {
            are_puts && (using.access.unit, using.access.op) == (put.access.unit, put.access.op)
        };
        let mut rest = other.uses[before..considered].iter().filter(|using| !is_itself(using));
        let Some(next) = rest.next() else { return Some(None) };
        let Some(wait) = put.arrival else { return Some(Some(next.access)) };
        let waiter = self.rank_of(wait);
        if !are_puts && waiter == self.rank {
            let stream = self.stream(wait) as u16;
            if self.orders.clocks.ended(wait, stream, next.access.unit) {
                return Some(None);
            }
        }
        let frontier = self.frontier(next.access.unit, waiter, known, budget)?;
        Some((!self.is_in(wait, frontier)).then_some(next.access))
    }
}

/// A put or a get, and a use of the same memory that is not ordered with it.
struct Clash<'a> {
    program: &'a Program,
    orders: &'a Orders,
    /// The rank that owns the memory.
    rank: u32,
    put: &'a Incoming,
    other: &'a Access,
}
