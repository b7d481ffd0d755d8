//! A9 and A10: nobody reads or writes what another is writing.
//!
//! On one rank, memory itself orders the units that touch it. What is left are puts: they write another
//! rank's memory, and only signals order them with what is done there.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::instance::Instance;
use super::links::Links;
use super::orders::Orders;
use super::report::Report;
use crate::ir::Plan;
use crate::program::{Budget, Op, OpKind, Program, Span};
use crate::verdict::Check;

/// Whether there is something to ask.
pub(crate) fn is_asked(instance: &Instance<'_>) -> bool {
    instance.program.ops.iter().any(|op| op.kind == OpKind::Put)
}

/// How many runs show everything that one run can do to a later one.
pub(crate) fn runs(instance: &Instance<'_>) -> usize {
    runs_of(instance.plan)
}

/// The same, of a plan.
pub(crate) fn runs_of(plan: &Plan) -> usize {
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

/// A put's access: it lasts until its arrival, a unit of the target.
#[derive(Clone, Copy)]
struct Incoming {
    access: Access,
    arrival: Option<u32>,
}

#[derive(Default)]
struct Uses {
    own: Vec<Access>,
    puts: Vec<Incoming>,
}

pub(crate) fn check(
    instance: &Instance<'_>,
    links: &Links,
    orders: &Orders,
    may_overlap: &dyn Fn(&Op, &Op, bool) -> bool,
    budget: &mut Budget,
    report: &mut Report<'_>,
) {
    let program = instance.program;
    let runs = runs(instance);
    let uses = collect(program, links, runs);
    for ((rank, _), uses) in &uses {
        let mut found = Vec::new();
        for incoming in &uses.puts {
            if !of_put(program, incoming, uses, orders, may_overlap, budget, report, &mut found) {
                return report.too_large("what may happen to windows at the same time");
            }
        }
        // Who uses the memory is told before who else puts there: it is often the cause.
        found.sort_by_key(|(_, other): &(_, Access)| {
            program.ops[other.op as usize].kind == OpKind::Put
        });
        for (put, other) in &found {
            tell(program, *rank, put, other, orders.units, report);
        }
    }
}

/// Who uses the objects into which somebody puts, by rank and object.
fn collect(program: &Program, links: &Links, runs: usize) -> BTreeMap<(u32, u32), Uses> {
    let units = program.units.len() as u32;
    let mut uses: BTreeMap<(u32, u32), Uses> = BTreeMap::new();
    for run in 0..runs {
        let id = |unit: u32| run as u32 * units + unit;
        for arrival in &links.signals.arrivals {
            let op = &program.ops[arrival.put_op as usize];
            let object = program.objects.in_run(op.target.object, run);
            let span = Span { object, ..op.target };
            if span.is_empty() {
                continue;
            }
            let unit = id(arrival.put_unit);
            let access = Access { unit, op: arrival.put_op, span, writes: true };
            let arrival = arrival.wait.and_then(|(unit, later)| {
                let run = run + usize::from(later);
                (run < runs).then(|| run as u32 * units + unit)
            });
            uses.entry((op.peer, object)).or_default().puts.push(Incoming { access, arrival });
        }
    }
    for run in 0..runs {
        for (at, unit) in (0..).zip(&program.units) {
            for (op_at, op) in (unit.first_op..).zip(program.ops_of(unit)) {
                let target = if op.kind == OpKind::Put { Span::NOTHING } else { op.target };
                for (span, writes) in [(op.source, false), (target, true)] {
                    if span.is_empty() {
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

/// Compares a put with every other use of its object. `false` where that took too long.
#[expect(clippy::too_many_arguments, reason = "one step of `check`, written apart for its length")]
fn of_put(
    program: &Program,
    put: &Incoming,
    uses: &Uses,
    orders: &Orders,
    may_overlap: &dyn Fn(&Op, &Op, bool) -> bool,
    budget: &mut Budget,
    report: &mut Report<'_>,
    found: &mut Vec<(Incoming, Access)>,
) -> bool {
    let units = orders.units;
    let first_run = |unit: u32| unit < units;
    let meets = |other: &Access| {
        let ops = [put.access.op, other.op].map(|op| &program.ops[op as usize]);
        other.span.overlaps(put.access.span) || may_overlap(ops[0], ops[1], other.writes)
    };
    // What must have ended before the put starts, as nothing else orders it.
    let mut own: Vec<&Access> = Vec::new();
    for access in &uses.own {
        if !budget.take(1) {
            return false;
        }
        // Two later runs are to each other as two earlier ones.
        if !(first_run(access.unit) || first_run(put.access.unit)) || !meets(access) {
            continue;
        }
        let arrived = put.arrival.is_some_and(|wait| {
            let stream = program.units[(wait % units) as usize].stream;
            orders.clocks.ended(wait, stream, access.unit)
        });
        if !arrived {
            own.push(access);
        }
    }
    let others = uses.puts.iter().filter(|other| {
        (other.access.unit, other.access.op) != (put.access.unit, put.access.op)
            && (first_run(other.access.unit) || first_run(put.access.unit))
            && meets(&other.access)
    });
    let others: Vec<&Incoming> = others.collect();
    if !budget.take(uses.puts.len() as u64) {
        return false;
    }
    // On one stream of the rank, the last one having ended says that all have.
    let mut last: HashMap<u16, u32> = HashMap::new();
    for access in &own {
        let stream = program.units[(access.unit % units) as usize].stream;
        let last = last.entry(stream).or_insert(access.unit);
        if orders.clocks.place(*last) < orders.clocks.place(access.unit) {
            *last = access.unit;
        }
    }
    let mut wanted: HashSet<u32> = last.into_values().collect();
    wanted.extend(others.iter().filter_map(|other| other.arrival));
    let Some(mut ended) = orders.ended(put.access.unit, &wanted, budget) else { return false };
    let all: HashSet<u32> = own.iter().map(|access| access.unit).collect();
    if !own.is_empty() && !wanted.is_subset(&ended) {
        let Some(more) = orders.ended(put.access.unit, &all, budget) else { return false };
        ended.extend(more);
    } else {
        ended.extend(all);
    }
    for access in own {
        if ended.contains(&access.unit) {
            continue;
        }
        let arrived = match put.arrival {
            None => false,
            Some(wait) => match orders.ended(access.unit, &HashSet::from([wait]), budget) {
                None => return false,
                Some(found) => !found.is_empty(),
            },
        };
        if !arrived && access.span.overlaps(put.access.span) {
            found.push((*put, *access));
        } else if !arrived {
            report.undecided(Check::Hazards);
        }
    }
    for other in others {
        let before = other.arrival.is_some_and(|wait| ended.contains(&wait));
        let after = || match put.arrival {
            None => Some(false),
            Some(wait) => orders
                .ended(other.access.unit, &HashSet::from([wait]), budget)
                .map(|found| !found.is_empty()),
        };
        if before {
            continue;
        }
        let mut after = after;
        match after() {
            None => return false,
            Some(true) => {}
            Some(false) if other.access.span.overlaps(put.access.span) => {
                found.push((*put, other.access));
            }
            Some(false) => report.undecided(Check::Hazards),
        }
    }
    true
}

fn tell(
    program: &Program,
    rank: u32,
    put: &Incoming,
    other: &Access,
    units: u32,
    report: &mut Report<'_>,
) {
    let (op, theirs) = (&program.ops[put.access.op as usize], &program.ops[other.op as usize]);
    let at = program.place(op.statement);
    let runs = (put.access.unit / units, other.unit / units);
    let source = program.units[(put.access.unit % units) as usize].rank;
    let other_rank = program.units[(other.unit % units) as usize].rank;
    let is_put = theirs.kind == OpKind::Put;
    let within = |run: u32, other: u32| if run > other { "in the next run " } else { "" };
    let story = vec![
        report.line(
            other_rank,
            theirs,
            format!("{}{}", within(runs.1, runs.0), report.does_in(theirs, runs.1)),
        ),
        report.line(
            source,
            op,
            format!(
                "{}{}, in no order with it",
                within(runs.0, runs.1),
                report.does_in(op, runs.0)
            ),
        ),
    ];
    let does = match (is_put, other.writes) {
        (true, _) => format!("rank {other_rank} puts there too"),
        (false, true) => format!("rank {rank} writes there"),
        (false, false) if runs.1 <= runs.0 => format!("rank {rank} may still be reading"),
        (false, false) => format!("rank {rank} may already be reading"),
    };
    let title = format!(
        "rank {source} puts into {} of rank {rank}, and {does}",
        report.name(Span { object: put.access.span.object, ..put.access.span })
    );
    let (check, help): (_, &[&str]) = if runs.0 == runs.1 {
        (
            Check::Hazards,
            &[
                "wait for a signal of the put before the memory is used, or put only after a signal \
                 that says that it is free",
            ],
        )
    } else {
        (
            Check::ReplayHazards,
            &[
                "declare the window with two copies, which swap with every run",
                "or let the reader raise a signal when it is done, and wait for it before the put: an \
                 arrival proves that data came, not that its reader has finished",
            ],
        )
    };
    report.tell(check, at, title, story, help);
}
