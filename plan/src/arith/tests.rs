//! The plans that the checker is made for, asked for what it will ask.

use super::{Facts, Poly, Span, View, sample};
use crate::ir::{
    Axis, AxisId, Condition, Expr, Hop, Launch, Location, Loop, LoopId, Order, Param, ParamId,
    Plan, Promise, Values, Version,
};

/// A plan of these axes, parameters and promises that does nothing.
pub(crate) fn plan(
    axes: &[(&str, Values)],
    params: &[(&str, Values)],
    promises: Vec<Condition>,
) -> Plan {
    let at = Location::default();
    let axis = |(name, extent): &(&str, Values)| Axis {
        name: (*name).to_owned(),
        extent: extent.clone(),
        at,
    };
    let param = |(name, values): &(&str, Values)| Param {
        name: (*name).to_owned(),
        values: values.clone(),
        count: None,
        at,
    };
    Plan {
        name: "test".to_owned(),
        files: Vec::new(),
        axes: axes.iter().map(axis).collect(),
        params: params.iter().map(param).collect(),
        promises: promises.into_iter().map(|condition| Promise { condition, at }).collect(),
        communicators: Vec::new(),
        buffers: Vec::new(),
        signals: Vec::new(),
        streams: Vec::new(),
        counters: Vec::new(),
        steps: Vec::new(),
        launch: Launch::Eager,
        replayed: true,
        target: Version::default(),
        order: Order::Declared,
        covers: Vec::new(),
        computes: Vec::new(),
    }
}

pub(crate) fn ring(least: i64, params: &[(&str, Values)], promises: Vec<Condition>) -> Plan {
    plan(&[("n", Values::AtLeast(least))], params, promises)
}

pub(super) fn param(place: u32) -> Expr {
    Expr::Param(ParamId(place))
}

fn span(facts: &Facts, view: &View, from: Expr, to: Expr) -> Span {
    Span::new(facts.poly(&from, view), facts.poly(&to, view))
}

fn chunk(facts: &Facts, view: &View, index: Expr, len: Expr) -> Span {
    span(facts, view, index.clone() * len.clone(), (index + 1) * len)
}

fn hop(by: impl Into<Expr>, wrap: bool) -> [Hop; 1] {
    [Hop { axis: AxisId(0), by: by.into(), wrap }]
}

#[test]
fn chunks_of_a_ring_lie_in_the_buffer() {
    let mut facts =
        Facts::of(&ring(1, &[("len", Values::AtLeast(0)), ("k", Values::AtLeast(0))], vec![]));
    let r = facts.rank();
    let (n, len) = (Expr::Size, param(0));
    let whole = Span::to(facts.poly(&(n.clone() * len.clone()), &r));
    for index in [Expr::Rank, (Expr::Rank + param(1)) % n.clone(), (Expr::Rank + n.clone() - 1) % n]
    {
        assert!(
            facts.contained(&chunk(&facts, &r, index.clone(), len.clone()), &whole),
            "{index:?}"
        );
    }
    // One further is outside on the last rank.
    assert!(!facts.contained(&chunk(&facts, &r, Expr::Rank + 1, len), &whole));
}

#[test]
fn chunks_of_a_ring_are_apart() {
    for least in 1..4 {
        let mut facts = Facts::of(&ring(least, &[("len", Values::AtLeast(0))], vec![]));
        let r = facts.rank();
        let at = |k: i64| chunk(&facts, &r, (Expr::Rank + k) % Expr::Size, param(0));
        for (a, b) in [(0i64, 1i64), (0, -1), (3, 4), (-1, 1), (0, 2)] {
            let apart = least > (a - b).abs();
            assert_eq!(facts.disjoint(&at(a), &at(b)), apart, "{a} {b} of {least}");
        }
        assert!(facts.same(&at(5), &at(5)));
        assert!(!facts.disjoint(&at(5), &at(5)));
        let own = chunk(&facts, &r, Expr::Rank, param(0));
        assert_eq!(facts.disjoint(&own, &at(1)), least > 1);
        assert!(facts.same(&own, &at(0)));
    }
}

