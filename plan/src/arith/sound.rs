//! What is proved holds: tried on many instances, by an evaluator that knows nothing of polynomials.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::tests::{param, plan};
use super::{Facts, Span, View};
use crate::ir::{AxisId, Comparison, Condition, Expr, Hop, Loop, LoopId, ParamId, Plan, Values};
use crate::program::{Env, NoValue};

/// What is asked for one plan, about numbers seen from rank r and from a rank q, each in some iteration of
/// one loop.
#[derive(Clone, Debug)]
struct Case {
    extents: Vec<Values>,
    params: Vec<Values>,
    promises: Vec<Condition>,
    /// Where q is, seen from r: any rank, or that far along axis 0, around it or not.
    hop: Option<(i64, bool)>,
    bounds: (Expr, Expr),
    guards: Vec<(Condition, bool)>,
    questions: Vec<Question>,
}

/// A condition on r, and a start and a length seen from each of the two.
#[derive(Clone, Debug)]
struct Question {
    compared: Condition,
    mine: (Expr, Expr),
    theirs: (Expr, Expr),
}

/// Something that was proved.
#[derive(Clone, Debug)]
enum Claim {
    Holds(Condition, bool),
    HasValue(Expr),
    Differ(Question),
    Equal(Question),
    Disjoint(Question),
    Contained(Question),
    Same(Question),
}

fn values(least: i64) -> impl Strategy<Value = Values> {
    prop_oneof![
        4 => (0..3i64).prop_map(move |more| Values::AtLeast(least + more)),
        1 => (0..4i64).prop_map(move |more| Values::Exactly(least + more)),
        1 => (0..3i64, 0..3i64).prop_map(move |(a, b)| Values::Range(least + a, least + a + b)),
        1 => (0..3i64, 0..3i64).prop_map(move |(a, b)| Values::OneOf(vec![least + a, least + 2 * b])),
    ]
}

fn leaf(rank: bool) -> BoxedStrategy<Expr> {
    let everywhere = prop_oneof![
        2 => (-2..5i64).prop_map(Expr::Int),
        2 => Just(Expr::Size),
        1 => Just(Expr::Extent(AxisId(0))),
        3 => (0..2u32).prop_map(param),
    ];
    if !rank {
        return everywhere.boxed();
    }
    prop_oneof![
        2 => everywhere,
        2 => Just(Expr::Rank),
        1 => Just(Expr::Coordinate(AxisId(0))),
        1 => Just(Expr::Loop(LoopId(0))),
        1 => (-1..3i64).prop_map(|k| Expr::Element(ParamId(2), Box::new(Expr::Loop(LoopId(0)) + k))),
    ]
    .boxed()
}

fn number(rank: bool) -> impl Strategy<Value = Expr> {
    let wild = leaf(rank).prop_recursive(3, 12, 2, |inner| {
        (0..6, inner.clone(), inner).prop_map(|(operator, a, b)| match operator {
            0 | 1 => a + b,
            2 => a - b,
            3 => a * b,
            4 => a / b,
            _ => a % b,
        })
    });
    // What plans are made of: a place around a ring, chunks.
    let around = (leaf(rank), -3..4i64).prop_map(|(a, k)| (a + k) % Expr::Size);
    let chunk = (leaf(rank), -2..3i64, 0..2u32, 0..2i64)
        .prop_map(|(a, k, len, more)| (a + k) % Expr::Size * param(len) + more);
    prop_oneof![2 => wild, 1 => around, 1 => chunk]
}

fn comparison() -> impl Strategy<Value = Comparison> {
    use Comparison::*;
    proptest::sample::select(vec![Equal, NotEqual, Less, LessOrEqual, Greater, GreaterOrEqual])
}

fn condition(rank: bool) -> impl Strategy<Value = Condition> {
    let divides = (leaf(rank), leaf(rank), 0..2i64).prop_map(|(a, b, c)| (a % b).eq(c));
    let single = prop_oneof![
        3 => (number(rank), comparison(), number(rank))
            .prop_map(|(a, by, b)| Condition::Compare(a, by, b)),
        1 => divides,
    ];
    single.prop_recursive(1, 3, 2, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Condition::All),
            proptest::collection::vec(inner.clone(), 1..3).prop_map(Condition::Any),
            inner.prop_map(|one| Condition::Not(Box::new(one))),
        ]
    })
}

