//! The data types of numbers: their arithmetic in the model, and values to feed them.
//!
//! # Order and rounding
//!
//! The host combines element i of the ranks in rank order, from rank 0 on. Integers wrap. `f32` and
//! `f64` accumulate in their own type; `f16`, `bf16` and the 8-bit floats in `f32`, rounded once at
//! the end (to nearest, ties to even; an 8-bit float that overflows becomes the largest finite one,
//! an infinite `F8E5M2` too). `Avg` divides the accumulator by n at the end; `PreMulSum` multiplies
//! each element in the accumulator's type before it is added. A NaN stays one, whatever its bits;
//! in `Min` and `Max` it loses to a number, and which of two zeros of different sign they give is
//! left open, as `f32::min` leaves it. All else is compared bit for bit.
//!
//! # Tolerance
//!
//! Another backend may combine in any order and may round to the element type at each step. With u
//! the unit roundoff of the type ([`Value::ROUNDOFF`]), n ranks, values of one sign, and neither
//! overflow nor underflow, a result is so far from exact at most, relatively:
//!
//! | reduction | another backend | the host |
//! |---|---|---|
//! | `Sum`, `Prod` | (1 + u)^(n - 1) - 1 | (1 + u) (1 + h)^(n - 1) - 1 |
//! | `PreMulSum` | (1 + u)^n - 1 | (1 + u) (1 + h)^n - 1 |
//! | `Avg`, as `PreMulSum` by a rounded 1/n | (1 + u)^(n + 1) - 1 | (1 + u) (1 + h)^n - 1 |
//! | `Min`, `Max`, all on integers | 0 | 0 |
//!
//! with h the unit roundoff of the host's accumulator: 2^-24, and 2^-53 for `f64`. For `Sum` alone
//! (n - 1) u is a bound too, and with mixed signs (n - 1) u times the sum of the magnitudes. A
//! backend that comes to an 8-bit float by way of `f16` rounds twice at each step; there
//! (1 + u) (1 + 2^-11) - 1 stands for u. Two backends differ by the sum of their bounds at most.
//! `bounds.rs` is the table in numbers; `tolerance.rs` holds both columns against `f64`.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use typed_nccl::{Avg, Numeric, Result, World};

use super::reducing::Reducing;
use super::small;

/// An element in the model.
pub(crate) trait Value: Numeric {
    /// The accumulator.
    type Acc: Copy;

    /// Whether `Avg` accepts the type.
    const FLOAT: bool;
    /// Half the distance from 1 to the next number; 0 for integers.
    const ROUNDOFF: f64;
    /// Bit patterns of edge cases.
    const EDGES: &'static [u64];

