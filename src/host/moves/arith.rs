//! Arithmetic of the element types, in their accumulators.
//!
//! Complex numbers are only multiplied: their sums and means are computed as those of floats.
//!
//! Integers accumulate in their own type and wrap. `f32` and `f64` accumulate in their own type,
//! and the 16- and 8-bit floats in `f32`. A NaN loses to a number in `smaller` and `larger`.

use std::num::Wrapping;

use super::{Scale, exact};
use crate::element::{Complex, data_types, from_bytes};

pub(super) trait Arith: Copy + 'static {
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
    /// As many exact sums as there are results, or means.
    fn add_exactly(from: &[&[Self]], is_mean: bool, results: &mut [Self::Acc]);
    /// The scalar of an operator on these elements; the types bind both to one element type.
    fn scalar(scale: &Scale) -> Self;
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
            fn add_exactly(from: &[&[Self]], is_mean: bool, results: &mut [$acc]) {
                exact::reduce(from, is_mean, results);
            }
            fn scalar(scale: &Scale) -> Self {
                match scale {
                    Scale::Host(bytes) => from_bytes(*bytes),
                    Scale::Device(allocation) => {
                        // SAFETY: the memory holds at least one element.
                        let at = unsafe { allocation.block().at(0) };
                        // SAFETY: aligned and initialised; stream order keeps writers before or
                        // after.
                        unsafe { at.cast::<Self>().read() }
                    }
                }
            }
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

macro_rules! multiplied {
    ($($type:ty),+) => { $(
        impl Arith for $type {
            type Acc = Self;

            #[inline]
            fn raise(self) -> Self {
                self
            }
            #[inline]
            fn lower(acc: Self) -> Self {
                acc
            }
            #[inline]
            fn multiply(a: Self, b: Self) -> Self {
                a * b
            }
            fn add(a: Self, b: Self) -> Self {
                a + b
            }
            // Nothing below is reached: other reductions have been refused, or are of floats.
            fn smaller(a: Self, _: Self) -> Self {
                a
            }
            fn larger(a: Self, _: Self) -> Self {
                a
            }
            fn divide(a: Self, _: usize) -> Self {
                a
            }
            fn bits(a: Self, _: Self, _: Bits) -> Self {
                a
            }
            fn add_exactly(_: &[&[Self]], _: bool, _: &mut [Self]) {}
            fn scalar(_: &Scale) -> Self {
                Self::default()
            }
        }
    )+ };
}

multiplied!(Complex<f32>, Complex<f64>);

/// Evaluates `$then` with `$name` as the type that a reduction of a data type computes with,
/// `$other` for a plain type.
macro_rules! with_arith {
    ($dtype:expr, $name:ident => $then:expr, _ => $other:expr) => {
        match $dtype {
            $crate::DType::ComplexF32 => {
                type $name = $crate::element::Complex<f32>;
                $then
            }
            $crate::DType::ComplexF64 => {
                type $name = $crate::element::Complex<f64>;
                $then
            }
            dtype => $crate::element::with_primitive!(dtype, $name => $then, _ => $other),
        }
    };
}

pub(super) use with_arith;
