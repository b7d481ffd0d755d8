//! A schedule does what its plan does, and leaves the same memory whatever the order of events.

use std::collections::BTreeMap;

use plan_simulator::schedule::{communicator, run_schedule};
use typed_nccl_plan::cost::Topology;
use typed_nccl_plan::ir::{CommunicatorId, Plan};
use typed_nccl_plan::lower::{Leg, Operation, Schedule, Work, lower};
use typed_nccl_plan::verdict::Sizes;

use super::apart;
use super::words::groups;

/// How many runs follow one another.
const RUNS: usize = 3;

/// The schedule does on every rank what the plan does that nothing was joined in, in the same
/// order, and leaves the same memory whatever the order of events.
#[track_caller]
pub(crate) fn verify(plan: &Plan, sizes: &Sizes) -> Schedule {
    let schedule = lowered(plan, sizes);
    let plain_plan = apart::apart(plan);
    let plain = lowered(&plain_plan, sizes);
    // What a rank receives in a sequence stands beside what it sends, whatever is written between.
    if !apart::has_sequences(&plan.steps) {
        assert!(plain.reasons.iter().all(|reason| !reason.joined), "{:?}", plain.reasons);
    }
    for rank in 0..schedule.ranks.len() {
        assert_eq!(order(&schedule, rank), order(&plain, rank), "rank {rank}, {}", sizes.text);
    }
    grouped_alike(&schedule);
    let runs = if plan.replayed { RUNS } else { 1 };
    let reference = run_schedule(&plain_plan, &plain, runs, 1);
    for seed in 0..8 {
        let left = run_schedule(plan, &schedule, runs, seed);
        assert!(left == reference, "other memory, {}", sizes.text);
    }
    with_kernels(plan, &plain_plan, (&schedule, &plain), runs);
    schedule
}

/// With kernels it does the same as without, and leaves the same memory. They take no time here, so
/// that whatever they can do they do.
#[track_caller]
fn with_kernels(
    plan: &Plan,
    plain_plan: &Plan,
    (schedule, plain): (&Schedule, &Schedule),
    runs: usize,
) {
    let kernels = schedule.clone().with_kernels(plan, &no_time());
    if kernels.ranks == schedule.ranks {
        return;
    }
    for rank in 0..schedule.ranks.len() {
        let (one, other) = (order(&kernels, rank), order(schedule, rank));
        assert!(same_but_for_kinds(&one, &other), "rank {rank}");
    }
    legs_meet(&kernels);
    let reference = run_schedule(plain_plan, plain, runs, 1);
    for seed in 0..4 {
        assert!(run_schedule(plan, &kernels, runs, seed) == reference, "other memory by kernels");
    }
}

/// A rank's kernels of messages on a communicator: their operations, and their legs.
fn kernels_of_messages(
    schedule: &Schedule,
    rank: u32,
    among: CommunicatorId,
) -> Vec<(&[Operation], &[Leg])> {
    let calls = schedule.ranks[rank as usize].calls.iter();
    let kernels = calls.filter_map(|call| match &call.work {
        Work::Kernel { operations, legs } if !legs.is_empty() => Some((&operations[..], &legs[..])),
        _ => None,
    });
    kernels.filter(|(operations, _)| communicator(&operations[0]) == among).collect()
}