#[test]
fn remainders_have_one_form() {
    let mut facts = Facts::of(&ring(1, &[], vec![]));
    let r = facts.rank();
    let n = || Expr::Size;
    let equal = |a: Expr, b: Expr| facts.equal(&facts.poly(&a, &r), &facts.poly(&b, &r));
    assert!(equal((Expr::Rank + n() - 1) % n(), (Expr::Rank - 1) % n()));
    assert!(equal(((Expr::Rank + 1) % n() + 1) % n(), (Expr::Rank + 2) % n()));
    assert!(equal(Expr::Rank % Expr::Int(1), 0.into()));
    assert!(equal(Expr::Rank % n(), Expr::Rank));
    assert!(equal((Expr::Rank + 3 * n()) / n(), 3.into()));
    assert!(equal((Expr::Rank - n()) / n(), Expr::from(-1)));
    assert!(!equal((Expr::Rank + 1) % n(), Expr::Rank + 1));
    assert!(!equal((Expr::Rank + 1) % n(), (Expr::Rank + 2) % n()));
}

#[test]
fn there_and_back_around_a_ring() {
    let mut facts = Facts::of(&ring(1, &[], vec![]));
    let r = facts.rank();
    let there = facts.hop(&r, &hop(1, true));
    let back = facts.hop(&there, &hop(-1, true));
    assert!(facts.equal(&back.coordinate(AxisId(0)), &r.coordinate(AxisId(0))));
    let seen = facts.poly(&((Expr::Rank - 1) % Expr::Size), &there);
    assert!(facts.equal(&seen, &r.coordinate(AxisId(0))));
    assert!(!facts.different(&there.coordinate(AxisId(0)), &r.coordinate(AxisId(0))));
    let mut two = Facts::of(&ring(2, &[], vec![]));
    let r = two.rank();
    let there = two.hop(&r, &hop(1, true));
    assert!(two.different(&there.coordinate(AxisId(0)), &r.coordinate(AxisId(0))));
}

#[test]
fn along_a_line() {
    let mut facts = Facts::of(&ring(1, &[], vec![]));
    let r = facts.rank();
    let size = facts.extent(AxisId(0));
    let own = r.coordinate(AxisId(0));
    assert!(!facts.less(&(&own + 1), &size));
    let there = facts.hop(&r, &hop(1, false));
    assert!(facts.less(&(&own + 1), &size));
    assert!(facts.less(&Poly::from(1), &size));
    assert!(facts.equal(&there.coordinate(AxisId(0)), &(&own + 1)));
    // Then going around is going along.
    let around = facts.poly(&((Expr::Rank + 1) % Expr::Size), &r);
    assert!(facts.equal(&around, &(&own + 1)));
}

#[test]
fn halo() {
    let params = [("m", Values::AtLeast(0)), ("h", Values::AtLeast(1))];
    let (m, h) = (|| param(0), || param(1));
    let facts = Facts::of(&ring(3, &params, vec![m().ge(4 * h())]));
    let view = View::uniform();
    let at = |from, to| span(&facts, &view, from, to);
    let whole = at(0.into(), m());
    let edges = [
        at(0.into(), h()),
        at(h(), 2 * h()),
        at(2 * h(), m() - 2 * h()),
        at(m() - 2 * h(), m() - h()),
        at(m() - h(), m()),
    ];
    for (i, a) in edges.iter().enumerate() {
        assert!(facts.contained(a, &whole), "{i}");
        for (j, b) in edges.iter().enumerate() {
            // The middle may be empty.
            assert!(i == j || facts.disjoint(a, b), "{i} {j}");
        }
    }
    assert!(!facts.disjoint(&at(h(), m() - h()), &edges[1]));
    let more = at(m() - h(), m() + 1);
    assert!(!facts.contained(&more, &whole));
    // Without the promise.
    let bare = Facts::of(&ring(3, &params, vec![]));
    assert!(!bare.disjoint(&edges[1], &edges[3]));
}

