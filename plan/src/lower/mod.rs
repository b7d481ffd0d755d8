//! From a checked plan to the calls that every rank makes.
//!
//! [`lower`] writes an instance out, joins neighbouring communication into one NCCL group where that changes
//! nothing but the number of launches, and orders the streams of each rank with events.
//!
//! Two neighbours share a group if they run on one stream, with nothing between them there; are of one kind
//! (messages, collectives, one-sided operations) and one communicator; touch different memory, or only read;
//! if the second waits for nothing that the first need not wait for, and nothing in between waits for the
//! first. What comes out is checked like a plan that was written so, and taken apart where it breaks a rule.
//! Waits for signals stand alone, and so do collectives on windows, whose kernels NCCL does not fuse.
//!
//! On a rank, a stream waits for another where a statement is `after` it, or where memory demands it. Of the
//! [model](crate#what-waits-for-what)'s waits for memory, the checks take the whole: all that was issued on the
//! other stream. A schedule waits for the very call that used the memory, if the plan passes the checks so as
//! well: a backward step then runs beside the all-reduce of the bucket before it, in every run.
//!
//! All ranks make their calls in the order of the plan's statements; a group stands at the place of its
//! first one.

mod arguments;
mod calls;
mod events;
mod explain;
mod greedy;
mod intervals;
mod joined;
mod last;
mod schedule;
mod settle;
mod turns;
mod uses;
mod warm_ups;
mod why;
mod words;

pub use schedule::{
    Call, Event, Operation, Part, RankSchedule, Reason, Schedule, WarmUp, WhyWait, Work,
};

use crate::check::{checked, problems_of, rejected};
use crate::ir::Plan;
use crate::program::Program;
use crate::verdict::{Rejected, Sizes};

/// The calls of every rank of an instance. The sizes need not be among those that the plan claims.
///
/// The same plan and sizes give the same schedule, on every machine: ranks that lower for themselves agree.
///
/// # Errors
///
/// Everything that is wrong with the instance: it is [checked](crate::check::check_at) first.
pub fn lower(plan: &Plan, sizes: &Sizes) -> Result<Schedule, Rejected> {
    let program = exactly(plan, sizes, checked(plan, sizes)?);
    let words = words::Words::new(plan);
    let (joined, reasons) = settle::settle(plan, sizes, &program, &words);
    let mut ranks = Vec::with_capacity(program.ranks());
    let mut why = why::Why::new(&joined.program, &words);
    for rank in 0..program.ranks() {
        let arguments = arguments::of_rank(plan, sizes, program.ranks(), rank)
            .map_err(|problem| rejected(plan, vec![*problem]))?;
        let waits = events::Waits::new(plan, &joined.program, rank);
        why.add(rank, &waits);
        ranks.push(calls::calls(&program, &joined, &words, rank, &waits, arguments));
    }
    Ok(Schedule {
        plan: plan.name.clone(),
        sizes: sizes.clone(),
        ranks,
        warm_ups: warm_ups::warm_ups(&joined.program),
        reasons,
        why_waits: why.finish(),
    })
}

/// Where the plan is right without more, its streams wait for the very calls whose memory they touch, and not
/// for all that was issued there. Puts may need more: only signals and such waits order them with the rest.
fn exactly(plan: &Plan, sizes: &Sizes, program: Program) -> Program {
    let program = Program { exact: true, ..program };
    let exact = problems_of(plan, &program, sizes).is_empty();
    Program { exact, ..program }
}
