//! Parts of random plans made of messages.

use typed_nccl_plan::ir::{
    Around, Array, AxisId, Claim, CollectiveKind, Condition, Each, Expr, Location, LoopId,
    Postcondition, Region, Role, Source, Step, StepKind,
};

use super::Maker;
use crate::make::{
    all, compute, computes, either, group, hop, on, part as range, powers, rank, receive, repeat,
    send, sequence, transfer, via, when,
};

pub(super) fn part(maker: &mut Maker<'_>) {
    match maker.random.below(16) {
        0 | 1 => ring(maker),
        2 => several(maker),
        3 => halves(maker),
        4 => open_halves(maker),
        5 => guarded(maker),
        6 => to_one(maker),
        7 => mirror(maker),
        8 => all_gather(maker),
        9 => pipeline(maker),
        10 => by_turns(maker),
        11 => uneven_loop(maker),
        12 => all_reduce(maker),
        13 => partners(maker),
        14 => tree(maker),
        _ => halves_of_buffers(maker),
    }
}

fn ring(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let wrap = maker.random.chance(2, 3);
    let (to, back) = maker.pair(among, wrap);
    let from = maker.source();
    let into = if wrap { maker.target(&[from]) } else { maker.partly() };
    if from == into {
        return;
    }
    maker.push(via(transfer(all(from), to, all(into)), among));
    if maker.random.chance(1, 3) {
        maker.claims(all(into), all(from), back);
    }
    if maker.random.chance(1, 3) {
        maker.covers(all(into));
    }
}

/// Several messages in one group.
fn several(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let mut body = Vec::new();
    let mut used = Vec::new();
    for _ in 0..2 + maker.random.below(2) {
        let (to, _) = maker.pair(among, true);
        let from = maker.source();
        if used.contains(&from) {
            continue;
        }
        used.push(from);
        let into = maker.target(&used);
        used.push(into);
        body.push(transfer(all(from), to, all(into)));
    }
    maker.push(via(group(body), among));
}

/// The local view: a send and a receive in one group; at times without it.
fn halves(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let (to, back) = maker.pair(among, true);
    let from = maker.source();
    let into = maker.target(&[from]);
    let mut body = vec![send(all(from), to), receive(all(into), back)];
    if maker.random.chance(1, 3) {
        body.reverse();
    }
    if maker.random.chance(5, 6) {
        maker.push(via(group(body), among));
    } else {
        for step in body {
            maker.push(via(step, among));
        }
    }
}

/// The local view along an open axis, each half on its own.
fn open_halves(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let (to, back) = maker.pair(among, false);
    let from = maker.source();
    let into = maker.partly();
    let mut body = vec![send(all(from), to), receive(all(into), back)];
    if maker.random.chance(1, 2) {
        body.reverse();
    }
    for step in body {
        maker.push(via(step, among));
    }
}

/// A message of some ranks.
fn guarded(maker: &mut Maker<'_>) {
    let (to, _) = maker.pair(0, true);
    let from = maker.source();
    let into = maker.partly();
    let bound = maker.random.range(0, 3);
    let condition = match maker.random.below(4) {
        0 => (Expr::Rank % 2).eq(bound % 2),
        1 => Expr::Rank.ge(bound),
        2 => Expr::Rank.lt(Expr::Size - bound),
        _ => Expr::Size.gt(bound),
    };
    if from == into {
        return;
    }
    maker.push(when(condition, vec![transfer(all(from), to, all(into))]));
}

/// Everyone sends to one rank.
fn to_one(maker: &mut Maker<'_>) {
    let from = maker.source();
    let into = maker.wide(Role::InOut, 0, false);
    let to = maker.chunk(into, Expr::Rank);
    let root = if maker.random.chance(1, 2) { Expr::Int(0) } else { Expr::Size - 1 };
    let step = transfer(all(from), rank(root), to);
    let step = if maker.random.chance(1, 4) { group(vec![step]) } else { step };
    maker.push(step);
}

/// Neighbours by twos exchange, each with a peer by cases.
fn partners(maker: &mut Maker<'_>) {
    let axis = maker.along(0);
    let (from, into) = (maker.source(), maker.partly());
    if from == into {
        return;
    }
    let d = *maker.random.pick(&[1, 1, 1, 2]);
    let place = || Expr::Coordinate(AxisId(axis));
    let wrap = maker.random.chance(1, 6);
    let is_low = (place() / d % 2).eq(0);
    let peer = || either(is_low.clone(), hop(axis, d, wrap), hop(axis, -d, wrap));
    let step = match maker.random.below(3) {
        0 => transfer(all(from), peer(), all(into)),
        1 => group(vec![send(all(from), peer()), receive(all(into), peer())]),
        _ => {
            let first = vec![send(all(from), peer()), receive(all(into), peer())];
            let last = vec![receive(all(into), peer()), send(all(from), peer())];
            maker.push(when(is_low.clone(), first));
            when(Condition::Not(Box::new(is_low.clone())), last)
        }
    };
    maker.push(step);
}

