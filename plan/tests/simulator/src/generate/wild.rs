//! Random plans without a pattern: a few messages, signals, puts and collectives, whose halves
//! stand anywhere.

use typed_nccl_plan::ir::{CollectiveKind, Expr, Peer, Reduction, Region, Role, Step};

use super::Maker;
use crate::make::{
    all, collective, compute, either, group, hop, next, part, put, raise, rank, receive, send,
    transfer, via, wait, when,
};

/// The plan, all of it.
pub(super) fn fill(maker: &mut Maker<'_>) {
    let buffers: Vec<u32> = (0..2 + maker.random.below(3))
        .map(|_| {
            let buffer = maker.buffer(Role::InOut, Expr::Int(4), true);
            if maker.random.chance(1, 4) {
                maker.plan.buffers[buffer as usize].copies = 2;
            }
            buffer
        })
        .collect();
    let mut steps: Vec<Step> = Vec::new();
    // The halves of a thing stand in a random order, but mostly near.
    for _ in 0..1 + maker.random.below(5) {
        let halves = thing(maker, &buffers);
        let from = steps.len().saturating_sub(maker.random.below(3));
        for half in halves {
            let at = if maker.random.chance(1, 4) {
                maker.random.range(from as i64, steps.len() as i64) as usize
            } else {
                steps.len()
            };
            steps.insert(at, half);
        }
    }
    if maker.random.chance(1, 3) && steps.len() > 1 {
        let at = maker.random.below(steps.len() - 1);
        let body = steps.drain(at..at + 2).collect();
        steps.insert(at, group(body));
    }
    for step in steps {
        maker.push(step);
    }
}

/// Part of a buffer, always as long.
fn region(maker: &mut Maker<'_>, buffers: &[u32]) -> Region {
    let buffer = *maker.random.pick(buffers);
    let from = maker.random.range(0, 1) * 2;
    let region = part(buffer, from, from + 2);
    let two = maker.plan.buffers[buffer as usize].copies == 2;
    if two && maker.random.chance(1, 3) { next(region) } else { region }
}

fn peers(maker: &mut Maker<'_>, among: u32) -> (Peer, Peer) {
    if maker.random.chance(1, 8) && among == 0 {
        // Neighbours by twos; the last of an odd number is alone.
        let is_low = (Expr::Rank % 2).eq(0);
        let last = || Expr::Size - 1;
        let peer = match maker.random.below(4) {
            0 => Expr::choice(is_low, (Expr::Rank + 1).min(last()), Expr::Rank - 1),
            1 => (Expr::Rank ^ 1).min(last()),
            2 => Expr::Rank ^ maker.random.range(1, 2),
            _ => (Expr::Rank + 1 - 2 * (Expr::Rank % 2)) % Expr::Size,
        };
        return (rank(peer.clone()), rank(peer));
    }
    if maker.random.chance(1, 8) && maker.plan.axes.len() > 1 && among == 0 {
        let (a, b) = (maker.distance(), maker.distance());
        let both = |a: i64, b: i64| {
            let (Peer::Shift(mut one), Peer::Shift(two)) = (hop(0, a, true), hop(1, b, true))
            else {
                return hop(0, a, true);
            };
            one.extend(two);
            Peer::Shift(one)
        };
        return (both(a, b), both(-a, -b));
    }
    let wrap = maker.random.chance(3, 4);
    if maker.random.chance(1, 8) {
        let ((to, back), (other, its)) = (maker.pair(among, wrap), maker.pair(among, wrap));
        let some = Expr::Rank.lt(maker.random.range(0, 3));
        return (either(some.clone(), to, other), either(some, back, its));
    }
    maker.pair(among, wrap)
}

fn thing(maker: &mut Maker<'_>, buffers: &[u32]) -> Vec<Step> {
    let among = maker.communicator();
    let (to, back) = peers(maker, among);
    let (from, into) = (region(maker, buffers), region(maker, buffers));
    let halves = match maker.random.below(10) {
        0 | 1 => vec![send(from, to), receive(into, back)],
        2 => vec![transfer(from, to, into)],
        3 => {
            let step = transfer(from, to, into);
            let bound = maker.random.range(0, 2);
            return vec![when(Expr::Rank.ge(bound), vec![via(step, among)])];
        }
        4 => {
            let signal = maker.signal();
            vec![raise(signal, to), wait(vec![(signal, back, 1)])]
        }
        5 | 6 => {
            let signal = maker.signal();
            vec![put(from, to, into, Some(signal)), wait(vec![(signal, back, 1)])]
        }
        7 => {
            let signal = maker.signal();
            let first = put(from, to.clone(), into, None);
            vec![first, raise(signal, to), wait(vec![(signal, back, 1)])]
        }
        8 => {
            let kind = match maker.random.below(3) {
                0 => CollectiveKind::AllReduce(Reduction::Sum),
                1 => CollectiveKind::Broadcast(0.into()),
                _ => CollectiveKind::Reduce(Reduction::Sum, 0.into()),
            };
            let buffer = *maker.random.pick(buffers);
            vec![collective(kind, all(buffer), all(buffer))]
        }
        _ => return vec![compute("touch", vec![from], vec![into])],
    };
    halves.into_iter().map(|half| via(half, among)).collect()
}
