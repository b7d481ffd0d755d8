//! What the builder puts into a plan, and what it says of what it cannot.

use std::error::Error;
use std::iter::successors;

use typed_nccl_plan::build::{
    Buffer, Generic, Number, PlanBuilder, Refused, Stream, at, chain, either, powers, ring,
};
use typed_nccl_plan::ir::{
    AxisId, BufferId, CollectiveKind, ElementType, Expr, Hop, Launch, LoopId, ParamId, Peer, Plan,
    Reduction, Region, Role, StepKind, StreamId, Transfer, Values,
};
use typed_nccl_plan::verdict::{Check, ProblemKind, Rejected};

#[test]
fn a_transfer_as_written() {
    let mut plan = PlanBuilder::new("ring");
    let n = plan.ranks(1..);
    let r = plan.rank();
    let len = plan.param("len", 1..);
    let a = plan.input::<f32>("a", len);
    let b = plan.output::<f32>("b", n * len);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).after([cmp]).transfer(a, ring(1), b.chunk(n, (r + 1) % n));
    let plan = unchecked(plan);

    let StepKind::Transfer(Transfer { from, peer, to, place, among }) = &plan.steps[0].kind else {
        panic!("{:?}", plan.steps)
    };
    assert_eq!(*from, Region::all(BufferId(0)));
    assert_eq!(*peer, Peer::Shift(vec![Hop { axis: AxisId(0), by: 1.into(), wrap: true }]));
    assert_eq!((place.on, &*place.after), (StreamId(0), &[StreamId(1)][..]));
    assert_eq!(plan.communicators[among.index()].axes, [AxisId(0)]);
    let n = || Expr::Extent(AxisId(0));
    let index = || (Expr::Rank + 1) % n();
    let each = || n() * Expr::Param(ParamId(0)) / n();
    assert_eq!(to.range, Some((index() * each(), (index() + 1) * each())));
    assert_eq!(plan.axes[0].extent, Values::AtLeast(1));
}

#[test]
fn memory_as_declared() {
    let mut plan = PlanBuilder::new("memory");
    plan.ranks([2, 4]);
    let k = plan.param("k", 1..=3);
    let sizes = plan.list("sizes", k, 1..);
    let net = plan.stream("net");
    let u = plan.window().swapped().in_out::<Generic>("u", 8);
    let g = plan.array(k).local::<f64>("g", |i| sizes.at(i) + 1);
    plan.on(net).run("all").reads(g).writes(g.at(2).slice(Number::from(1)..)).writes(u.next());
    let plan = unchecked(plan);

    let [u, g] = &*plan.buffers else { panic!("{:?}", plan.buffers) };
    assert_eq!((&*u.name, u.role, u.window, u.copies), ("u", Role::InOut, true, 2));
    assert_eq!(u.element, ElementType::Generic("T".into()));
    assert_eq!(
        (g.role, g.window, g.copies, &g.element),
        (Role::Local, false, 1, &ElementType::F64)
    );
    let array = g.array.as_ref().expect("an array");
    assert_eq!((&array.count, array.index), (&Expr::Param(ParamId(0)), LoopId(0)));
    let size = |index| Expr::element(ParamId(1), index) + 1;
    assert_eq!(g.len, size(Expr::Loop(LoopId(0))));
    let StepKind::Compute(all) = &plan.steps[0].kind else { panic!("{:?}", plan.steps) };
    assert_eq!(all.reads, [Region::all(BufferId(1))]);
    let second = Region {
        buffer: BufferId(1),
        index: Some(2.into()),
        next: false,
        range: Some((1.into(), size(2.into()))),
    };
    assert_eq!(all.writes, [second, Region { next: true, ..Region::all(BufferId(0)) }]);
}

#[test]
fn statements_nest_as_written() {
    let mut plan = PlanBuilder::new("nested");
    let n = plan.ranks(1..);
    let r = plan.rank();
    let (a, net) = (plan.in_out::<f32>("a", 1), plan.stream("net"));
    plan.for_each_reversed("i", ..n, |plan, i| {
        plan.when(r.eq(i), |plan| {
            plan.on(net).group(|net| {
                net.send(a, chain(1));
                net.receive(a, at(i));
            });
        });
        plan.on(net).run("then");
    });
    plan.captured();
    let plan = unchecked(plan);

    let StepKind::Loop(outer) = &plan.steps[0].kind else { panic!("{:?}", plan.steps) };
    assert!(outer.reverse && outer.from == 0.into() && outer.body.len() == 2);
    let StepKind::When(when) = &outer.body[0].kind else { panic!("{outer:?}") };
    assert_eq!(when.condition, Expr::Rank.eq(Expr::Loop(outer.counter)));
    let StepKind::Group(group) = &when.body[0].kind else { panic!("{when:?}") };
    assert!(matches!(&group[..], [send, receive]
        if matches!(send.kind, StepKind::Send(_)) && matches!(receive.kind, StepKind::Receive(_))));
    assert_eq!(plan.launch, Launch::Captured);
    assert_eq!(plan.counters[outer.counter.index()].name, "i");
}