/// Who is sent something in a leg of a kernel receives as much in that leg of its own, and nothing
/// is left out.
#[track_caller]
fn legs_meet(schedule: &Schedule) {
    let all = (0..4).map(CommunicatorId);
    let pairs =
        all.flat_map(|among| (0..schedule.ranks.len() as u32).map(move |rank| (among, rank)));
    for (among, rank) in pairs {
        let own = kernels_of_messages(schedule, rank, among);
        for (nth, (operations, legs)) in own.into_iter().enumerate() {
            let halves = legs.iter().flat_map(|leg| [leg.send, leg.receive]).flatten().count();
            assert_eq!(halves, operations.len(), "rank {rank}");
            for (at, leg) in legs.iter().enumerate() {
                let Some(Operation::Send { from, peer, .. }) =
                    leg.send.map(|send| &operations[send as usize])
                else {
                    assert_eq!(leg.send, None, "rank {rank}: it does not send");
                    continue;
                };
                let (theirs, their_legs) = kernels_of_messages(schedule, *peer, among)[nth];
                let into = their_legs[at].receive.map(|receive| &theirs[receive as usize]);
                let Some(Operation::Receive { to, peer, .. }) = into else {
                    panic!("rank {rank}, leg {at}: nobody receives it")
                };
                let lens = [leg.len, their_legs[at].len, to.end - to.start, from.end - from.start];
                assert_eq!((*peer, lens), (rank, [leg.len; 4]), "rank {rank}, leg {at}");
            }
        }
    }
}

/// A machine on which kernels win.
pub(crate) fn no_time() -> Topology {
    Topology { launch: 1.0, ..Topology::free() }
}

/// Whether each communicator and each stream does the same, whatever the order within what is
/// launched together.
fn same_but_for_kinds(one: &Order<'_>, other: &Order<'_>) -> bool {
    let sorted = |(among, on): &Order<'_>| {
        let tell = |ops: &Vec<&Operation>| {
            let mut told: Vec<String> = ops.iter().map(|op| format!("{op:?}")).collect();
            told.sort();
            told
        };
        let among: Vec<_> = among.values().map(tell).collect();
        let on: Vec<Vec<String>> = on
            .values()
            .cloned()
            .map(|mut told| {
                told.sort();
                told
            })
            .collect();
        (among, on)
    };
    sorted(one) == sorted(other)
}

#[track_caller]
pub(crate) fn lowered(plan: &Plan, sizes: &Sizes) -> Schedule {
    lower(plan, sizes).unwrap_or_else(|rejected| panic!("{}: {rejected}", sizes.text))
}

/// Of each communicator, and of each stream, what a rank does, in order.
type Order<'a> = (BTreeMap<u32, Vec<&'a Operation>>, BTreeMap<u32, Vec<String>>);

fn order(schedule: &Schedule, rank: usize) -> Order<'_> {
    let (mut among, mut on) = (BTreeMap::new(), BTreeMap::new());
    for call in &schedule.ranks[rank].calls {
        let mut tell = |what: String| {
            on.entry(call.stream.0).or_insert_with(Vec::new).push(what);
        };
        match &call.work {
            Work::Compute { name, .. } if name == apart::NAME => {}
            Work::Compute { .. } | Work::Assign { .. } => tell(format!("{:?}", call.work)),
            Work::Group(ops) | Work::Kernel { operations: ops, .. } => {
                for op in ops {
                    among.entry(communicator(op).0).or_insert_with(Vec::new).push(op);
                    tell(format!("{op:?}"));
                }
            }
        }
    }
    (among, on)
}

/// The messages between two ranks are parted into groups alike at both ends.
#[track_caller]
fn grouped_alike(schedule: &Schedule) {
    let ends = |a: u32, b: u32| {
        // The groups of rank a that have messages with rank b: how many of each direction.
        let counts = groups(schedule, a as usize).into_iter().map(|ops| {
            let to = |op: &&Operation| matches!(op, Operation::Send { peer, .. } if *peer == b);
            let from =
                |op: &&Operation| matches!(op, Operation::Receive { peer, .. } if *peer == b);
            (ops.iter().filter(to).count(), ops.iter().filter(from).count())
        });
        counts.filter(|counts| *counts != (0, 0)).collect::<Vec<_>>()
    };
    for a in 0..schedule.ranks.len() as u32 {
        for b in 0..a {
            let mirrored: Vec<_> = ends(b, a).into_iter().map(|(to, from)| (from, to)).collect();
            assert_eq!(ends(a, b), mirrored, "ranks {a} and {b}");
        }
    }
}
