//! Small changes to a plan, most of which break it.

use std::fmt;

use typed_nccl_plan::ir::{
    BufferId, CollectiveKind, CommunicatorId, ElementType, Equation, Expr, Launch, Order, Peer,
    Plan, Reduction, Role, SignalId, Step, StepKind, StreamId, Version,
};

use crate::make::{self, step};
use crate::random::Random;

/// A slip, as people make them in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Change {
    Dropped,
    Twice,
    Swapped,
    Ungrouped,
    Guarded,
    Number,
    Stream,
    Communicator,
    Peer,
    Signal,
    Part,
    Memory,
    Statement,
}

/// The slips, each with the cases of [`bend`] that make it.
const CHANGES: [(Change, &str, usize); 13] = [
    (Change::Dropped, "a statement dropped", 0),
    (Change::Twice, "a statement twice", 3),
    (Change::Swapped, "two statements swapped", 4),
    (Change::Ungrouped, "a group or guard removed", 7),
    (Change::Guarded, "a guard added", 9),
    (Change::Number, "another number", 11),
    (Change::Stream, "another stream or `after`", 13),
    (Change::Communicator, "another communicator", 15),
    (Change::Peer, "another peer", 16),
    (Change::Signal, "another signal", 17),
    (Change::Part, "another part of memory", 18),
    (Change::Memory, "another declaration", 19),
    (Change::Statement, "another kind or root", 21),
];

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = CHANGES.iter().find(|(change, ..)| change == self);
        f.write_str(known.map_or("", |(_, name, _)| name))
    }
}

/// Makes a slip in a plan; it may also stay as it is.
pub(crate) fn change(plan: &mut Plan, random: &mut Random) -> Change {
    let &(change, _, case) = random.pick(&CHANGES);
    bend_as(plan, case, random);
    change
}

/// Changes a plan a little; it may also stay as it is.
pub(super) fn bend(plan: &mut Plan, random: &mut Random) {
    let case = random.below(24);
    bend_as(plan, case, random);
}

fn bend_as(plan: &mut Plan, case: usize, random: &mut Random) {
    match case {
        0..=2 => in_list(plan, random, |list, at, _| {
            list.remove(at);
        }),
        3 => in_list(plan, random, |list, at, _| list.insert(at, list[at].clone())),
        4..=6 => in_list(plan, random, |list, at, random| {
            let other = random.below(list.len());
            list.swap(at, other);
        }),
        7 => in_list(plan, random, unwrap),
        8 => in_list(plan, random, |list, at, _| {
            let body = list.drain(at..(at + 2).min(list.len())).collect();
            list.insert(at, make::group(body));
        }),
        9 => in_list(plan, random, |list, at, random| guard(list, at, random)),
        10 => in_list(plan, random, split),
        11 | 12 => number(plan, random),
        13 | 14 => places(plan, random),
        15 => {
            let many = plan.communicators.len();
            one_of(plan, random, make::among_of, |among, random| {
                *among = CommunicatorId(random.below(many) as u32);
            });
        }
        16 => one_of(plan, random, make::peer_of, peer),
        17 => {
            let many = plan.signals.len().max(1);
            one_of(plan, random, make::signal_of, |signal, random| {
                *signal = SignalId(random.below(many) as u32);
            });
        }
        18 => {
            let many = plan.buffers.len().max(1);
            one_of(plan, random, make::region_of, |region, random| match random.below(4) {
                0 => region.next = !region.next,
                1 => region.range = Some((0.into(), random.range(0, 4).into())),
                2 => region.range = None,
                _ => region.buffer = BufferId(random.below(many) as u32),
            });
        }
        19 | 20 => buffer(plan, random),
        21 => in_list(plan, random, |list, at, random| statement(list, at, random)),
        22 => launch(plan, random),
        _ => {
            let list = plan.covers.len();
            if list > 0 && random.chance(1, 2) {
                let coverage = plan.covers[random.below(list)].clone();
                plan.covers.push(coverage);
            }
            if let Some(post) = plan.computes.first_mut() {
                post.kind = CollectiveKind::AllReduce(Reduction::Max);
            }
            if let Some(claim) = plan.claims.first_mut() {
                claim.by = *random.pick(&[Reduction::Sum, Reduction::Max]);
                claim.of[0].rank = match random.below(3) {
                    0 => Peer::Shift(Vec::new()),
                    1 => make::hop(0, 1, random.chance(1, 2)),
                    _ => make::rank(Expr::Rank ^ 1),
                };
            }
        }
    }
}