#[test]
fn hierarchical() {
    let axes = [("nodes", Values::AtLeast(1)), ("local", Values::OneOf(vec![2, 4, 8]))];
    let (nodes, local) = (|| Expr::Extent(AxisId(0)), || Expr::Extent(AxisId(1)));
    let me = || Expr::Coordinate(AxisId(1));
    let len = || param(0);
    let divides = (len() % local()).eq(0);
    let mut facts = Facts::of(&plan(&axes, &[("len", Values::AtLeast(0))], vec![divides]));
    let (r, q) = (facts.rank(), facts.rank());
    let part = || len() / local();
    let whole = span(&facts, &r, 0.into(), len());
    let mine = chunk(&facts, &r, me(), part());
    assert!(facts.contained(&mine, &whole));
    // The parts fill the buffer.
    let all = facts.poly(&(local() * part()), &r);
    assert!(facts.equal(&all, &whole.end));
    // Other slots have other parts.
    let theirs = chunk(&facts, &q, me(), part());
    assert!(!facts.disjoint(&mine, &theirs));
    let mut others = facts.clone();
    others.assume_different(&r.coordinate(AxisId(1)), &q.coordinate(AxisId(1)));
    assert!(others.disjoint(&mine, &theirs));
    // Ranks count through the last axis fastest.
    let number = facts.poly(&Expr::Rank, &r);
    let size = facts.poly(&Expr::Size, &r);
    assert!(facts.less(&number, &size));
    assert!(facts.prove_non_negative(&number));
    assert!(facts.equal(&facts.poly(&(nodes() * local()), &r), &size));
    let again = facts.rank_numbered(&number, &r);
    for axis in [AxisId(0), AxisId(1)] {
        assert!(facts.equal(&again.coordinate(axis), &r.coordinate(axis)), "{axis:?}");
    }
    assert!(others.different(&number, &facts.poly(&Expr::Rank, &q)));
    assert!(!facts.different(&number, &facts.poly(&Expr::Rank, &q)));
}

#[test]
fn ring_all_reduce() {
    let params = [("len", Values::AtLeast(0))];
    let divides = (param(0) % Expr::Size).eq(0);
    let mut facts = Facts::of(&ring(1, &params, vec![divides]));
    let r = facts.rank();
    let step = Loop {
        counter: LoopId(0),
        from: 0.into(),
        to: Expr::Size - 1,
        reverse: false,
        body: Vec::new(),
    };
    let seen = facts.enter(&r, &step);
    let part = || param(0) / Expr::Size;
    let s = || Expr::Loop(LoopId(0));
    let sent = chunk(&facts, &seen, (Expr::Rank - s()) % Expr::Size, part());
    let received = chunk(&facts, &seen, (Expr::Rank - s() - 1) % Expr::Size, part());
    let whole = span(&facts, &seen, 0.into(), param(0));
    assert!(facts.contained(&sent, &whole));
    assert!(facts.contained(&received, &whole));
    // There is a step, so there are two ranks.
    assert!(facts.disjoint(&sent, &received));
    // Another iteration's.
    let other = facts.enter(&r, &step);
    let before = chunk(&facts, &other, (Expr::Rank - s()) % Expr::Size, part());
    assert!(!facts.disjoint(&sent, &before));
    let (a, b) = (facts.poly(&s(), &seen), facts.poly(&s(), &other));
    facts.assume_different(&a, &b);
    assert!(facts.disjoint(&sent, &before));
}

#[test]
fn guards() {
    let mut facts = Facts::of(&ring(1, &[("k", Values::Range(0, 3))], vec![]));
    let r = facts.rank();
    let first = Expr::Rank.eq(0);
    assert_eq!(facts.decide(&first, &r), None);
    let mut inside = facts.clone();
    inside.assume(&first, &r);
    assert_eq!(inside.decide(&first, &r), Some(true));
    assert_eq!(inside.decide(&Expr::Rank.gt(0), &r), Some(false));
    let mut outside = facts.clone();
    outside.assume_not(&first, &r);
    assert_eq!(outside.decide(&first, &r), Some(false));
    assert_eq!(outside.decide(&Expr::Rank.ge(1), &r), Some(true));
    assert_eq!(outside.decide(&Expr::Size.ge(2), &r), Some(true));
    assert_eq!(facts.decide(&param(0).le(3), &r), Some(true));
    assert_eq!(facts.decide(&Condition::Any(vec![param(0).gt(3), param(0).ge(0)]), &r), Some(true));
    let mut even = facts.clone();
    even.assume(&(Expr::Rank % 2).eq(0), &r);
    assert_eq!(even.decide(&((Expr::Rank + 1) % 2).eq(1), &r), Some(true));
    assert_eq!(even.decide(&(Expr::Rank % 2).eq(1), &r), Some(false));
    assert_eq!(even.decide(&(Expr::Rank - 1).eq(0), &r), Some(false));
}

