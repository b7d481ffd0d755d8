//! Elements: NCCL's twelve data types as Rust types.

mod convert;
mod dtype;

pub(crate) use convert::{Convert, Wide, converter};
pub use dtype::DType;
pub(crate) use dtype::{arms, data_types, with_element};

/// Those that Rust lacks.
pub(crate) mod foreign {
    pub use float8::{F8E4M3, F8E5M2};
    pub use half::{bf16, f16};
}

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

/// The element that [`bytes`] wrote.
pub(crate) fn from_bytes<T: Element>(bytes: [u8; 8]) -> T {
    // SAFETY: an element has 8 bytes at most, as above, and every bit pattern is a value.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

mod sealed {
    pub trait Sealed {}
}

impl Float for half::f16 {}
impl Float for f32 {}
impl Float for f64 {}
impl Float for half::bf16 {}
impl Float for float8::F8E4M3 {}
impl Float for float8::F8E5M2 {}