/// Changes a list of statements at a place.
fn in_list(
    plan: &mut Plan,
    random: &mut Random,
    change: impl Fn(&mut Vec<Step>, usize, &mut Random),
) {
    let mut many = 0;
    make::lists(&mut plan.steps, &mut |list| many += list.len());
    if many == 0 {
        return;
    }
    let mut which = random.below(many);
    let mut done = false;
    make::lists(&mut plan.steps, &mut |list| {
        if !done && which < list.len() {
            done = true;
            change(list, which, random);
        } else if !done {
            which -= list.len();
        }
    });
}

type Visit<T> = fn(&mut Step, &mut dyn FnMut(&mut T));

/// Changes one of the things of a kind.
fn one_of<T>(
    plan: &mut Plan,
    random: &mut Random,
    each: Visit<T>,
    change: impl Fn(&mut T, &mut Random),
) {
    let mut many = 0;
    plan.steps.iter_mut().for_each(|step| each(step, &mut |_| many += 1));
    if many == 0 {
        return;
    }
    let which = random.below(many);
    let mut at = 0;
    for step in &mut plan.steps {
        each(step, &mut |thing| {
            if at == which {
                change(thing, random);
            }
            at += 1;
        });
    }
}

fn unwrap(list: &mut Vec<Step>, at: usize, random: &mut Random) {
    // A loop's counter would be lost.
    let inside = |step: &Step| match &step.kind {
        StepKind::Group(body) | StepKind::Sequence(body) => Some(body.clone()),
        StepKind::When(one) => Some(one.body.clone()),
        _ => None,
    };
    let starts = (0..list.len()).map(|by| (at + by) % list.len());
    let found = starts.into_iter().find_map(|at| inside(&list[at]).map(|body| (at, body)));
    if let Some((at, mut body)) = found {
        if random.chance(1, 4) {
            body.reverse();
        }
        list.splice(at..=at, body);
    }
}

fn guard(list: &mut [Step], at: usize, random: &mut Random) {
    let bound = random.range(0, 3);
    let condition = match random.below(6) {
        0 => Expr::Rank.eq(bound),
        1 => Expr::Rank.ne(bound),
        2 => Expr::Rank.lt(Expr::Size - bound),
        3 => (Expr::Rank % 2).eq(bound % 2),
        4 => Expr::Size.ge(bound),
        _ => Expr::Rank.ge(1),
    };
    let body = vec![list[at].clone()];
    list[at] = make::when(condition, body);
}

/// A message in the global view becomes its halves.
fn split(list: &mut Vec<Step>, at: usize, random: &mut Random) {
    let starts = (0..list.len()).map(|by| (at + by) % list.len());
    let found = starts.into_iter().find(|&at| matches!(list[at].kind, StepKind::Transfer(_)));
    let Some(at) = found else { return };
    let StepKind::Transfer(transfer) = list[at].kind.clone() else { return };
    let mut back = transfer.peer.clone();
    turned(&mut back);
    let (mut send, mut receive) =
        (make::send(transfer.from, transfer.peer), make::receive(transfer.to, back));
    for half in [&mut send, &mut receive] {
        make::place_of(half, &mut |place| *place = transfer.place.clone());
        make::among_of(half, &mut |among| *among = transfer.among);
    }
    let halves = if random.chance(1, 2) { vec![send, receive] } else { vec![receive, send] };
    if random.chance(1, 2) {
        list[at] = make::group(halves);
    } else {
        list.splice(at..=at, halves);
    }
}

/// The way back.
fn turned(peer: &mut Peer) {
    match peer {
        Peer::Shift(hops) => hops.iter_mut().for_each(|hop| hop.by = 0 - hop.by.clone()),
        Peer::Cases(cases) => {
            turned(&mut cases.then);
            turned(&mut cases.otherwise);
        }
        Peer::Rank(_) => {}
    }
}

fn number(plan: &mut Plan, random: &mut Random) {
    one_of(plan, random, make::expressions, |expr, random| match expr {
        Expr::Int(value) => *value += *random.pick(&[-1, 1, 1]),
        _ if random.chance(1, 6) => *expr = expr.clone().min(random.range(0, 3)),
        _ if random.chance(1, 6) => *expr = expr.clone().max(random.range(0, 2)),
        _ if random.chance(1, 3) => *expr = Expr::Int(random.range(0, 2)),
        _ => *expr = expr.clone() + *random.pick(&[-1, 1]),
    });
}

