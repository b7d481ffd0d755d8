//! Schedules: they do what their plans say, in as few groups as that allows.

mod apart;
#[path = "../plans/mod.rs"]
mod plans;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plan_simulator::schedule::{communicator, run_schedule};
use typed_nccl_plan::build::{Guard, Number, PlanBuilder, Slice, Stream, at, chain, ring};
use typed_nccl_plan::ir::{Launch, Location, Plan, Reduction};
use typed_nccl_plan::lower::{Operation, Part, Schedule, WarmUp, Work, lower};
use typed_nccl_plan::verdict::Sizes;

/// How many runs follow one another.
const RUNS: usize = 3;
/// How many random plans are lowered, each for several sizes.
const CASES: usize = 600;

fn sizes(plan: &Plan, n: i64, values: &[(&str, i64)]) -> Sizes {
    let of = |name: &str| values.iter().find(|(one, _)| *one == name).map(|(_, value)| *value);
    let params = plan.params.iter().map(|param| vec![of(&param.name).expect("a value")]);
    let mut extents = vec![1; plan.axes.len()];
    extents[0] = n;
    Sizes { extents, params: params.collect(), text: format!("n = {n}") }
}

#[track_caller]
fn lowered(plan: &Plan, sizes: &Sizes) -> Schedule {
    lower(plan, sizes).unwrap_or_else(|rejected| panic!("{}: {rejected}", sizes.text))
}

fn groups(schedule: &Schedule, rank: usize) -> Vec<&[Operation]> {
    let of = schedule.ranks[rank].calls.iter().filter_map(|call| match &call.work {
        Work::Group(ops) => Some(ops.as_slice()),
        Work::Compute { .. } => None,
    });
    of.collect()
}

/// Of each communicator, and of each stream, what a rank does, in order.
type Order<'a> = (BTreeMap<u32, Vec<&'a Operation>>, BTreeMap<u32, Vec<String>>);

fn order(schedule: &Schedule, rank: usize) -> Order<'_> {
    let (mut among, mut on) = (BTreeMap::new(), BTreeMap::new());
    for call in &schedule.ranks[rank].calls {
        let mut tell = |what: String| {
            on.entry(call.stream.0).or_insert_with(Vec::new).push(what);
        };
        match &call.work {
            Work::Compute { name, .. } if name == apart::NAME => {}
            Work::Compute { .. } => tell(format!("{:?}", call.work)),
            Work::Group(ops) => {
                for op in ops {
                    among.entry(communicator(op).0).or_insert_with(Vec::new).push(op);
                    tell(format!("{op:?}"));
                }
            }
        }
    }
    (among, on)
}

/// The schedule does on every rank what the plan does that nothing was joined in, in the same order, and
/// leaves the same memory whatever the order of events.
#[track_caller]
fn verify(plan: &Plan, sizes: &Sizes) -> Schedule {
    let schedule = lowered(plan, sizes);
    let plain_plan = apart::apart(plan);
    let plain = lowered(&plain_plan, sizes);
    // What a rank receives in a sequence stands beside what it sends, whatever is written between.
    if !apart::has_sequences(&plan.steps) {
        assert!(plain.reasons.iter().all(|reason| !reason.joined), "{:?}", plain.reasons);
    }
    for rank in 0..schedule.ranks.len() {
        assert_eq!(order(&schedule, rank), order(&plain, rank), "rank {rank}, {}", sizes.text);
    }
    grouped_alike(&schedule);
    let runs = if plan.replayed { RUNS } else { 1 };
    let reference = run_schedule(&plain_plan, &plain, runs, 1);
    for seed in 0..8 {
        let left = run_schedule(plan, &schedule, runs, seed);
        assert!(left == reference, "other memory, {}", sizes.text);
    }
    schedule
}

