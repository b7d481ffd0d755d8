//! One forward, one backward: the schedule of a training pipeline, in the local view.
//!
//! Rank r runs w = p - 1 - r microbatches ahead. How a rank groups what it exchanges with a
//! neighbour mirrors how the neighbour does.

use typed_nccl_plan::build::{Buffers, Generic, Number, PlanBuilder, Stream, chain};
use typed_nccl_plan::verdict::Check;

use super::NearMiss;

/// For listed numbers of ranks and microbatches: w depends on the rank.
pub(crate) fn listed() -> PlanBuilder {
    schedule("1F1B", Grouped::Both)
}

/// Everyone sends first: the neighbours wait for each other.
pub(crate) fn without_groups() -> NearMiss {
    NearMiss::new(schedule("1F1B without groups", Grouped::Neither), Check::Deadlock)
        .smallest([2])
        .ranks([0, 1])
        .mend("group")
}

/// Only the exchange with the next rank is one step: the previous rank has its own in two.
pub(crate) fn grouped_on_one_end() -> NearMiss {
    NearMiss::new(schedule("1F1B grouped on one end", Grouped::Downstream), Check::Groups)
        .smallest([2])
        .ranks([0, 1])
}

#[derive(Clone, Copy, PartialEq)]
enum Grouped {
    Both,
    Downstream,
    Neither,
}

struct Declared {
    act: Buffers<Generic>,
    out: Buffers<Generic>,
    grad: Buffers<Generic>,
    gin: Buffers<Generic>,
    net: Stream,
    cmp: Stream,
}

fn schedule(name: &str, grouped: Grouped) -> PlanBuilder {
    let mut plan = PlanBuilder::new(name);
    let p = plan.ranks([2, 4, 8, 16]);
    let r = plan.rank();
    let mb = plan.param("mb", [2, 3, 4, 5, 8, 9, 16, 17, 32]);
    let k = plan.param("k", 1..);
    plan.promise(mb.ge(p));
    // The first rank gets its activations from the caller, the last one its gradients.
    let d = Declared {
        act: plan.array(mb).in_out("act", |_| k),
        out: plan.array(mb).output("out", |_| k),
        grad: plan.array(mb).in_out("grad", |_| k),
        gin: plan.array(mb).output("gin", |_| k),
        net: plan.stream("net"),
        cmp: plan.stream("cmp"),
    };
    let Declared { act, out, grad, gin, net, cmp } = d;

    let w = p - 1 - r;
    plan.for_each("i", ..w, |plan, i| {
        plan.on(net).receive(act.at(i), chain(-1));
        d.fwd(plan, i);
        plan.on(net).after([cmp]).send(out.at(i), chain(1));
    });
    plan.on(net).receive(act.at(w), chain(-1));
    plan.for_each("j", ..mb - w, |plan, j| {
        d.fwd(plan, w + j);
        exchange(plan, grouped != Grouped::Neither, |plan| {
            plan.on(net).after([cmp]).send(out.at(w + j), chain(1));
            plan.on(net).receive(grad.at(j), chain(1));
        });
        d.bwd(plan, j);
        exchange(plan, grouped == Grouped::Both, |plan| {
            plan.on(net).after([cmp]).send(gin.at(j), chain(-1));
            plan.when((j + 1).lt(mb - w), |plan| {
                plan.on(net).receive(act.at(w + j + 1), chain(-1));
            });
        });
    });
    plan.for_each("j", mb - w..mb, |plan, j| {
        plan.on(net).receive(grad.at(j), chain(1));
        d.bwd(plan, j);
        plan.on(net).after([cmp]).send(gin.at(j), chain(-1));
    });
    plan
}

impl Declared {
    fn fwd(&self, plan: &mut PlanBuilder, i: Number) {
        let &Self { act, out, net, cmp, .. } = self;
        plan.on(cmp).after([net]).run("fwd").argument(i).reads(act.at(i)).writes(out.at(i));
    }

    fn bwd(&self, plan: &mut PlanBuilder, j: Number) {
        let &Self { act, grad, gin, net, cmp, .. } = self;
        plan.on(cmp)
            .after([net])
            .run("bwd")
            .argument(j)
            .reads(act.at(j))
            .reads(grad.at(j))
            .writes(gin.at(j));
    }
}

fn exchange(plan: &mut PlanBuilder, grouped: bool, body: impl FnOnce(&mut PlanBuilder)) {
    if grouped { plan.group(body) } else { body(plan) }
}
