//! All pairs of element types, over values where conversions differ: a device's result must equal
//! Rust's.

use std::any::Any;

use typed_nccl::{Device, Element, F8E4M3, F8E5M2, Numeric, Result, bf16, f16};

/// An element as an exact number, for comparison.
pub(crate) trait Known: Numeric {
    /// All interesting values.
    fn all() -> Vec<Self>;
    /// Without a loss.
    fn exact(self) -> Exact;
    /// Rust's conversion from the exact number.
    fn of(exact: Exact) -> Self;
    fn same(self, other: Self) -> bool;
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Exact {
    Int(i128),
    Float(f64),
}

macro_rules! integers {
    ($($type:ty),+) => { $(
        impl Known for $type {
            fn all() -> Vec<Self> {
                let bits = <$type>::BITS;
                let powers = (0..bits).map(|shift| (1 as $type) << shift);
                // Ties of mantissas of 2, 3, 7, 10, 23 and 52 bits, and their neighbours.
                let ties = [2, 3, 7, 10, 23, 52].into_iter().flat_map(|mantissa: u32| {
                    let odd = [0_u128, 1].map(|last| ((1 << mantissa) | last) * 2 + 1);
                    let fits = odd.map(|odd| (0..bits.saturating_sub(mantissa + 2)).map(move |shift| odd << shift));
                    fits.into_iter().flatten().map(|value| value as $type)
                });
                let all: Vec<_> = powers.chain(ties).chain([0, <$type>::MAX, <$type>::MIN, 42]).collect();
                let beside = |x: $type| [x, x.wrapping_add(1), x.wrapping_sub(1), (0 as $type).wrapping_sub(x)];
                all.into_iter().flat_map(beside).collect()
            }

            fn exact(self) -> Exact {
                Exact::Int(self.into())
            }

            fn of(exact: Exact) -> Self {
                match exact {
                    Exact::Int(value) => value as Self,
                    Exact::Float(value) => value as Self,
                }
            }

            fn same(self, other: Self) -> bool {
                self == other
            }
        }
    )+ };
}

integers!(i8, u8, i32, u32, i64, u64);

/// Building blocks of floats of any width: powers, ties, limits, and their neighbours.
fn floats() -> impl Iterator<Item = f64> {
    let powers = [
        -1074, -1022, -151, -150, -149, -148, -134, -133, -132, -126, -25, -24, -23, -18, -17, -16,
    ]
    .into_iter()
    .chain(-15..18)
    .chain([23, 24, 30, 31, 32, 52, 53, 62, 63, 64, 126, 127, 128, 1023]);
    let mantissas =
        [1.0, 1.0625, 1.125, 1.1875, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 1.9375, 1.96875];
    let small = [2, 3, 7, 10, 23].into_iter().flat_map(|bits| {
        let tie = 1.0 + f64::powi(0.5, bits + 1);
        [tie, tie + f64::powi(0.5, bits), 2.0 - f64::powi(0.5, bits + 1)]
    });
    let mantissas: Vec<f64> = mantissas.into_iter().chain(small).collect();
    let made = powers.flat_map(move |power| {
        // In two steps, as the smallest ones are subnormal.
        let scale = move |x: f64| x * f64::powi(2.0, power / 2) * f64::powi(2.0, power - power / 2);
        mantissas.clone().into_iter().map(scale)
    });
    let limits =
        [0.0, f64::MAX, f64::INFINITY, f64::NAN, 448.0, 464.0, 465.0, 57344.0, 61440.0, 65520.0];
    let limits =
        limits.into_iter().chain([127.5, 128.0, 255.99, 3e38, 3.4028236e38, i64::MAX as f64]);
    made.chain(limits).flat_map(|x: f64| {
        let near =
            [f64::from_bits(x.to_bits().saturating_sub(1)), x, f64::from_bits(x.to_bits() + 1)];
        near.into_iter().flat_map(|x| [x, -x])
    })
}

macro_rules! wide {
    ($($type:ty),+) => { $(
        impl Known for $type {
            fn all() -> Vec<Self> {
                floats().map(|x| x as $type).collect()
            }

            fn exact(self) -> Exact {
                Exact::Float(self.into())
            }

            fn of(exact: Exact) -> Self {
                match exact {
                    Exact::Int(value) => value as Self,
                    Exact::Float(value) => value as Self,
                }
            }

            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
            }
        }
    )+ };
}

wide!(f32, f64);

