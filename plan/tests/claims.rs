//! What a plan computes is followed at any length: right plans are accepted, and wrong ones are
//! refused in the same words as when they are small.

use crate::plans::{all_gather, all_reduce, broadcast};
use typed_nccl_plan::build::{Buffer, Generic, Number, On, PlanBuilder, at, ring};
use typed_nccl_plan::check::check_at;
use typed_nccl_plan::ir::{CollectiveKind, Plan, Reduction};
use typed_nccl_plan::lower::{Instance, lower};
use typed_nccl_plan::verdict::{Check, Sizes};

/// Parts of 2 and 16 MiB, and parts for whose elements there is no time.
const LENGTHS: [i64; 3] = [1 << 19, 1 << 22, 1 << 40];

fn sizes(plan: &Plan, n: i64, len: i64) -> Sizes {
    let params = plan.params.iter().map(|_| vec![len]).collect();
    Sizes { extents: vec![n], params, text: format!("n = {n}, len = {len}") }
}

fn unchecked(plan: PlanBuilder) -> Plan {
    plan.unchecked().unwrap_or_else(|refused| panic!("{refused}"))
}

/// The warning of a plan that is accepted.
#[track_caller]
fn warning(plan: &Plan, n: i64, len: i64) -> Option<String> {
    let sizes = sizes(plan, n, len);
    let mut instance = Instance::new(plan, &sizes, None).unwrap_or_else(|wrong| panic!("{wrong}"));
    instance.check().unwrap_or_else(|wrong| panic!("{wrong}"));
    let decided = instance.decide().unwrap_or_else(|wrong| panic!("{wrong}"));
    decided.warning().map(str::to_owned)
}

#[track_caller]
fn is_followed(plan: PlanBuilder) {
    let plan = unchecked(plan);
    for len in LENGTHS {
        assert_eq!(warning(&plan, 8, len), None);
    }
}

/// The story at a small size is that of every larger one, with numbers as multiples of the length.
#[track_caller]
fn is_refused_alike(plan: PlanBuilder, n: i64) -> String {
    let plan = unchecked(plan);
    let story = |len: i64| {
        let rejected = check_at(&plan, &sizes(&plan, n, len)).expect_err("it is wrong");
        assert!(rejected.breaks(Check::Postcondition), "{rejected}");
        in_lengths(&rejected.to_string(), len)
    };
    let small = story(1000);
    for len in LENGTHS {
        assert_eq!(story(len), small);
    }
    small
}

/// Replaces numbers near multiples of `len`: for 4, `8` is `2L`, and `7` is `2L-1`.
fn in_lengths(text: &str, len: i64) -> String {
    let number = |digits: &str| match digits.parse::<i64>() {
        Ok(number) if number >= len / 2 => {
            let times = (number + len / 2) / len;
            match number - times * len {
                0 => format!("{times}L"),
                rest => format!("{times}L{rest:+}"),
            }
        }
        _ => digits.to_owned(),
    };
    let (mut all, mut digits) = (String::new(), String::new());
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
        } else {
            all.push_str(&number(&digits));
            all.push(letter);
            digits.clear();
        }
    }
    all
}