#[test]
fn products() {
    let params = [("a", Values::AtLeast(0)), ("b", Values::AtLeast(0)), ("c", Values::AtLeast(1))];
    let (a, b, c) = (|| param(0), || param(1), || param(2));
    let facts = Facts::of(&ring(1, &params, vec![a().ge(2 * b() + 1)]));
    let view = View::uniform();
    let holds = |condition: Condition| facts.decide(&condition, &view);
    assert_eq!(holds((a() * c()).ge(2 * b() * c() + c())), Some(true));
    assert_eq!(holds((c() * c()).ge(c())), Some(true));
    assert_eq!(holds((a() * b() * c()).ge(0)), Some(true));
    assert_eq!(holds((a() / c()).le(a())), Some(true));
    assert_eq!(holds((a() / 2).ge(b())), Some(true));
    assert_eq!(holds(((a() / c()) * c()).le(a())), Some(true));
    assert_eq!(holds((a() / c() * c() + a() % c()).eq(a())), Some(true));
    assert_eq!(holds((b() / c()).le(a() / c())), Some(true));
    assert_eq!(holds((a() * c()).gt(2 * b() * c() + c())), None);
    assert_eq!(holds((a() * b()).ge(a())), None);
}

#[test]
fn what_is_too_large_is_unknown() {
    let facts = Facts::of(&ring(1, &[("a", Values::AtLeast(0))], vec![]));
    let view = View::uniform();
    let mut large = Expr::Int(i64::MAX);
    for _ in 0..3 {
        large = large * i64::MAX;
    }
    let mut high = param(0);
    for _ in 0..8 {
        high = high * param(0);
    }
    for expr in [large, high] {
        let poly = facts.poly(&expr, &view);
        assert!(!facts.prove_non_negative(&poly));
        assert!(!facts.equal(&poly, &poly));
        assert!(!facts.different(&poly, &Poly::zero()));
        assert!(!facts.prove_non_negative(&(&poly - &poly)));
    }
}

#[test]
fn an_array_of_buffers_and_its_lengths() {
    let mut plan = ring(1, &[("count", Values::AtLeast(0)), ("lens", Values::AtLeast(1))], vec![]);
    plan.params[1].count = Some(param(0));
    let mut facts = Facts::of(&plan);
    let view = View::uniform();
    let count = facts.poly(&param(0), &view);
    let inside = facts.index(&view, LoopId(0), &count);
    let at = |index: Expr| Expr::Element(ParamId(1), Box::new(index));
    let i = || Expr::Loop(LoopId(0));
    assert_eq!(facts.decide(&at(i()).ge(1), &inside), Some(true));
    assert_eq!(facts.decide(&at(i() + 1 - 1).eq(at(i())), &inside), Some(true));
    assert_eq!(facts.decide(&at(i()).eq(at(i() + 1)), &inside), None);
    assert!(facts.has_value(&at(i()), &inside));
    assert!(!facts.has_value(&at(i() + 1), &inside));
    assert!(facts.has_value(&(i() % at(i())), &inside));
    assert!(!facts.has_value(&(i() % i()), &inside));
}

#[test]
fn around_a_torus() {
    let axes = [("rows", Values::AtLeast(2)), ("columns", Values::AtLeast(2))];
    let mut facts = Facts::of(&plan(&axes, &[("len", Values::AtLeast(0))], vec![]));
    let r = facts.rank();
    let size = facts.poly(&Expr::Size, &r);
    let number = facts.poly(&Expr::Rank, &r);
    let mut seen = vec![number];
    for (axis, by) in [(0, 1), (1, 1), (1, -1)] {
        let hops = [Hop { axis: AxisId(axis), by: by.into(), wrap: true }];
        let there = facts.hop(&r, &hops);
        seen.push(facts.poly(&Expr::Rank, &there));
    }
    let len = facts.poly(&param(0), &r);
    let whole = Span::to(&size * &len);
    let part = |number: &Poly| Span::new(number * &len, &(number + 1) * &len);
    for (i, a) in seen.iter().enumerate() {
        assert!(facts.prove_non_negative(a) && facts.less(a, &size), "{i}");
        assert!(facts.contained(&part(a), &whole), "{i}");
        for (j, b) in seen.iter().enumerate() {
            // With two columns, the right and the left neighbour are one.
            let apart = i != j && (i.min(j), i.max(j)) != (2, 3);
            assert_eq!(facts.different(a, b), apart, "{i} {j}");
            assert_eq!(facts.disjoint(&part(a), &part(b)), apart, "{i} {j}");
        }
    }
}