#[test]
fn two_loops_may_both_count_i() {
    let (mut plan, net, a) = small("twice");
    for _ in 0..3 {
        plan.for_each("i", ..2, |plan, i| plan.on(net).send(a, ring(i)));
    }
    let plan = unchecked(plan);
    let names: Vec<&str> = plan.counters.iter().map(|counter| &*counter.name).collect();
    assert_eq!(names, ["i", "i_2", "i_3"]);
}

#[test]
fn every_statement_knows_its_line() {
    let (mut plan, net, a) = small("lines");
    plan.on(net).send(a, ring(1)); // here
    let plan = unchecked(plan);
    let here = plan.steps[0].at;
    assert!(plan.files[usize::from(here.file)].ends_with("builder.rs"));
    let source = include_str!("builder.rs").lines().nth(here.line as usize - 1).expect("a line");
    assert!(source.ends_with("// here"), "{source}");
    assert!(source[here.column as usize - 1..].starts_with("send("), "{source}");
    assert_ne!(plan.streams[0].at, here);
}

#[test]
fn a_handle_of_another_builder_is_told_with_its_line() {
    let (mut other, foreign_stream, foreign_buffer) = small("other");
    let foreign_axis = other.axis("m", 2..);
    let foreign = foreign_axis.size();
    let signal = other.signal("s");
    let communicator = other.world();
    let condition = foreign.gt(1);

    type Statement<'a> = Box<dyn Fn(&mut PlanBuilder, Stream, Buffer<f32>) + 'a>;
    let statements: Vec<Statement<'_>> = vec![
        Box::new(|plan, _, a| plan.on(foreign_stream).send(a, ring(1))),
        Box::new(|plan, net, a| plan.on(net).after([foreign_stream]).send(a, ring(1))),
        Box::new(|plan, net, a| plan.on(net).among(communicator).send(a, ring(1))),
        Box::new(|plan, net, _| plan.on(net).send(foreign_buffer, ring(1))),
        Box::new(|plan, net, a| plan.on(net).send(a, ring(foreign))),
        Box::new(|plan, net, a| plan.on(net).send(a, foreign_axis.ring(1))),
        Box::new(|plan, net, a| plan.on(net).send(a.slice(..plan_size(a) - foreign), ring(1))),
        Box::new(|plan, net, _| plan.on(net).signal(signal, ring(1))),
        Box::new(|plan, net, _| plan.on(net).wait([signal.from(ring(1))])),
        Box::new(|plan, _, _| plan.promise(condition.clone())),
        Box::new(|plan, _, _| plan.promise_each("i", ..foreign, |i| i.ge(0))),
        Box::new(|plan, _, _| plan.when(!condition.clone(), |_| ())),
        Box::new(|plan, _, _| plan.for_each("i", ..foreign, |_, _| ())),
        Box::new(|plan, _, _| {
            plan.communicator("c", [foreign_axis]);
        }),
        Box::new(|plan, _, _| {
            plan.local::<f32>("b", foreign);
        }),
    ];
    for statement in statements {
        let (mut plan, net, a) = small("mine");
        statement(&mut plan, net, a);
        let rejected = malformed(plan);
        assert!(rejected.problems[0].title.contains("another plan"), "{rejected}");
        assert!(rejected.files[usize::from(rejected.problems[0].at.file)].ends_with("builder.rs"));
    }
}

#[test]
fn a_number_that_outlives_its_builder_is_told() {
    let gone = {
        let (plan, ..) = small("gone");
        plan.size()
    };
    let (mut plan, net, a) = small("mine");
    plan.on(net).send(a, ring(gone + 1));
    malformed(plan);
}