/// N2: the messages between two ranks are parted into groups alike at both ends.
#[track_caller]
fn grouped_alike(schedule: &Schedule) {
    let ends = |a: u32, b: u32| {
        // The groups of rank a that have messages with rank b: how many of each direction.
        let counts = groups(schedule, a as usize).into_iter().map(|ops| {
            let to = |op: &&Operation| matches!(op, Operation::Send { peer, .. } if *peer == b);
            let from =
                |op: &&Operation| matches!(op, Operation::Receive { peer, .. } if *peer == b);
            (ops.iter().filter(to).count(), ops.iter().filter(from).count())
        });
        counts.filter(|counts| *counts != (0, 0)).collect::<Vec<_>>()
    };
    for a in 0..schedule.ranks.len() as u32 {
        for b in 0..a {
            let mirrored: Vec<_> = ends(b, a).into_iter().map(|(to, from)| (from, to)).collect();
            assert_eq!(ends(a, b), mirrored, "ranks {a} and {b}");
        }
    }
}

fn joined(schedule: &Schedule) -> usize {
    schedule.reasons.iter().filter(|reason| reason.joined).count()
}

#[track_caller]
fn apart_because(schedule: &Schedule, why: &str) {
    assert_eq!(joined(schedule), 0, "{:?}", schedule.reasons);
    assert!(
        schedule.reasons.iter().any(|reason| reason.why.contains(why)),
        "{:?}",
        schedule.reasons
    );
}

/// Sizes that a plan claims, up to eight ranks: at most three for each number of ranks.
fn few(plan: &Plan) -> Vec<Sizes> {
    let mut found: BTreeMap<i64, Vec<Sizes>> = BTreeMap::new();
    for sizes in plans::small::sizes(plan) {
        found.entry(sizes.extents.iter().product()).or_default().push(sizes);
    }
    let smallest = found.keys().next().copied().unwrap_or_default();
    let fits = found.into_iter().filter(|(ranks, _)| *ranks <= smallest.max(8));
    fits.flat_map(|(_, of)| {
        let step = of.len().div_ceil(3).max(1);
        of.into_iter().step_by(step)
    })
    .collect()
}

#[test]
fn good_plans() {
    for (name, plan) in plans::good() {
        let plan = plan.unchecked().expect("a plan");
        for sizes in few(&plan) {
            println!("{name}, {}", sizes.text);
            verify(&plan, &sizes);
        }
    }
}

#[test]
fn random_plans() {
    let mut random = plan_simulator::Random::new(5);
    let (mut good, mut fused, mut carried, mut waits) = (0, 0, 0, 0);
    for _ in 0..CASES {
        let (plan, all) = plan_simulator::case(&mut random);
        for sizes in all {
            let right = lower(&plan, &sizes).is_ok();
            if !right || sizes.extents.iter().product::<i64>() > 8 {
                continue;
            }
            let seen = catch_unwind(AssertUnwindSafe(|| verify(&plan, &sizes)));
            let Ok(schedule) = seen else {
                panic!("{}\n{}", sizes.text, plan_simulator::dump(&plan));
            };
            let calls = || schedule.ranks.iter().flat_map(|rank| &rank.calls);
            good += 1;
            fused += usize::from(joined(&schedule) > 0);
            carried += usize::from(calls().any(|call| !call.carried.is_empty()));
            waits += usize::from(calls().any(|call| !call.waits.is_empty()));
        }
    }
    println!(
        "{good} instances: {fused} with groups joined, {waits} with waits, {carried} across runs"
    );
    assert!(good > 500 && fused > 100 && carried > 25 && waits > 100);
}

/// `many` all-reduces of plain buffers, one after another.
fn all_reduces(many: i64, again: impl Fn(&mut PlanBuilder, Stream, Number)) -> Plan {
    let mut plan = PlanBuilder::new("all-reduces");
    plan.ranks(1..);
    let g = plan.array(many).in_out::<f32>("g", |_| 256.into());
    let net = plan.stream("net");
    plan.for_each("i", ..many, |plan, i| {
        plan.on(net).all_reduce_in_place(g.at(i), Reduction::Sum);
        again(plan, net, i);
    });
    plan.unchecked().expect("a plan")
}

