//! Arithmetic of the element types, in their accumulators.
//!
//! Integers accumulate in their own type and wrap. `f32` and `f64` accumulate in their own type,
//! and the 16- and 8-bit floats in `f32`. A NaN loses to a number in `smaller` and `larger`.

use crate::Element;
use crate::element::data_types;

pub(super) trait Arith: Element {
    /// The type that elements accumulate in.
    type Acc: Copy + Default;

    fn raise(self) -> Self::Acc;
    fn lower(acc: Self::Acc) -> Self;
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn multiply(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn smaller(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn larger(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn divide(a: Self::Acc, by: usize) -> Self::Acc;
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
        }
    };
    ((Float) $type:ty) => {
        arith!($type as Self: |x| x, |x| x);
    };
    ((Small $($format:literal),+) $type:ty) => {
        arith!($type as f32: |x: Self| x.to_f32(), Self::from_f32);
    };
    ($type:ty as $acc:ty: $raise:expr, $lower:expr) => {
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
        }
    };
}

macro_rules! ariths {
    ([] $(($dtype:ident, $type:ty, $how:tt, $($names:tt)*))+) => { $(arith!($how $type);)+ };
}

data_types!([ariths] []);
