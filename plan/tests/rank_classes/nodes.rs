//! A mesh of nodes: conditions on one axis.

use plan_simulator::make::{all, collective, communicator, hop, receive, send, via, when};
use typed_nccl_plan::ir::{AxisId, CollectiveKind, Condition, Expr, Plan, Reduction, Step, Values};

use crate::says::{Says, right, says, wrong};
use crate::words::{R, both, messages, not};

/// A mesh of endless nodes of four.
fn mesh(steps: Vec<Step>) -> Plan {
    let mut plan = messages(1, steps);
    let mut local = plan.axes[0].clone();
    local.name = "local".to_owned();
    local.extent = Values::Exactly(4);
    plan.axes.push(local);
    plan.communicators = vec![
        communicator("world", &[0, 1]),
        communicator("rail", &[0]),
        communicator("node", &[1]),
    ];
    plan
}

#[test]
fn nodes() {
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let one = |among: u32| via(collective(sum(), all(0), all(0)), among);
    let node = || Expr::Coordinate(AxisId(0));
    let slot = || Expr::Coordinate(AxisId(1));
    let nodes = || Expr::Extent(AxisId(0));
    right(&mesh(vec![one(2), when(slot().eq(0), vec![one(1)])]));
    right(&mesh(vec![when(node().lt(1), vec![one(2)]), one(1)]));
    right(&mesh(vec![when(node().ge(nodes() - 2), vec![one(2)]), one(1)]));
    right(&mesh(vec![when((node() % 2).eq(0), vec![one(2)])]));
    wrong(&mesh(vec![when(node().lt(9), vec![one(1)])]), 10);
    wrong(&mesh(vec![when(both(node().lt(9), slot().eq(0)), vec![one(1)])]), 10);
    wrong(&mesh(vec![when(slot().eq(0), vec![one(2)])]), 1);
    let turns = |first: Condition| {
        let out = || send(all(0), hop(0, 1, true));
        let back = || receive(all(1), hop(0, -1, true));
        mesh(vec![when(first.clone(), vec![out(), back()]), when(not(first), vec![back(), out()])])
    };
    let least = |n: i64, mut plan: Plan| {
        plan.axes[0].extent = Values::AtLeast(n);
        plan
    };
    right(&least(2, turns(node().eq(0))));
    wrong(&least(2, turns(both(node().eq(0), slot().lt(3)))), 2);
    // The rank's own number is of no axis.
    assert_eq!(says(&mesh(vec![when(R.lt(4), vec![one(2)])])), Says::Refused);
    assert_eq!(says(&mesh(vec![when((2 * node()).lt(nodes()), vec![one(2)])])), Says::Refused);
}
