//! Parts of random plans made of collectives.

use typed_nccl_plan::ir::{CollectiveKind, Expr, Location, Postcondition, Region, Role};

use super::Maker;
use crate::make::{all, collective, group, via, when};

pub(super) fn part(maker: &mut Maker<'_>) {
    if maker.random.chance(1, 6) {
        return several(maker);
    }
    let among = maker.communicator();
    let (kind, send, recv) = one(maker, among);
    let step = via(collective(kind.clone(), send.clone(), recv.clone()), among);
    if among == 0 && maker.plan.steps.is_empty() && maker.random.chance(1, 3) {
        maker.computes(Postcondition { kind, send, recv, at: Location::default() });
    }
    if maker.random.chance(1, 10) {
        let bound = maker.random.range(0, 3);
        maker.push(when(Expr::Size.ge(bound), vec![step]));
    } else {
        maker.push(step);
    }
}

/// A collective with memory of its own.
fn one(maker: &mut Maker<'_>, among: u32) -> (CollectiveKind, Region, Region) {
    let by = maker.reduction();
    let size = maker.size(among);
    let place = maker.place(among);
    let root = match maker.random.below(3) {
        0 => size - 1,
        1 => Expr::Int(maker.random.range(0, 1)),
        _ => Expr::Int(0),
    };
    let in_place = maker.random.chance(1, 3);
    let kind = match maker.random.below(9) {
        0 | 1 => CollectiveKind::AllReduce(by),
        2 => CollectiveKind::Broadcast(root),
        3 => CollectiveKind::Reduce(by, root),
        4 => CollectiveKind::AllGather,
        5 => CollectiveKind::ReduceScatter(by),
        6 => CollectiveKind::AllToAll,
        7 => CollectiveKind::Gather(root),
        _ => CollectiveKind::Scatter(root),
    };
    // Whether what is sent, and received, has a part for every rank.
    let (sends, receives) = match kind {
        CollectiveKind::AllGather | CollectiveKind::Gather(_) => (false, true),
        CollectiveKind::ReduceScatter(_) | CollectiveKind::Scatter(_) => (true, false),
        CollectiveKind::AllToAll => (true, true),
        _ => (false, false),
    };
    if in_place && !matches!(kind, CollectiveKind::AllToAll) {
        if !sends && !receives {
            let buffer = maker.partly();
            return (kind, all(buffer), all(buffer));
        }
        let buffer = maker.wide(Role::InOut, among, false);
        let own = maker.chunk(buffer, place);
        return if sends { (kind, all(buffer), own) } else { (kind, own, all(buffer)) };
    }
    let rooted = matches!(kind, CollectiveKind::Reduce(..) | CollectiveKind::Gather(_));
    let send = if sends { maker.wide(Role::In, among, false) } else { maker.source() };
    let recv = match (receives, rooted) {
        (true, _) => {
            let role = if rooted { Role::InOut } else { Role::Out };
            maker.wide(role, among, false)
        }
        (false, true) => maker.partly(),
        (false, false) => maker.target(&[send]),
    };
    (kind, all(send), all(recv))
}

/// Several collectives in one group.
fn several(maker: &mut Maker<'_>) {
    let mut body = Vec::new();
    let mut used = Vec::new();
    for _ in 0..2 {
        let among = maker.communicator();
        let (kind, send, recv) = one(maker, among);
        let touched = [send.buffer, recv.buffer];
        if touched.iter().any(|one| used.contains(one)) {
            continue;
        }
        used.extend(touched);
        body.push(via(collective(kind, send, recv), among));
    }
    maker.push(group(body));
}
