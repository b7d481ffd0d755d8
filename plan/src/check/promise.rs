//! What a plan that is wrong at some sizes only has to ask of its sizes: the `where` that makes it
//! right.
//!
//! Nothing is guessed: of a few plain conditions, one is named if the plan with it passes the very
//! check that the plan without it did not.

use super::initialised::READS;
use super::{Checker, Seen};
use crate::ir::{AxisId, Condition, Expr, Location, ParamId, Plan, Promise};
use crate::program::{Budget, Env};
use crate::sizes::{self, Chosen};
use crate::verdict::{Problem, Sizes};

/// How much work it takes at most to see at which sizes a plan is wrong.
const SEEN_WORK: u64 = 50_000;

/// How many conditions are tried at most: each takes a whole check.
const TRIED: usize = 2;

/// The problems of a plan; only the first, with the condition under which the plan is right, if
/// there is one.
pub(super) fn with_condition(
    checker: &Checker<'_>,
    chosen: &[Sizes],
    mut problems: Vec<Problem>,
) -> Vec<Problem> {
    let Some(condition) = condition(checker, chosen) else { return problems };
    problems.truncate(1);
    let condition = checker.plan.show(&condition);
    for problem in &mut problems {
        let add =
            format!("add `where {condition}`: with it the plan passes this check and all others");
        // Whoever reads what nothing has written may lack a message, at other sizes too.
        if problem.title.starts_with(READS) {
            problem.help.push(format!("or {add}"));
        } else {
            problem.help = vec![add];
        }
    }
    problems
}

/// A condition that excludes the sizes at which a plan is wrong, and hardly any others.
fn condition(checker: &Checker<'_>, chosen: &[Sizes]) -> Option<Condition> {
    let mut budget = Budget::new(SEEN_WORK);
    let seen =
        chosen.iter().map_while(|sizes| Some((sizes, checker.is_right(sizes, &mut budget)?)));
    let seen: Vec<(&Sizes, bool)> = seen.collect();
    if !seen.iter().any(|(_, right)| *right) {
        return None;
    }
    let fitting = |condition| Some((excluded(&condition, &seen)?, condition));
    let mut fitting: Vec<(usize, Condition)> =
        conditions(checker.plan).into_iter().filter_map(fitting).collect();
    fitting.sort_by_key(|(excluded, _)| *excluded);
    let mut tried = fitting.into_iter().map(|(_, condition)| condition).take(TRIED);
    tried.find(|condition| passes(checker.plan, condition))
}

/// The number of right sizes that a condition excludes, if it excludes all wrong sizes and no more
/// right ones than wrong ones.
fn excluded(condition: &Condition, seen: &[(&Sizes, bool)]) -> Option<usize> {
    let (mut kept, mut wrong, mut right) = (Vec::new(), Vec::new(), 0);
    for &(sizes, is_right) in seen {
        let holds = Env::new(&sizes.extents, &sizes.params).holds(condition) == Ok(true);
        match (holds, is_right) {
            (true, false) => return None,
            (true, true) => kept.push(&sizes.extents),
            (false, false) => wrong.push(&sizes.extents),
            (false, true) => right += 1,
        }
    }
    // It must make the plan right for numbers of ranks at which it is wrong, or leave several of
    // them.
    let is_help = if condition.any(&mut |part| matches!(part, Expr::Param(_))) {
        wrong.iter().any(|extents| kept.contains(extents))
    } else {
        kept.iter().any(|extents| *extents != kept[0])
    };
    (is_help && right <= wrong.len()).then_some(right)
}

/// Whether the plan with this condition is right wherever it is looked at.
fn passes(plan: &Plan, condition: &Condition) -> bool {
    let mut plan = plan.clone();
    let (around, condition, at) = (Vec::new(), condition.clone(), Location::default());
    plan.promises.push(Promise { around, condition, at });
    match sizes::chosen(&plan) {
        Chosen::Sizes(chosen) => {
            let checker = Checker::new(&plan);
            let mut seen = Seen::new(checker.plan);
            checker.right(&chosen, &mut seen).is_ok() && seen.unread.problems().is_empty()
        }
        Chosen::TooMany | Chosen::Unfulfilled => false,
    }
}

/// What people write after `where`, the weakest first.
fn conditions(plan: &Plan) -> Vec<Condition> {
    let axes: Vec<Expr> = (0..).zip(&plan.axes).map(|(id, _)| Expr::Extent(AxisId(id))).collect();
    let params = (0..).zip(&plan.params).filter(|(_, param)| param.count.is_none());
    let params: Vec<Expr> = params.map(|(id, _)| Expr::Param(ParamId(id))).collect();
    let mut all = Vec::new();
    for one in axes.iter().chain(&params) {
        all.extend((2..=4).map(|least| one.clone().ge(least)));
        all.extend((2..=4).map(|part| (one.clone() % part).eq(0)));
    }
    for one in &params {
        for other in axes.iter().chain(&params).filter(|other| *other != one) {
            all.push(one.clone().ge(other.clone()));
            all.extend((2..=4).map(|times| one.clone().ge(times * other.clone())));
            all.push((one.clone() % other.clone()).eq(0));
        }
    }
    all
}