/// A tree: each round, the ranks that have something send it on.
fn tree(maker: &mut Maker<'_>) {
    if maker.plan.axes.len() > 1 {
        return ring(maker);
    }
    let counter = maker.counter();
    let (buffer, d) = (maker.wide(Role::InOut, 0, false), maker.turn(counter));
    let base = *maker.random.pick(&[2, 2, 2, 3, 1]);
    let step = transfer(all(buffer), hop(0, d.clone(), false), all(buffer));
    let mut step = powers(counter, base, Expr::Size, vec![when(Expr::Rank.lt(d), vec![step])]);
    if let StepKind::Loop(turns) = &mut step.kind {
        turns.reverse = maker.random.chance(1, 5);
    }
    maker.push(step);
    if maker.random.chance(1, 3) {
        maker.claims(all(buffer), all(buffer), rank(0));
    }
    if maker.random.chance(1, 2) {
        let (kind, at) = (CollectiveKind::Broadcast(Expr::Int(0)), Location::default());
        maker.computes(Postcondition { kind, send: all(buffer), recv: all(buffer), at });
    }
}

/// Rank r and rank n - 1 - r exchange.
fn mirror(maker: &mut Maker<'_>) {
    let from = maker.source();
    let into = maker.target(&[from]);
    let peer = || rank(Expr::Size - 1 - Expr::Rank);
    let step = match maker.random.below(3) {
        0 => transfer(all(from), peer(), all(into)),
        1 => group(vec![send(all(from), peer()), receive(all(into), peer())]),
        _ => {
            let first = vec![send(all(from), peer()), receive(all(into), peer())];
            let last = vec![receive(all(into), peer()), send(all(from), peer())];
            let low = (2 * Expr::Rank).lt(Expr::Size - 1);
            let high = (2 * Expr::Rank).gt(Expr::Size - 1);
            let middle = (2 * Expr::Rank).eq(Expr::Size - 1);
            for (condition, body) in [(low, first), (high, last)] {
                maker.push(when(condition, body));
            }
            when(middle, vec![transfer(all(from), peer(), all(into))])
        }
    };
    maker.push(step);
}

/// All-gather around a ring.
fn all_gather(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let axis = maker.along(among);
    if maker.plan.communicators[among as usize].axes.len() > 1 {
        return;
    }
    let counter = maker.counter();
    let buffer = maker.wide(Role::InOut, among, false);
    let (place, size) = (maker.place(among), maker.size(among));
    let at = (place.clone() - maker.turn(counter)) % size.clone();
    let chunk = maker.chunk(buffer, at);
    let step = transfer(chunk.clone(), hop(axis, 1, true), chunk);
    maker.push(via(repeat(counter, 0, size - 1, vec![step]), among));
    if maker.plan.axes.len() == 1 && maker.random.chance(1, 2) {
        let send = maker.chunk(buffer, place);
        let at = Location::default();
        let kind = CollectiveKind::AllGather;
        maker.computes(Postcondition { kind, send, recv: all(buffer), at });
    }
}

/// All-reduce around a ring, by steps that say what they compute.
fn all_reduce(maker: &mut Maker<'_>) {
    let axis = maker.along(0);
    if maker.plan.axes.len() > 1 || maker.random.chance(1, 3) {
        return all_gather(maker);
    }
    let (turn, again) = (maker.counter(), maker.counter());
    let buffer = maker.wide(Role::InOut, 0, false);
    let unit = maker.unit();
    let got = maker.buffer(Role::Local, unit, false);
    let by = maker.reduction();
    let at = |maker: &Maker<'_>, counter: u32, by: i64| {
        let at = (Expr::Rank - maker.turn(counter) + by) % Expr::Size;
        maker.chunk(buffer, at)
    };
    let off = if maker.random.chance(1, 6) { 0 } else { -1 };
    let own = at(maker, turn, off);
    let body = vec![
        transfer(at(maker, turn, 0), hop(axis, 1, true), all(got)),
        computes(compute("add", vec![own.clone(), all(got)], vec![own]), by, &[0, 1]),
    ];
    maker.push(repeat(turn, 0, Expr::Size - 1, body));
    let chunk = at(maker, again, 1);
    let step = transfer(chunk.clone(), hop(axis, 1, true), chunk);
    maker.push(repeat(again, 0, Expr::Size - 1, vec![step]));
    if maker.random.chance(1, 2) {
        let (i, k) = (maker.counter(), maker.counter());
        let least = if maker.random.chance(1, 8) { 1 } else { 0 };
        let each = |counter, from: i64| {
            let (counter, from, to) = (LoopId(counter), Expr::Int(from), Expr::Size);
            Around::Each(Each { counter, from, to, powers: None })
        };
        let region = maker.chunk(buffer, maker.turn(i));
        let source = Source {
            around: vec![each(k, least)],
            region: region.clone(),
            rank: rank(maker.turn(k)),
        };
        let around = vec![each(i, 0)];
        let at = Location::default();
        maker.plan.claims.push(Claim { around, to: region, by, of: vec![source], at });
    }
    let (send, recv, at) = (all(buffer), all(buffer), Location::default());
    maker.computes(Postcondition { kind: CollectiveKind::AllReduce(by), send, recv, at });
}