#[test]
fn impossible_numbers_are_told() {
    for number in [
        Number::from(i64::MAX) + 1,
        Number::from(1) / 0,
        Number::from(1) % -2,
        Number::from(usize::MAX),
    ] {
        let (mut plan, net, a) = small("impossible");
        plan.on(net).send(a, ring(number));
        assert!(malformed(plan).problems[0].title.contains("too large, or divided by"));
    }
}

#[test]
fn numbers_divide_down() {
    for (left, right) in [(7, 2), (-7, 2), (-6, 2), (0, 3)] {
        let (mut plan, net, a) = small("division");
        plan.on(net).send(a, ring(Number::from(left) / right));
        let plan = unchecked(plan);
        let StepKind::Send(send) = &plan.steps[0].kind else { panic!("{:?}", plan.steps) };
        let down = (f64::from(left) / f64::from(right)).floor() as i64;
        assert_eq!(
            send.peer,
            Peer::Shift(vec![Hop { axis: AxisId(0), by: down.into(), wrap: true }])
        );
    }
}

#[test]
fn a_ring_of_a_mesh_says_along_which_axis() {
    let (mut plan, net, a) = small("mesh");
    let other = plan.axis("m", 2..);
    plan.on(net).send(a, other.ring(1));
    plan.on(net).send(a, ring(1));
    let rejected = malformed(plan);
    assert_eq!(rejected.problems.len(), 1);
    assert!(rejected.problems[0].title.contains("several axes"), "{rejected}");
}

#[test]
fn a_refused_builder_comes_back_whole() {
    let (mut plan, net, a) = small("mended");
    let b = plan.output::<f32>("b", 1);
    let Err(refused) = plan.check() else { panic!("the output is never written") };
    assert!(refused.to_string().contains('b'));
    let (mut plan, _) = refused.into_parts();
    plan.on(net).transfer(a, ring(1), b);
    let checked = plan.check().expect("mended");
    assert_eq!(checked.plan().steps.len(), 1);
    assert!(!checked.accepted().is_empty());
}

/// A program that prints an error and all that it comes from, as `anyhow` does with `{:#}`.
#[test]
fn a_refusal_is_told_once() {
    let (mut plan, net, a) = small("refused");
    plan.output::<f32>("b", 1);
    plan.on(net).transfer(a, ring(1), a);
    let refused = plan.check().expect_err("the output is never written");
    let first: &dyn Error = &refused;
    let causes = successors(Some(first), |error| (*error).source());
    let chain: Vec<String> = causes.map(ToString::to_string).collect();
    assert_eq!(chain, [refused.rejected().to_string()]);
}

fn small(name: &str) -> (PlanBuilder, Stream, Buffer<f32>) {
    let mut plan = PlanBuilder::new(name);
    plan.ranks(1..);
    let (net, a) = (plan.stream("net"), plan.in_out("a", 1));
    (plan, net, a)
}

fn plan_size(a: Buffer<f32>) -> Number {
    a.len()
}

