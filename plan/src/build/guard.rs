//! Conditions of a plan under construction.

use std::ops::Not;

use super::arena::Stamp;
use super::number::Number;
use crate::ir::{Comparison, Condition};

/// Something that holds or does not: `r.eq(0)`, `m.ge(4 * h)`, and what `and`, `or` and `!` make of them.
#[derive(Clone, Debug)]
#[must_use]
pub struct Guard(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Compare(Number, Comparison, Number),
    All(Vec<Guard>),
    Any(Vec<Guard>),
    Not(Box<Guard>),
}

impl Guard {
    pub(crate) fn compare(left: Number, comparison: Comparison, right: Number) -> Self {
        Self(Inner::Compare(left, comparison, right))
    }

    /// Both hold.
    pub fn and(self, other: Self) -> Self {
        Self(Inner::All(vec![self, other]))
    }

    /// One of them holds at least.
    pub fn or(self, other: Self) -> Self {
        Self(Inner::Any(vec![self, other]))
    }

    pub(crate) fn condition(self, of: Stamp) -> Result<Condition, &'static str> {
        let all = |list: Vec<Self>| {
            list.into_iter().map(|one| one.condition(of)).collect::<Result<_, _>>()
        };
        Ok(match self.0 {
            Inner::Compare(left, comparison, right) => {
                Condition::Compare(left.0.expr(of)?, comparison, right.0.expr(of)?)
            }
            Inner::All(list) => Condition::All(all(list)?),
            Inner::Any(list) => Condition::Any(all(list)?),
            Inner::Not(one) => Condition::Not(Box::new(one.condition(of)?)),
        })
    }
}

impl Not for Guard {
    type Output = Self;

    fn not(self) -> Self {
        Self(Inner::Not(Box::new(self)))
    }
}
