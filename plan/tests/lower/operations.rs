//! What a call is made with, and what is made before the first one.

use typed_nccl_plan::build::{Number, PlanBuilder};
use typed_nccl_plan::ir::Reduction;
use typed_nccl_plan::lower::{Elements, Operation, WarmUp, Work, lower};
use typed_nccl_plan::verdict::Sizes;

use super::verify::verify;
use super::words::{groups, sizes};
use crate::plans;

#[test]
fn in_place_is_ncclls() {
    let mut plan = PlanBuilder::new("in place");
    let n = plan.ranks(1..);
    let r = plan.rank();
    let x = plan.in_out::<f32>("x", 4 * n);
    let y = plan.output::<f32>("y", 4);
    let net = plan.stream("net");
    plan.on(net).reduce_scatter(x, x.chunk(n, r), Reduction::Sum);
    plan.on(net).all_gather(x.chunk(n, r), x);
    plan.on(net).reduce_scatter(x, y, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    for rank in 0..3 {
        let places: Vec<bool> = groups(&schedule, rank)
            .iter()
            .flat_map(|ops| ops.iter())
            .map(|op| matches!(op, Operation::Collective { in_place: true, .. }))
            .collect();
        assert_eq!(places, [true, true, false]);
    }
}

#[test]
fn hierarchies_connect_before_they_run() {
    let mut plan = PlanBuilder::new("mesh");
    let (nodes, local) = (plan.axis("nodes", 2), plan.axis("local", 2));
    let (node, rail) = (plan.communicator("node", [local]), plan.communicator("rail", [nodes]));
    let x = plan.in_out::<f32>("x", 8);
    let y = plan.output::<f32>("y", 8);
    let net = plan.stream("net");
    plan.on(net).among(node).all_reduce_in_place(x, Reduction::Sum);
    plan.on(net).among(rail).all_to_all(x, y);
    plan.on(net).among(node).broadcast_in_place(y, 1);
    let plan = plan.unchecked().expect("a plan");
    let sizes = Sizes { extents: vec![2, 2], params: Vec::new(), text: "2 x 2".to_owned() };
    let schedule = verify(&plan, &sizes);
    let id = typed_nccl_plan::ir::CommunicatorId;
    let pairs = vec![(0, 2), (1, 3)];
    assert_eq!(
        schedule.warm_ups,
        [WarmUp::Collectives(id(1)), WarmUp::Connections { among: id(2), pairs }]
    );
}

#[test]
fn compute_steps_get_their_numbers() {
    let mut plan = PlanBuilder::new("numbers");
    plan.ranks(1..);
    let r = plan.rank();
    let x = plan.in_out::<f32>("x", 4);
    let cmp = plan.stream("cmp");
    plan.for_each_reversed("i", r..Number::from(3), |plan, i| {
        plan.when(i.gt(0), |plan| {
            plan.on(cmp)
                .run("work")
                .argument(10 * i + r)
                .reads(x.slice(1..3))
                .writes(x.slice(3..4));
        });
    });
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    let of = |rank: usize| -> Vec<i64> {
        let calls = schedule.ranks[rank].calls.iter();
        let numbers = calls.filter_map(|call| match &call.work {
            Work::Compute { arguments, .. } => Some(arguments[0]),
            Work::Assign { .. } | Work::Group(_) | Work::Kernel { .. } => None,
        });
        numbers.collect()
    };
    assert_eq!((of(0), of(1), of(2)), (vec![20, 10], vec![21, 11], vec![22]));
    let Work::Compute { reads, writes, .. } = &schedule.ranks[2].calls[0].work else {
        panic!("no compute step")
    };
    let part = |start, end| Elements { start, end, ..Elements::default() };
    assert_eq!((&reads[..], &writes[..]), (&[part(1, 3)][..], &[part(3, 4)][..]));
}

#[test]
fn what_is_wrong_is_told() {
    let plan = plans::ring::sends_first().plan.unchecked().expect("a plan");
    assert!(lower(&plan, &sizes(&plan, 2, &[("len", 4)])).is_err());
}
