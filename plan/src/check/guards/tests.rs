//! What is read from conditions, and what is not.

use super::{Classes, Guards};
use crate::arith::tests::{plan, ring};
use crate::ir::{AxisId, Condition, Expr, Location, Plan, Step, StepKind, Values, When};

fn guarded(mut plan: Plan, condition: Condition) -> Plan {
    let at = Location::default();
    let body = Vec::new();
    plan.steps.push(Step { kind: StepKind::When(When { condition, body }), at });
    plan
}

fn classes(condition: Condition) -> Option<(i64, i64)> {
    let plan = guarded(ring(1, &[], vec![]), condition.clone());
    let guards = Guards::new(&plan, &[true]);
    let found = guards.classes()[0];
    assert_eq!(found.is_some(), guards.tells_apart(&condition));
    let other = guards.any_other(&condition, &mut |part| {
        matches!(part, Expr::Rank | Expr::Coordinate(_) | Expr::Size | Expr::Extent(_))
    });
    (!other).then_some(found).flatten().map(|Classes { near, every }| (near, every))
}

const R: Expr = Expr::Rank;
const N: Expr = Expr::Size;

#[test]
fn ends_and_remainders() {
    assert_eq!(classes(R.lt(3)), Some((4, 1)));
    assert_eq!(classes((R + 1).eq(N)), Some((2, 1)));
    assert_eq!(classes(R.ge(N - 3)), Some((4, 1)));
    assert_eq!(classes((N - 1 - R).ne(2)), Some((4, 1)));
    assert_eq!(classes((R % 2).eq(0)), Some((1, 2)).map(|(_, every)| (0, every)));
    assert_eq!(classes(((R + 1) % 3).lt(R % 2)), Some((0, 6)));
    let both = Condition::All(vec![R.gt(4), Condition::Not(Box::new((R % 4).eq(1)))]);
    assert_eq!(classes(both), Some((5, 4)));
    // Nothing is told apart from some number of ranks on.
    assert_eq!(classes((R - R + N).lt(7)), Some((8, 1)));
}

#[test]
fn what_is_not_read() {
    for condition in [
        (R * 2).lt(N),
        (R + N).lt(9),
        (R * R).lt(9),
        (R / 2).lt(9),
        (R % N).lt(9),
        (R % 2).lt(R),
        (R % (1_i64 << 40)).lt(9),
        R.lt(1_i64 << 40),
        (R % 0).eq(0),
        N.gt(4),
        Condition::Any(vec![R.lt(3), N.gt(4)]),
        R.lt(Expr::Loop(crate::ir::LoopId(0))),
    ] {
        assert_eq!(classes(condition.clone()), None, "{condition:?}");
    }
}

#[test]
fn one_axis_of_several() {
    let axes = [("x", Values::AtLeast(1)), ("y", Values::Exactly(4)), ("z", Values::AtLeast(1))];
    let (x, y) = (|| Expr::Coordinate(AxisId(0)), || Expr::Coordinate(AxisId(1)));
    let (z, m) = (|| Expr::Coordinate(AxisId(2)), || Expr::Extent(AxisId(2)));
    let condition = Condition::All(vec![x().lt(3), y().eq(1), z().eq(m() - 1)]);
    let plan = guarded(plan(&axes, &[], vec![]), condition);
    let endless = [true, false, true];
    let guards = Guards::new(&plan, &endless);
    let of = |near: i64| Some(Classes { near, every: 1 });
    assert_eq!(guards.classes(), [of(4), None, of(2)]);
    for mixed in [x().lt(z()), x().lt(m()), x().lt(y()), R.lt(3), x().lt(N)] {
        assert!(!guards.tells_apart(&mixed), "{mixed:?}");
    }
}

#[test]
fn promises() {
    let odd = || (N % 2).eq(1);
    let plan = ring(1, &[], vec![odd(), Condition::Any(vec![N.eq(2), N.ge(50)])]);
    let guards = Guards::new(&plan, &[true]);
    assert!(plan.promises.iter().all(|promise| guards.is_promise(&promise.condition)));
    assert_eq!(guards.promised(), [Classes { near: 51, every: 2 }]);
    assert!(!guards.is_promise(&(N * N).gt(50)));
    assert!(!guards.is_promise(&(N / 2).gt(50)));
}
