//! Loops without a bound in which some ranks send and others receive: an iteration is complete if each pair of
//! ranks is, not if as much is sent as is received.

use typed_nccl_plan::build::{Generic, Guard, Number, PlanBuilder, Signal, Slice, Stream, chain};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::Sizes;

fn built(plan: PlanBuilder) -> Plan {
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

fn is_right(plan: &Plan, p: i64) -> bool {
    let extents = plan.axes.iter().map(|axis| axis.extent.first().unwrap_or(1)).collect();
    check_at(plan, &Sizes { extents, params: vec![vec![p]], text: format!("p = {p}") }).is_ok()
}

struct Words {
    p: Number,
    r: Number,
    net: Stream,
    from: Slice<Generic>,
    to: Slice<Generic>,
    told: Signal,
}

/// Three ranks in a line.
fn three(steps: impl FnOnce(&mut PlanBuilder, Words)) -> Plan {
    let mut plan = PlanBuilder::new("three");
    let _n = plan.ranks(3);
    let r = plan.rank();
    let p = plan.param("p", 1..);
    let from = plan.input::<Generic>("from", 4);
    let to = plan.in_out::<Generic>("to", 4);
    let told = plan.signal("told");
    let net = plan.stream("net");
    let zero = Number::from(0);
    let (from, to) = (from.slice(zero..4.into()), to.slice(zero..4.into()));
    steps(&mut plan, Words { p, r, net, from, to, told });
    built(plan)
}

fn send(plan: &mut PlanBuilder, w: &Words, on: Guard) {
    plan.when(on, |plan| plan.on(w.net).send(w.from, chain(1)));
}

fn receive(plan: &mut PlanBuilder, w: &Words, on: Guard) {
    plan.when(on, |plan| plan.on(w.net).receive(w.to, chain(-1)));
}

/// Rank 0 sends 20 messages ahead, waits for a signal and sends p more; rank 1 receives p, raises the signal and
/// receives 20. Rank 2 receives what rank 1 sends at the end, where it looks as if it were what rank 0 sent.
fn ahead() -> Plan {
    three(|plan, w| {
        let (r, p) = (w.r, w.p);
        plan.for_each("i", Number::from(0)..20.into(), |plan, _| {
            send(plan, &w, r.eq(0));
            receive(plan, &w, r.eq(2));
        });
        plan.when(r.eq(2), |plan| plan.on(w.net).signal(w.told, chain(-1)));
        plan.when(r.eq(0), |plan| plan.on(w.net).wait([w.told.from(chain(1))]));
        plan.for_each("k", Number::from(0)..p, |plan, _| {
            send(plan, &w, r.eq(0));
            receive(plan, &w, r.eq(1));
        });
        plan.when(r.eq(1), |plan| plan.on(w.net).signal(w.told, chain(-1)));
        plan.for_each("j", Number::from(0)..20.into(), |plan, _| {
            receive(plan, &w, r.eq(1));
            send(plan, &w, r.eq(1));
        });
        plan.when(r.eq(1), |plan| plan.on(w.net).wait([w.told.from(chain(1))]));
    })
}

#[test]
fn messages_under_way_from_rank_to_rank() {
    let plan = ahead();
    assert!((1..=20).all(|p| is_right(&plan, p)));
    assert!(!is_right(&plan, 21));
    let Err(rejected) = check(&plan) else { panic!("accepted, and wrong at 21") };
    assert!(rejected.to_string().contains("not each complete"), "{rejected}");
}

#[test]
fn loops_that_wait_for_one_another() {
    // What rank 0 sends in one loop, rank 1 receives in the next one.
    let plan = three(|plan, w| {
        let (r, p) = (w.r, w.p);
        plan.for_each("i", Number::from(0)..p, |plan, _| {
            send(plan, &w, r.eq(0));
            receive(plan, &w, r.eq(2));
        });
        plan.for_each("k", Number::from(0)..p, |plan, _| {
            receive(plan, &w, r.eq(1));
            send(plan, &w, r.eq(1));
        });
    });
    assert!((1..40).all(|p| is_right(&plan, p)));
    let Err(rejected) = check(&plan) else { panic!("accepted") };
    assert!(rejected.to_string().contains("not each complete"), "{rejected}");
}

#[test]
fn iterations_that_are_complete() {
    // A chain: who is not the first receives, who is not the last sends.
    let chain = three(|plan, w| {
        let (r, p) = (w.r, w.p);
        plan.for_each("k", Number::from(0)..p, |plan, _| {
            receive(plan, &w, r.gt(0));
            send(plan, &w, r.lt(2));
        });
    });
    let pair = three(|plan, w| {
        let (r, p) = (w.r, w.p);
        plan.for_each("k", Number::from(0)..p, |plan, _| {
            send(plan, &w, r.eq(0));
            receive(plan, &w, r.eq(1));
        });
    });
    for plan in [chain, pair] {
        check(&plan).unwrap_or_else(|rejected| panic!("{rejected}"));
        assert!((1..40).all(|p| is_right(&plan, p)));
    }
}