#[test]
fn sixty_four_all_reduces_are_one_group() {
    let looped = all_reduces(64, |_, _, _| ());
    let schedule = verify(&looped, &sizes(&looped, 4, &[]));
    for rank in 0..4 {
        let [all] = groups(&schedule, rank)[..] else { panic!("several groups") };
        assert_eq!(all.len(), 64);
        assert!(all.iter().all(|op| matches!(op, Operation::Collective { in_place: true, .. })));
    }
    assert_eq!(schedule.ranks[0].events, 0);
    assert_eq!(schedule.warm_ups.len(), 1);
    assert!(schedule.explain(&looped).contains("joined"), "{}", schedule.explain(&looped));
}

#[test]
fn all_reduces_written_out_are_one_group() {
    let mut plan = PlanBuilder::new("all-reduces");
    plan.ranks(1..);
    let g = plan.in_out::<f32>("g", 64 * 8);
    let net = plan.stream("net");
    for i in 0..64 {
        let part: Slice<f32> = g.chunk(64, i);
        plan.on(net).all_reduce_in_place(part, Reduction::Sum);
    }
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    assert_eq!(groups(&schedule, 2).len(), 1);
}

#[test]
fn a_group_has_2048_operations_at_most() {
    let plan = all_reduces(2049, |_, _, _| ());
    let schedule = lowered(&plan, &sizes(&plan, 2, &[]));
    let lens: Vec<usize> = groups(&schedule, 1).iter().map(|ops| ops.len()).collect();
    assert_eq!(lens, [2048, 1]);
}

#[test]
fn not_across_a_hazard() {
    let plan = all_reduces(2, |_, _, _| ());
    assert_eq!(joined(&lowered(&plan, &sizes(&plan, 2, &[]))), 1);
    let mut plan = PlanBuilder::new("one after another");
    plan.ranks(1..);
    let (a, b) = (plan.input::<f32>("a", 4), plan.output::<f32>("b", 4));
    let c = plan.output::<f32>("c", 4);
    let net = plan.stream("net");
    plan.on(net).all_reduce(a, b, Reduction::Sum);
    plan.on(net).all_reduce(b, c, Reduction::Max);
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 2, &[])), "both touch `b`");
}

#[test]
fn not_across_streams() {
    let mut plan = PlanBuilder::new("two streams");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let streams = [plan.stream("one"), plan.stream("other")];
    plan.on(streams[0]).all_reduce_in_place(a, Reduction::Sum);
    plan.on(streams[1]).all_reduce_in_place(b, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 2, &[])), "two streams, `one` and `other`");
}

#[test]
fn not_with_a_wait() {
    let plan = plans::halo::one_sided().unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[("m", 9), ("h", 2)]));
    let waits = schedule.reasons.iter().filter(|one| one.why.contains("a wait for signals"));
    assert!(waits.clone().count() > 0 && waits.clone().all(|one| !one.joined));
    // The two puts before it are one group.
    assert_eq!(joined(&schedule), 1);
    assert_eq!(schedule.warm_ups, [WarmUp::OneSided(typed_nccl_plan::ir::CommunicatorId(0))]);
}

#[test]
fn not_on_windows() {
    let mut plan = PlanBuilder::new("windows");
    plan.ranks(1..);
    let g = plan.window().array(4).in_out::<f32>("g", |_| 16.into());
    let net = plan.stream("net");
    plan.for_each("i", ..4, |plan, i| {
        plan.on(net).all_reduce_in_place(g.at(i), Reduction::Sum);
    });
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    apart_because(&schedule, "symmetric kernels");
    assert!(schedule.explain(&plan).contains("85.9 us"));
}

