//! Reductions. Integers wrap; floats are reduced in 64 bits and rounded once, so that the ranks'
//! order does not matter.

use std::borrow::Cow;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use nccl_sys::{ncclDataType_t as Type, ncclRedOp_t};

/// How elements are reduced.
#[derive(Clone, Copy)]
pub(crate) enum Operation {
    /// A built-in operator of NCCL.
    BuiltIn(ncclRedOp_t),
    /// A sum of the ranks' elements, each scaled by that rank's number, which is on the host.
    Scaled([u8; 8]),
    /// Likewise, with a number on the device, which is read when the operation runs.
    ScaledBy(usize),
}

impl Operation {
    /// A value that equals on ranks with the same reduction.
    pub(super) fn name(self) -> i32 {
        match self {
            Self::BuiltIn(op) => op.0,
            Self::Scaled(_) | Self::ScaledBy(_) => -1,
        }
    }
}

/// An element's size in bytes.
pub(crate) fn width(datatype: Type) -> usize {
    match datatype {
        Type::ncclFloat16 | Type::ncclBfloat16 => 2,
        Type::ncclInt32 | Type::ncclUint32 | Type::ncclFloat32 => 4,
        Type::ncclInt64 | Type::ncclUint64 | Type::ncclFloat64 => 8,
        _ => 1,
    }
}

/// An element, and its accumulator.
trait Element: Copy {
    type Wide: Copy;
    const BYTES: usize;

    fn read(bytes: &[u8]) -> Self::Wide;
    fn write(wide: Self::Wide, bytes: &mut [u8]);
    fn fold(op: ncclRedOp_t, one: Self::Wide, other: Self::Wide) -> Self::Wide;
    fn times(one: Self::Wide, other: Self::Wide) -> Self::Wide;
    fn mean(sum: Self::Wide, of: usize) -> Self::Wide;
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Element for $type {
            type Wide = Self;
            const BYTES: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }

            fn write(wide: Self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&wide.to_ne_bytes());
            }

            fn fold(op: ncclRedOp_t, one: Self, other: Self) -> Self {
                match op {
                    ncclRedOp_t::ncclProd => one.wrapping_mul(other),
                    ncclRedOp_t::ncclMax => one.max(other),
                    ncclRedOp_t::ncclMin => one.min(other),
                    _ => one.wrapping_add(other),
                }
            }

            fn times(one: Self, other: Self) -> Self {
                one.wrapping_mul(other)
            }

            fn mean(sum: Self, of: usize) -> Self {
                // An 8-bit type may not hold so large a number.
                Self::try_from(of).map_or(0, |of| sum / of)
            }
        }
    )* };
}

integers!(i8, u8, i32, u32, i64, u64);

macro_rules! floats {
    ($($type:ty: $bits:ty, $to:expr, $from:expr;)*) => { $(
        impl Element for $type {
            type Wide = f64;
            const BYTES: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> f64 {
                let mut own = [0; size_of::<$bits>()];
                own.copy_from_slice(bytes);
                ($to)(<$type>::from_bits(<$bits>::from_ne_bytes(own)))
            }

            fn write(wide: f64, bytes: &mut [u8]) {
                let own: $type = ($from)(wide);
                bytes.copy_from_slice(&own.to_bits().to_ne_bytes());
            }

            fn fold(op: ncclRedOp_t, one: f64, other: f64) -> f64 {
                match op {
                    ncclRedOp_t::ncclProd => one * other,
                    ncclRedOp_t::ncclMax => one.max(other),
                    ncclRedOp_t::ncclMin => one.min(other),
                    _ => one + other,
                }
            }

            fn times(one: f64, other: f64) -> f64 {
                one * other
            }

            fn mean(sum: f64, of: usize) -> f64 {
                sum / of as f64
            }
        }
    )* };
}

