//! Arithmetic of the element types, in their accumulators.
//!
//! Integers accumulate in their own type and wrap. `f32` and `f64` accumulate in their own type,
//! and the 16- and 8-bit floats in `f32`. A NaN loses to a number in `smaller` and `larger`.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

use crate::Element;

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
    /// Reads the first bytes of eight.
    fn from_bytes(bytes: [u8; 8]) -> Self;
}

/// The first `N` of eight bytes.
fn first<const N: usize>(bytes: [u8; 8]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i])
}

macro_rules! integers {
    ($($type:ty),+) => { $(
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
            fn from_bytes(bytes: [u8; 8]) -> Self {
                Self::from_ne_bytes(first(bytes))
            }
        }
    )+ };
}

integers!(i8, u8, i32, u32, i64, u64);

macro_rules! floats {
    ($($type:ty as $acc:ty: $raise:expr, $lower:expr, $from:expr);+ $(;)?) => { $(
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
            fn from_bytes(bytes: [u8; 8]) -> Self {
                $from(bytes)
            }
        }
    )+ };
}

floats! {
    f32 as f32: |x| x, |x| x, |b| Self::from_ne_bytes(first(b));
    f64 as f64: |x| x, |x| x, |b| Self::from_ne_bytes(first(b));
    f16 as f32: Self::to_f32, Self::from_f32, |b| Self::from_ne_bytes(first(b));
    bf16 as f32: Self::to_f32, Self::from_f32, |b| Self::from_ne_bytes(first(b));
    F8E4M3 as f32: |x: Self| x.to_f32(), Self::from_f32, |b: [u8; 8]| Self::from_bits(b[0]);
    F8E5M2 as f32: |x: Self| x.to_f32(), Self::from_f32, |b: [u8; 8]| Self::from_bits(b[0]);
}
