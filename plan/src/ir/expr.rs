//! Whole numbers that a plan computes with: ranks, sizes, parameters, loop counters.

use serde::{Deserialize, Serialize};

use super::shape::{self, Limit, Shape};
use super::subexpr::Subexpr;
use super::words::words;
use super::{AxisId, LoopId, Operator, ParamId, arithmetic};

/// A whole number whose value depends on the ranks, the parameters, this rank and the enclosing
/// loops.
///
/// Division rounds down and `%` is never negative, as indices on a ring need it. Build expressions
/// with operators, [`min`](Self::min), [`max`](Self::max) and [`element`](Self::element). A result
/// that is too deep or too large is [`TooDeep`](Self::TooDeep) or [`TooLarge`](Self::TooLarge),
/// which no valid plan contains.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expr {
    /// A number.
    Int(i64),
    /// This rank's number in the whole plan, from 0.
    Rank,
    /// How many ranks the plan has.
    Size,
    /// This rank's index along an axis, from 0.
    Coordinate(AxisId),
    /// How many ranks an axis has.
    Extent(AxisId),
    /// A parameter.
    Param(ParamId),
    /// An element of a parameter that is a list.
    Element(ParamId, Subexpr),
    /// The counter of an enclosing loop; in the length of an array's buffers, the index.
    Loop(LoopId),
    /// A sum.
    Add(Subexpr, Subexpr),
    /// A difference.
    Sub(Subexpr, Subexpr),
    /// A product.
    Mul(Subexpr, Subexpr),
    /// A quotient, rounded down.
    Div(Subexpr, Subexpr),
    /// A remainder, from 0 to below the divisor.
    Rem(Subexpr, Subexpr),
    /// The smaller of two.
    Min(Subexpr, Subexpr),
    /// The larger of two.
    Max(Subexpr, Subexpr),
    /// The bits in which two differ.
    Xor(Subexpr, Subexpr),
    /// One of two.
    Choice(Box<Choice>),
    /// No number: the element of a list of constants at this index, which it does not have.
    Absent(Subexpr),
    /// An expression that was nested more than [`MOST_NESTING`](super::MOST_NESTING) deep.
    TooDeep,
    /// An expression that had more than [`MOST_OF_ONE`](super::MOST_OF_ONE) parts.
    TooLarge,
}

/// One of two numbers, depending on a condition: `if rank < 2 { 1 } else { k }`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The condition.
    #[serde(deserialize_with = "shape::number")]
    pub condition: Condition,
    /// The number if it holds.
    pub then: Subexpr,
    /// The number if it does not. Only the chosen one needs to have a value.
    pub otherwise: Subexpr,
}

