//! Conditions that tell ranks of an endless axis apart: by how near an end they are, or by a remainder.
//!
//! `r < 2`, `r >= n - 3` and `r != n - 1` hold for all ranks but a few near one end, or for these few alone;
//! `r % 2 == 0` holds for every second one. However they are combined, the ranks fall into finitely many
//! classes: those near the low end, each for itself; those near the high end, each for itself; the others by
//! their remainder. What any other condition tells apart is not known from some numbers of ranks.

use crate::ir::{Condition, Expr, Plan, Step, StepKind, Values};

/// Numbers in conditions are at most this large.
const LARGE: i64 = 1 << 20;

/// How conditions tell the ranks along an axis apart, or promises the numbers of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Classes {
    /// Ranks nearer than this to an end may be each for itself. Of promises: from this number of ranks on,
    /// the remainder alone decides.
    pub(crate) near: i64,
    /// The others are alike if they leave the same remainder by this.
    pub(crate) every: i64,
}

impl Classes {
    const ONE: Self = Self { near: 0, every: 1 };

    fn and(self, other: Self) -> Option<Self> {
        let every = least_common_multiple(self.every, other.every)?;
        Some(Self { near: self.near.max(other.near), every })
    }
}

/// What is read from a comparison.
#[derive(Clone, Copy)]
struct Comparison {
    axis: usize,
    by_rank: bool,
    classes: Classes,
}

/// Reads conditions, for axes of which only some extents are looked at.
pub(crate) struct Guards<'a> {
    plan: &'a Plan,
    endless: &'a [bool],
}

/// An expression as so many times the coordinate, so many times the extent, and a number.
type Linear = (i64, i64, i64);

impl<'a> Guards<'a> {
    pub(crate) fn new(plan: &'a Plan, endless: &'a [bool]) -> Self {
        Self { plan, endless }
    }

    /// Whether some part of a condition is such, outside comparisons that only tell classes of ranks apart.
    pub(crate) fn any_other(
        &self,
        condition: &Condition,
        is: &mut dyn FnMut(&Expr) -> bool,
    ) -> bool {
        match condition {
            Condition::Compare(a, _, b) => {
                let is_read = self.comparison(a, b).is_some_and(|read| read.by_rank);
                !is_read && (a.any(&mut *is) || b.any(&mut *is))
            }
            Condition::All(list) | Condition::Any(list) => {
                list.iter().any(|one| self.any_other(one, is))
            }
            Condition::Not(one) => self.any_other(one, is),
        }
    }

    /// Whether a condition tells ranks of an endless axis apart, by their class.
    pub(crate) fn tells_apart(&self, condition: &Condition) -> bool {
        let mut found = false;
        self.comparisons(condition, &mut |read| {
            found |= read.is_some_and(|read| read.by_rank);
        });
        found
    }

    /// Whether a promise speaks of the numbers of ranks alone, and so that from some number on only the
    /// remainder of it decides.
    pub(crate) fn is_promise(&self, condition: &Condition) -> bool {
        let mut fine = true;
        self.comparisons(condition, &mut |read| fine &= read.is_some_and(|read| !read.by_rank));
        fine
    }

    /// How all conditions of the plan tell the ranks of each axis apart; `None` where none does. Of an axis
    /// where they tell too many apart, the classes are more than any number of ranks.
    pub(crate) fn classes(&self) -> Vec<Option<Classes>> {
        let mut found = vec![None; self.plan.axes.len()];
        self.steps(&self.plan.steps, &mut found);
        found
    }

    /// How all promises tell the extents of each axis apart.
    pub(crate) fn promised(&self) -> Vec<Classes> {
        let mut found = vec![None; self.plan.axes.len()];
        for promise in &self.plan.promises {
            self.comparisons(&promise.condition, &mut |read| {
                if let Some(read) = read.filter(|read| !read.by_rank) {
                    add(&mut found, read);
                }
            });
        }
        found.into_iter().map(|of| of.unwrap_or(Classes::ONE)).collect()
    }

    fn steps(&self, steps: &[Step], found: &mut [Option<Classes>]) {
        for step in steps {
            match &step.kind {
                StepKind::When(this) => {
                    self.comparisons(&this.condition, &mut |read| {
                        if let Some(read) = read.filter(|read| read.by_rank) {
                            add(found, read);
                        }
                    });
                    self.steps(&this.body, found);
                }
                StepKind::Loop(this) => self.steps(&this.body, found),
                StepKind::Group(body) | StepKind::Sequence(body) => self.steps(body, found),
                _ => {}
            }
        }
    }