fn question() -> impl Strategy<Value = Question> {
    let wild = (number(true), number(true), number(true), number(true))
        .prop_map(|(a, b, c, d)| ((a, b), (c, d)));
    let near = (number(true), leaf(false), -2..3i64, leaf(false))
        .prop_map(|(a, len, k, other)| ((a.clone(), len.clone()), (a + k * len, other)));
    let chunks = (number(true), number(true), leaf(false))
        .prop_map(|(a, b, len)| ((a * len.clone(), len.clone()), (b * len.clone(), len)));
    let ring = (leaf(true), -2..3i64, -2..3i64, leaf(false)).prop_map(|(a, j, k, len)| {
        let at = |k: i64| (a.clone() + k) % Expr::Size * len.clone();
        ((at(j), len.clone()), (at(k), len.clone()))
    });
    let spans = prop_oneof![2 => wild, 1 => near, 1 => chunks, 1 => ring];
    let compared = (number(true), comparison(), number(true));
    (compared, spans).prop_map(|((a, by, b), (mine, theirs))| Question {
        compared: Condition::Compare(a, by, b),
        mine,
        theirs,
    })
}

fn case() -> impl Strategy<Value = Case> {
    let some = |rank, count| proptest::collection::vec(condition(rank), 0..count);
    (
        proptest::collection::vec(values(1), 1..3),
        proptest::collection::vec(values(0), 3),
        some(false, 3),
        proptest::option::of((-2..3i64, any::<bool>())),
        (number(false), number(false)),
        proptest::collection::vec((condition(true), any::<bool>()), 0..2),
        proptest::collection::vec(question(), 6),
    )
        .prop_map(|(extents, params, promises, hop, bounds, guards, questions)| Case {
            extents,
            params,
            promises,
            hop,
            bounds,
            guards,
            questions,
        })
}

impl Case {
    fn plan(&self) -> Plan {
        let axes: Vec<_> = ["a", "b"].into_iter().zip(self.extents.iter().cloned()).collect();
        let params: Vec<_> = ["x", "y", "z"].into_iter().zip(self.params.iter().cloned()).collect();
        let mut plan = plan(&axes, &params, self.promises.clone());
        plan.params[2].count = Some(Expr::Int(4));
        plan
    }
}

fn claims(case: &Case) -> Vec<Claim> {
    let mut facts = Facts::of(&case.plan());
    let r = facts.rank();
    let repeat = Loop {
        counter: LoopId(0),
        from: case.bounds.0.clone(),
        to: case.bounds.1.clone(),
        reverse: false,
        body: Vec::new(),
    };
    let q = match case.hop {
        None => facts.rank(),
        Some((by, wrap)) => facts.hop(&r, &[Hop { axis: AxisId(0), by: by.into(), wrap }]),
    };
    let (r, q) = (facts.enter(&r, &repeat), facts.enter(&q, &repeat));
    for (guard, holds) in &case.guards {
        if *holds { facts.assume(guard, &r) } else { facts.assume_not(guard, &r) }
    }
    let mut all = Vec::new();
    for question in &case.questions {
        let Question { compared, mine, theirs } = question;
        if let Some(holds) = facts.decide(compared, &r) {
            all.push(Claim::Holds(compared.clone(), holds));
        }
        let span = |(start, len): &(Expr, Expr), view: &View| {
            let (start, len) = (facts.poly(start, view), facts.poly(len, view));
            Span::new(start.clone(), &start + &len)
        };
        let (a, b) = (span(mine, &r), span(theirs, &q));
        let mut claim = |proved: bool, claim: fn(Question) -> Claim| {
            if proved {
                all.push(claim(question.clone()));
            }
        };
        claim(facts.different(&a.start, &b.start), Claim::Differ);
        claim(facts.equal(&a.start, &b.start), Claim::Equal);
        claim(facts.disjoint(&a, &b), Claim::Disjoint);
        claim(facts.contained(&a, &b), Claim::Contained);
        claim(facts.same(&a, &b), Claim::Same);
        if facts.has_value(&mine.0, &r) {
            all.push(Claim::HasValue(mine.0.clone()));
        }
    }
    all
}