/// The nearest of all values of a small float, the even one of two, by trying all of them. `step`
/// is the distance from the largest value to the next one beyond it.
fn nearest(exact: Exact, values: &[(u16, f64)], too_large: u16) -> (u16, bool) {
    // Half the distance of two 64-bit integers does not fit a float: compares doubled integers.
    let value = match exact {
        Exact::Float(value) => value,
        Exact::Int(value) => {
            // The sign of the remainder decides ties.
            let near = value as f64;
            let rest = value - near as i128;
            match (near as i128 == value, (rest > 0) == (value > 0)) {
                (true, _) => near,
                (false, true) => f64::from_bits(near.to_bits() + 1),
                (false, false) => f64::from_bits(near.to_bits() - 1),
            }
        }
    };
    let (size, is_negative) = (value.abs(), value.is_sign_negative());
    let after = values.partition_point(|(_, known)| *known <= size);
    let (low, at) = values[after - 1];
    let (last, most) = values[values.len() - 1];
    if after == values.len() {
        // As if there were one more value, at the distance of the last two.
        let next = most + (most - values[values.len() - 2].1);
        let middle = most + (next - most) / 2.0;
        let stays = size < middle || size == middle && last % 2 == 0;
        return (if stays { last } else { too_large }, is_negative);
    }
    let (high, above) = values[after];
    let code = match (size - at).total_cmp(&(above - size)) {
        std::cmp::Ordering::Less => low,
        std::cmp::Ordering::Greater => high,
        std::cmp::Ordering::Equal => {
            if low % 2 == 0 {
                low
            } else {
                high
            }
        }
    };
    (code, is_negative)
}

macro_rules! small {
    ($($type:ty: $bits:ty, $too_large:expr;)+) => { $(
        impl Known for $type {
            fn all() -> Vec<Self> {
                // Not all 16-bit values: the ends of every mantissa, and each exponent.
                let all = 0..=<$bits>::MAX;
                let wanted = |bits: &$bits| {
                    let low = u32::from(*bits) & 0x7f;
                    <$bits>::BITS == 8 || !(2..126).contains(&low) || (63..66).contains(&low)
                };
                all.filter(wanted).map(Self::from_bits).collect()
            }

            fn exact(self) -> Exact {
                Exact::Float(self.to_f64())
            }

            fn of(exact: Exact) -> Self {
                static VALUES: std::sync::LazyLock<Vec<(u16, f64)>> = std::sync::LazyLock::new(|| {
                    let all = (0..=<$bits>::MAX / 2).map(|bits| (u16::from(bits), <$type>::from_bits(bits).to_f64()));
                    all.filter(|(_, value)| value.is_finite()).collect()
                });
                if let Exact::Float(value) = exact && value.is_nan() {
                    return Self::NAN;
                }
                let (code, is_negative) = nearest(exact, &VALUES, $too_large);
                let sign = <$bits>::from(is_negative) << (<$bits>::BITS - 1);
                Self::from_bits(code as $bits | sign)
            }

            fn same(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
                    || self.to_f64().is_nan() && other.to_f64().is_nan()
            }
        }
    )+ };
}

small! {
    f16: u16, 0x7c00;
    bf16: u16, 0x7f80;
    F8E4M3: u8, 0x7e;
    F8E5M2: u8, 0x7b;
}

/// All values of a type, into all types.
fn from<A: Known, D: Device>(device: &D) -> Result<()> {
    let values = A::all();
    let stream = device.stream()?;
    let x = device.from_slice(&values)?;
    macro_rules! into {
        ($($type:ty),+) => { $({
            let mut y = device.zeros::<$type>(values.len())?;
            stream.convert(&x, &mut y)?;
            for (from, to) in values.iter().zip(y.to_vec()?) {
                // A type into itself is a copy.
                let same = (from as &dyn Any).downcast_ref::<$type>();
                let expected = same.copied().unwrap_or_else(|| <$type>::of(from.exact()));
                let (a, b) = (A::DTYPE, <$type as Element>::DTYPE);
                assert!(to.same(expected), "{a} {from:?} to {b}: {to:?}, not {expected:?}");
            }
        })+ };
    }
    into!(i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, F8E4M3, F8E5M2);
    Ok(())
}

pub(crate) fn every_pair<D: Device>(device: &D) -> Result<()> {
    from::<i8, D>(device)?;
    from::<u8, D>(device)?;
    from::<i32, D>(device)?;
    from::<u32, D>(device)?;
    from::<i64, D>(device)?;
    from::<u64, D>(device)?;
    from::<f16, D>(device)?;
    from::<f32, D>(device)?;
    from::<f64, D>(device)?;
    from::<bf16, D>(device)?;
    from::<F8E4M3, D>(device)?;
    from::<F8E5M2, D>(device)
}