    fn comparisons(&self, condition: &Condition, each: &mut dyn FnMut(Option<Comparison>)) {
        match condition {
            Condition::Compare(a, _, b) => each(self.comparison(a, b)),
            Condition::All(list) | Condition::Any(list) => {
                list.iter().for_each(|one| self.comparisons(one, each));
            }
            Condition::Not(one) => self.comparisons(one, each),
        }
    }

    /// What a comparison of two numbers tells apart, if it is of the kinds above: of one endless axis, with
    /// nothing else in it.
    fn comparison(&self, a: &Expr, b: &Expr) -> Option<Comparison> {
        let mut axis = None;
        let mut by_rank = false;
        let mut other = false;
        let only = self.plan.axes.len() == 1;
        for side in [a, b] {
            side.any(|part| {
                let of = match part {
                    Expr::Coordinate(of) | Expr::Extent(of) => Some(of.index()),
                    Expr::Rank | Expr::Size if only => Some(0),
                    Expr::Rank | Expr::Size => {
                        other = true;
                        None
                    }
                    _ => None,
                };
                by_rank |= matches!(part, Expr::Rank | Expr::Coordinate(_));
                if let Some(of) = of {
                    other |= !self.endless[of] || axis.is_some_and(|axis| axis != of);
                    axis = Some(of);
                }
                other
            });
        }
        let axis = axis.filter(|_| !other)?;
        let classes = self.boundary(a, b).or_else(|| {
            let every = least_common_multiple(self.period(a)?, self.period(b)?)?;
            Some(Classes { near: 0, every })
        })?;
        Some(Comparison { axis, by_rank, classes })
    }

    /// `r < 2`, `r == n - 1`, and for promises `n >= 2`: which side of a place near an end.
    fn boundary(&self, a: &Expr, b: &Expr) -> Option<Classes> {
        let ((x, n, c), (y, m, d)) = (self.linear(a)?, self.linear(b)?);
        let (coordinate, extent, number) = (x - y, n - m, c - d);
        let one_end = extent == 0 || coordinate == 0 || extent == -coordinate;
        one_end.then_some(Classes { near: number.abs() + 1, every: 1 })
    }

    fn linear(&self, expr: &Expr) -> Option<Linear> {
        let (coordinate, extent, number) = match expr {
            Expr::Rank | Expr::Coordinate(_) => (1, 0, 0),
            Expr::Size | Expr::Extent(_) => (0, 1, 0),
            Expr::Add(a, b) => {
                let ((x, n, c), (y, m, d)) = (self.linear(a)?, self.linear(b)?);
                (x + y, n + m, c + d)
            }
            Expr::Sub(a, b) => {
                let ((x, n, c), (y, m, d)) = (self.linear(a)?, self.linear(b)?);
                (x - y, n - m, c - d)
            }
            Expr::Mul(a, b) => {
                let (a, b) = (self.linear(a)?, self.linear(b)?);
                let ((x, n, c), by) = if a.0 == 0 && a.1 == 0 { (b, a.2) } else { (a, b.2) };
                let fixed = (a.0 == 0 && a.1 == 0) || (b.0 == 0 && b.1 == 0);
                if !fixed {
                    return None;
                }
                (x * by, n * by, c * by)
            }
            expr => (0, 0, self.number(expr)?),
        };
        let small = |value: i64| value.abs() <= LARGE;
        (small(coordinate) && small(extent) && small(number))
            .then_some((coordinate, extent, number))
    }

    /// After how many ranks an expression's value comes again: one made of remainders.
    fn period(&self, expr: &Expr) -> Option<i64> {
        match expr {
            Expr::Rem(a, by) => {
                self.linear(a)?;
                self.number(by).filter(|by| *by >= 1)
            }
            Expr::Add(a, b) | Expr::Sub(a, b) => {
                least_common_multiple(self.period(a)?, self.period(b)?)
            }
            expr => self.number(expr).map(|_| 1),
        }
    }

    /// A number that is written, or a parameter that is always the same one.
    fn number(&self, expr: &Expr) -> Option<i64> {
        let value = match expr {
            Expr::Int(value) => *value,
            Expr::Param(id) => {
                let param = &self.plan.params[id.index()];
                match param.values {
                    Values::Exactly(value) if param.count.is_none() => value,
                    _ => return None,
                }
            }
            _ => return None,
        };
        (-LARGE..=LARGE).contains(&value).then_some(value)
    }
}

fn add(found: &mut [Option<Classes>], read: Comparison) {
    const TOO_MANY: Classes = Classes { near: i64::MAX, every: 1 };
    let of = &mut found[read.axis];
    let before = of.unwrap_or(Classes::ONE);
    *of = Some(before.and(read.classes).unwrap_or(TOO_MANY));
}

/// `None` where it is very large.
pub(crate) fn least_common_multiple(a: i64, b: i64) -> Option<i64> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b).filter(|all| *all <= LARGE)
}

#[cfg(test)]
mod tests;
