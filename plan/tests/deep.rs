//! Plans that are deeper or larger than plans are: each is refused where it is made, in little time
//! and memory, and nothing of it overflows a stack.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash};

use serde::Serialize;
use typed_nccl_plan::build::{Guard, Number, Peer, PlanBuilder, Refused, at, chain, either, ring};
use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::{
    Asked, AxisId, Cases, Comparison, Condition, Expr, Location, Loop, LoopId, Peer as IrPeer,
    Plan, Reduction, Step, StepKind, When,
};
use typed_nccl_plan::verdict::{ProblemKind, Rejected};

const DEEP: usize = 100_000;

/// Why the builder refuses a statement with this number.
fn refused(number: impl FnOnce(&mut PlanBuilder) -> Number) -> String {
    told(|plan| {
        let (net, a) = (plan.stream("net"), plan.in_out::<f32>("a", 1));
        let number = number(plan);
        plan.on(net).send(a, at(number));
    })
}

fn told(declare: impl FnOnce(&mut PlanBuilder)) -> String {
    let mut plan = PlanBuilder::new("deep");
    plan.ranks(1..);
    declare(&mut plan);
    let first = |refused: Refused| -> (PlanBuilder, Rejected) { refused.into_parts() };
    let (plan, rejected) = first(plan.unchecked().expect_err("it is refused"));
    assert_eq!(first(plan.check().expect_err("it is refused")).1, rejected);
    assert!(rejected.problems.iter().all(|one| one.kind == ProblemKind::Malformed), "{rejected}");
    let file = rejected.problems[0].at.file;
    assert!(rejected.files[usize::from(file)].ends_with("deep.rs"), "{rejected}");
    rejected.problems[0].title.clone()
}

#[test]
fn a_number_of_the_builder_that_is_nested_too_deep() {
    let title = refused(|plan| (0..20_000).fold(plan.rank(), |sum, _| sum + 1));
    assert_eq!(title, "a number is nested more than 64 deep");
    let title = refused(|plan| {
        let list = plan.list("list", 1, 1..);
        (0..20_000).fold(plan.rank(), |index, _| list.at(index))
    });
    assert_eq!(title, "a number is nested more than 64 deep");
}

/// In 28 steps 2^28 parts, were they written out.
#[test]
fn a_number_of_the_builder_that_doubles() {
    let title = refused(|plan| (0..28).fold(plan.rank(), |x, _| x.min(x)));
    assert_eq!(title, "a number has more than 4096 parts");
}

/// Each is small enough, all of them are not.
#[test]
fn many_large_numbers_of_the_builder() {
    let title = told(|plan| {
        let (net, a) = (plan.stream("net"), plan.in_out::<f32>("a", 1));
        let large = (0..11).fold(plan.rank(), |x, _| x.min(x));
        for _ in 0..DEEP {
            plan.on(net).send(a, at(large));
        }
    });
    assert_eq!(title, "the plan's numbers, conditions and regions have more than 1000000 parts");
}

#[test]
fn a_condition_of_the_builder() {
    let nested = |wrap: fn(Guard, &PlanBuilder) -> Guard, turns: usize| {
        told(|plan| {
            let guard = (0..turns).fold(plan.rank().ge(0), |guard, _| wrap(guard, plan));
            plan.when(guard, |_| ());
        })
    };
    let deep = "a condition is nested more than 64 deep";
    assert_eq!(nested(|guard, _| !guard, DEEP), deep);
    assert_eq!(nested(|guard, plan| plan.size().gt(1).and(guard), DEEP), deep);
    assert_eq!(nested(|guard, plan| guard.or(plan.size().gt(1)), DEEP), deep);
    let doubled = nested(|guard, _| guard.clone().and(guard), 28);
    assert_eq!(doubled, "a condition has more than 4096 parts");
}

