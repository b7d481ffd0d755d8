//! The data types, and all that follows from one: a new one is a variant of [`DType`] and a row of
//! [`data_types!`].

use std::fmt;

use serde::{Deserialize, Serialize};
use typed_nccl_plan::ir::ElementType;

use super::complex::Complex;
use super::plain::PlainType;
use super::{Element, Integer, Numeric, Primitive, sealed};

/// A data type, as a value.
///
/// ```
/// # use typed_nccl::{DType, Element, Result};
/// # fn main() -> Result<()> {
/// assert_eq!(f32::DTYPE, DType::F32);
/// assert_eq!((DType::F32.size(), DType::F32.to_string()), (4, "f32".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DType {
    /// `i8`
    I8,
    /// `u8`
    U8,
    /// `i32`
    I32,
    /// `u32`
    U32,
    /// `i64`
    I64,
    /// `u64`
    U64,
    /// `half::f16`
    F16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `half::bf16`
    Bf16,
    /// `float8::F8E4M3`
    F8E4M3,
    /// `float8::F8E5M2`
    F8E5M2,
    /// `i16`, which NCCL lacks
    I16,
    /// `u16`, which NCCL lacks
    U16,
    /// [`Bool`](crate::Bool), which NCCL lacks
    Bool,
    /// `num_complex::Complex<f32>`, which NumPy and torch call `complex64`
    ComplexF32,
    /// `num_complex::Complex<f64>`, which NumPy and torch call `complex128`
    ComplexF64,
    /// A [`Plain`](crate::Plain) type
    Plain(&'static PlainType),
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
    /// floating-point formats of IEEE 754, 5 for complex numbers of those, 6 for truth values, and
    /// others for other floats.
    pub(crate) dlpack: u8,
    /// The type's name in CUDA C++.
    pub(crate) cuda: &'static str,
    /// The header of CUDA that declares it, if C++ lacks it.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code))]
    pub(crate) header: Option<&'static str>,
}

/// Gives the table of data types to `$then`. In a row: the variant and the Rust type; whether that
/// is an integer or a float of Rust, a small float, with the fields of `convert::Small`, or a truth
/// value; then the fields of [`Names`]. NCCL's own come first, by NCCL's numbers.
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
            (I16, i16, (Int), "i16", "int16", 0, "short", None)
            (U16, u16, (Int), "u16", "uint16", 1, "unsigned short", None)
            (Bool, $crate::Bool, (Truth), "bool", "bool", 6, "unsigned char", None)
        }
    };
}

macro_rules! kinds {
    ((Truth) $type:ty) => {};
    ((Int) $type:ty) => {
        impl Numeric for $type {}
        impl Integer for $type {}
    };
    ($float:tt $type:ty) => {
        impl Numeric for $type {}
    };
}

macro_rules! define {
    ([] $((
        $dtype:ident, $type:ty, $how:tt, $name:literal,
        $python:literal, $dlpack:literal, $cuda:literal, $header:expr
    ))+) => {
        /// The numbers of the data types, by their rows.
        #[repr(u8)]
        enum Row {
            $($dtype,)+
            ComplexF32,
            ComplexF64,
        }

        impl DType {
            /// Every data type that is not a [`Plain`](crate::Plain) type: NCCL's twelve, in NCCL's
            /// order, then those that NCCL lacks.
            pub const ALL: [Self; 17] = [$(Self::$dtype,)+ Self::ComplexF32, Self::ComplexF64];

            /// Its place in [`ALL`](Self::ALL): NCCL's number, if NCCL has it. Past the end for
            /// plain types.
            #[inline]
            const fn row(self) -> usize {
                match self {
                    $(Self::$dtype => Row::$dtype as usize,)+
                    Self::ComplexF32 => Row::ComplexF32 as usize,
                    Self::ComplexF64 => Row::ComplexF64 as usize,
                    Self::Plain(_) => Self::ALL.len(),
                }
            }

            /// What others call it; nothing for plain types.
            pub(crate) const fn names(self) -> Names {
                match self {
                    $(Self::$dtype => Names {
                        name: $name,
                        python: $python,
                        dlpack: $dlpack,
                        cuda: $cuda,
                        header: $header,
                    },)+
                    Self::ComplexF32 => complex("complex<f32>", "complex64"),
                    Self::ComplexF64 => complex("complex<f64>", "complex128"),
                    // DLPack's opaque handle, which is exported nowhere.
                    Self::Plain(_) => Names {
                        name: "plain data",
                        python: "void",
                        dlpack: 3,
                        cuda: "void",
                        header: None,
                    },
                }
            }

            /// The size of one element, in bytes.
            #[inline]
            pub const fn size(self) -> usize {
                match self {
                    $(Self::$dtype => size_of::<$type>(),)+
                    Self::ComplexF32 => size_of::<Complex<f32>>(),
                    Self::ComplexF64 => size_of::<Complex<f64>>(),
                    Self::Plain(plain) => plain.size(),
                }
            }

            /// The alignment of one element, in bytes.
            pub(crate) const fn align(self) -> usize {
                match self {
                    $(Self::$dtype => align_of::<$type>(),)+
                    Self::ComplexF32 => align_of::<Complex<f32>>(),
                    Self::ComplexF64 => align_of::<Complex<f64>>(),
                    Self::Plain(plain) => plain.align(),
                }
            }

            /// The same type in plans. A plan has complex numbers and plain types by its type
            /// parameters only; without a name, they are not moved by kernels.
            pub(crate) const fn in_plans(self) -> ElementType {
                match self {
                    $(Self::$dtype => ElementType::$dtype,)+
                    Self::ComplexF32 | Self::ComplexF64 | Self::Plain(_) => {
                        ElementType::Generic(String::new())
                    }
                }
            }
        }

        $(
            impl sealed::Sealed for $type {}

            // SAFETY: a primitive number, or a `repr(transparent)` wrapper of u8 or u16 that
            // accepts every bit pattern (`from_bits`, `FromBytes`); `DType::size` is the type's.
            #[diagnostic::do_not_recommend]
            unsafe impl Element for $type {
                const DTYPE: DType = DType::$dtype;
            }

            impl Primitive for $type {}

            kinds!($how $type);
        )+
    };
}