words! {
    /// A comparison operator.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Comparison {
        /// `==`
        Equal = "==",
        /// `!=`
        NotEqual = "!=",
        /// `<`
        Less = "<",
        /// `<=`
        LessOrEqual = "<=",
        /// `>`
        Greater = ">",
        /// `>=`
        GreaterOrEqual = ">=",
    }
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A comparison of two numbers.
    Compare(Expr, Comparison, Expr),
    /// All of these; holds if there are none.
    All(#[serde(deserialize_with = "shape::condition")] Vec<Self>),
    /// At least one of these.
    Any(#[serde(deserialize_with = "shape::condition")] Vec<Self>),
    /// The negation.
    Not(#[serde(deserialize_with = "shape::condition")] Box<Self>),
}

arithmetic!(Expr, Condition);

impl From<i64> for Expr {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<i32> for Expr {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<Limit> for Expr {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Depth => Self::TooDeep,
            Limit::Parts => Self::TooLarge,
        }
    }
}

impl Comparison {
    /// Whether it holds between `left` and `right`.
    pub fn holds(self, left: i64, right: i64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl Expr {
    /// The element of a list at an index, from 0.
    pub fn element(list: ParamId, index: impl Into<Self>) -> Self {
        match Subexpr::of([index.into()]) {
            Ok([index]) => Self::Element(list, index),
            Err(limit) => limit.into(),
        }
    }

    /// The number of a list at an index, which may depend on the rank: one of several by cases.
    pub fn pick(list: &[Self], index: &Self) -> Self {
        let below = |end: usize| index.clone().lt(Self::Int(end as i64));
        let within = Condition::All(vec![index.clone().ge(Self::Int(0)), below(list.len())]);
        let absent = Subexpr::of([index.clone()]).map(|[index]| Self::Absent(index));
        // Halving keeps it shallow.
        fn halved(list: &[Expr], from: usize, below: &dyn Fn(usize) -> Condition) -> Expr {
            let (lower, upper) = list.split_at(list.len() / 2);
            match (lower, upper) {
                ([], [one]) => one.clone(),
                _ => {
                    let middle = from + lower.len();
                    let lower = halved(lower, from, below);
                    Expr::choice(below(middle), lower, halved(upper, middle, below))
                }
            }
        }
        let absent = absent.unwrap_or_else(Self::from);
        if list.is_empty() {
            return absent;
        }
        Self::choice(within, halved(list, 0, &below), absent)
    }

    /// One of two, depending on a condition.
    pub fn choice(condition: Condition, then: Self, otherwise: Self) -> Self {
        let parts = Subexpr::of([then, otherwise]);
        let choice = parts.and_then(|[then, otherwise]| {
            let choice = Choice { condition, then, otherwise };
            choice.shape()?.fits().map(|_| choice)
        });
        choice.map_or_else(Self::from, |choice| Self::Choice(Box::new(choice)))
    }

    fn of_two(operator: Operator, left: Self, right: Self) -> Self {
        operator.of(left, right)
    }

    fn compare(self, comparison: Comparison, other: Self) -> Condition {
        Condition::Compare(self, comparison, other)
    }

    /// This with `by` in place of a counter.
    #[must_use]
    pub fn replace(&self, counter: LoopId, by: &Self) -> Self {
        match (self, self.binary()) {
            (_, Some((operator, left, right))) => {
                operator.fold(left.replace(counter, by), right.replace(counter, by))
            }
            (Self::Loop(id), _) if *id == counter => by.clone(),
            (Self::Element(list, index), _) => Self::element(*list, index.replace(counter, by)),
            (Self::Absent(index), _) => {
                let index = Subexpr::of([index.replace(counter, by)]);
                index.map_or_else(Self::from, |[index]| Self::Absent(index))
            }
            (Self::Choice(choice), _) => {
                let Choice { condition, then, otherwise } = &**choice;
                let (then, otherwise) = (then.replace(counter, by), otherwise.replace(counter, by));
                Self::choice(condition.replace(counter, by), then, otherwise)
            }
            (other, _) => other.clone(),
        }
    }

    /// Its depth and size, if within the limits.
    pub(super) fn shape(&self) -> Result<Shape, Limit> {
        match self {
            Self::TooDeep => Err(Limit::Depth),
            Self::TooLarge => Err(Limit::Parts),
            Self::Choice(choice) => choice.shape(),
            _ => Ok(Shape::around(self.parts().map(Subexpr::shape))),
        }
    }

    /// The number of its parts.
    pub(crate) fn size(&self) -> usize {
        self.shape().map_or(1, |shape| shape.parts)
    }

    /// Whether `is` holds for some part of this, also in its conditions.
    pub fn any(&self, mut is: impl FnMut(&Self) -> bool) -> bool {
        let mut left = vec![self];
        while let Some(expr) = left.pop() {
            if is(expr) {
                return true;
            }
            if let Self::Choice(choice) = expr
                && choice.condition.any(&mut is)
            {
                return true;
            }
            left.extend(expr.parts().map(|part| &**part));
        }
        false
    }

    fn parts(&self) -> impl Iterator<Item = &Subexpr> {
        let (first, second) = match (self, self.binary()) {
            (_, Some((_, a, b))) => (Some(a), Some(b)),
            (Self::Element(_, index) | Self::Absent(index), _) => (Some(index), None),
            (Self::Choice(choice), _) => (Some(&choice.then), Some(&choice.otherwise)),
            _ => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Whether its value can differ between ranks.
    pub fn mentions_rank(&self) -> bool {
        self.any(|part| matches!(part, Self::Rank | Self::Coordinate(_)))
    }
}

impl Choice {
    fn shape(&self) -> Result<Shape, Limit> {
        let parts = [self.then.shape(), self.otherwise.shape(), self.condition.shape()?];
        Ok(Shape::around(parts))
    }
}

impl Condition {
    /// Its depth and size with its numbers, if within the limits. Without recursion.
    fn shape(&self) -> Result<Shape, Limit> {
        let mut left = vec![(self, 1)];
        let mut shape = Shape::ONE;
        while let Some((condition, depth)) = left.pop() {
            let inner = match condition {
                Self::Compare(a, _, b) => Shape::around([a.shape()?, b.shape()?]),
                Self::All(list) | Self::Any(list) => {
                    left.extend(list.iter().map(|one| (one, depth + 1)));
                    Shape::ONE
                }
                Self::Not(one) => {
                    left.push((one, depth + 1));
                    Shape::ONE
                }
            };
            shape.depth = shape.depth.max(depth + inner.depth);
            shape = shape.and(inner.parts).fits()?;
        }
        Ok(shape)
    }

    /// This with `by` in place of a counter.
    fn replace(&self, counter: LoopId, by: &Expr) -> Self {
        let all = |list: &[Self]| list.iter().map(|one| one.replace(counter, by)).collect();
        match self {
            Self::Compare(a, how, b) => {
                Self::Compare(a.replace(counter, by), *how, b.replace(counter, by))
            }
            Self::All(list) => Self::All(all(list)),
            Self::Any(list) => Self::Any(all(list)),
            Self::Not(one) => Self::Not(Box::new(one.replace(counter, by))),
        }
    }

    /// Whether `is` holds for a part of some expression in it.
    pub fn any(&self, is: &mut dyn FnMut(&Expr) -> bool) -> bool {
        match self {
            Self::Compare(a, _, b) => a.any(&mut *is) || b.any(&mut *is),
            Self::All(list) | Self::Any(list) => list.iter().any(|one| one.any(is)),
            Self::Not(one) => one.any(is),
        }
    }

    /// Whether it can hold on one rank and not on another.
    pub fn mentions_rank(&self) -> bool {
        self.any(&mut |part| matches!(part, Expr::Rank | Expr::Coordinate(_)))
    }
}
