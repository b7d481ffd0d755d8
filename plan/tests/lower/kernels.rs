//! What kernels of this library's own do.

use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::cost::{AllReduceBy, Topology, estimate};
use typed_nccl_plan::ir::{Plan, Reduction};
use typed_nccl_plan::lower::{Schedule, Work};

use crate::verify::lowered;
use crate::words::{all_reduces, groups, sizes};

fn kernels(plan: &Plan, n: i64) -> Schedule {
    lowered(plan, &sizes(plan, n, &[])).with_kernels(plan, &Topology::h200_node())
}

/// How many operations each kernel of a rank has; 0 for a call that is none.
fn lens(schedule: &Schedule, rank: usize) -> Vec<usize> {
    let len = |work: &Work| match work {
        Work::Kernel(ops) => ops.len(),
        Work::Group(_) | Work::Compute { .. } => 0,
    };
    schedule.ranks[rank].calls.iter().map(|call| len(&call.work)).collect()
}

/// One all_reduce of so many floats.
fn one(len: i64) -> Plan {
    let mut plan = PlanBuilder::new("one");
    plan.ranks(1..);
    let x = plan.in_out::<f32>("x", len);
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(x, Reduction::Sum);
    plan.unchecked().expect("a plan")
}

#[test]
fn sixty_four_small_all_reduces_are_one_kernel() {
    let plan = all_reduces(64, |_, _, _| ());
    for n in [2, 3, 8, 16] {
        let schedule = kernels(&plan, n);
        for rank in 0..n as usize {
            assert_eq!(lens(&schedule, rank), [64], "rank {rank} of {n}");
        }
        // Where there is room for little, little is said.
        let text = schedule.to_text(&plan);
        assert!(text.contains("kernel: ") || text.contains("k:"), "{text}");
        assert!(schedule.to_svg(&plan).contains("kernel: "));
        assert!(schedule.to_mermaid(&plan).contains("kernel: "));
        let told = schedule.explain(&plan);
        assert!(told.contains("one kernel for 64 all_reduces: about"), "{told}");
    }
}

#[test]
fn what_a_kernel_takes_is_what_was_measured() {
    let plan = all_reduces(64, |_, _, _| ());
    let total = |plan: &Plan| estimate(plan, &kernels(plan, 2), &Topology::h200_node()).total * 1e6;
    let near = |found: f64, measured: f64| {
        assert!((found / measured - 1.0).abs() < 0.15, "{found} us, measured {measured} us");
    };
    near(total(&plan), 4.3);
    near(total(&one(256)), 3.4);
    near(total(&one(16 << 10)), 4.0);
    near(total(&one(256 << 10)), 8.7);
    near(total(&one(1 << 20)), 21.4);
}

#[test]
fn large_ones_are_nccls() {
    // So many bytes to all others were not measured.
    for (len, n) in [(1 << 21, 2), (1 << 20, 3), (1 << 18, 8)] {
        let schedule = kernels(&one(len), n);
        assert_eq!(lens(&schedule, 0), [0], "{len} floats on {n} ranks");
        assert!(!schedule.why_kernels[0].chosen, "{:?}", schedule.why_kernels);
    }
}

#[test]
fn the_way_is_the_bytes() {
    let times = Topology::h200_node().kernels;
    let way = |ranks, many, bytes: f64| times.all_reduce(ranks, many, bytes).map(|(by, _)| by);
    assert_eq!(way(2, 1, 1024.0), Some(AllReduceBy::Words));
    assert_eq!(way(2, 1, 1e6), Some(AllReduceBy::Blocks));
    assert_eq!(way(2, 64, 1e6), Some(AllReduceBy::Words));
    assert_eq!(way(2, 64, 2e6), None);
    assert_eq!(way(2, 1, 5e6), None);
}

#[test]
fn a_kernel_takes_96_operations_of_one_kind() {
    let plan = all_reduces(100, |_, _, _| ());
    assert_eq!(lens(&kernels(&plan, 2), 1), [96, 4]);
    let mut mixed = PlanBuilder::new("mixed");
    mixed.ranks(1..);
    let (a, b) = (mixed.array(8).in_out::<f32>("a", |_| 4.into()), mixed.in_out::<i64>("b", 4));
    let net = mixed.stream("net");
    mixed.for_each("i", ..8, |plan, i| {
        plan.on(net).all_reduce_in_place(a.at(i), Reduction::Sum);
    });
    mixed.on(net).all_reduce_in_place(b, Reduction::Max);
    mixed.on(net).run("look").reads(b);
    let mixed = mixed.unchecked().expect("a plan");
    let before = lowered(&mixed, &sizes(&mixed, 2, &[]));
    let after = kernels(&mixed, 2);
    assert_eq!(lens(&after, 0), [8, 1, 0]);
    let calls = |schedule: &Schedule| schedule.ranks[0].calls.clone();
    let (before, after) = (calls(&before), calls(&after));
    assert_eq!((&after[0].waits, &after[0].carried), (&before[0].waits, &before[0].carried));
    assert_eq!((after[0].records, after[1].records), (None, before[0].records));
}

#[test]
fn what_kernels_do_not_compute_is_nccls() {
    let mut plan = PlanBuilder::new("others");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    plan.on(net).broadcast_in_place(b, 0);
    let plan = plan.unchecked().expect("a plan");
    assert_eq!(lens(&kernels(&plan, 2), 0), [0]);
}

#[test]
fn off_is_off() {
    let mut plan = all_reduces(64, |_, _, _| ());
    plan.kernels = false;
    let schedule = kernels(&plan, 2);
    assert_eq!(schedule, lowered(&plan, &sizes(&plan, 2, &[])));
    assert_eq!(groups(&schedule, 0).len(), 1);
    let mut plan = PlanBuilder::new("by NCCL");
    plan.without_kernels();
    assert!(!plan.unchecked().expect("a plan").kernels);
}

#[test]
fn one_rank_has_no_kernels_and_many_have_none() {
    let plan = all_reduces(4, |_, _, _| ());
    assert_eq!(lens(&kernels(&plan, 1), 0), [0]);
    assert_eq!(lens(&kernels(&plan, 33), 0), [0]);
}

#[test]
fn a_communicator_on_two_streams_stays_nccls() {
    let mut plan = PlanBuilder::new("two streams");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).all_reduce_in_place(a, Reduction::Sum);
    plan.on(other).all_reduce_in_place(b, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    assert_eq!(lens(&kernels(&plan, 2), 0), [0, 0]);
}

#[test]
fn ranks_that_group_differently_launch_no_kernel() {
    let plan = all_reduces(4, |_, _, _| ());
    let topology = Topology::h200_node();
    let mut uneven = lowered(&plan, &sizes(&plan, 2, &[]));
    // As in the local view, where rank 1 may write its own groups.
    let own = &mut uneven.ranks[1].calls;
    let mut second = own[0].clone();
    let (Work::Group(first), Work::Group(rest)) = (&mut own[0].work, &mut second.work) else {
        panic!("no groups")
    };
    first.truncate(1);
    rest.remove(0);
    own.push(second);
    let uneven = uneven.with_kernels(&plan, &topology);
    assert_eq!((lens(&uneven, 0), lens(&uneven, 1)), (vec![0], vec![0, 0]));
}