#[test]
fn not_when_the_second_waits_for_more() {
    let mut plan = PlanBuilder::new("buckets");
    plan.ranks(1..);
    let g = plan.array(4).in_out::<f32>("g", |_| 16.into());
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.for_each("i", ..4, |plan, i| {
        plan.on(cmp).run("backward").argument(i).writes(g.at(i));
        plan.on(net).after([cmp]).all_reduce_in_place(g.at(i), Reduction::Sum);
    });
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    apart_because(&schedule, "the second waits for `backward`");
    assert!(schedule.explain(&plan).contains("it is `after` stream `cmp`"));
    // A backward step waits for the last run's all-reduce of its own bucket, and for none of this run.
    for (i, pair) in schedule.ranks[0].calls.chunks(2).enumerate() {
        assert_eq!(
            (pair[0].waits.len(), &pair[0].carried[..]),
            (0, pair[1].records.as_slice()),
            "{i}"
        );
        assert_eq!(
            (&pair[1].waits[..], pair[1].carried.len()),
            (pair[0].records.as_slice(), 0),
            "{i}"
        );
    }
}

#[test]
fn a_halo_overlaps_with_its_interior() {
    let plan = plans::halo::one_sided().unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 4, &[("m", 9), ("h", 2)]));
    let interior = schedule.ranks[1]
        .calls
        .iter()
        .find(|call| matches!(&call.work, Work::Compute { name, .. } if name == "interior"));
    assert!(interior.is_some_and(|call| call.waits.is_empty()), "{}", schedule.explain(&plan));
}

#[test]
fn joined_when_the_first_waits_for_all() {
    let mut plan = PlanBuilder::new("buckets at the end");
    plan.ranks(1..);
    let g = plan.array(4).in_out::<f32>("g", |_| 16.into());
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.for_each("i", ..4, |plan, i| {
        plan.on(cmp).run("backward").argument(i).writes(g.at(i));
    });
    plan.for_each("i", ..4, |plan, i| {
        plan.on(net).after([cmp]).all_reduce_in_place(g.at(i), Reduction::Sum);
    });
    plan.on(cmp).after([net]).run("step").reads(g);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    assert_eq!(groups(&schedule, 0).len(), 1);
    let calls = &schedule.ranks[0].calls;
    assert_eq!(calls.iter().map(|call| call.waits.len()).sum::<usize>(), 2);
    // `backward` of the next run stands on the stream of `step`, which has waited for the group.
    assert!(calls.iter().all(|call| call.carried.is_empty()));
    assert_eq!(schedule.ranks[0].events, 2);
}

#[test]
fn not_when_something_between_waits_for_the_first() {
    let mut plan = PlanBuilder::new("used at once");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    plan.on(cmp).run("use").reads(a);
    plan.on(net).all_reduce_in_place(b, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    apart_because(&schedule, "`use` in line");
    // The next run's first all-reduce writes what `use` reads.
    assert_eq!(schedule.ranks[0].calls[0].carried.len(), 1);
}

#[test]
fn two_copies_carry_over_two_runs() {
    let mut plan = PlanBuilder::new("swapped");
    plan.ranks(1..);
    let x = plan.swapped().in_out::<f32>("x", 4);
    let y = plan.output::<f32>("y", 4);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("use").reads(x).writes(y);
    plan.on(other).run("fill").reads(x).writes(x);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 1, &[]));
    assert_eq!(schedule.ranks[0].calls[0].carried.len(), 1);
    assert!(schedule.why_waits.iter().any(|wait| wait.carried && wait.why == "both use `x`"));
}

#[test]
fn an_event_is_waited_for_as_it_was_recorded_last() {
    let mut plan = PlanBuilder::new("filled for the next run");
    plan.ranks(1..);
    let x = plan.swapped().in_out::<f32>("x", 4);
    let y = plan.output::<f32>("y", 4);
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("use").reads(x).writes(y);
    plan.on(other).run("fill").writes(x.next());
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 1, &[]));
    let [uses, fills] = &schedule.ranks[0].calls[..] else { panic!("two calls") };
    // What was used in the last run is filled in this one, when the event stands for this run's use already.
    assert_eq!((&uses.waits[..], &uses.carried[..]), (&[][..], fills.records.as_slice()));
    assert_eq!((&fills.waits[..], &fills.carried[..]), (uses.records.as_slice(), &[][..]));
}

