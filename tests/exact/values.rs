//! Contributions to exact sums.

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use typed_nccl::Float;

/// A float by its bits.
pub(crate) trait Real: Float {
    const ONE: u64;
    /// The last bit of the exponent.
    const EXPONENT: u32;
    /// A limit, below which 16 contributions do not overflow.
    const MOST: f64;

    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn wide(self) -> f64;
}

macro_rules! reals {
    ($($type:ty: $bits:ty, $one:expr, $exponent:expr, $most:expr, $wide:expr;)+) => { $(
        impl Real for $type {
            const ONE: u64 = $one;
            const EXPONENT: u32 = $exponent;
            const MOST: f64 = $most;

            fn of(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn wide(self) -> f64 {
                $wide(self)
            }
        }
    )+ };
}

reals! {
    f32: u32, 0x3f80_0000, 23, 1e36, f64::from;
    f64: u64, 0x3ff0_0000_0000_0000, 52, 1e300, |x| x;
    f16: u16, 0x3c00, 10, 4000.0, |x: Self| x.to_f64();
    bf16: u16, 0x3f80, 7, 1e36, |x: Self| x.to_f64();
    F8E5M2: u8, 0x3c, 2, 3000.0, |x: Self| x.to_f64();
    F8E4M3: u8, 0x38, 3, 25.0, |x: Self| x.to_f64();
}

/// Random bits that are a function of `key`.
pub(crate) fn hash(key: u64) -> u64 {
    let mut x = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Contribution `nth` to element `at`: some of any magnitude, some that nearly cancel, some of the
/// magnitude of one, some subnormal.
pub(crate) fn contribution<T: Real>(nth: usize, at: usize) -> T {
    let negative = 1 << (8 * size_of::<T>() - 1);
    let random = hash((at * 64 + nth) as u64);
    let pair = hash((at * 64 + nth / 2) as u64 + 7);
    let (bits, sign) = match at % 4 {
        0 => (random, random >> 60 & 1),
        1 => (pair ^ u64::from(random.is_multiple_of(4)), nth as u64 % 2),
        2 => (T::ONE ^ (random & ((1 << T::EXPONENT) - 1)), random >> 60 & 1),
        _ => (random % 16, random >> 60 & 1),
    };
    let x = T::of((bits & (negative - 1)) | (sign * negative));
    if x.wide().abs() < T::MOST { x } else { T::of(T::ONE | (sign * negative)) }
}
