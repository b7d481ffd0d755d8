//! Numbers of a plan under construction, and lists of them.

use std::ops::Neg;

use super::arena::{Stamp, Value};
use super::guard::Guard;
use crate::ir::{Comparison, Operator, ParamId, arithmetic};

/// A whole number that the plan computes with: a rank, a size, a parameter, a loop counter, or the
/// result of `+ - * / %`, `min` and `max`.
///
/// It is `Copy`, so that `(r + 1) % n` and `h..2 * h` work as written. Division rounds down and `%`
/// is never negative.
///
/// See the example of [`PlanBuilder`](super::PlanBuilder).
#[derive(Clone, Copy, Debug)]
pub struct Number(pub(crate) Value);

/// A parameter that is a list of numbers.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub(crate) of: Stamp,
    pub(crate) id: ParamId,
}

arithmetic!(Number, Guard);

impl Number {
    fn of_two(operator: Operator, left: Self, right: Self) -> Self {
        Self(Value::binary(operator, left.0, right.0))
    }

    fn compare(self, comparison: Comparison, other: Self) -> Guard {
        Guard::compare(self, comparison, other)
    }
}

impl List {
    /// The element at that index, from 0.
    pub fn at(self, index: impl Into<Number>) -> Number {
        Number(index.into().0.element(self.of, self.id))
    }
}

impl Neg for Number {
    type Output = Self;

    fn neg(self) -> Self {
        0 - self
    }
}

impl From<i64> for Number {
    fn from(value: i64) -> Self {
        Self(Value::Int(value))
    }
}

impl From<i32> for Number {
    fn from(value: i32) -> Self {
        Self(Value::Int(value.into()))
    }
}

impl From<usize> for Number {
    fn from(value: usize) -> Self {
        Self(i64::try_from(value).map_or(Value::Impossible, Value::Int))
    }
}
