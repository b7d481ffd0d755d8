//! The run-time name of an element type.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A data type, as a value. The numbers are `ncclDataType_t`'s.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[non_exhaustive]
#[repr(u8)]
pub enum DType {
    /// `i8`
    I8 = 0,
    /// `u8`
    U8 = 1,
    /// `i32`
    I32 = 2,
    /// `u32`
    U32 = 3,
    /// `i64`
    I64 = 4,
    /// `u64`
    U64 = 5,
    /// `half::f16`
    F16 = 6,
    /// `f32`
    F32 = 7,
    /// `f64`
    F64 = 8,
    /// `half::bf16`
    Bf16 = 9,
    /// `float8::F8E4M3`
    F8E4M3 = 10,
    /// `float8::F8E5M2`
    F8E5M2 = 11,
}

impl DType {
    /// Every data type, in NCCL's order.
    pub const ALL: [Self; 12] = [
        Self::I8,
        Self::U8,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::Bf16,
        Self::F8E4M3,
        Self::F8E5M2,
    ];

    /// Whether it is a floating-point type: what `Avg` reduces.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::Bf16 | Self::F8E4M3 | Self::F8E5M2)
    }

    /// The size of one element, in bytes.
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The alignment of one element, in bytes.
    pub(crate) const fn align(self) -> usize {
        match self.size() {
            8 => align_of::<u64>(),
            size => size,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bf16 => "bf16",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
        })
    }
}
