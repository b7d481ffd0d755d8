//! Arithmetic of the element types, in their accumulators.
//!
//! Integers accumulate in their own type and wrap. `f32` and `f64` accumulate in their own type,
//! and the 16- and 8-bit floats in `f32`. A NaN loses to a number in `smaller` and `larger`.

use std::num::Wrapping;

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
        arith!($type as Wrapping<$type>: Wrapping, |x: Wrapping<Self>| x.0; whole);
    };
    ((Truth) $type:ty) => {
        // Numbers' reductions do not take it.
        arith!($type as Wrapping<u8>: |x: Self| Wrapping(u8::from(x.get())),
            |x: Wrapping<u8>| Self::from(x.0 != 0); whole);
    };
    ((Float) $type:ty) => {
        arith!($type as Self: |x| x, |x| x; fraction);
    };
    ((Small $($format:literal),+) $type:ty) => {
        arith!($type as f32: |x: Self| x.to_f32(), Self::from_f32; fraction);
    };
    ($type:ty as $acc:ty: $raise:expr, $lower:expr; $rest:ident) => {
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
            $rest!($acc);
        }
    };
}

/// Bits are combined in integers and truth values. `Avg` does not take them.
macro_rules! whole {
    ($acc:ty) => {
        fn divide(a: $acc, _: usize) -> $acc {
            a
        }
        #[inline]
        fn bits(a: $acc, b: $acc, by: Bits) -> $acc {
            match by {
                Bits::And => a & b,
                Bits::Or => a | b,
                Bits::Xor => a ^ b,
            }
        }
    };
}

macro_rules! fraction {
    ($acc:ty) => {
        #[inline]
        fn divide(a: $acc, by: usize) -> $acc {
            a / by as $acc
        }
        fn bits(a: $acc, _: $acc, _: Bits) -> $acc {
            a
        }
    };
}

macro_rules! ariths {
    ([] $(($dtype:ident, $type:ty, $how:tt, $($names:tt)*))+) => { $(arith!($how $type);)+ };
}

data_types!([ariths] []);
