//! Operators of numbers, and the Rust operators of types that stand for numbers.

use std::fmt;

use super::Expr;
use super::subexpr::Subexpr;

macro_rules! operators {
    ($($(#[$doc:meta])+ $name:ident = $sign:literal;)+) => {
        /// A binary operator of numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operator {
            $($(#[$doc])+ $name,)+
        }

        impl Operator {
            /// As it is written.
            pub const fn sign(self) -> &'static str {
                match self {
                    $(Self::$name => $sign,)+
                }
            }

            fn make(self) -> fn(Subexpr, Subexpr) -> Expr {
                match self {
                    $(Self::$name => Expr::$name,)+
                }
            }
        }

        impl Expr {
            /// Its operator and both operands, if it has two.
            pub fn binary(&self) -> Option<(Operator, &Subexpr, &Subexpr)> {
                match self {
                    $(Self::$name(a, b) => Some((Operator::$name, a, b)),)+
                    _ => None,
                }
            }
        }
    };
}

operators! {
    /// A sum.
    Add = "+";
    /// A difference.
    Sub = "-";
    /// A product.
    Mul = "*";
    /// A quotient, rounded down.
    Div = "/";
    /// A remainder, from 0 to below the divisor.
    Rem = "%";
    /// The smaller of two.
    Min = "min";
    /// The larger of two.
    Max = "max";
    /// The bits in which two differ, which turns `rank` into a partner's.
    Xor = "^";
}

impl Operator {
    /// The result; `None` if it leaves the range of `i64`, or the divisor is below 1.
    pub fn apply(self, left: i64, right: i64) -> Option<i64> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Sub => left.checked_sub(right),
            Self::Mul => left.checked_mul(right),
            Self::Div | Self::Rem if right < 1 => None,
            Self::Div => left.checked_div_euclid(right),
            Self::Rem => left.checked_rem_euclid(right),
            Self::Min => Some(left.min(right)),
            Self::Max => Some(left.max(right)),
            Self::Xor => Some(left ^ right),
        }
    }

    /// The number with these operands.
    pub fn of(self, left: Expr, right: Expr) -> Expr {
        match Subexpr::of([left, right]) {
            Ok([left, right]) => self.make()(left, right),
            Err(limit) => limit.into(),
        }
    }

    /// The number with these operands, computed if both are literals and it has a value.
    pub fn fold(self, left: Expr, right: Expr) -> Expr {
        let value = match (&left, &right) {
            (Expr::Int(left), Expr::Int(right)) => self.apply(*left, *right),
            _ => None,
        };
        value.map_or_else(|| self.of(left, right), Expr::Int)
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sign())
    }
}

/// Operators and comparisons of a type of numbers that has `of_two` and `compare`.
macro_rules! arithmetic {
    ($number:ident, $condition:ident) => {
        arithmetic! { @operators $number:
            Add::add = Add; Sub::sub = Sub; Mul::mul = Mul; Div::div = Div; Rem::rem = Rem;
            BitXor::bitxor = Xor;
        }

        arithmetic! { @comparisons $number, $condition:
            /// `self == other`
            eq = Equal;
            /// `self != other`
            ne = NotEqual;
            /// `self < other`
            lt = Less;
            /// `self <= other`
            le = LessOrEqual;
            /// `self > other`
            gt = Greater;
            /// `self >= other`
            ge = GreaterOrEqual;
        }

        impl $number {
            /// The smaller of the two.
            pub fn min(self, other: impl Into<Self>) -> Self {
                Self::of_two(Operator::Min, self, other.into())
            }

            /// The larger of the two.
            pub fn max(self, other: impl Into<Self>) -> Self {
                Self::of_two(Operator::Max, self, other.into())
            }
        }
    };
    (@operators $number:ident: $($trait:ident::$method:ident = $operator:ident;)+) => {$(
        impl<E: Into<$number>> std::ops::$trait<E> for $number {
            type Output = $number;

            fn $method(self, other: E) -> $number {
                $number::of_two(Operator::$operator, self, other.into())
            }
        }

        impl std::ops::$trait<$number> for i64 {
            type Output = $number;

            fn $method(self, other: $number) -> $number {
                $number::of_two(Operator::$operator, self.into(), other)
            }
        }
    )+};
    (@comparisons $number:ident, $condition:ident:
        $($(#[$doc:meta])+ $method:ident = $comparison:ident;)+) => {
        impl $number {
            $(
                $(#[$doc])+
                pub fn $method(self, other: impl Into<Self>) -> $condition {
                    self.compare(Comparison::$comparison, other.into())
                }
            )+
        }
    };
}

pub(crate) use arithmetic;