fn places(plan: &mut Plan, random: &mut Random) {
    let streams = plan.streams.len();
    one_of(plan, random, make::place_of, |place, random| {
        let other = StreamId(random.below(streams) as u32);
        match random.below(3) {
            0 => place.on = other,
            1 => place.after.clear(),
            _ => place.after = vec![other],
        }
    });
}

fn peer(peer: &mut Peer, random: &mut Random) {
    match peer {
        Peer::Cases(cases) if random.chance(2, 3) => match random.below(3) {
            0 => std::mem::swap(&mut cases.then, &mut cases.otherwise),
            1 => self::peer(&mut cases.then, random),
            _ => *peer = cases.otherwise.clone(),
        },
        Peer::Shift(hops) if random.chance(2, 3) => {
            for hop in hops {
                match random.below(3) {
                    0 => hop.wrap = !hop.wrap,
                    1 => hop.by = 0 - hop.by.clone(),
                    _ => hop.by = random.range(-2, 2).into(),
                }
            }
        }
        _ => *peer = make::rank(random.range(0, 2)),
    }
}

fn buffer(plan: &mut Plan, random: &mut Random) {
    if plan.buffers.is_empty() {
        return;
    }
    let at = random.below(plan.buffers.len());
    let buffer = &mut plan.buffers[at];
    match random.below(7) {
        0 => buffer.element = random.pick(&[ElementType::U8, ElementType::F32]).clone(),
        1 | 2 => {
            buffer.role = *random.pick(&[Role::In, Role::Out, Role::InOut, Role::Local]);
        }
        3 => buffer.copies = 3 - buffer.copies,
        4 => buffer.window = !buffer.window,
        5 => {
            let longer = Expr::Rank.ge(random.range(0, 2));
            let more = *random.pick(&[-1, 1, 2]);
            buffer.len = Expr::choice(longer, buffer.len.clone() + more, buffer.len.clone());
        }
        _ => buffer.len = buffer.len.clone() + *random.pick(&[-1, 1]),
    }
}

/// Another collective, or another signal.
fn statement(list: &mut [Step], at: usize, random: &mut Random) {
    match &mut list[at].kind {
        StepKind::Collective(one) => {
            one.kind = match random.below(4) {
                0 => CollectiveKind::Broadcast(random.range(0, 2).into()),
                1 => CollectiveKind::AllReduce(Reduction::Min),
                2 => CollectiveKind::Reduce(Reduction::Sum, Expr::Rank),
                _ => CollectiveKind::AllToAll,
            };
        }
        StepKind::Put(put) => {
            put.signal = match put.signal {
                Some(_) => None,
                None => Some(SignalId(0)),
            };
        }
        StepKind::Wait(wait) => {
            if random.chance(1, 2) {
                wait.signals.reverse();
            } else {
                wait.signals.extend(wait.signals.first().cloned());
            }
        }
        StepKind::Loop(one) => one.reverse = !one.reverse,
        StepKind::Compute(one) if one.computes.is_empty() => {
            let of = (0..).zip(&one.reads).map(|(at, _)| at).collect();
            one.computes.push(Equation { to: 0, by: Reduction::Sum, of });
        }
        StepKind::Compute(one) => match random.below(4) {
            0 => one.computes.clear(),
            1 => one.computes[0].by = Reduction::Max,
            2 => one.computes[0].of.truncate(1),
            _ => one.computes[0].of.reverse(),
        },
        StepKind::Assign(one) => match random.below(4) {
            0 => one.by = Reduction::Max,
            1 => one.of.truncate(1),
            2 => one.of.extend(one.of.first().cloned()),
            _ => one.of.clear(),
        },
        StepKind::Group(body) => body.reverse(),
        StepKind::Transfer(transfer) => {
            let put =
                make::put(transfer.from.clone(), transfer.peer.clone(), transfer.to.clone(), None);
            list[at] = step(put.kind);
        }
        _ => {}
    }
}

fn launch(plan: &mut Plan, random: &mut Random) {
    match random.below(4) {
        0 => plan.launch = Launch::Captured,
        1 => plan.target = *random.pick(&[Version(2, 30, 7), Version(2, 31, 0)]),
        2 => plan.replayed = !plan.replayed,
        _ => {
            plan.order = match plan.order {
                Order::Declared => Order::Implicit,
                Order::Implicit => Order::Declared,
            };
        }
    }
}
