//! Numbers of a plan under construction, and lists of them.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

use super::arena::{Node, Operator, Stamp, Value};
use super::guard::Guard;
use crate::ir::{Comparison, ParamId};

/// A whole number that the plan computes with: a rank, a size, a parameter, a loop counter, or the
/// result of `+ - * / %`, `min` and `max`.
///
/// It is `Copy`, so that `(r + 1) % n` and `h..2 * h` work as written. Division rounds down and `%`
/// is never negative.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub(crate) Value);

/// A parameter that is a list of numbers.
#[derive(Clone, Copy, Debug)]
pub struct List {
    pub(crate) of: Stamp,
    pub(crate) id: ParamId,
}

impl Number {
    /// The smaller of the two.
    pub fn min(self, other: impl Into<Self>) -> Self {
        Self(Value::binary(Operator::Min, self.0, other.into().0))
    }

    /// The larger of the two.
    pub fn max(self, other: impl Into<Self>) -> Self {
        Self(Value::binary(Operator::Max, self.0, other.into().0))
    }

    /// `self == other`
    pub fn eq(self, other: impl Into<Self>) -> Guard {
        Guard::compare(self, Comparison::Equal, other.into())
    }

    /// `self != other`
    pub fn ne(self, other: impl Into<Self>) -> Guard {
        Guard::compare(self, Comparison::NotEqual, other.into())
    }

    /// `self < other`
    pub fn lt(self, other: impl Into<Self>) -> Guard {
        Guard::compare(self, Comparison::Less, other.into())
    }

    /// `self <= other`
    pub fn le(self, other: impl Into<Self>) -> Guard {
        Guard::compare(self, Comparison::LessOrEqual, other.into())
    }

    /// `self > other`
    pub fn gt(self, other: impl Into<Self>) -> Guard {
        Guard::compare(self, Comparison::Greater, other.into())
    }

    /// `self >= other`
    pub fn ge(self, other: impl Into<Self>) -> Guard {
        Guard::compare(self, Comparison::GreaterOrEqual, other.into())
    }
}

impl List {
    /// The element at that index, from 0.
    pub fn at(self, index: impl Into<Number>) -> Number {
        Number(self.of.push(Node::Element(self.id, index.into().0)))
    }
}

macro_rules! operators {
    ($($trait:ident::$method:ident)+) => {$(
        impl<E: Into<Self>> $trait<E> for Number {
            type Output = Self;

            fn $method(self, other: E) -> Self {
                Self(Value::binary(Operator::$trait, self.0, other.into().0))
            }
        }

        impl $trait<Number> for i64 {
            type Output = Number;

            fn $method(self, other: Number) -> Number {
                Number(Value::binary(Operator::$trait, Value::Int(self), other.0))
            }
        }
    )+};
}

operators! { Add::add Sub::sub Mul::mul Div::div Rem::rem }

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