#[test]
fn a_peer_of_the_builder() {
    let nested = |wrap: fn(Peer, &PlanBuilder) -> Peer, turns: usize| {
        told(|plan| {
            let (net, a) = (plan.stream("net"), plan.in_out::<f32>("a", 1));
            let peer = (0..turns).fold(ring(1), |peer, _| wrap(peer, plan));
            plan.on(net).send(a, peer);
        })
    };
    let deep = "a peer has cases more than 64 deep";
    assert_eq!(nested(|peer, plan| either(plan.rank().gt(1), ring(1), peer), DEEP), deep);
    assert_eq!(nested(|peer, plan| either(plan.rank().gt(1), peer, ring(1)), DEEP), deep);
    let large = "a peer has more than 4096 parts";
    assert_eq!(nested(|peer, plan| either(plan.rank().gt(1), peer.clone(), peer), 28), large);
    assert_eq!(nested(|peer, _| peer.clone().and(peer), 28), large);
}

/// The body of a statement that is too deep is not asked for.
#[test]
fn statements_of_the_builder() {
    fn nest(plan: &mut PlanBuilder, left: usize) {
        if left > 0 {
            plan.when(plan.rank().ge(0), |plan| nest(plan, left - 1));
        }
    }
    assert_eq!(told(|plan| nest(plan, DEEP)), "this step is inside more than 63 others");
}

/// Numbers of plans as data refuse themselves.
#[test]
fn numbers_as_data() {
    let deep = (0..1_000_000).fold(Expr::Rank, |sum, _| sum + 1);
    let shown = format!("{deep:?}");
    assert!(shown.len() < 100, "{shown}");
    let large = (0..28).fold(Expr::Rank, |x, _| x.clone().min(x));
    assert!(!large.any(|part| matches!(part, Expr::Rank)));
    assert_ne!(deep, large);
}

/// What follows after so many tags of one thing inside another.
fn bytes(tag: &[u8], end: &impl Serialize) -> Vec<u8> {
    let mut bytes = tag.repeat(DEEP);
    bytes.extend(postcard::to_stdvec(end).expect("bytes"));
    bytes.extend([0; 1000]);
    bytes
}

/// The bytes of what is around one thing in it, up to where that begins.
fn around(outer: &impl Serialize, inner: &impl Serialize) -> Vec<u8> {
    let (mut outer, inner) =
        (postcard::to_stdvec(outer).expect("bytes"), postcard::to_stdvec(inner).expect("bytes"));
    let at = outer.windows(inner.len()).position(|part| part == inner).expect("it is in it");
    outer.truncate(at);
    outer
}

#[test]
fn bytes_of_nested_numbers() {
    let in_condition = Expr::choice(Expr::Rank.ge(0), 2.into(), 3.into());
    let in_case = Expr::choice(Expr::Size.ge(0), Expr::Rank, 3.into());
    for tag in [Expr::Rank + 1, Expr::Rank.min(1), Expr::Rank % 2, in_condition, in_case] {
        let bytes = bytes(&around(&tag, &Expr::Rank), &Expr::Rank);
        let why = postcard::from_bytes::<Expr>(&bytes).expect_err("it is too deep");
        assert_eq!(why, postcard::Error::SerdeDeCustom);
    }
}

/// Cases in cases are a level each.
#[test]
fn bytes_of_cases_as_deep_as_numbers_may_be() {
    let cases = |end: i64| {
        let one = |other, at: i64| Expr::choice(Expr::Size.eq(at), at.into(), other);
        (1..end).fold(Expr::Rank, one)
    };
    // A condition is three deep.
    let deep = cases(62);
    assert!(matches!(deep, Expr::Choice(_)));
    let bytes = postcard::to_stdvec(&deep).expect("bytes");
    assert_eq!(postcard::from_bytes::<Expr>(&bytes).expect("it is not too deep"), deep);
    assert_eq!(cases(63), Expr::TooDeep);
    // A list of constants by an index is such, in the condition of another.
    let picked = |index: &Expr| Expr::pick(&[1.into(), 2.into(), 3.into()], index);
    let inner = (0..3).fold(Expr::Rank, |index, _| picked(&index));
    assert!(matches!(inner, Expr::Choice(_)));
    let bytes = postcard::to_stdvec(&inner).expect("bytes");
    assert_eq!(postcard::from_bytes::<Expr>(&bytes).expect("it is not too deep"), inner);
}

