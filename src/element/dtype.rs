//! The data types, and all that follows from one: a new one is a variant of [`DType`] and a row of
//! [`data_types!`].

use std::fmt;

use serde::{Deserialize, Serialize};
use typed_nccl_plan::ir::ElementType;

use super::{Element, Numeric, sealed};

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

/// What others call a data type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    /// Our name, in messages.
    pub(crate) name: &'static str,
    /// The name that torch, CuPy and NumPy with `ml_dtypes` share.
    #[cfg_attr(
        not(any(feature = "torch", feature = "cupy", feature = "numpy")),
        expect(dead_code)
    )]
    pub(crate) python: &'static str,
    /// The code that DLPack has for the format: 0 for signed integers, 1 for unsigned ones, 2 for
    /// floating-point formats of IEEE 754, and above that for others.
    pub(crate) dlpack: u8,
    /// The type's name in CUDA C++.
    pub(crate) cuda: &'static str,
    /// The header of CUDA that declares it, if C++ lacks it.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code))]
    pub(crate) header: Option<&'static str>,
}

/// Gives the table of data types to `$then`. In a row: the variant and the Rust type; whether that
/// is an integer or a float of Rust, or a small float, with the fields of `convert::Small`; then
/// the fields of [`Names`].
macro_rules! data_types {
    ([$($then:tt)+] $with:tt) => {
        $($then)+! { $with
            (I8, i8, (Int), "i8", "int8", 0, "signed char", None)
            (U8, u8, (Int), "u8", "uint8", 1, "unsigned char", None)
            (I32, i32, (Int), "i32", "int32", 0, "int", None)
            (U32, u32, (Int), "u32", "uint32", 1, "unsigned int", None)
            (I64, i64, (Int), "i64", "int64", 0, "long long", None)
            (U64, u64, (Int), "u64", "uint64", 1, "unsigned long long", None)
            (F16, half::f16, (Small 10, 15, 0x7c00, 0x7e00), "f16", "float16", 2,
                "__half", Some("cuda_fp16.h"))
            (F32, f32, (Float), "f32", "float32", 2, "float", None)
            (F64, f64, (Float), "f64", "float64", 2, "double", None)
            (Bf16, half::bf16, (Small 7, 127, 0x7f80, 0x7fc0), "bf16", "bfloat16", 4,
                "__nv_bfloat16", Some("cuda_bf16.h"))
            // NCCL's type has no infinities, like OCP's, which Python and DLPack call `fn`.
            (F8E4M3, float8::F8E4M3, (Small 3, 7, 0x7e, 0x7f), "f8e4m3", "float8_e4m3fn", 10,
                "__nv_fp8_e4m3", Some("cuda_fp8.h"))
            (F8E5M2, float8::F8E5M2, (Small 2, 15, 0x7b, 0x7e), "f8e5m2", "float8_e5m2", 12,
                "__nv_fp8_e5m2", Some("cuda_fp8.h"))
        }
    };
}

macro_rules! define {
    ([] $((
        $dtype:ident, $type:ty, $how:tt, $name:literal,
        $python:literal, $dlpack:literal, $cuda:literal, $header:expr
    ))+) => {
        impl DType {
            /// Every data type, in NCCL's order.
            pub const ALL: [Self; 12] = [$(Self::$dtype),+];

            pub(crate) const fn names(self) -> Names {
                match self {
                    $(Self::$dtype => Names {
                        name: $name,
                        python: $python,
                        dlpack: $dlpack,
                        cuda: $cuda,
                        header: $header,
                    }),+
                }
            }

            /// The size of one element, in bytes.
            #[inline]
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$dtype => size_of::<$type>()),+
                }
            }

            /// The alignment of one element, in bytes.
            pub(crate) const fn align(self) -> usize {
                match self {
                    $(Self::$dtype => align_of::<$type>()),+
                }
            }

            /// The same type in plans.
            pub(crate) const fn in_plans(self) -> ElementType {
                match self {
                    $(Self::$dtype => ElementType::$dtype),+
                }
            }
        }

        $(
            impl sealed::Sealed for $type {}

            // SAFETY: a primitive number, or a `repr(transparent)` wrapper of u8 or u16 that
            // accepts every bit pattern (`from_bits`); `DType::size` is the type's.
            #[diagnostic::do_not_recommend]
            unsafe impl Element for $type {
                const DTYPE: DType = DType::$dtype;
            }

            impl Numeric for $type {}
        )+
    };
}

data_types!([define] []);

macro_rules! arms {
    (
        [$value:expr, $name:ident, $then:expr]
        $(($dtype:ident, $type:ty, $($names:tt)*))+
    ) => {
        match $value {
            $($crate::DType::$dtype => {
                type $name = $type;
                $then
            })+
        }
    };
}

/// Evaluates `$then` with `$name` as the Rust type of a data type.
macro_rules! with_element {
    ($dtype:expr, $name:ident => $then:expr) => {
        $crate::element::data_types!([$crate::element::arms] [$dtype, $name, $then])
    };
}

pub(crate) use {arms, data_types, with_element};

impl DType {
    /// Whether it is a floating-point type: what `Avg` reduces.
    #[inline]
    pub const fn is_float(self) -> bool {
        self.names().dlpack >= 2
    }

    /// NumPy's letter for the kind; `None` for a type that NumPy lacks.
    #[cfg_attr(not(feature = "python"), expect(dead_code))]
    pub(crate) const fn kind(self) -> Option<char> {
        match self.names().dlpack {
            0 => Some('i'),
            1 => Some('u'),
            2 => Some('f'),
            _ => None,
        }
    }
}

impl DType {
    /// All of them, for messages.
    pub(crate) fn list() -> String {
        let [names @ .., last] = Self::ALL.map(|dtype| dtype.names().name);
        format!("{} and {last}", names.join(", "))
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names().name)
    }
}
