//! Operands of numbers.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Expr;
use super::shape::{self, Limit, Shape};

/// An operand of a number, with its depth and size. Operators make it, from numbers within the
/// limits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Subexpr {
    /// Shared, so that copies of large numbers are cheap.
    expr: Arc<Expr>,
    shape: Shape,
}

impl Subexpr {
    /// These numbers as operands of one number.
    pub(super) fn of<const N: usize>(numbers: [Expr; N]) -> Result<[Self; N], Limit> {
        let shapes = numbers.each_ref().map(Expr::shape);
        for shape in shapes {
            shape?;
        }
        Shape::around(shapes.into_iter().flatten()).fits()?;
        let part = |expr: Expr| {
            let shape = expr.shape().unwrap_or(Shape::ONE);
            Self { expr: Arc::new(expr), shape }
        };
        Ok(numbers.map(part))
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// The number.
    pub fn into_expr(self) -> Expr {
        Arc::unwrap_or_clone(self.expr)
    }
}

impl Deref for Subexpr {
    type Target = Expr;

    fn deref(&self) -> &Expr {
        &self.expr
    }
}

impl fmt::Debug for Subexpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl Serialize for Subexpr {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.expr.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Subexpr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let expr: Expr = shape::number(from)?;
        match Self::of([expr]) {
            Ok([part]) => Ok(part),
            Err(Limit::Depth) => Err(D::Error::custom(shape::DEEP_NUMBER)),
            Err(Limit::Parts) => Err(D::Error::custom(shape::LARGE_NUMBER)),
        }
    }
}
