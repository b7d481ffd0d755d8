//! What kernels of this library's own do.

use typed_nccl_plan::build::{PlanBuilder, Stream, at, chain, ring};
use typed_nccl_plan::cost::{AllReduceBy, Topology, estimate};
use typed_nccl_plan::ir::{CommunicatorId, Plan, Reduction};
use typed_nccl_plan::lower::{Leg, Schedule, Work};
use typed_nccl_plan::verdict::Sizes;

use super::verify::{lowered, verify};
use super::words::{all_reduces, groups, joined, sizes};

fn kernels(plan: &Plan, n: i64) -> Schedule {
    lowered(plan, &sizes(plan, n, &[])).with_kernels(plan, &Topology::h200_node())
}

/// How many operations each kernel of a rank has; 0 for a call that is none.
fn lens(schedule: &Schedule, rank: usize) -> Vec<usize> {
    let len = |work: &Work| match work {
        Work::Kernel { operations, .. } => operations.len(),
        Work::Group(_) | Work::Compute { .. } | Work::Assign { .. } => 0,
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
    let (a, b) = (mixed.array(8).in_out::<f32>("a", |_| 4), mixed.in_out::<i64>("b", 4));
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

/// All_reduces of windows, one after another, with more between them.
fn on_windows(many: i64, between: impl Fn(&mut PlanBuilder, [Stream; 2], i64)) -> Plan {
    let mut plan = PlanBuilder::new("windows");
    plan.ranks(1..);
    let g = plan.window().array(many).in_out::<f32>("g", |_| 256);
    let streams = [plan.stream("net"), plan.stream("cmp")];
    for i in 0..many {
        plan.on(streams[0]).all_reduce_in_place(g.at(i), Reduction::Sum);
        between(&mut plan, streams, i);
    }
    plan.unchecked().expect("a plan")
}

#[test]
fn all_reduces_on_windows_are_one_kernel() {
    let plan = on_windows(64, |_, _, _| ());
    for n in [2, 8] {
        let before = verify(&plan, &sizes(&plan, n, &[]));
        assert_eq!((groups(&before, 1).len(), joined(&before)), (64, 0));
        let schedule = kernels(&plan, n);
        for rank in 0..n as usize {
            assert_eq!(lens(&schedule, rank), [64], "rank {rank} of {n}");
        }
        assert_eq!(joined(&schedule), 1);
        let told = schedule.explain(&plan);
        assert!(told.contains("joined: one kernel of this library does both"), "{told}");
        assert!(!told.contains("not joined"), "{told}");
        assert!(told.contains("one kernel for 64 all_reduces: about"), "{told}");
        assert!(told.contains("NCCL's kernels one by one"), "{told}");
        assert!(
            schedule.to_text(&plan).contains("k:") || schedule.to_text(&plan).contains("kernel: ")
        );
        // What it takes is what it takes on other memory.
        let plain = all_reduces(64, |_, _, _| ());
        let total = |plan: &Plan| estimate(plan, &kernels(plan, n), &Topology::h200_node()).total;
        assert_eq!(total(&plan).to_bits(), total(&plain).to_bits());
    }
}

#[test]
fn windows_stay_apart_without_kernels() {
    let mut plan = on_windows(8, |_, _, _| ());
    let apart = lowered(&plan, &sizes(&plan, 2, &[]));
    assert_eq!(groups(&apart, 0).len(), 8);
    let topology = Topology::h200_node();
    assert_eq!(apart.clone().with_kernels_of(&plan, &topology, |_, _| false), apart);
    plan.kernels = false;
    assert_eq!(kernels(&plan, 2).ranks, apart.ranks);
}

#[test]
fn windows_and_other_memory_are_one_kernel() {
    let mut plan = PlanBuilder::new("both");
    plan.ranks(1..);
    let (a, b) = (plan.window().in_out::<f32>("a", 8), plan.in_out::<f32>("b", 8));
    let (c, d) = (plan.window().in_out::<i64>("c", 8), plan.in_out::<i64>("d", 8));
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    plan.on(net).all_reduce_in_place(c, Reduction::Max);
    plan.on(net).all_reduce_in_place(b, Reduction::Sum);
    plan.on(net).all_reduce_in_place(d, Reduction::Max);
    let plan = plan.unchecked().expect("a plan");
    verify(&plan, &sizes(&plan, 3, &[]));
    let schedule = kernels(&plan, 3);
    assert_eq!(lens(&schedule, 2), [2, 2]);
    assert!(schedule.explain(&plan).contains("2 kernels for 4 all_reduces"));
}

#[test]
fn not_one_kernel_where_something_would_wait_longer() {
    // A compute step between that waits for the first.
    let waits = on_windows(2, |plan, [net, cmp], i| {
        let x = plan.local::<f32>(&format!("x{i}"), 1);
        plan.on(cmp).after([net]).run("look").writes(x);
    });
    verify(&waits, &sizes(&waits, 2, &[]));
    assert_eq!(lens(&kernels(&waits, 2), 0), [1, 0, 1, 0]);
    let told = kernels(&waits, 2).explain(&waits);
    assert!(
        told.contains("nor one kernel of this library: something between them waits"),
        "{told}"
    );
    // One that waits for nothing.
    let free = on_windows(2, |plan, [_, cmp], i| {
        let x = plan.local::<f32>(&format!("x{i}"), 1);
        plan.on(cmp).run("look").writes(x);
    });
    verify(&free, &sizes(&free, 2, &[]));
    assert_eq!(lens(&kernels(&free, 2), 0), [2, 0, 0]);
    // The second reads what the first has written.
    let mut plan = PlanBuilder::new("one after another");
    plan.ranks(1..);
    let (a, b) = (plan.window().input::<f32>("a", 4), plan.window().output::<f32>("b", 4));
    let c = plan.output::<f32>("c", 4);
    let net = plan.stream("net");
    plan.on(net).all_reduce(a, b, Reduction::Sum);
    plan.on(net).all_reduce(b, c, Reduction::Max);
    let plan = plan.unchecked().expect("a plan");
    verify(&plan, &sizes(&plan, 2, &[]));
    assert_eq!(lens(&kernels(&plan, 2), 0), [1, 1]);
}

#[test]
fn what_waited_for_some_waits_for_all() {
    let mut plan = PlanBuilder::new("events");
    plan.ranks(1..);
    plan.once();
    let g = plan.window().array(4).in_out::<f32>("g", |_| 256);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    for i in 0..4 {
        plan.on(net).all_reduce_in_place(g.at(i), Reduction::Sum);
    }
    for i in [1, 3] {
        plan.on(cmp).run("step").reads(g.at(i));
    }
    let plan = plan.unchecked().expect("a plan");
    let before = verify(&plan, &sizes(&plan, 2, &[]));
    let records = |schedule: &Schedule| {
        schedule.ranks[0].calls.iter().filter(|call| call.records.is_some()).count()
    };
    let schedule = kernels(&plan, 2);
    let [kernel, first, second] = &schedule.ranks[0].calls[..] else { panic!("{schedule:?}") };
    assert_eq!(first.waits, Vec::from_iter(kernel.records));
    assert_eq!(second.waits, first.waits);
    assert!(records(&before) > records(&schedule), "{before:?}");
}

fn legs(schedule: &Schedule, rank: usize) -> Vec<Vec<Leg>> {
    let of = |work: &Work| match work {
        Work::Kernel { legs, .. } => legs.clone(),
        Work::Group(_) | Work::Compute { .. } | Work::Assign { .. } => Vec::new(),
    };
    schedule.ranks[rank].calls.iter().map(|call| of(&call.work)).collect()
}

/// Messages to both neighbours.
fn halo(peer: impl Fn(i64) -> typed_nccl_plan::build::Peer) -> Plan {
    let mut plan = PlanBuilder::new("halo");
    plan.ranks(3..);
    let (a, b) = (plan.input::<f32>("a", 64), plan.in_out::<f32>("b", 64));
    let net = plan.stream("net");
    plan.on(net).transfer(a.slice(..32), peer(1), b.slice(32..));
    plan.on(net).transfer(a.slice(32..), peer(-1), b.slice(..32));
    plan.unchecked().expect("a plan")
}

#[test]
fn messages_are_one_kernel() {
    let (around, along) = (halo(ring), halo(chain));
    for plan in [&around, &along] {
        for n in [3, 4, 8] {
            verify(plan, &sizes(plan, n, &[]));
            let schedule = kernels(plan, n);
            for rank in 0..n as usize {
                let [legs] = &legs(&schedule, rank)[..] else { panic!("{schedule:?}") };
                assert_eq!(legs.len(), 2, "rank {rank} of {n}: two directions");
            }
            let told = schedule.explain(plan);
            assert!(
                told.contains("one kernel for these messages: about 3.5 us, NCCL's group"),
                "{told}"
            );
            let text = schedule.to_text(plan);
            assert!(text.contains("kernel: ") || text.contains("k:"), "{text}");
            let picture = schedule.to_mermaid(plan);
            let arrows = || picture.lines().filter(|line| line.contains("->>"));
            assert!(arrows().all(|line| line.contains(": kernel: send")), "{picture}");
            assert!(arrows().count() > 3, "{picture}");
            let estimate = estimate(plan, &schedule, &Topology::h200_node());
            assert!(!estimate.hangs && (3.4e-6..3.7e-6).contains(&estimate.total), "{estimate}");
        }
    }
    // An end has one neighbour.
    let ends = legs(&kernels(&along, 3), 0);
    let half = |of: fn(&Leg) -> Option<u32>| ends[0].iter().filter_map(of).count();
    assert_eq!((half(|leg| leg.send), half(|leg| leg.receive)), (1, 1));
}

#[test]
fn messages_of_some_ranks_are_nccls() {
    let mut plan = PlanBuilder::new("two of them");
    plan.ranks(3..);
    let (a, b) = (plan.input::<f32>("a", 64), plan.in_out::<f32>("b", 64));
    let net = plan.stream("net");
    let rank = plan.rank();
    plan.when(rank.eq(0), |plan| plan.on(net).transfer(a, at(1), b));
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    assert_eq!(kernels(&plan, 3).ranks, schedule.ranks);
}

#[test]
fn large_messages_are_nccls() {
    let mut plan = PlanBuilder::new("large");
    plan.ranks(2..);
    let len = plan.param("len", 1..);
    let (a, b) = (plan.input::<f32>("a", len), plan.output::<f32>("b", len));
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    let plan = plan.unchecked().expect("a plan");
    let of = |len| {
        let sizes = sizes(&plan, 2, &[("len", len)]);
        lowered(&plan, &sizes).with_kernels(&plan, &Topology::h200_node())
    };
    assert_eq!((lens(&of(1 << 17), 0), lens(&of((1 << 17) + 1), 0)), (vec![2], vec![0]));
    assert!(!of(1 << 18).why_kernels[0].chosen);
}

#[test]
fn small_all_to_alls_are_one_kernel() {
    let mut plan = PlanBuilder::new("experts");
    plan.ranks(1..);
    let len = plan.size() * 16;
    let (a, b) =
        (plan.array(2).input::<f32>("a", |_| len), plan.array(2).output::<f32>("b", |_| len));
    let net = plan.stream("net");
    plan.for_each("i", ..2, |plan, i| {
        plan.on(net).all_to_all(a.at(i), b.at(i));
    });
    let plan = plan.unchecked().expect("a plan");
    for n in [2, 8, 32] {
        let schedule = kernels(&plan, n);
        assert_eq!(lens(&schedule, 1), [2], "{n} ranks");
        assert!(schedule.explain(&plan).contains("one kernel for 2 all_to_alls"));
    }
    verify(&plan, &sizes(&plan, 4, &[]));
}

/// Rank 0 sends to 1, and then tells 2 that it may send to 3: a kernel for both messages would wait
/// for all four.
#[test]
fn no_kernel_where_ranks_would_wait_in_a_circle() {
    let of = |in_turn: bool| {
        let mut plan = PlanBuilder::new("circle");
        plan.ranks([4]);
        let (a, b) = (plan.input::<f32>("a", 4), plan.output::<f32>("b", 4));
        let (net, rank) = (plan.stream("net"), plan.rank());
        let go = plan.signal("go");
        if in_turn {
            plan.when(rank.eq(2), |plan| plan.on(net).wait([go.from(at(0))]));
        }
        plan.when((rank % 2).eq(0), |plan| plan.on(net).transfer(a, chain(1), b));
        if in_turn {
            plan.when(rank.eq(0), |plan| plan.on(net).signal(go, at(2)));
        }
        plan.unchecked().expect("a plan")
    };
    let (plan, apart) = (of(true), of(false));
    assert_eq!(lens(&kernels(&apart, 4), 0), [1]);
    let schedule = verify(&plan, &sizes(&plan, 4, &[]));
    let with = kernels(&plan, 4);
    assert_eq!(with.ranks, schedule.ranks);
    let told = with.explain(&plan);
    assert!(told.contains("they would wait for one another in a circle"), "{told}");
}

#[test]
fn no_kernel_of_messages_that_come_from_elsewhere() {
    let mut plan = PlanBuilder::new("elsewhere");
    plan.ranks(1..);
    let (a, b) = (plan.input::<f32>("a", 4), plan.output::<f32>("b", 4));
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    let plan = plan.unchecked().expect("a plan");
    let mut halves = lowered(&plan, &sizes(&plan, 2, &[]));
    // Rank 1 receives in a call, and sends in another one.
    let own = &mut halves.ranks[1].calls;
    let mut second = own[0].clone();
    let (Work::Group(first), Work::Group(rest)) = (&mut own[0].work, &mut second.work) else {
        panic!("no groups")
    };
    first.remove(0);
    rest.pop();
    own.push(second);
    assert_eq!(halves.clone().with_kernels(&plan, &Topology::h200_node()).ranks, halves.ranks);
}

#[test]
fn no_kernels_that_ranks_have_in_two_orders() {
    let mut plan = PlanBuilder::new("orders");
    plan.ranks([4]);
    let (a, b) = (plan.input::<f32>("a", 8), plan.output::<f32>("b", 8));
    let (one, other) = (plan.stream("one"), plan.rank());
    plan.on(one).transfer(a.slice(..4), ring(1), b.slice(..4));
    plan.on(one).run("look").reads(b.slice(..4));
    plan.when((other / 2).eq(0), |plan| {
        plan.on(one).transfer(a.slice(4..), chain(2), b.slice(4..));
    });
    let plan = plan.unchecked().expect("a plan");
    let mut swapped = lowered(&plan, &sizes(&plan, 4, &[]));
    assert_eq!(lens(&swapped.clone().with_kernels(&plan, &Topology::h200_node()), 1), [2, 0, 1]);
    swapped.ranks[1].calls.swap(0, 2);
    assert_eq!(swapped.clone().with_kernels(&plan, &Topology::h200_node()).ranks, swapped.ranks);
}

/// Each row of a mesh is a communicator of its own, and has kernels where it is said to have.
#[test]
fn communicators_of_some_ranks_have_their_own() {
    let mut plan = PlanBuilder::new("rows");
    let (rows, columns) = (plan.axis("rows", 1..), plan.axis("columns", 1..));
    let row = plan.communicator("row", [columns]);
    let (x, y) = (plan.in_out::<f32>("x", 64), plan.in_out::<f32>("y", 64));
    let (a, b) = (plan.input::<f32>("a", 8), plan.output::<f32>("b", 8));
    let net = plan.stream("net");
    plan.on(net).among(row).all_reduce_in_place(x, Reduction::Sum);
    plan.on(net).among(row).all_reduce_in_place(y, Reduction::Sum);
    plan.on(net).among(row).transfer(a, columns.ring(1), b);
    let _ = rows;
    let plan = plan.unchecked().expect("a plan");
    let sizes = Sizes { extents: vec![2, 3], params: Vec::new(), text: "2 rows of 3".to_owned() };
    let schedule = verify(&plan, &sizes);
    let topology = Topology::h200_node();
    let all = schedule.clone().with_kernels(&plan, &topology);
    let one = schedule.with_kernels_of(&plan, &topology, |id, first| (id.0, first) == (1, 3));
    for rank in 0..6 {
        assert_eq!(lens(&all, rank), [2, 2], "rank {rank}");
        let has = if rank < 3 { [0, 0] } else { [2, 2] };
        assert_eq!(lens(&one, rank), has, "rank {rank}");
    }
    assert_eq!(plan.communicators[CommunicatorId(1).index()].name, "row");
}