#[test]
fn parts_that_are_not_alike() {
    let params = [("len", Values::AtLeast(0))];
    let mut facts = Facts::of(&ring(1, &params, vec![]));
    let r = facts.rank();
    let part = |index: Expr| {
        let start = index.clone() * param(0) / Expr::Size;
        span(&facts, &r, start, (index + 1) * param(0) / Expr::Size)
    };
    let whole = Span::to(facts.poly(&param(0), &r));
    let mine = part(Expr::Rank);
    assert!(facts.contained(&mine, &whole));
    assert!(facts.at_most(&mine.start, &mine.end));
    assert!(facts.disjoint(&mine, &part(Expr::Rank + 1)));
    assert!(facts.disjoint(&mine, &part(Expr::Rank - 2)));
    assert!(facts.equal(&part(Expr::Size - 1).end, &whole.end));
    // The same, with what is left over at the end.
    let each = || param(0) / Expr::Size;
    let last = span(&facts, &r, (Expr::Size - 1) * each(), param(0));
    assert!(facts.contained(&last, &whole));
    assert!(facts.at_most(&last.start, &last.end));
    assert!(facts.contained(&chunk(&facts, &r, Expr::Rank, each()), &whole));
}

#[test]
fn pairs() {
    let even = (Expr::Size % 2).eq(0);
    let mut facts = Facts::of(&ring(1, &[], vec![even]));
    let r = facts.rank();
    facts.assume(&(Expr::Rank % 2).eq(0), &r);
    assert_eq!(facts.decide(&(Expr::Rank + 1).lt(Expr::Size), &r), Some(true));
    assert_eq!(facts.decide(&Expr::Size.ge(2), &r), Some(true));
    assert_eq!(facts.decide(&((Expr::Rank + 1) % Expr::Size).eq(Expr::Rank + 1), &r), Some(true));
}

#[test]
fn a_tree() {
    let mut facts = Facts::of(&ring(1, &[], vec![]));
    let r = facts.rank();
    facts.assume(&(2 * Expr::Rank + 2).lt(Expr::Size), &r);
    for child in [2 * Expr::Rank + 1, 2 * Expr::Rank + 2] {
        let number = facts.poly(&child, &r);
        let there = facts.rank_numbered(&number, &r);
        assert!(facts.different(&number, &r.coordinate(AxisId(0))));
        let parent = facts.poly(&((Expr::Rank - 1) / 2), &there);
        assert!(facts.equal(&parent, &r.coordinate(AxisId(0))));
    }
}

#[test]
fn columns() {
    let params =
        [("rows", Values::AtLeast(1)), ("width", Values::AtLeast(1)), ("h", Values::AtLeast(1))];
    let (rows, width, h) = (|| param(0), || param(1), || param(2));
    let mut facts = Facts::of(&ring(1, &params, vec![width().ge(2 * h())]));
    let view = View::uniform();
    let (count, (i, j)) = (facts.poly(&rows(), &view), (LoopId(0), LoopId(1)));
    let inside = facts.index(&view, i, &count);
    let inside = facts.index(&inside, j, &count);
    let start = |row: LoopId| Expr::Loop(row) * width();
    // The left edge of one row and the right edge of any row.
    let left = span(&facts, &inside, start(i), start(i) + h());
    let right = span(&facts, &inside, start(j) + width() - h(), start(j) + width());
    assert!(facts.disjoint(&left, &right));
    let more = span(&facts, &inside, start(j) + h() - 1, start(j) + width());
    assert!(!facts.disjoint(&left, &more));
    assert!(facts.contained(&right, &Span::to(facts.poly(&(rows() * width()), &view))));
}

