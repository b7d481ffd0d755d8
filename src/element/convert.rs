//! Conversions between element types with the semantics of Rust's `as`; see
//! [`Stream::convert`](crate::Stream::convert).

use super::{DType, Primitive, data_types, with_primitive};

/// A value of any type, without loss.
#[derive(Clone, Copy)]
pub(crate) enum Wide {
    Int(i128),
    Float(f64),
}

impl Wide {
    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

/// Conversion of an element to and from [`Wide`].
pub(crate) trait Convert: Primitive {
    fn wide(self) -> Wide;
    fn narrow(wide: Wide) -> Self;
}

/// Converts `count` elements.
///
/// # Safety
/// `count` elements of the source type can be read and of the target type written there; the ranges
/// do not overlap, and nobody else uses them.
pub(crate) type Converter = unsafe fn(*const u8, *mut u8, usize);

/// The converter between these types.
pub(crate) fn converter(from: DType, to: DType) -> Converter {
    fn into<A: Convert>(to: DType) -> Converter {
        with_primitive!(to, B => run::<A, B>, _ => nothing)
    }
    with_primitive!(from, A => into::<A>(to), _ => nothing)
}

/// Plain types are not converted: `Stream::convert` does not take them.
///
/// # Safety
/// As [`Converter`].
unsafe fn nothing(_: *const u8, _: *mut u8, _: usize) {}

/// # Safety
/// As [`Converter`].
unsafe fn run<A: Convert, B: Convert>(from: *const u8, to: *mut u8, count: usize) {
    let (from, to) = (from.cast::<A>(), to.cast::<B>());
    for index in 0..count {
        // SAFETY: one of the elements, by the caller's promise.
        let from = unsafe { from.add(index) };
        // SAFETY: as above.
        let to = unsafe { to.add(index) };
        // SAFETY: as above; every bit pattern is a value.
        let value = unsafe { from.read() };
        // SAFETY: as above, and nobody else uses it.
        unsafe { to.write(B::narrow(value.wide())) };
    }
}

/// The format of a float of 16 bits or fewer: mantissa bits, exponent bias, and the codes of
/// overflow and NaN.
struct Small {
    mantissa: u32,
    bias: u64,
    top: u64,
    nan: u64,
}

impl Small {
    /// The code of the nearest value, ties to even, without its sign; and the sign.
    fn nearest(&self, wide: Wide) -> (u64, bool) {
        let value = match wide {
            Wide::Int(value) => odd(value),
            Wide::Float(value) => value,
        };
        if value.is_nan() {
            return (self.nan, false);
        }
        let (magnitude, mantissa) = (value.abs(), u64::from(self.mantissa));
        let (bits, shift) = (magnitude.to_bits(), 52 - self.mantissa);
        let code = if bits < (1024 - self.bias) << 52 {
            // The addend is so large that its last place is that of the subnormal numbers.
            let large = f64::from_bits((1076 - self.bias - mantissa) << 52);
            (magnitude + large).to_bits() - large.to_bits()
        } else {
            let half = (1 << (shift - 1)) - 1 + ((bits >> shift) & 1);
            ((bits + half) >> shift) - ((1023 - self.bias) << self.mantissa)
        };
        (code.min(self.top), value.is_sign_negative())
    }
}

/// A 64-bit integer as a float that later rounds as the integer would: an inexact one gets an odd
/// last bit, towards which nothing rounds.
fn odd(value: i128) -> f64 {
    let nearest = value as f64;
    let back = nearest as i128;
    let cut = match back.unsigned_abs() > value.unsigned_abs() {
        true => f64::from_bits(nearest.to_bits() - 1),
        false => nearest,
    };
    match back == value {
        true => nearest,
        false => f64::from_bits(cut.to_bits() | 1),
    }
}

macro_rules! convert {
    (Truth) => {
        #[inline]
        fn wide(self) -> Wide {
            Wide::Int(self.get().into())
        }

        #[inline]
        fn narrow(wide: Wide) -> Self {
            Self::from(match wide {
                Wide::Int(value) => value != 0,
                Wide::Float(value) => value != 0.0,
            })
        }
    };
    (Small $mantissa:literal, $bias:literal, $top:literal, $nan:literal) => {
        #[inline]
        fn wide(self) -> Wide {
            Wide::Float(self.to_f64())
        }

        #[inline]
        fn narrow(wide: Wide) -> Self {
            let small = Small { mantissa: $mantissa, bias: $bias, top: $top, nan: $nan };
            let (code, is_negative) = small.nearest(wide);
            let sign = u64::from(is_negative) << (8 * size_of::<Self>() - 1);
            // The code has as many bits, less the sign's.
            Self::from_bits((code | sign) as _)
        }
    };
    ($wide:ident) => {
        #[inline]
        fn wide(self) -> Wide {
            Wide::$wide(self.into())
        }

        #[inline]
        fn narrow(wide: Wide) -> Self {
            match wide {
                Wide::Int(value) => value as Self,
                Wide::Float(value) => value as Self,
            }
        }
    };
}

macro_rules! converts {
    ([] $(($dtype:ident, $type:ty, ($($how:tt)+), $($names:tt)*))+) => {
        $(impl Convert for $type {
            convert!($($how)+);
        })+
    };
}

data_types!([converts] []);