    fn raise(self) -> Self::Acc;
    fn lower(acc: Self::Acc) -> Self;
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn mul(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    fn div(a: Self::Acc, n: usize) -> Self::Acc;
    fn less(a: Self::Acc, b: Self::Acc) -> bool;
    fn is_nan(acc: Self::Acc) -> bool;

    fn bits(self) -> u64;
    /// Takes the low bits.
    fn from_bits(bits: u64) -> Self;
    /// The nearest value; an integer truncates and wraps.
    fn near(value: f64) -> Self;
    fn to_f64(self) -> f64;

    /// Makes the call with `Avg`, which integers lack.
    fn average<W: World>(call: impl Reducing<Self, W>) -> Result<()>;
}

macro_rules! integers {
    ($($type:ident as $unsigned:ident),+) => { $(
        impl Value for $type {
            type Acc = Self;

            const FLOAT: bool = false;
            const ROUNDOFF: f64 = 0.0;
            const EDGES: &'static [u64] =
                &[0, 1, u64::MAX, Self::MAX as u64, Self::MIN as u64, Self::MAX as u64 - 1];

            fn raise(self) -> Self {
                self
            }
            fn lower(acc: Self) -> Self {
                acc
            }
            fn add(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }
            fn mul(a: Self, b: Self) -> Self {
                a.wrapping_mul(b)
            }
            fn div(_: Self, _: usize) -> Self {
                unreachable!("integers have no average")
            }
            fn less(a: Self, b: Self) -> bool {
                a < b
            }
            fn is_nan(_: Self) -> bool {
                false
            }
            fn bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
            fn near(value: f64) -> Self {
                value as i64 as Self
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn average<W: World>(_: impl Reducing<Self, W>) -> Result<()> {
                unreachable!("integers have no average")
            }
        }
    )+ };
}

integers!(
    i8 as u8, u8 as u8, i16 as u16, u16 as u16, i32 as u32, u32 as u32, i64 as u64, u64 as u64
);

macro_rules! floats {
    ($(
        $type:ident in $acc:ident: roundoff 2^-$digits:literal, raise $raise:expr,
        lower $lower:expr, edges $edges:expr;
    )+) => { $(
        impl Value for $type {
            type Acc = $acc;

            const FLOAT: bool = true;
            const ROUNDOFF: f64 = 1.0 / (1_u64 << $digits) as f64;
            const EDGES: &'static [u64] = &$edges;

            fn raise(self) -> $acc {
                $raise(self)
            }
            fn lower(acc: $acc) -> Self {
                $lower(acc)
            }
            fn add(a: $acc, b: $acc) -> $acc {
                a + b
            }
            fn mul(a: $acc, b: $acc) -> $acc {
                a * b
            }
            fn div(a: $acc, n: usize) -> $acc {
                a / n as $acc
            }
            fn less(a: $acc, b: $acc) -> bool {
                a < b
            }
            fn is_nan(acc: $acc) -> bool {
                acc.is_nan()
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn from_bits(bits: u64) -> Self {
                Self::from_bits(bits as _)
            }
            fn near(value: f64) -> Self {
                $lower(value as $acc)
            }
            fn to_f64(self) -> f64 {
                $raise(self).into()
            }
            fn average<W: World>(call: impl Reducing<Self, W>) -> Result<()> {
                call.with(Avg)
            }
        }
    )+ };
}

floats! {
    f32 in f32: roundoff 2^-24, raise |x| x, lower |x| x, edges [
        0, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000,
    ];
    f64 in f64: roundoff 2^-53, raise |x| x, lower |x| x, edges [
        0, 1, 0x000f_ffff_ffff_ffff, 0x0010_0000_0000_0000, 0x3ff0_0000_0000_0000,
        0x7fef_ffff_ffff_ffff, 0x7ff0_0000_0000_0000, 0x7ff8_0000_0000_0000,
    ];
    f16 in f32: roundoff 2^-11, raise |x: Self| small::F16.decode(x.to_bits()),
        lower |x| Self::from_bits(small::F16.round(x)),
        edges [0, 1, 0x03ff, 0x0400, 0x3c00, 0x7bff, 0x7c00, 0x7e00];
    bf16 in f32: roundoff 2^-8, raise |x: Self| small::BF16.decode(x.to_bits()),
        lower |x| Self::from_bits(small::BF16.round(x)),
        edges [0, 1, 0x007f, 0x0080, 0x3f80, 0x7f7f, 0x7f80, 0x7fc0];
    F8E4M3 in f32: roundoff 2^-4, raise |x: Self| small::E4M3.decode(x.to_bits().into()),
        lower |x| Self::from_bits(small::E4M3.round(x) as u8),
        edges [0, 1, 0x07, 0x08, 0x38, 0x78, 0x7e, 0x7f];
    F8E5M2 in f32: roundoff 2^-3, raise |x: Self| small::E5M2.decode(x.to_bits().into()),
        lower |x| Self::from_bits(small::E5M2.round(x) as u8),
        edges [0, 1, 0x03, 0x04, 0x3c, 0x7b, 0x7c, 0x7e];
}

/// The kind of a case's elements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Flavor {
    /// From -3 to 3: readable.
    Tame,
    /// Of one order of magnitude, with full mantissas: sums depend on the order.
    Close,
    /// From 1 to 2.
    Positive,
    /// Zeros, ones, limits, infinities, NaN.
    Edges,
    /// Any bits.
    Bits,
}

/// An element that is a function of `key` alone.
pub(crate) fn pick<T: Value>(flavor: Flavor, key: u64) -> T {
    let hash = mix(key);
    match flavor {
        Flavor::Tame => T::near((hash % 7) as f64 - 3.0),
        Flavor::Positive => T::near(mantissa(hash)),
        Flavor::Close if T::FLOAT => {
            let scale = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, -1.0, -2.0][(hash & 7) as usize];
            T::near(mantissa(hash) * scale)
        }
        Flavor::Edges => {
            let sign = if hash & 0x100 == 0 { 0 } else { 1 << (8 * size_of::<T>() - 1) };
            T::from_bits(T::EDGES[(hash & 0xff) as usize % T::EDGES.len()] ^ sign)
        }
        Flavor::Close | Flavor::Bits => T::from_bits(hash),
    }
}

/// From 1 to 2, by the high bits.
fn mantissa(hash: u64) -> f64 {
    1.0 + (hash >> 12) as f64 / (1_u64 << 52) as f64
}

/// Spreads a key over all 64 bits (the finaliser of splitmix64).
pub(crate) fn mix(key: u64) -> u64 {
    let x = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