#[test]
fn bytes_of_nested_conditions() {
    let end = || Expr::Rank.ge(0);
    for tag in [
        Condition::Not(Box::new(end())),
        Condition::All(vec![end()]),
        Condition::Any(vec![end(), end()]),
    ] {
        let bytes = bytes(&around(&tag, &end()), &end());
        let why = postcard::from_bytes::<Condition>(&bytes).expect_err("it is too deep");
        assert_eq!(why, postcard::Error::SerdeDeCustom);
    }
}

#[test]
fn bytes_of_nested_peers() {
    let end = || IrPeer::Rank(Expr::Rank);
    let condition = Condition::Compare(Expr::Size, Comparison::Less, Expr::Size);
    let cases = Cases { condition, then: end(), otherwise: end() };
    let bytes = bytes(&around(&IrPeer::Cases(Box::new(cases)), &end()), &end());
    let why = postcard::from_bytes::<IrPeer>(&bytes).expect_err("it is too deep");
    assert_eq!(why, postcard::Error::SerdeDeCustom);
}

#[test]
fn bytes_of_nested_steps() {
    let at = Location { file: 1, line: 2, column: 3 };
    let end = || Step { kind: StepKind::Group(Vec::new()), at };
    let body = || vec![end()];
    let (counter, condition) = (LoopId(7), Expr::Size.ge(7));
    for kind in [
        StepKind::Group(body()),
        StepKind::Sequence(body()),
        StepKind::When(When { condition, body: body() }),
        StepKind::Loop(Loop {
            counter,
            from: 5.into(),
            to: 6.into(),
            powers: None,
            reverse: false,
            body: body(),
        }),
    ] {
        let bytes = bytes(&around(&Step { kind, at }, &end()), &end());
        let why = postcard::from_bytes::<Step>(&bytes).expect_err("it is too deep");
        assert_eq!(why, postcard::Error::SerdeDeCustom);
    }
}

/// Whatever numbers a plan has, it is checked or refused.
#[test]
fn numbers_at_the_ends_of_64_bits() {
    type Declare = fn(&mut PlanBuilder, i64);
    let all: [Declare; 10] = [
        |plan, end| {
            let (n, net) = (plan.ranks(2..), plan.stream("net"));
            let (a, b) = (plan.in_out::<f64>("a", end), plan.in_out::<f64>("b", n * end));
            plan.on(net).all_gather(a, b);
        },
        |plan, end| {
            let (n, net) = (plan.ranks(2..), plan.stream("net"));
            let (a, b) = (plan.in_out::<f64>("a", end), plan.in_out::<f64>("b", end));
            let r = plan.rank();
            plan.on(net).transfer(a.chunk(n, r), ring(1), b.chunk(n, (r + 1) % n));
        },
        |plan, end| turns(plan, end.saturating_sub(2)..end, true),
        |plan, end| turns(plan, end..end.saturating_add(2), true),
        |plan, end| turns(plan, i64::MIN..end, false),
        |plan, end| {
            plan.ranks(end..);
            all_reduced(plan);
        },
        |plan, end| {
            plan.ranks(2..);
            let (count, m) = (plan.list("list", end, 1..), plan.param("m", end..));
            let (net, a) = (plan.stream("net"), plan.in_out::<f64>("a", count.at(m)));
            plan.on(net).all_reduce_in_place(a, Reduction::Sum);
        },
        |plan, end| {
            plan.ranks(2..);
            let (net, a) = (plan.stream("net"), plan.array(end).in_out::<f64>("a", |i| i));
            plan.on(net).all_reduce_in_place(a.at(0), Reduction::Sum);
        },
        |plan, end| {
            let (n, net) = (plan.ranks(2..), plan.stream("net"));
            let (a, b) = (plan.input::<f64>("a", 4), plan.output::<f64>("b", 4));
            let zero = n - n;
            for peer in [ring(end), chain(end), at(end), ring(zero - end - 1), at(zero + end)] {
                plan.on(net).transfer(a, peer, b);
            }
        },
        |plan, end| {
            plan.ranks(2..);
            let (net, signal) = (plan.stream("net"), plan.signal("s"));
            plan.window().in_out::<f32>("w", 4);
            plan.on(net).signal(signal, ring(1));
            plan.on(net).wait([signal.from(ring(-1)).times(end)]);
        },
    ];
    fn all_reduced(plan: &mut PlanBuilder) {
        let (net, a) = (plan.stream("net"), plan.in_out::<f64>("a", 1));
        plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    }
    fn turns(plan: &mut PlanBuilder, range: std::ops::Range<i64>, reverse: bool) {
        plan.ranks(2..);
        let (net, a) = (plan.stream("net"), plan.in_out::<f64>("a", 1));
        let body = |plan: &mut PlanBuilder, _: Number| {
            plan.on(net).all_reduce_in_place(a, Reduction::Sum);
        };
        match reverse {
            true => plan.for_each_reversed("i", range, body),
            false => plan.for_each("i", range, body),
        }
    }
    for declare in all {
        for end in [i64::MAX, i64::MAX / 8 + 1, 1 << 62, i64::MIN, i64::MIN + 1] {
            let mut plan = PlanBuilder::new("ends");
            declare(&mut plan, end);
            if let Ok(plan) = plan.unchecked()
                && let Err(rejected) = check(&plan)
            {
                assert!(!rejected.problems.is_empty());
            }
        }
    }
}