/// Whether a claim holds for a rank and another; also where it has no meaning.
fn holds(claim: &Claim, r: &Env<'_>, q: &Env<'_>) -> bool {
    let spans = |question: &Question| {
        let Question { mine, theirs, .. } = question;
        let span = |(start, len): &(Expr, Expr), env: &Env<'_>| {
            let start = env.eval(start).ok()?;
            Some((start, start.checked_add(env.eval(len).ok()?)?))
        };
        Some((span(mine, r)?, span(theirs, q)?))
    };
    let both = |question: &Question, holds: fn((i64, i64), (i64, i64)) -> bool| {
        spans(question).is_none_or(|(a, b)| holds(a, b))
    };
    match claim {
        Claim::Holds(condition, value) => {
            r.holds(condition).is_ok_and(|held| held == *value) || r.holds(condition).is_err()
        }
        Claim::HasValue(expr) => !matches!(
            r.eval(expr),
            Err(NoValue::Divisor(_) | NoValue::Element(_) | NoValue::Counter)
        ),
        Claim::Differ(question) => both(question, |a, b| a.0 != b.0),
        Claim::Equal(question) => both(question, |a, b| a.0 == b.0),
        Claim::Disjoint(question) => {
            both(question, |a, b| (a.0..a.1).all(|element| !(b.0..b.1).contains(&element)))
        }
        Claim::Contained(question) => both(question, |a, b| b.0 <= a.0 && a.1 <= b.1),
        Claim::Same(question) => both(question, |a, b| a == b),
    }
}

/// Some numbers of those declared, the first ones.
fn some(values: &Values, count: usize) -> Vec<i64> {
    (0..20).filter(|&value| values.contains(value)).take(count).collect()
}

/// Tries every claim on all small instances; answers with how many it tried.
fn refuted(case: &Case, claims: &[Claim]) -> (usize, Option<String>) {
    let mut tried = 0;
    let mut extents = vec![Vec::new()];
    for values in &case.extents {
        extents = extents
            .iter()
            .flat_map(|before| {
                some(values, if case.extents.len() == 1 { 5 } else { 3 })
                    .into_iter()
                    .map(move |value| [before.clone(), vec![value]].concat())
            })
            .collect();
    }
    for extents in &extents {
        for x in some(&case.params[0], 6) {
            for y in some(&case.params[1], 6) {
                let z = some(&case.params[2], 4);
                let Some(last) = z.last() else { continue };
                let z = [z.clone(), vec![*last; 4 - z.len()]].concat();
                let params = [vec![x], vec![y], z];
                let size: i64 = extents.iter().product();
                let env = Env { extents, size, params: &params, counters: &[None], rank: 0 };
                if case.promises.iter().any(|promise| env.holds(promise) != Ok(true)) {
                    continue;
                }
                let (Ok(from), Ok(to)) = (env.eval(&case.bounds.0), env.eval(&case.bounds.1))
                else {
                    continue;
                };
                for (i, j) in (from..to.min(from + 4))
                    .flat_map(|i| (from..to.min(from + 4)).map(move |j| (i, j)))
                {
                    let (mine, theirs) = ([Some(i)], [Some(j)]);
                    for rank in 0..size {
                        let r = Env { counters: &mine, rank, ..env };
                        if case.guards.iter().any(|(guard, is)| r.holds(guard) != Ok(*is)) {
                            continue;
                        }
                        for other in others(case, extents, rank) {
                            let q = Env { counters: &theirs, rank: other, ..env };
                            for claim in claims {
                                tried += 1;
                                if !holds(claim, &r, &q) {
                                    let told = format!(
                                        "{claim:?} at extents {extents:?}, {params:?}, r = {rank}, \
                                         q = {other}, iterations {i} and {j}"
                                    );
                                    return (tried, Some(told));
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    (tried, None)
}

/// What q may be.
fn others(case: &Case, extents: &[i64], rank: i64) -> Vec<i64> {
    let after: i64 = extents[1..].iter().product();
    match case.hop {
        None => (0..extents[0] * after).collect(),
        Some((by, wrap)) => {
            let there = rank / after + by;
            let there = if wrap { there.rem_euclid(extents[0]) } else { there };
            let inside = (0..extents[0]).contains(&there);
            if inside { vec![there * after + rank % after] } else { Vec::new() }
        }
    }
}

#[test]
fn what_is_proved_holds() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|many| many.parse().ok());
    let config =
        Config { cases: cases.unwrap_or(30), failure_persistence: None, ..Config::default() };
    let (proved, tried) = (Cell::new(0), Cell::new(0));
    let run = TestRunner::new(config.clone()).run(&case(), |case| {
        let claims = claims(&case);
        proved.set(proved.get() + claims.len());
        let (count, refuted) = refuted(&case, &claims);
        tried.set(tried.get() + count);
        prop_assert!(refuted.is_none(), "{}", refuted.unwrap_or_default());
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
    // Else this would be about nothing. (On average it is fifteen claims a case, and hundreds of tries a
    // claim.)
    assert!(proved.get() > config.cases as usize * 2, "{} proved", proved.get());
    assert!(tried.get() > proved.get() * 5, "{} tried", tried.get());
}