/// A plan of a collective that claims to be this one or another.
fn collective(
    claims: CollectiveKind,
    (send, recv): (bool, bool),
    run: impl FnOnce(On<'_>, Buffer<Generic>, Buffer<Generic>),
) -> PlanBuilder {
    let mut plan = PlanBuilder::new("a collective");
    let n = plan.ranks(1..);
    let len = plan.param("len", 1..);
    let of = |is_whole: bool| if is_whole { n * len } else { len };
    let (a, b) = (plan.in_out::<Generic>("a", of(send)), plan.in_out::<Generic>("b", of(recv)));
    let net = plan.stream("net");
    run(plan.on(net), a, b);
    plan.computes(claims, a, b);
    plan
}

#[test]
fn collectives() {
    use CollectiveKind as Kind;
    let sum = Reduction::Sum;
    let (one, both) = ((false, false), (true, true));
    let (gathers, scatters) = ((false, true), (true, false));
    is_followed(collective(Kind::AllReduce(sum), one, |mut on, a, b| on.all_reduce(a, b, sum)));
    is_followed(collective(Kind::AllGather, gathers, |mut on, a, b| on.all_gather(a, b)));
    is_followed(collective(Kind::AllToAll, both, |mut on, a, b| on.all_to_all(a, b)));
    is_followed(collective(Kind::Broadcast(3.into()), one, |mut on, a, b| on.broadcast(a, b, 3)));
    is_followed(collective(Kind::Gather(3.into()), gathers, |mut on, a, b| on.gather(a, b, 3)));
    is_followed(collective(Kind::Scatter(3.into()), scatters, |mut on, a, b| on.scatter(a, b, 3)));
    is_followed(collective(Kind::Reduce(sum, 3.into()), one, |mut on, a, b| {
        on.reduce(a, b, sum, 3);
    }));
    is_followed(collective(Kind::ReduceScatter(sum), scatters, |mut on, a, b| {
        on.reduce_scatter(a, b, sum);
    }));
}

#[test]
fn rings_and_trees() {
    is_followed(all_reduce::by_steps());
    is_followed(all_gather::around_a_ring());
    is_followed(broadcast::tree());
}

#[test]
fn another_root() {
    let claims = CollectiveKind::Broadcast(2.into());
    let plan = collective(claims, (false, false), |mut on, a, b| on.broadcast(a, b, 3));
    let story = is_refused_alike(plan, 8);
    assert!(story.contains("has in element 0 of it: element 0 of `a` of rank 3\n"), "{story}");
    assert!(story.contains("should have there: element 0 of `a` of rank 2\n"), "{story}");
}

#[test]
fn a_message_too_few() {
    is_refused_alike(all_reduce::a_turn_too_few().plan, 8);
    is_refused_alike(broadcast::a_round_too_few().plan, 16);
}

#[test]
fn another_part() {
    let story = is_refused_alike(all_reduce::adds_to_another_part().plan, 8);
    assert!(story.contains("has then in its `x` "), "{story}");
    is_refused_alike(all_reduce::passes_on_another_part().plan, 8);
}

/// Everything up to the last element, and everything from the second one on.
#[test]
fn an_element_too_few() {
    let copied = |declare: fn(&mut PlanBuilder, Buffer<Generic>, Buffer<Generic>, Number)| {
        let mut plan = PlanBuilder::new("copied");
        plan.ranks(1..);
        let len = plan.param("len", 2..);
        let (a, b) = (plan.in_out("a", len), plan.in_out("b", len));
        declare(&mut plan, a, b, len);
        plan.computes(CollectiveKind::Broadcast(0.into()), a, b);
        is_refused_alike(plan, 2)
    };
    let story = copied(|plan, a, b, len| {
        let net = plan.stream("net");
        plan.on(net).broadcast(a.slice(..len - 1), b.slice(..len - 1), 0);
    });
    assert!(
        story.contains("has in element 1L-1 of it: element 1L-1 of `b` of rank 0\n"),
        "{story}"
    );
    assert!(story.contains("should have there: element 1L-1 of `a` of rank 0\n"), "{story}");
    let story = copied(|plan, a, b, len| {
        let net = plan.stream("net");
        plan.on(net).broadcast(a, b, 0);
        plan.on(net).broadcast(a.slice(len - 3..len - 1), b.slice(len - 2..len), 0);
    });
    assert!(
        story.contains("has in element 1L-2 of it: element 1L-3 of `a` of rank 0\n"),
        "{story}"
    );
}

/// What has too many parts is accepted, with a warning.
#[test]
fn more_than_is_followed() {
    let mut plan = PlanBuilder::new("parts that are sent again and again");
    plan.ranks(1..);
    let len = plan.param("len", 1..);
    let (x, y) = (plan.in_out::<Generic>("x", len), plan.in_out::<Generic>("y", len));
    let net = plan.stream("net");
    plan.for_each("i", ..len, |plan, i| {
        plan.on(net).all_reduce_in_place(x.slice(i..i + 1), Reduction::Sum);
    });
    plan.for_each("j", ..300, |plan, _| plan.on(net).transfer(x, ring(1), y));
    plan.computes(CollectiveKind::AllReduce(Reduction::Sum), x, x);
    let plan = unchecked(plan);
    assert_eq!(warning(&plan, 2, 100), None);
    let told = "For n = 2, len = 2000, what the plan says it computes was not checked: it has too \
                many parts.";
    assert_eq!(warning(&plan, 2, 2000).as_deref(), Some(told));
}

/// So is what has too many buffers.
#[test]
fn more_buffers_than_are_followed() {
    let mut plan = PlanBuilder::new("many buffers");
    plan.ranks(1..);
    let len = plan.param("len", 1..);
    let g = plan.array(len).in_out::<Generic>("g", |_| 1);
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(g.at(0), Reduction::Sum);
    plan.computes(CollectiveKind::AllReduce(Reduction::Sum), g.at(0), g.at(0));
    let plan = unchecked(plan);
    assert_eq!(warning(&plan, 64, 10), None);
    assert!(warning(&plan, 64, 40_000).is_some_and(|told| told.contains("was not checked")));
}

/// Two halves that different streams fill, one of which is written again; with claims of the first
/// or the second contents, at these places.
fn halves(claims: &[(usize, bool)]) -> PlanBuilder {
    let mut plan = PlanBuilder::new("halves");
    plan.ranks(2..);
    let len = plan.param("len", 1..);
    let (a, c) = (plan.input::<f32>("a", 2 * len), plan.input::<f32>("c", 2 * len));
    let (b, out) = (plan.local::<f32>("b", 2 * len), plan.output::<f32>("out", 2 * len));
    let (net, compute) = (plan.stream("net"), plan.stream("compute"));
    let (first, second) = (b.slice(..len), b.slice(len..));
    let here = |plan: &mut PlanBuilder<_>, place: usize| {
        for (_, is_first) in claims.iter().filter(|(at, _)| *at == place) {
            let from = if *is_first { a } else { c };
            plan.holds_here(first, Reduction::Sum, |of| of.own(from.slice(..len)));
            plan.holds_here(second, Reduction::Sum, |of| of.rank(a.slice(len..), ring(-1)));
        }
    };
    here(&mut plan, 0);
    plan.on(compute).copy(a.slice(..len), first);
    plan.on(net).transfer(a.slice(len..), ring(1), second);
    here(&mut plan, 1);
    // Nothing makes it wait for the message.
    plan.on(compute).copy(c.slice(..len), first);
    here(&mut plan, 2);
    plan.on(net).copy(b, out);
    plan
}

/// A claim between statements is about what those before it leave, in whatever order streams run.
#[test]
fn between_statements() {
    is_followed(halves(&[(1, true), (2, false)]));
    let story = is_refused_alike(halves(&[(1, false)]), 2);
    assert!(story.contains("`b` [0, 1L) does not hold what is claimed here"), "{story}");
    assert!(story.contains("should have there: element 0 of `c` of rank 0\n"), "{story}");
    let story = is_refused_alike(halves(&[(2, true)]), 2);
    assert!(story.contains("has in element 0 of it: element 0 of `c` of rank 0\n"), "{story}");
    let story = is_refused_alike(halves(&[(0, true)]), 2);
    assert!(story.contains("help: nothing has written it so far"), "{story}");
}

/// It is for the checker alone.
#[test]
fn a_claim_between_statements_runs_nothing() {
    let calls = |claims: &[(usize, bool)]| {
        let plan = unchecked(halves(claims));
        let schedule = lower(&plan, &sizes(&plan, 4, 8)).unwrap_or_else(|wrong| panic!("{wrong}"));
        (format!("{:?}", schedule.ranks), schedule.explain(&plan))
    };
    assert_eq!(calls(&[(1, true), (2, false)]), calls(&[]));
}

/// What a put brings is there after the wait.
#[test]
fn between_statements_with_a_put() {
    let plan = |late: bool| {
        let mut plan = PlanBuilder::new("put");
        plan.once();
        plan.ranks(2..);
        let len = plan.param("len", 1..);
        let from = plan.window().in_out::<f32>("from", len);
        let to = plan.window().in_out::<f32>("to", len);
        let arrived = plan.signal("arrived");
        let net = plan.stream("net");
        let here = |plan: &mut PlanBuilder<_>| {
            plan.holds_here(to, Reduction::Sum, |of| of.rank(from, ring(-1)));
        };
        plan.on(net).put(from, ring(1), to).signal(arrived);
        if !late {
            here(&mut plan);
        }
        plan.on(net).wait([arrived.from(ring(-1))]);
        if late {
            here(&mut plan);
        }
        plan
    };
    is_followed(plan(true));
    is_refused_alike(plan(false), 3);
}

/// What steps made is as good a term as what the caller brought: sums of sums, layer by layer.
#[test]
fn sums_of_what_steps_made() {
    let plan = |first: i64| {
        let first: Number = first.into();
        let mut plan = PlanBuilder::new("layers");
        let n = plan.ranks(2..);
        let (r, layers, len) = (plan.rank(), plan.param("layers", 1..4), plan.param("len", 1..));
        let x = plan.array(layers + 1).in_out::<f32>("x", |_| len);
        let (whole, partial) =
            (plan.local::<f32>("whole", n * len), plan.local("partial", n * len));
        let net = plan.stream("net");
        plan.for_each("i", ..layers, |plan, i| {
            plan.on(net).all_gather(x.at(i), whole);
            plan.on(net).run("forward").argument(i).reads(whole).writes(partial);
            plan.on(net).reduce_scatter(partial, x.at(i + 1), Reduction::Sum);
            plan.holds_here(x.at(i + 1), Reduction::Sum, |of| {
                of.for_each("k", first..n, |of, k| of.rank(partial.chunk(n, r), at(k)));
            });
        });
        plan
    };
    plan(0).check().expect("each layer is the sum of what all ranks made");
    let refused = plan(1).check().expect_err("the first rank's part is missing").to_string();
    assert!(refused.contains("sum of 2 terms: what `forward` of rank 0 made, what"), "{refused}");
}
