//! Arithmetic of the element types, in their accumulators.
//!
//! Integers accumulate in their own type and wrap. `f32` and `f64` accumulate in their own type,
//! and the 16- and 8-bit floats in `f32`. A NaN loses to a number in `smaller` and `larger`.

use crate::element::{Convert, data_types};

pub(super) trait Arith: Convert {
    /// The type that elements accumulate in.
    type Acc: Copy + Default;

    fn raise(self) -> Self::Acc;
    fn lower(acc: Self::Acc) -> Self;
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn multiply(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn smaller(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn larger(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn divide(a: Self::Acc, by: usize) -> Self::Acc;
    fn bits(a: Self::Acc, b: Self::Acc, by: Bits) -> Self::Acc;
}

/// A reduction of bits.
#[derive(Clone, Copy)]
pub(super) enum Bits {
    And,
    Or,
    Xor,
}

macro_rules! arith {
    ((Int) $type:ty) => {
        impl Arith for $type {
            type Acc = Self;

            fn raise(self) -> Self {
                self
            }
            fn lower(acc: Self) -> Self {
                acc
            }
            fn add(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }
            fn multiply(a: Self, b: Self) -> Self {
                a.wrapping_mul(b)
            }
            fn smaller(a: Self, b: Self) -> Self {
                a.min(b)
            }
            fn larger(a: Self, b: Self) -> Self {
                a.max(b)
            }
            fn divide(a: Self, _: usize) -> Self {
                // `Avg` takes floating-point types only.
                a
            }
            #[inline]
            fn bits(a: Self, b: Self, by: Bits) -> Self {
                match by {
                    Bits::And => a & b,
                    Bits::Or => a | b,
                    Bits::Xor => a ^ b,
                }
            }
        }
    };
    ((Truth) $type:ty) => {
        // Numbers' reductions do not take it.
        arith!($type as u8: |x: Self| u8::from(x.get()), |x| Self::from(x != 0); {
            #[inline]
            fn bits(a: u8, b: u8, by: Bits) -> u8 {
                u8::bits(a, b, by)
            }
        });
    };
    ((Float) $type:ty) => {
        arith!($type as Self: |x| x, |x| x; { no_bits!($type); });
    };
    ((Small $($format:literal),+) $type:ty) => {
        arith!($type as f32: |x: Self| x.to_f32(), Self::from_f32; { no_bits!(f32); });
    };
    ($type:ty as $acc:ty: $raise:expr, $lower:expr; { $($bits:tt)* }) => {
        impl Arith for $type {
            type Acc = $acc;

            #[inline]
            fn raise(self) -> $acc {
                $raise(self)
            }
            #[inline]
            fn lower(acc: $acc) -> Self {
                $lower(acc)
            }
            #[inline]
            fn add(a: $acc, b: $acc) -> $acc {
                a + b
            }
            #[inline]
            fn multiply(a: $acc, b: $acc) -> $acc {
                a * b
            }
            #[inline]
            fn smaller(a: $acc, b: $acc) -> $acc {
                a.min(b)
            }
            #[inline]
            fn larger(a: $acc, b: $acc) -> $acc {
                a.max(b)
            }
            #[inline]
            fn divide(a: $acc, by: usize) -> $acc {
                a / by as $acc
            }
            $($bits)*
        }
    };
}

/// Bits are combined in integers and truth values.
macro_rules! no_bits {
    ($acc:ty) => {
        fn bits(a: $acc, _: $acc, _: Bits) -> $acc {
            a
        }
    };
}

macro_rules! ariths {
    ([] $(($dtype:ident, $type:ty, $how:tt, $($names:tt)*))+) => { $(arith!($how $type);)+ };
}

data_types!([ariths] []);