/// A sequence: the ranks one after the other.
fn pipeline(maker: &mut Maker<'_>) {
    let counter = maker.counter();
    let index = LoopId(maker.counter());
    let many = maker.random.range(1, 3);
    let (input, output) = (maker.partly(), maker.partly());
    for buffer in [input, output] {
        maker.plan.buffers[buffer as usize].array = Some(Array { count: many.into(), index });
    }
    maker.forget(&[input, output]);
    let turn = maker.turn(counter);
    let element = |buffer| Region { index: Some(turn.clone()), ..all(buffer) };
    let by = *maker.random.pick(&[1, 1, 1, -1, 2]);
    let axis = maker.along(0);
    let work = compute("stage", vec![element(input)], vec![element(output)]);
    let pass = transfer(element(output), hop(axis, by, false), element(input));
    let body = if maker.plan.streams.len() > 1 {
        vec![on(work, 1, &[0]), on(pass, 0, &[1])]
    } else {
        vec![work, pass]
    };
    maker.plan.steps.push(repeat(counter, 0, many, vec![sequence(body)]));
}

/// Even ranks send first, odd ranks receive first, along an open chain.
fn by_turns(maker: &mut Maker<'_>) {
    let among = 0;
    let axis = maker.along(among);
    let from = maker.source();
    let into = maker.partly();
    if from == into {
        return;
    }
    let place = || Expr::Coordinate(AxisId(axis));
    let out = || send(all(from), hop(axis, 1, false));
    let back = || receive(all(into), hop(axis, -1, false));
    maker.push(when((place() % 2).eq(0), vec![out(), back()]));
    maker.push(when((place() % 2).ne(0), vec![back(), out()]));
}

/// A loop whose bounds depend on the rank.
fn uneven_loop(maker: &mut Maker<'_>) {
    let counter = maker.counter();
    let from = maker.source();
    let into = maker.partly();
    if from == into {
        return;
    }
    let turn = maker.turn(counter);
    let step: Step = match maker.random.below(3) {
        // Everyone sends to all that are lower.
        0 => {
            let wide = maker.wide(Role::InOut, 0, false);
            let to = maker.chunk(wide, Expr::Rank);
            let most = if maker.random.chance(1, 2) { Expr::Rank } else { Expr::Rank.min(2) };
            repeat(counter, 0, most, vec![transfer(all(from), rank(turn), to)])
        }
        // The last ranks send more often.
        1 => {
            let step = transfer(all(from), make_ring(), all(into));
            let last = if maker.random.chance(1, 2) { Expr::Rank + 1 } else { Expr::Rank.max(1) };
            repeat(counter, 0, last, vec![step])
        }
        // In the local view: r messages upwards, r - 1 from below.
        _ => {
            // As many as there are below the next one, or two.
            let few = |many: Expr, is: bool| if is { many.min(2) } else { many };
            let is = maker.random.chance(1, 3);
            let many = few(Expr::Rank + 1, is);
            let out = repeat(counter, 0, many, vec![send(all(from), hop(0, 1, false))]);
            let again = maker.counter();
            let back = vec![receive(all(into), hop(0, -1, false))];
            let back = repeat(again, 0, few(Expr::Rank, is), back);
            if maker.plan.axes.len() > 1 {
                return;
            }
            let body = if maker.random.chance(1, 2) { vec![out, back] } else { vec![back, out] };
            for step in body {
                maker.push(step);
            }
            return;
        }
    };
    maker.push(step);
}

fn make_ring() -> typed_nccl_plan::ir::Peer {
    crate::make::ring(1)
}

/// Two messages that fill one buffer.
fn halves_of_buffers(maker: &mut Maker<'_>) {
    let among = maker.communicator();
    let (one, other) = (maker.source(), maker.source());
    let len = maker.unit() * 2;
    let role = *maker.random.pick(&[Role::Out, Role::Local]);
    let into = maker.buffer(role, len, false);
    let unit = maker.unit();
    let (first, _) = maker.pair(among, true);
    let (second, _) = maker.pair(among, true);
    let body = vec![
        via(transfer(all(one), first, range(into, 0, unit.clone())), among),
        via(transfer(all(other), second, range(into, unit.clone(), unit * 2)), among),
    ];
    if maker.random.chance(1, 2) {
        maker.covers(all(into));
    }
    if maker.random.chance(1, 2) {
        maker.push(group(body));
    } else {
        for step in body {
            maker.push(step);
        }
    }
}