#[test]
fn what_excludes_itself_is_impossible() {
    let promises = vec![param(0).lt(param(1)), param(1).lt(param(0) + 2)];
    let params = [("a", Values::AtLeast(0)), ("b", Values::AtLeast(0))];
    let mut facts = Facts::of(&ring(1, &params, promises));
    assert!(!facts.impossible());
    let view = facts.rank();
    for dead in [param(0).eq(param(1)), param(1).eq(0), Expr::Rank.ge(Expr::Size)] {
        let mut inside = facts.clone();
        inside.assume(&dead, &view);
        assert!(inside.impossible(), "{dead:?}");
        assert_eq!(inside.decide(&dead, &view), Some(true));
    }
}

fn texts(plan: &Plan, limit: usize) -> Vec<String> {
    sample(plan, limit).into_iter().map(|sizes| sizes.text).collect()
}

#[test]
fn the_smallest_instances_come_first() {
    let plan = ring(2, &[("len", Values::AtLeast(0))], vec![]);
    assert_eq!(
        texts(&plan, 4),
        ["n = 2, len = 0", "n = 2, len = 1", "n = 3, len = 0", "n = 2, len = 2"]
    );
    assert_eq!(sample(&plan, 1000).len(), 64);
    let plan = ring(1, &[("k", Values::OneOf(vec![16, 4]))], vec![]);
    assert_eq!(texts(&plan, 2), ["n = 1, k = 4", "n = 2, k = 4"]);
}

#[test]
fn instances_keep_the_promises() {
    let (m, h) = (|| param(0), || param(1));
    let params = [("m", Values::AtLeast(0)), ("h", Values::AtLeast(1))];
    // Whichever of the two is declared first.
    for factor in [4, 400] {
        let plan = ring(3, &params, vec![m().ge(factor * h())]);
        assert_eq!(texts(&plan, 1), [format!("n = 3, m = {factor}, h = 1")]);
        let swapped = [params[1].clone(), params[0].clone()];
        let plan = ring(3, &swapped, vec![param(1).ge(factor * param(0))]);
        assert_eq!(texts(&plan, 1), [format!("n = 3, h = 1, m = {factor}")]);
    }
    let plan = ring(
        5,
        &params,
        vec![
            Condition::All(vec![(m() % Expr::Size).eq(0), m().gt(0)]),
            (h() % 3).eq(2),
            Condition::Not(Box::new(m().eq(5))),
        ],
    );
    assert_eq!(texts(&plan, 2), ["n = 6, m = 6, h = 2", "n = 7, m = 7, h = 2"]);
    let none = ring(1, &params, vec![m().lt(0)]);
    assert!(sample(&none, 10).is_empty());
    let divides = ring(
        1,
        &[("len", Values::AtLeast(1)), ("p", Values::AtLeast(0))],
        vec![(param(0) % param(1)).eq(0), param(1).ge(7)],
    );
    assert_eq!(texts(&divides, 1), ["n = 1, len = 7, p = 7"]);
}

#[test]
fn lists_are_sampled_with_unlike_elements() {
    let mut plan = ring(1, &[("count", Values::AtLeast(2)), ("lens", Values::AtLeast(1))], vec![]);
    plan.params[1].count = Some(param(0) + 1);
    let all = texts(&plan, 1000);
    assert_eq!(all[0], "n = 1, count = 2, lens = [1, 1, 1]");
    assert!(all.contains(&"n = 2, count = 2, lens = [1, 2, 4]".to_owned()), "{all:?}");
    assert!(all.contains(&"n = 2, count = 3, lens = [7, 4, 2, 1]".to_owned()), "{all:?}");
}

#[test]
fn many_parameters_are_sampled_in_bounded_time() {
    let names: Vec<String> = (0..30).map(|i| format!("p{i}")).collect();
    let params: Vec<(&str, Values)> =
        names.iter().map(|name| (name.as_str(), Values::AtLeast(0))).collect();
    let plan = ring(1, &params, vec![param(0).ge(param(29) + 1)]);
    assert_eq!(sample(&plan, 10).len(), 10);
}
