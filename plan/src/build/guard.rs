//! Conditions of a plan under construction.

use std::ops::Not;

use super::arena::{Stamp, Value};
use super::number::Number;
use crate::ir::shape::{DEEP_CONDITION, LARGE_CONDITION, Limit, Shape};
use crate::ir::{Comparison, Condition};

/// A condition: `r.eq(0)`, `m.ge(4 * h)`, and combinations with `and`, `or` and `!`.
#[derive(Clone, Debug)]
#[must_use]
pub struct Guard {
    inner: Inner,
    pub(crate) shape: Result<Shape, Limit>,
}

#[derive(Clone, Debug)]
enum Inner {
    Compare(Number, Comparison, Number),
    All(Vec<Guard>),
    Any(Vec<Guard>),
    Not(Box<Guard>),
    /// Nested too deeply, or too many parts: the content is discarded.
    Beyond,
}

impl Guard {
    pub(crate) fn compare(left: Number, comparison: Comparison, right: Number) -> Self {
        // A number beyond the limits is reported as a number.
        let shape = Shape::ONE.and(left.0.size()).and(right.0.size()).fits();
        Self::new(Inner::Compare(left, comparison, right), shape)
    }

    /// Both hold.
    pub fn and(self, other: Self) -> Self {
        Self::around(vec![self, other], Inner::All)
    }

    /// At least one holds.
    pub fn or(self, other: Self) -> Self {
        Self::around(vec![self, other], Inner::Any)
    }

    /// `then` if it holds, else `otherwise`: `r.eq(0).choose(1, k)`.
    pub fn choose(self, then: impl Into<Number>, otherwise: impl Into<Number>) -> Number {
        Number(Value::choice(self, then.into().0, otherwise.into().0))
    }

    /// The builder of one of its numbers.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        match &self.inner {
            Inner::Compare(left, _, right) => left.0.stamp().or_else(|| right.0.stamp()),
            Inner::All(list) | Inner::Any(list) => list.iter().find_map(Self::stamp),
            Inner::Not(one) => one.stamp(),
            Inner::Beyond => None,
        }
    }

    /// Whether it holds, if it compares literals only.
    pub(crate) fn holds(&self) -> bool {
        match &self.inner {
            Inner::Compare(Number(Value::Int(left)), comparison, Number(Value::Int(right))) => {
                comparison.holds(*left, *right)
            }
            Inner::All(list) => list.iter().all(Self::holds),
            Inner::Any(list) => list.iter().any(Self::holds),
            Inner::Not(one) => !one.holds(),
            Inner::Compare(..) | Inner::Beyond => false,
        }
    }

    fn around(inner: Vec<Self>, make: impl FnOnce(Vec<Self>) -> Inner) -> Self {
        let shapes: Result<Vec<Shape>, Limit> = inner.iter().map(|one| one.shape).collect();
        let shape = shapes.and_then(|shapes| Shape::around(shapes).fits());
        Self::new(make(inner), shape)
    }

    fn new(inner: Inner, shape: Result<Shape, Limit>) -> Self {
        Self { inner: if shape.is_ok() { inner } else { Inner::Beyond }, shape }
    }

    pub(crate) fn condition(self, of: Stamp) -> Result<Condition, &'static str> {
        match self.shape {
            Err(Limit::Depth) => return Err(DEEP_CONDITION),
            Err(Limit::Parts) => return Err(LARGE_CONDITION),
            Ok(_) => {}
        }
        let all = |list: Vec<Self>| {
            list.into_iter().map(|one| one.condition(of)).collect::<Result<_, _>>()
        };
        Ok(match self.inner {
            Inner::Compare(left, comparison, right) => {
                Condition::Compare(left.0.expr(of)?, comparison, right.0.expr(of)?)
            }
            Inner::All(list) => Condition::All(all(list)?),
            Inner::Any(list) => Condition::Any(all(list)?),
            Inner::Not(one) => Condition::Not(Box::new(one.condition(of)?)),
            Inner::Beyond => return Err(DEEP_CONDITION),
        })
    }
}

impl Not for Guard {
    type Output = Self;

    fn not(self) -> Self {
        let shape = self.shape.and_then(|shape| Shape::around([shape]).fits());
        Self::new(Inner::Not(Box::new(self)), shape)
    }
}
