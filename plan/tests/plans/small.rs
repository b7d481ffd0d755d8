//! The small sizes that a plan claims, the smallest first.

use typed_nccl_plan::ir::{Condition, Expr, Plan, Values};
use typed_nccl_plan::verdict::Sizes;

/// How many values of each axis and parameter are tried.
const EACH: usize = 5;

/// The most ranks.
const RANKS: i64 = 16;

/// Some of the sizes that a plan claims, by the number of ranks.
pub(crate) fn sizes(plan: &Plan) -> Vec<Sizes> {
    let mut found = vec![Sizes::default()];
    for axis in &plan.axes {
        found = each(found, || some(&axis.extent), |sizes, value| sizes.extents.push(value));
    }
    found.retain(|sizes| sizes.extents.iter().product::<i64>() <= RANKS);
    for param in &plan.params {
        found = match &param.count {
            None => {
                each(found, || some(&param.values), |sizes, value| sizes.params.push(vec![value]))
            }
            // Lists whose elements all differ where they may.
            Some(count) => each(
                found,
                || vec![0],
                |sizes, _| {
                    let values = some(&param.values);
                    let count = usize::try_from(number(count, sizes)).unwrap_or_default();
                    sizes.params.push(values.into_iter().cycle().take(count).collect());
                },
            ),
        };
    }
    found.retain(|sizes| plan.promises.iter().all(|promise| holds(&promise.condition, sizes)));
    found.sort_by_key(|sizes| {
        (sizes.extents.iter().product::<i64>(), sizes.extents.clone(), sizes.params.clone())
    });
    for sizes in &mut found {
        let axes = plan
            .axes
            .iter()
            .zip(&sizes.extents)
            .map(|(axis, extent)| format!("{} = {extent}", axis.name));
        let params = plan
            .params
            .iter()
            .zip(&sizes.params)
            .map(|(param, value)| format!("{} = {value:?}", param.name));
        sizes.text = axes.chain(params).collect::<Vec<_>>().join(", ");
    }
    found
}

/// The plan for a few sizes: whatever may be any number is one of four.
pub(crate) fn few(mut plan: Plan) -> Plan {
    let extents = plan.axes.iter_mut().map(|axis| &mut axis.extent);
    for values in extents.chain(plan.params.iter_mut().map(|param| &mut param.values)) {
        if let Values::AtLeast(first) = *values {
            *values = Values::Range(first, first + 3);
        }
    }
    plan
}

fn each(
    found: Vec<Sizes>,
    values: impl Fn() -> Vec<i64>,
    push: impl Fn(&mut Sizes, i64),
) -> Vec<Sizes> {
    let mut more = Vec::new();
    for sizes in found {
        for value in values() {
            let mut sizes = sizes.clone();
            push(&mut sizes, value);
            more.push(sizes);
        }
    }
    more
}

fn some(values: &Values) -> Vec<i64> {
    match values {
        Values::Exactly(only) => vec![*only],
        Values::OneOf(list) => list.iter().copied().take(EACH).collect(),
        Values::Range(first, last) => (*first..=*last).collect(),
        Values::Powers(of) => (0..4).map(|nth| of.pow(nth)).collect(),
        Values::AtLeast(first) => (*first..).take(EACH).chain([first + 7, first + 8]).collect(),
    }
}

fn holds(condition: &Condition, sizes: &Sizes) -> bool {
    match condition {
        Condition::Compare(left, how, right) => {
            how.holds(number(left, sizes), number(right, sizes))
        }
        Condition::All(list) => list.iter().all(|one| holds(one, sizes)),
        Condition::Any(list) => list.iter().any(|one| holds(one, sizes)),
        Condition::Not(one) => !holds(one, sizes),
    }
}

fn number(expr: &Expr, sizes: &Sizes) -> i64 {
    let two = |a: &Expr, b: &Expr| (number(a, sizes), number(b, sizes));
    match expr {
        Expr::Int(value) => *value,
        Expr::Size => sizes.extents.iter().product(),
        Expr::Extent(axis) => sizes.extents[axis.index()],
        Expr::Param(param) => sizes.params[param.index()][0],
        Expr::Add(a, b) => {
            let (a, b) = two(a, b);
            a + b
        }
        Expr::Sub(a, b) => {
            let (a, b) = two(a, b);
            a - b
        }
        Expr::Mul(a, b) => {
            let (a, b) = two(a, b);
            a * b
        }
        Expr::Div(a, b) => {
            let (a, b) = two(a, b);
            a.div_euclid(b)
        }
        Expr::Rem(a, b) => {
            let (a, b) = two(a, b);
            a.rem_euclid(b)
        }
        _ => panic!("a promise does not mention {expr:?}"),
    }
}
