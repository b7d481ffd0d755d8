//! Parts of random plans made of puts and signals.

use typed_nccl_plan::ir::{CollectiveKind, Expr, Peer, Reduction, Region, Role};

use super::Maker;
use crate::make::{
    all, assign, collective, compute, gathered, group, next, part as range, put, raise, rank,
    repeat, ring, via, wait, when,
};

pub(super) fn part(maker: &mut Maker<'_>) {
    match maker.random.below(8) {
        0 | 1 => shift(maker),
        2 => halo(maker),
        3 => to_one(maker),
        4 => all_to_all(maker),
        5 | 6 => reads(maker),
        _ => bare(maker),
    }
}

/// A read of the window of a rank around a ring, with or without what orders it.
fn reads(maker: &mut Maker<'_>) {
    let unit = maker.unit();
    let role = *maker.random.pick(&[Role::Local, Role::InOut, Role::In, Role::Out]);
    let window = maker.buffer(role, unit.clone(), true);
    let copies = 1 + maker.random.below(2) as u8;
    maker.plan.buffers[window as usize].copies = copies;
    let given = maker.buffer(Role::In, unit.clone(), false);
    let result = maker.target(&[window]);
    let by = maker.random.range(1, 2);
    let (owner, reader) = (ring(by), ring(-by));
    let (ready, done) = (maker.signal(), maker.signal());
    let signal = |maker: &mut Maker<'_>, signal, to: &Peer, from: &Peer| {
        maker.push(raise(signal, to.clone()));
        maker.push(wait(vec![(signal, from.clone(), 1)]));
    };
    if role != Role::In && maker.random.chance(3, 4) {
        maker.push(assign(all(window), Reduction::Sum, vec![all(given)]));
    }
    if maker.random.chance(5, 6) {
        signal(maker, ready, &reader, &owner);
    }
    let mut of = vec![(all(window), owner.clone())];
    if maker.random.chance(1, 2) {
        of.push((all(given), Peer::Shift(Vec::new())));
    }
    if maker.random.chance(1, 4) {
        of.push((all(window), rank(0)));
    }
    maker.push(gathered(all(result), Reduction::Sum, of));
    if maker.random.chance(4, 5) {
        signal(maker, done, &owner, &reader);
    }
    if maker.random.chance(1, 4) {
        barrier(maker);
    }
    if role != Role::In && maker.random.chance(1, 4) {
        maker.push(assign(all(window), Reduction::Sum, vec![all(given)]));
    }
}

/// A put around a ring, and what lets the next run write again.
fn shift(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let (to, back) = maker.pair(among, true);
    let unit = maker.unit();
    let role = *maker.random.pick(&[Role::In, Role::InOut]);
    let from = maker.buffer(role, unit.clone(), true);
    let role = *maker.random.pick(&[Role::Local, Role::InOut, Role::Out]);
    let into = maker.buffer(role, unit, true);
    let result = maker.target(&[from, into]);
    let told = maker.signal();
    let read = compute("read", vec![all(into)], vec![all(result)]);
    let times = if maker.random.chance(1, 4) { 2 } else { 1 };
    let mut first = Vec::new();
    let mut last = Vec::new();
    match maker.random.below(5) {
        // The target says first that it is ready.
        0 => {
            let ready = maker.signal();
            first.push(raise(ready, back.clone()));
            first.push(wait(vec![(ready, to.clone(), 1)]));
        }
        // The target says at the end that it has read.
        1 => {
            let done = maker.signal();
            last.push(raise(done, back.clone()));
            last.push(wait(vec![(done, to.clone(), 1)]));
        }
        2 | 3 => {
            let barrier = maker.partly();
            let sum = CollectiveKind::AllReduce(Reduction::Sum);
            last.push(via(collective(sum, all(barrier), all(barrier)), among));
        }
        _ => {}
    }
    let mut middle = Vec::new();
    if times == 2 {
        if maker.random.chance(1, 2) {
            middle.push(put(all(from), to.clone(), all(into), None));
            middle.push(raise(told, to.clone()));
            middle.push(raise(told, to));
        } else {
            middle.push(raise(told, to.clone()));
            middle.push(put(all(from), to, all(into), Some(told)));
        }
        if maker.random.chance(1, 2) {
            middle = vec![group(middle)];
        }
    } else {
        middle.push(put(all(from), to, all(into), Some(told)));
    }
    if times == 2 && maker.random.chance(1, 2) {
        middle.push(wait(vec![(told, back.clone(), 1)]));
        middle.push(wait(vec![(told, back, 1)]));
    } else {
        middle.push(wait(vec![(told, back, times)]));
    }
    let steps = first.into_iter().chain(middle).map(|step| via(step, among));
    let steps: Vec<_> =
        steps.chain([read]).chain(last.into_iter().map(|s| via(s, among))).collect();
    for step in steps {
        maker.push(step);
    }
}