/// Sizes that a plan asks to be checked may be any numbers of 64 bits.
#[test]
fn ranks_to_check_at_the_end_of_64_bits() {
    let mut plan = PlanBuilder::new("ends");
    plan.ranks(1..);
    let (k, len) = (plan.param("k", 1..), plan.param("len", 1..));
    let (net, a) = (plan.stream("net"), plan.in_out::<f64>("a", len));
    plan.when((k % 8).lt(7), |plan| plan.on(net).all_reduce_in_place(a, Reduction::Sum));
    let mut plan = plan.unchecked().expect("a plan");
    for end in [i64::MAX, i64::MAX / 2, i64::MAX / 4] {
        let extents = vec![(AxisId(0), vec![end])];
        plan.checks = vec![Asked { extents, ..Asked::default() }];
        let rejected = check(&plan).expect_err("these are too many");
        assert!(
            rejected.problems.iter().all(|one| one.kind == ProblemKind::TooLarge),
            "{rejected}"
        );
    }
}

/// A condition on every element of a list is not looked at for ever.
#[test]
fn a_promise_of_many_turns() {
    let mut plan = PlanBuilder::new("turns");
    let (n, len) = (plan.ranks(2..), plan.param("len", 1..));
    plan.promise_each("i", Number::from(0)..len, |i| i.ge(0));
    plan.promise_each("i", Number::from(0)..len, |i| i.lt(n * len));
    // Loops around none.
    plan.promise_each("i", Number::from(0)..len - len, |i| i.lt(0));
    let (net, a) = (plan.stream("net"), plan.in_out::<f32>("a", len));
    plan.on(net).all_reduce_in_place(a, Reduction::Sum);
    let plan = plan.unchecked().expect("a plan");
    assert!(plan.sizes(&[2], &[vec![1 << 18]]).is_ok());
    let why = plan.sizes(&[2], &[vec![1 << 60]]).expect_err("nobody looks at so many turns");
    assert!(why.to_string().contains("has too many turns"), "{why}");
}

/// Regions of a step are compared in little time, however many buffers an array has.
#[test]
fn a_step_on_large_arrays() {
    let mut plan = PlanBuilder::new("arrays");
    plan.ranks(1..=1);
    let k = plan.param("k", 1..);
    let net = plan.stream("net");
    let g = plan.array(k).in_out::<f32>("g", |_| Number::from(2));
    let h = plan.array(k).in_out::<f32>("h", |_| Number::from(2));
    plan.on(net).run("mix").reads(g).reads(h).writes(h);
    let plan = plan.unchecked().expect("a plan");
    let sizes = plan.sizes(&[1], &[vec![200_000]]).expect("sizes that it claims");
    assert!(check_at(&plan, &sizes).is_ok());
}

