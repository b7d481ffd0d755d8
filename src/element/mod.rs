//! Elements: NCCL's twelve data types as Rust types.

mod convert;
mod dtype;

pub(crate) use convert::converter;
pub use dtype::DType;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};

/// One of NCCL's data types, as a Rust type.
///
/// # Safety
/// `DTYPE` describes `Self`: the same size, and every bit pattern is a value. Sealed: the list is
/// NCCL's.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a data type that NCCL moves",
    label = "not one of NCCL's twelve data types",
    note = "they are i8, u8, i32, u32, i64, u64, f32, f64, `half::f16`, `half::bf16`, `float8::F8E4M3` and `float8::F8E5M2`"
)]
pub unsafe trait Element:
    Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static + sealed::Sealed
{
    /// The type's run-time name.
    const DTYPE: DType;
}

/// An element that `Sum`, `Prod`, `Min` and `Max` reduce: all twelve.
///
/// On GPUs reductions of the 8-bit floats need compute capability 9.0.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a data type that NCCL reduces",
    label = "no reduction for this data type",
    note = "`Element` is enough to move data; `Numeric` allows `Sum`, `Prod`, `Min` and `Max`, `Float` also `Avg`"
)]
pub trait Numeric: Element {}

/// A floating-point element: what `Avg` reduces.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point type",
    label = "`Avg`, and a kernel for `Float`, need one",
    note = "NCCL would average integers by adding and dividing, which truncates: use `Sum`, and divide where you read the result"
)]
pub trait Float: Numeric {}

/// The contents of memory: an [`Element`], or [`DynElem`], whose data type is known at run time.
pub trait AnyElem: sealed::Sealed + 'static {}

impl<T: Element> AnyElem for T {}

/// Elements whose data type is known at run time: the contents of a
/// [`DynBuffer`](crate::DynBuffer). Operations take them by the same names and check at the call
/// what the compiler would have checked.
#[derive(Clone, Copy, Debug)]
pub enum DynElem {}

impl sealed::Sealed for DynElem {}

impl AnyElem for DynElem {}

/// The bytes of one element, the rest zero.
pub(crate) fn bytes<T: Element>(scalar: T) -> [u8; 8] {
    let mut bytes = [0_u8; 8];
    // SAFETY: every element type is plain data of 1 to 8 bytes without padding (asserted against
    // `DType::size` where they are listed), so its bytes are initialised and fit.
    unsafe {
        std::ptr::copy_nonoverlapping(
            std::ptr::from_ref(&scalar).cast::<u8>(),
            bytes.as_mut_ptr(),
            size_of::<T>(),
        );
    }
    bytes
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),+ $(,)?) => { $(
        impl sealed::Sealed for $type {}

        // SAFETY: a primitive number, or a `repr(transparent)` wrapper of u8 or u16 that accepts
        // every bit pattern (`from_bits`); the assertion below compares the sizes.
        #[diagnostic::do_not_recommend]
        unsafe impl Element for $type {
            const DTYPE: DType = DType::$dtype;
        }

        impl Numeric for $type {}

        static_assertions::const_assert_eq!(size_of::<$type>(), DType::$dtype.size());
    )+ };
}

elements! {
    i8 => I8, u8 => U8, i32 => I32, u32 => U32, i64 => I64, u64 => U64,
    f16 => F16, f32 => F32, f64 => F64, bf16 => Bf16, F8E4M3 => F8E4M3, F8E5M2 => F8E5M2,
}

impl Float for f16 {}
impl Float for f32 {}
impl Float for f64 {}
impl Float for bf16 {}
impl Float for F8E4M3 {}
impl Float for F8E5M2 {}