fn unchecked(plan: PlanBuilder) -> Plan {
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

/// What `check` and `unchecked` say of a plan that cannot be put down.
fn malformed(plan: PlanBuilder) -> Rejected {
    let steps = |refused: Refused| refused.into_parts();
    let (plan, first) = steps(plan.unchecked().expect_err("it is malformed"));
    let (_, second) = steps(plan.check().expect_err("it is malformed"));
    assert_eq!(first, second);
    assert!(first.problems.iter().all(|problem| problem.kind == ProblemKind::Malformed), "{first}");
    first
}

#[test]
fn a_peer_by_cases() {
    let mut plan = PlanBuilder::new("partners");
    plan.ranks(2..);
    let r = plan.rank();
    let (a, b) = (plan.input::<f32>("a", 1), plan.in_out::<f32>("b", 1));
    let net = plan.stream("net");
    plan.on(net).transfer(a, either((r % 2).eq(0), chain(1), at(r - 1)), b);
    let plan = unchecked(plan);
    let StepKind::Transfer(Transfer { peer, .. }) = &plan.steps[0].kind else {
        panic!("{:?}", plan.steps)
    };
    assert_eq!(plan.show(peer), "if rank % 2 == 0 { rank + 1 } else { rank(rank - 1) }");
    let Peer::Cases(cases) = peer else { panic!("{peer:?}") };
    assert_eq!(cases.otherwise, Peer::Rank(Expr::Rank - 1));
}

/// Each rank adds what all before it had, and says so.
fn running_sum(last: impl Fn(Number) -> Number) -> PlanBuilder {
    let mut plan = PlanBuilder::new("running sum");
    let n = plan.ranks(1..);
    let (r, len) = (plan.rank(), plan.param("len", 1..));
    let (x, before) = (plan.in_out::<f32>("x", len), plan.local::<f32>("before", len));
    let net = plan.stream("net");
    plan.on(net).receive(before, chain(-1));
    plan.on(net).when(r.gt(0), |net| net.update(x, Reduction::Sum, before));
    plan.on(net).send(x, chain(1));
    plan.holds(x, Reduction::Sum, |of| {
        of.for_each("k", ..last(r), |of, k| of.rank(x, at(k)));
    });
    plan.when(n.gt(1), |plan| {
        plan.when(r.eq(0), |plan| plan.holds(x, Reduction::Sum, |of| of.own(x)));
    });
    plan
}

#[test]
fn claims_of_ones_own() {
    let right = running_sum(|r| r + 1).check().expect("each has the sum of all up to it");
    assert_eq!(right.plan().claims.len(), 2);
    let refused = running_sum(|r| r).check().expect_err("the first rank has its own");
    assert!(refused.rejected().breaks(Check::Postcondition), "{refused}");
}

#[test]
fn loops_through_powers_and_numbers_by_cases() {
    let mut plan = PlanBuilder::new("doubling");
    let n = plan.ranks(Values::Powers(2));
    let (r, len) = (plan.rank(), plan.param("len", 1..));
    let (x, other) = (plan.in_out::<f32>("x", len), plan.local::<f32>("other", len));
    let net = plan.stream("net");
    plan.for_each("d", powers(2, n), |plan, d| {
        let partner = (r / d % 2).eq(0).choose(r + d, r - d);
        plan.on(net).transfer(x, at(partner), other);
        plan.on(net).update(x, Reduction::Sum, other);
    });
    let again = plan.in_out::<f32>("again", len);
    plan.for_each_reversed("d", powers(2, n), |plan, d| {
        plan.on(net).transfer(again, at(r ^ d), other);
        plan.on(net).update(again, Reduction::Max, other);
    });
    plan.computes(CollectiveKind::AllReduce(Reduction::Sum), x, x);
    plan.computes(CollectiveKind::AllReduce(Reduction::Max), again, again);
    plan.check().expect("all partners exchange");
}

#[test]
fn conditions_on_all_elements_of_a_list() {
    let mut plan = PlanBuilder::new("parts");
    let n = plan.ranks(1..);
    let most = plan.param("most", 1..);
    let (counts, begins) = (plan.list("counts", n, 0..), plan.list("begins", n, 0..));
    plan.promise_each("i", ..n, |i| (begins.at(i) + counts.at(i)).le(most));
    plan.promise_each("i", Number::from(1)..n, |i| begins.at(i).ge(begins.at(i - 1)));
    plan.promise_each("d", powers(2, n), |d| (most % d).eq(0));
    let a = plan.in_out::<f32>("a", most);
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    let checked = plan.check().expect("sizes that keep its promises");
    let plan = checked.plan();

    // All small lists, and the same conditions by hand.
    let lists: Vec<[i64; 3]> =
        (0..27).map(|number| [number / 9, number / 3 % 3, number % 3]).collect();
    for most in 1..=4 {
        for (counts, begins) in lists.iter().flat_map(|a| lists.iter().map(move |b| (a, b))) {
            let params = [vec![most], counts.to_vec(), begins.to_vec()];
            let is_inside = counts.iter().zip(begins).all(|(count, begin)| count + begin <= most);
            let is_kept = is_inside && begins.is_sorted() && most % 2 == 0;
            assert_eq!(plan.sizes(&[3], &params).is_ok(), is_kept, "{params:?}");
        }
    }
    let params = [vec![4], vec![1, 3, 2], vec![0, 1, 3]];
    let refused = plan.sizes(&[3], &params).expect_err("the last one ends at 5");
    assert_eq!(
        refused.to_string(),
        "`begins[i] + counts[i] <= most` does not hold for i = 2, n = 3, most = 4, \
         counts = [1, 3, 2], begins = [0, 1, 3]"
    );
    let empty = [vec![4], vec![1, 3, 2, 0], vec![0, 1, 3]];
    assert!(plan.sizes(&[3], &empty).is_err());
    // Lists with elements that differ are checked too.
    let sizes = plan.sizes(&[2], &[vec![2], vec![1, 2], vec![0, 0]]).expect("inside");
    assert!(checked.accepted().contains(&sizes), "{}", checked.accepted());
}