#[test]
fn two_communicators_may_need_more_than_their_memory_says() {
    let mut plan = PlanBuilder::new("ordered by a stream");
    let axis = plan.axis("n", 2);
    let second = plan.communicator("second", [axis]);
    let [x, y] = ["x", "y"].map(|name| plan.in_out::<f32>(name, 4));
    let (one, other) = (plan.stream("one"), plan.stream("other"));
    plan.on(one).run("fill").writes(x);
    plan.on(one).all_reduce_in_place(y, Reduction::Sum);
    plan.on(other).among(second).all_reduce_in_place(x, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    let [fill, first, second] = &schedule.ranks[0].calls[..] else { panic!("three calls") };
    assert_eq!((&second.waits[..], fill.records), (first.records.as_slice(), None));
}

#[test]
fn independent_work_between_does_not_matter() {
    let mut plan = PlanBuilder::new("apart");
    plan.ranks(1..);
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let c = plan.in_out::<f32>("c", 4);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    plan.on(cmp).run("other").reads(c).writes(c);
    plan.on(net).all_reduce_in_place(b, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 2, &[]));
    assert_eq!((groups(&schedule, 0).len(), schedule.ranks[0].events), (1, 0));
}

#[test]
fn not_where_only_one_end_could_be() {
    // Rank 0 sends twice, and could send in one group; rank 1 reads the first before it takes the second.
    let mut plan = PlanBuilder::new("one end");
    plan.ranks(2);
    let r = plan.rank();
    let (a, b) = (plan.in_out::<f32>("a", 4), plan.in_out::<f32>("b", 4));
    let net = plan.stream("net");
    let zero = |r: Number| -> Guard { r.eq(0) };
    plan.when(zero(r), |plan| plan.on(net).send(a, at(1)));
    plan.when(zero(r), |plan| plan.on(net).send(b, at(1)));
    plan.when(r.eq(1), |plan| plan.on(net).receive(a, at(0)));
    plan.when(r.eq(1), |plan| {
        plan.on(net).run("use").reads(a).writes(a);
    });
    plan.when(r.eq(1), |plan| plan.on(net).receive(a, at(0)));
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 2, &[])), "does not group");
}