floats! {
    f16: u16, f16::to_f64, f16::from_f64;
    bf16: u16, bf16::to_f64, bf16::from_f64;
    f32: u32, f64::from, |wide| wide as f32;
    f64: u64, |own| own, |wide| wide;
    F8E4M3: u8, |own: F8E4M3| f64::from(own.to_f32()), |wide| F8E4M3::from_f32(wide as f32);
    F8E5M2: u8, |own: F8E5M2| f64::from(own.to_f32()), |wide| F8E5M2::from_f32(wide as f32);
}

/// Does something for the element type of a number.
macro_rules! of_type {
    ($datatype:expr, $function:ident($($argument:expr),*)) => {
        match $datatype {
            Type::ncclInt8 => $function::<i8>($($argument),*),
            Type::ncclInt32 => $function::<i32>($($argument),*),
            Type::ncclUint32 => $function::<u32>($($argument),*),
            Type::ncclInt64 => $function::<i64>($($argument),*),
            Type::ncclUint64 => $function::<u64>($($argument),*),
            Type::ncclFloat16 => $function::<f16>($($argument),*),
            Type::ncclFloat32 => $function::<f32>($($argument),*),
            Type::ncclFloat64 => $function::<f64>($($argument),*),
            Type::ncclBfloat16 => $function::<bf16>($($argument),*),
            Type::ncclFloat8e4m3 => $function::<F8E4M3>($($argument),*),
            Type::ncclFloat8e5m2 => $function::<F8E5M2>($($argument),*),
            _ => $function::<u8>($($argument),*),
        }
    };
}

/// A rank's contribution to a reduction.
pub(super) fn given(datatype: Type, operation: Operation, own: &[u8]) -> Cow<'_, [u8]> {
    let scalar = match operation {
        Operation::BuiltIn(_) => return Cow::Borrowed(own),
        Operation::Scaled(scalar) => scalar,
        Operation::ScaledBy(address) => {
            let mut scalar = [0; 8];
            let bytes = width(datatype);
            // SAFETY: the caller keeps NCCL's contract: the element exists until the operation has
            // run.
            scalar[..bytes].copy_from_slice(unsafe { super::collective::view(address, bytes) });
            scalar
        }
    };
    let mut own = own.to_vec();
    of_type!(datatype, scale(&scalar, &mut own));
    Cow::Owned(own)
}

fn scale<T: Element>(scalar: &[u8; 8], values: &mut [u8]) {
    let by = T::read(&scalar[..T::BYTES]);
    for value in values.chunks_exact_mut(T::BYTES) {
        T::write(T::times(T::read(value), by), value);
    }
}

/// The reduction of the ranks' contributions.
pub(super) fn reduce(datatype: Type, operation: Operation, all: &[&[u8]]) -> Vec<u8> {
    let op = match operation {
        Operation::BuiltIn(op) => op,
        Operation::Scaled(_) | Operation::ScaledBy(_) => ncclRedOp_t::ncclSum,
    };
    of_type!(datatype, folded(op, all))
}

/// How many elements are reduced at once.
const STEP: usize = 4096;

fn folded<T: Element>(op: ncclRedOp_t, all: &[&[u8]]) -> Vec<u8> {
    let Some((first, rest)) = all.split_first() else { return Vec::new() };
    let mut bytes = vec![0; first.len()];
    let step = STEP * T::BYTES;
    let mut sums: Vec<T::Wide> = Vec::with_capacity(STEP);
    for (at, place) in (0..).step_by(step).zip(bytes.chunks_mut(step)) {
        let part = at..at + place.len();
        sums.clear();
        sums.extend(first[part.clone()].chunks_exact(T::BYTES).map(T::read));
        for other in rest {
            let values = other[part.clone()].chunks_exact(T::BYTES).map(T::read);
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = T::fold(op, *sum, value);
            }
        }
        for (sum, place) in sums.iter().zip(place.chunks_exact_mut(T::BYTES)) {
            let is_mean = op == ncclRedOp_t::ncclAvg;
            T::write(if is_mean { T::mean(*sum, all.len()) } else { *sum }, place);
        }
    }
    bytes
}