/// Each has a counter of its own.
#[test]
fn thousands_of_loops_over_one_name() {
    let mut plan = PlanBuilder::new("loops");
    plan.ranks(1..);
    for name in ["i", "i_3", "i"] {
        plan.for_each(name, 0..1, |_, _| ());
    }
    for _ in 0..20_000 {
        plan.for_each("i", 0..1, |_, _| ());
    }
    let plan = plan.unchecked().expect("a plan");
    assert_eq!(plan.validate(), []);
    let names = plan.counters.iter().map(|counter| &*counter.name);
    assert!(names.clone().take(5).eq(["i", "i_3", "i_2", "i_4", "i_5"]));
    assert_eq!(names.collect::<HashSet<_>>().len(), 20_003);
}

/// As deep as plans may be, in everything at once: a thread's stack bears all that is done with it.
#[test]
fn as_deep_as_plans_may_be() {
    let mut plan = PlanBuilder::new("deep");
    plan.ranks(1..);
    let number = |plan: &PlanBuilder| (1..64).fold(plan.rank(), |sum, _| sum + 1);
    let guard = |plan: &PlanBuilder| (1..64).fold(number(plan).ge(0), |guard, _| !guard);
    fn nest(plan: &mut PlanBuilder, left: usize, end: &dyn Fn(&mut PlanBuilder)) {
        match left {
            0 => end(plan),
            _ => plan.when(plan.rank().ge(0), |plan| nest(plan, left - 1, end)),
        }
    }
    let (net, a) = (plan.stream("net"), plan.local::<f32>("a", 1));
    nest(&mut plan, 63, &|plan| {
        let end = either(guard(plan), ring(1), ring(-1));
        let simple = |plan: &PlanBuilder| plan.rank().ge(0);
        let peer = (2..64).fold(end, |peer, _| either(simple(plan), ring(1), peer));
        plan.on(net).run("begin").writes(a);
        plan.on(net).send(a, peer.clone());
        plan.on(net).receive(a, peer);
    });
    let plan = plan.unchecked().expect("it is not too deep");
    assert_eq!(plan.validate(), []);
    let bytes = postcard::to_stdvec(&plan).expect("bytes");
    assert_eq!(postcard::from_bytes::<Plan>(&bytes).expect("it is not too deep"), plan.clone());
    let mut hasher = DefaultHasher::new();
    plan.hash(&mut hasher);
    assert!(!format!("{plan:?}").is_empty());
    // It is a plan like others: what is wrong with it is a peer, as of any.
    let Err(rejected) = check(&plan) else { return };
    assert!(rejected.problems.iter().all(|one| one.is_broken()), "{rejected}");
}

/// Bytes of real plans, cut, changed and repeated: a plan comes of them or an error.
#[test]
fn bytes_from_elsewhere() {
    let plan = {
        let mut plan = PlanBuilder::new("some");
        let n = plan.ranks(1..);
        let (net, a) = (plan.stream("net"), plan.in_out::<f32>("a", n * 4));
        let r = plan.rank();
        plan.for_each("i", ..n, |plan, i| {
            plan.when(!r.eq(i).and(r.lt(n)), |plan| {
                plan.group(|plan| {
                    plan.on(net).send(a.chunk(n, i), either((r % 2).eq(0), ring(1), at(r - 1)));
                    plan.on(net).receive(a.chunk(n, r), ring(-1));
                });
            });
        });
        plan.unchecked().expect("a plan")
    };
    let bytes = postcard::to_stdvec(&plan).expect("bytes");
    let mut read = 0;
    for at in 0..bytes.len() {
        for len in 1..=8.min(bytes.len() - at) {
            let mut other = bytes[..at].to_vec();
            other.extend(bytes[at..at + len].repeat(2_000));
            other.extend(&bytes[at + len..]);
            if let Ok(plan) = postcard::from_bytes::<Plan>(&other) {
                plan.validate();
                read += 1;
            }
        }
    }
    assert!(read > 0);
}