data_types!([define] []);

/// What others call complex numbers. C++'s own types are aligned to more than their parts.
const fn complex(name: &'static str, python: &'static str) -> Names {
    Names { name, python, dlpack: 5, cuda: "void", header: None }
}

macro_rules! arms {
    (
        [$value:expr, $name:ident, $then:expr, $other:expr]
        $(($dtype:ident, $type:ty, $($names:tt)*))+
    ) => {
        match $value {
            $($crate::DType::$dtype => {
                type $name = $type;
                $then
            })+
            $crate::DType::ComplexF32 | $crate::DType::ComplexF64 | $crate::DType::Plain(_) => {
                $other
            }
        }
    };
}

/// Evaluates `$then` with `$name` as the Rust type of a data type, `$other` for a complex or plain
/// one.
macro_rules! with_primitive {
    ($dtype:expr, $name:ident => $then:expr, _ => $other:expr) => {
        $crate::element::data_types!(
            [$crate::element::arms] [$dtype, $name, $then, $other]
        )
    };
}

pub(crate) use {arms, data_types, with_primitive};

impl DType {
    /// NCCL's number of it, its `ncclDataType_t`; `None` for types that NCCL lacks and moves as
    /// bytes.
    #[inline]
    pub const fn nccl_number(self) -> Option<u8> {
        let row = self.row();
        if row < 12 { Some(row as u8) } else { None }
    }

    /// The size of `len` elements in bytes, if a buffer can hold them.
    pub(crate) fn bytes_of(self, len: usize) -> Option<usize> {
        len.checked_mul(self.size()).filter(|&bytes| isize::try_from(bytes).is_ok())
    }

    /// Whether it is a floating-point type.
    #[inline]
    pub const fn is_float(self) -> bool {
        matches!(self.names().dlpack, 2 | 4 | 7..)
    }

    /// Whether it is an integer: what [`BitAnd`](crate::BitAnd) reduces.
    #[inline]
    pub const fn is_integer(self) -> bool {
        self.names().dlpack < 2
    }

    /// The type of a complex number's two parts.
    #[inline]
    pub(crate) const fn part(self) -> Option<Self> {
        match self {
            Self::ComplexF32 => Some(Self::F32),
            Self::ComplexF64 => Some(Self::F64),
            _ => None,
        }
    }

    /// Whether it is one of the types that are numbers or truth values in one piece: what fills,
    /// conversions and kernels take.
    #[inline]
    pub(crate) const fn is_primitive(self) -> bool {
        !matches!(self, Self::Plain(_)) && self.part().is_none()
    }

    /// A number that is the same in all processes.
    #[inline]
    pub(crate) fn digest(self) -> u64 {
        match self {
            Self::Plain(plain) => plain.digest(),
            other => other.row() as u64,
        }
    }

    /// NumPy's letter for the kind; `None` for a type that NumPy lacks.
    #[cfg_attr(not(feature = "python"), expect(dead_code))]
    pub(crate) const fn kind(self) -> Option<char> {
        match self.names().dlpack {
            0 => Some('i'),
            1 => Some('u'),
            2 => Some('f'),
            5 => Some('c'),
            6 => Some('b'),
            _ => None,
        }
    }
}

/// For records of calls.
#[cfg(feature = "cuda")]
impl DType {
    /// A number in this process, which [`numbered`](Self::numbered) reads.
    #[inline]
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Plain(plain) => Self::ALL.len() as u8 + plain.number(),
            other => other.row() as u8,
        }
    }

    /// Whether its number is its own.
    pub(crate) fn is_told_apart(self) -> bool {
        !matches!(self, Self::Plain(plain) if plain.is_one_of_many())
    }

    /// The data type of a number of this process.
    pub(crate) fn numbered(number: u8) -> Option<Self> {
        let plain = |past| PlainType::numbered(past).map(Self::Plain);
        let own = Self::ALL.get(usize::from(number)).copied();
        own.or_else(|| number.checked_sub(Self::ALL.len() as u8).and_then(plain))
    }
}

impl DType {
    /// NCCL's, for messages.
    pub(crate) fn of_nccl() -> String {
        let its = Self::ALL.into_iter().filter(|dtype| dtype.nccl_number().is_some());
        let names: Vec<_> = its.map(|dtype| dtype.names().name).collect();
        names.join(", ")
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(plain) => plain.fmt(f),
            other => f.write_str(other.names().name),
        }
    }
}
