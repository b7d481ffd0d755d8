//! Tiles of a two-dimensional field keep copies of their neighbours' edges.

use typed_nccl_plan::build::{Buffer, Generic, PlanBuilder, Slice, Symmetric};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// On a torus of any extents from 3. Edges are packed into a window, since columns are not
/// contiguous; the window that receives has two copies.
pub(crate) fn torus() -> PlanBuilder {
    halo("halo on a torus", true)
}

/// A neighbour that is a run ahead overwrites the edges that are still being used here.
pub(crate) fn one_copy() -> NearMiss {
    NearMiss::new(halo("halo on a torus, one copy", false), Check::ReplayHazards)
        .smallest([3, 3])
        .lines(include_str!("halo2d.rs"), ["from below", "uses the edges"])
        .mend("two copies")
}

/// The window that receives has room for three edges.
pub(crate) fn three_of_four() -> NearMiss {
    let mut plan = PlanBuilder::new("halo on a torus, three edges");
    let (rows, cols) = (plan.axis("rows", 3..), plan.axis("cols", 3..));
    let h = plan.param("h", 1..);
    let edges = plan.window().in_out::<Generic>("edges", 4 * h);
    let halo = plan.window().swapped().in_out::<Generic>("halo", 3 * h);
    let arrived = plan.signal("arrived");
    let net = plan.stream("net");
    let towards = [rows.ring(-1), rows.ring(1), cols.ring(-1), cols.ring(1)];
    let from = [rows.ring(1), rows.ring(-1), cols.ring(1), cols.ring(-1)];
    for (side, peer) in (0..).zip(towards) {
        let edge = (edges.chunk(4, side), halo.slice(side * h..(side + 1) * h));
        plan.on(net).put(edge.0, peer, edge.1).signal(arrived); // the fourth
    }
    plan.on(net).wait(from.map(|peer| arrived.from(peer)));
    NearMiss::new(plan, Check::Bounds).lines(include_str!("halo2d.rs"), ["the fourth"])
}

fn halo(name: &str, swapped: bool) -> PlanBuilder {
    let mut plan = PlanBuilder::new(name);
    let (rows, cols) = (plan.axis("rows", 3..), plan.axis("cols", 3..));
    let (m, h) = (plan.param("m", 1..), plan.param("h", 1..));
    let u = plan.in_out::<Generic>("u", m);
    let edges = plan.window().local::<Generic>("edges", 4 * h);
    let halo = match swapped {
        true => quarters(plan.window().swapped().local("halo", 4 * h)),
        false => quarters(plan.window().local("halo", 4 * h)),
    };
    let edge = quarters(edges);
    let [top, bottom, left, right] =
        ["top", "bottom", "left", "right"].map(|name| plan.signal(name));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));

    plan.on(cmp).run("pack").reads(u).writes(edges);
    {
        let mut net = plan.on(net).after([cmp]);
        net.put(edge[0], rows.ring(-1), halo[1]).signal(bottom); // from below
        net.put(edge[1], rows.ring(1), halo[0]).signal(top);
        net.put(edge[2], cols.ring(-1), halo[3]).signal(right);
        net.put(edge[3], cols.ring(1), halo[2]).signal(left);
    }
    plan.on(cmp).run("interior").reads(u).writes(u);
    plan.on(net).wait([
        bottom.from(rows.ring(1)),
        top.from(rows.ring(-1)),
        right.from(cols.ring(1)),
        left.from(cols.ring(-1)),
    ]);
    let mut finish = plan.on(cmp).after([net]);
    let mut finish = finish.run("finish").writes(u); // uses the edges
    for side in halo {
        finish = finish.reads(side);
    }
    plan
}

fn quarters<C>(window: Buffer<Generic, Symmetric, C>) -> [Slice<Generic, Symmetric>; 4] {
    [0, 1, 2, 3].map(|index| window.chunk(4, index))
}
