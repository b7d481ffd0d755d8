//! Gets of memory that the owner's caller has: a fill is a write of the owner before its run begins,
//! so a get comes after that, and is over before the caller may write to the memory again.

use super::super::report::Report;
use super::gets::exchange;
use super::{Comparison, Incoming, Uses};
use crate::ir::Role;
use crate::program::{Budget, Op};
use crate::verdict::Check;

/// When the caller fills memory that is read in a run.
struct Fills {
    /// The last run before which it is filled, up to this one.
    before: Option<u32>,
    /// The next such run.
    next: u32,
}

/// `false` if the search takes too long.
pub(super) fn check(
    compare: &Comparison<'_>,
    uses: &Uses,
    runs: usize,
    budget: &mut Budget,
    report: &mut Report<'_>,
) -> bool {
    let program = compare.program;
    for get in &uses.gets {
        let op = &program.ops[get.access.op as usize];
        let Some(fills) = fills(compare, get, op) else { continue };
        if let Some(run) = fills.before
            && !report.knows(Check::Hazards, op)
        {
            match compare.orders.begun(get.access.unit, (compare.rank, run), budget) {
                None => return false,
                Some(true) => {}
                Some(false) => tell(compare, op, false, report),
            }
        }
        if (fills.next as usize) < runs && !report.knows(Check::ReplayHazards, op) {
            match is_over(compare, get, fills.next, budget) {
                None => return false,
                Some(true) => {}
                Some(false) => tell(compare, op, true, report),
            }
        }
    }
    true
}

/// `None` for memory that the caller does not have.
fn fills(compare: &Comparison<'_>, get: &Incoming, op: &Op) -> Option<Fills> {
    let object = &compare.program.objects.all[op.source.object as usize];
    if object.role == Role::Local {
        return None;
    }
    let run = get.access.unit / compare.orders.units;
    // Of two copies, the caller fills the current one.
    let is_swapped = object.other_copy != op.source.object;
    let is_next = object.other_copy < op.source.object;
    // What is only written is filled by the run, and the caller's again once the run is over.
    let before = match object.role {
        Role::Out => None,
        _ if is_next => run.checked_sub(1),
        _ => Some(run),
    };
    let next = if is_swapped && !is_next { run + 2 } else { run + 1 };
    Some(Fills { before, next })
}

/// Whether a get is over before the caller may fill its memory for a run: when what the owner has
/// issued before is over, since the caller's work waits for all of its streams. `None` if the
/// search takes too long.
fn is_over(
    compare: &Comparison<'_>,
    get: &Incoming,
    run: u32,
    budget: &mut Budget,
) -> Option<bool> {
    let (program, units) = (compare.program, compare.orders.units);
    let mut streams = 0_u64;
    // The last unit of each stream.
    for unit in program.of_rank(compare.rank as usize).rev() {
        let stream = 1 << program.units[unit].stream;
        if streams & stream != 0 {
            continue;
        }
        streams |= stream;
        let last = (run - 1) * units + unit as u32;
        if compare.orders.ended_by(last, get.access.unit, budget)? {
            return Some(true);
        }
    }
    Some(false)
}

/// A rank reads memory that another one's caller has not filled yet, or uses for the next run.
fn tell(compare: &Comparison<'_>, op: &Op, is_late: bool, report: &mut Report<'_>) {
    let at = compare.program.place(op.statement);
    let (check, signal, does, place) = match is_late {
        false => {
            let place = format!("before line {}", at.line);
            (Check::Hazards, "ready", "may not have filled it yet", place)
        }
        true => {
            let place = format!("at the end of the run, after line {}", at.line);
            (Check::ReplayHazards, "done", "may use it for the next run meanwhile", place)
        }
    };
    let (reader, owner) = (compare.program.rank(op), compare.rank);
    let name = report.name(op.source);
    let title = format!("rank {reader} reads {name} of rank {owner}, whose caller {does}");
    let help = exchange((op, signal, (op.stream, op.stream)), is_late, &place, report);
    report.tell(check, at, title, vec![report.says(op)], [help]);
}