#[test]
fn not_messages_with_collectives() {
    let mut plan = PlanBuilder::new("both");
    plan.ranks(1..);
    let (a, b) = (plan.input::<f32>("a", 4), plan.output::<f32>("b", 4));
    let c = plan.in_out::<f32>("c", 4);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    plan.on(net).all_reduce_in_place(c, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    apart_because(&verify(&plan, &sizes(&plan, 3, &[])), "messages and collectives");
}

#[test]
fn a_way_through_other_ranks_is_no_circuit() {
    // Rank 0 sends to 1, then to 2, which receives only after rank 1 has sent on what it got.
    let mut plan = PlanBuilder::new("detour");
    let axis = plan.axis("n", 3);
    let other = plan.communicator("other", [axis]);
    let r = plan.rank();
    let [a, b, c, d, e] = ["a", "b", "c", "d", "e"].map(|name| plan.in_out::<f32>(name, 4));
    let (net, aside, cmp) = (plan.stream("net"), plan.stream("aside"), plan.stream("cmp"));
    plan.once();
    plan.when(r.eq(0), |plan| plan.on(net).send(a, at(1)));
    plan.when(r.eq(1), |plan| plan.on(net).receive(a, at(0)));
    plan.when(r.eq(0), |plan| plan.on(net).send(b, at(2)));
    plan.when(r.eq(1), |plan| plan.on(aside).after([net]).among(other).send(a, at(2)));
    plan.when(r.eq(2), |plan| plan.on(aside).among(other).receive(c, at(1)));
    plan.when(r.eq(2), |plan| {
        plan.on(cmp).after([aside]).run("use").reads(c).writes(d);
    });
    plan.when(r.eq(2), |plan| plan.on(net).after([cmp]).receive(e, at(0)));
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    assert_eq!(groups(&schedule, 0).len(), 1, "{}", schedule.explain(&plan));
}

#[test]
fn not_across_calls_that_nccl_orders() {
    let make = |implicit: bool| {
        let mut plan = PlanBuilder::new("implicit order");
        let axis = plan.axis("n", 2);
        let other = plan.communicator("other", [axis]);
        let [a, b, c] = ["a", "b", "c"].map(|name| plan.in_out::<f32>(name, 4));
        let (net, aside) = (plan.stream("net"), plan.stream("aside"));
        plan.on(net).all_reduce_in_place(a, Reduction::Sum);
        if implicit {
            plan.launch_order_is_implicit();
            plan.on(aside).among(other).all_reduce_in_place(b, Reduction::Sum);
        }
        plan.on(net).all_reduce_in_place(c, Reduction::Sum);
        let plan = plan.unchecked().expect("a plan");
        verify(&plan, &sizes(&plan, 2, &[]))
    };
    assert_eq!(joined(&make(false)), 1);
    apart_because(&make(true), "the order of the calls");
}

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
fn a_captured_plan_carries_nothing() {
    for (_, plan) in plans::good() {
        let mut plan = plan.unchecked().expect("a plan");
        plan.launch = Launch::Captured;
        let schedule = verify(&plan, few(&plan).last().expect("a size"));
        let calls = schedule.ranks.iter().flat_map(|rank| &rank.calls);
        assert!(calls.clone().all(|call| call.carried.is_empty()));
    }
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
            plan.on(cmp).run("work").argument(10 * i + r).reads(x.slice(1..3)).writes(x);
        });
    });
    let plan = plan.unchecked().expect("a plan");
    let schedule = verify(&plan, &sizes(&plan, 3, &[]));
    let of = |rank: usize| -> Vec<i64> {
        let calls = schedule.ranks[rank].calls.iter();
        let numbers = calls.filter_map(|call| match &call.work {
            Work::Compute { arguments, .. } => Some(arguments[0]),
            Work::Group(_) => None,
        });
        numbers.collect()
    };
    assert_eq!((of(0), of(1), of(2)), (vec![20, 10], vec![21, 11], vec![22]));
    let Work::Compute { reads, writes, .. } = &schedule.ranks[2].calls[0].work else {
        panic!("no compute step")
    };
    let part = |start, end| Part { buffer: 0, index: 0, next: false, start, end };
    assert_eq!((&reads[..], &writes[..]), (&[part(1, 3)][..], &[part(0, 4)][..]));
}

#[test]
fn what_is_wrong_is_told() {
    let plan = plans::ring::sends_first().plan.unchecked().expect("a plan");
    assert!(lower(&plan, &sizes(&plan, 2, &[("len", 4)])).is_err());
}

#[test]
fn a_chain_is_joined_at_both_ends() {
    let mut plan = PlanBuilder::new("both ways");
    plan.ranks(2..);
    let [a, b] = ["a", "b"].map(|name| plan.input::<f32>(name, 4));
    let [c, d] = ["c", "d"].map(|name| plan.in_out::<f32>(name, 4));
    let net = plan.stream("net");
    plan.on(net).transfer(a, chain(1), c);
    plan.on(net).transfer(b, chain(-1), d);
    let plan = plan.unchecked().expect("a plan");
    for n in 2..=8 {
        let schedule = verify(&plan, &sizes(&plan, n, &[]));
        assert!((0..n as usize).all(|rank| groups(&schedule, rank).len() == 1));
        assert!(schedule.ranks[0].calls[0].from.iter().all(|at: &Location| at.line > 0));
    }
}