/// Borders to both neighbours, of a buffer with two copies or with one.
fn halo(maker: &mut Maker<'_>) {
    let (up, down) = (maker.signal(), maker.signal());
    let field = maker.buffer(Role::InOut, Expr::Int(6), true);
    let copies = 1 + maker.random.below(2) as u8;
    maker.plan.buffers[field as usize].copies = copies;
    let puts = vec![
        put(range(field, 1, 2), ring(-1), range(field, 5, 6), Some(down)),
        put(range(field, 4, 5), ring(1), range(field, 0, 1), Some(up)),
    ];
    let signals = vec![(down, ring(1), 1), (up, ring(-1), 1)];
    if maker.random.chance(1, 2) {
        maker.push(group(puts));
    } else {
        for step in puts {
            maker.push(step);
        }
    }
    let other = |region: Region| if copies == 2 { next(region) } else { region };
    let interior = (vec![range(field, 1, 5)], vec![other(range(field, 2, 4))]);
    let inner = compute("interior", interior.0, interior.1);
    let edges = vec![other(range(field, 1, 2)), other(range(field, 4, 5))];
    let outer = compute("edges", vec![all(field)], edges);
    maker.push(inner);
    maker.push(wait(signals));
    maker.push(outer);
    if maker.random.chance(1, 3) {
        let barrier = maker.partly();
        let sum = CollectiveKind::AllReduce(Reduction::Max);
        maker.push(collective(sum, all(barrier), all(barrier)));
    }
}

/// Everyone puts a part into one rank's window.
fn to_one(maker: &mut Maker<'_>) {
    let counter = maker.counter();
    let told = maker.signal();
    let unit = maker.unit();
    let from = maker.buffer(Role::In, unit, true);
    let into = maker.wide(Role::InOut, 0, true);
    let to = maker.chunk(into, Expr::Rank);
    maker.push(put(all(from), rank(0), to, Some(told)));
    let turn = maker.turn(counter);
    let waits = repeat(counter, 0, Expr::Size, vec![wait(vec![(told, rank(turn), 1)])]);
    maker.push(when(Expr::Rank.eq(0), vec![waits]));
    barrier(maker);
}

fn all_to_all(maker: &mut Maker<'_>) {
    let (counter, again) = (maker.counter(), maker.counter());
    let told = maker.signal();
    let from = maker.wide(Role::In, 0, true);
    let into = maker.wide(Role::Out, 0, true);
    let turn = maker.turn(counter);
    let peer = rank((Expr::Rank + turn.clone()) % Expr::Size);
    let source = maker.chunk(from, (Expr::Rank + turn) % Expr::Size);
    let to = maker.chunk(into, Expr::Rank);
    let step = put(source, peer, to, Some(told));
    let puts = repeat(counter, 0, Expr::Size, vec![step]);
    let puts = if maker.random.chance(1, 3) { group(vec![puts]) } else { puts };
    maker.push(puts);
    let turn = maker.turn(again);
    let peer = rank((Expr::Rank - turn) % Expr::Size);
    maker.push(repeat(again, 0, Expr::Size, vec![wait(vec![(told, peer, 1)])]));
    if maker.random.chance(1, 2) {
        maker.covers(all(into));
    }
    barrier(maker);
}

fn barrier(maker: &mut Maker<'_>) {
    if maker.random.chance(2, 3) {
        let barrier = maker.partly();
        let sum = CollectiveKind::AllReduce(Reduction::Sum);
        maker.push(collective(sum, all(barrier), all(barrier)));
    }
}

/// Signals alone.
fn bare(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let (to, back) = maker.pair(among, true);
    let told = maker.signal();
    let times = maker.random.range(1, 2);
    for _ in 0..times {
        maker.push(via(raise(told, to.clone()), among));
    }
    maker.push(via(wait(vec![(told, back, times)]), among));
}
