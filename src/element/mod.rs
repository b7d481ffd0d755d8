//! Elements: NCCL's twelve data types as Rust types, 16-bit integers, truth values, complex numbers,
//! and plain data of the program's own.
//!
//! Complex numbers are those of the crate `num-complex`, exported with the feature of that name.
//! [`Sum`], [`Avg`] and their exact forms reduce them everywhere, [`Prod`] on the host:
//!
//! ```
//! # #[cfg(feature = "num-complex")] {
//! use typed_nccl::{Complex, Host, Seat, Sum};
//!
//! let comm = Seat::local(1).remove(0).init(Host::local()?)?;
//! let mut x = comm.device().from_slice(&[Complex::new(1.0_f32, -2.0)])?;
//! comm.all_reduce_in_place(&mut x, Sum)?;
//! assert_eq!(x.to_vec()?, [Complex::new(1.0, -2.0)]);
//! comm.finish()?;
//! # }
//! # Ok::<(), typed_nccl::Error>(())
//! ```
//!
//! [`Sum`]: struct@crate::Sum
//! [`Avg`]: struct@crate::Avg
//! [`Prod`]: struct@crate::Prod

mod complex;
mod convert;
mod dtype;
mod plain;
mod truth;
pub mod zerocopy;

pub(crate) use complex::Complex;
pub(crate) use convert::{Convert, Wide, converter};
pub use dtype::DType;
pub(crate) use dtype::{arms, data_types, with_primitive};
pub use plain::{Plain, PlainType};
pub use truth::Bool;

/// Those that Rust lacks.
pub(crate) mod foreign {
    pub use float8::{F8E4M3, F8E5M2};
    pub use half::{bf16, f16};
    #[cfg(feature = "num-complex")]
    pub use num_complex::Complex;
}

/// A type of elements: what buffers hold, and what every operation that only moves data takes.
///
/// NCCL's twelve data types; `i16`, `u16` and [`Bool`]; with the feature `num-complex`,
/// `num_complex::Complex<f32>` and `Complex<f64>`; and types that implement [`Plain`]. NCCL moves
/// those that it lacks as bytes.
///
/// # Safety
/// `DTYPE` describes `Self`: the same size and alignment, and every bit pattern is a value. Sealed:
/// types of a program implement [`Plain`].
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Element, Host, Result, Seat, World};
/// # fn main() -> Result<()> {
/// fn shift<T: Element, W: World>(
///     comm: &mut Communicator<W>,
///     x: &Buffer<T, W::Device>,
///     y: &mut Buffer<T, W::Device>,
/// ) -> Result<()> {
///     let (right, left) = (comm.ring(1), comm.ring(-1));
///     comm.group(|g| {
///         g.send(x, right)?;
///         g.recv(y, left)
///     })
/// }
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// # let (x, mut y) = (comm.device().from_slice(&[7_u8])?, comm.device().zeros(1)?);
/// # shift(&mut comm, &x, &mut y)?;
/// # assert_eq!(y.to_vec()?, [7]);
/// # comm.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type",
    label = "neither one of NCCL's data types nor plain data",
    note = "element types are i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, `half::f16`, `half::bf16`, `float8::F8E4M3`, `float8::F8E5M2`, `typed_nccl::Bool` for truth values, `Complex` with the feature `num-complex`, and structs that implement `Plain`; a type parameter needs `T: Element`",
    note = "for a struct of your own: `#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)] #[zerocopy(crate = \"typed_nccl::zerocopy\")] #[repr(C)]` with the derives of `typed_nccl::zerocopy`, and `impl typed_nccl::Plain for ... {{}}`"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// The type's run-time name.
    const DTYPE: DType;
}

/// A number or truth value: all elements but complex numbers and [`Plain`] types.
///
/// ```
/// # use typed_nccl::{Buffer, Host, Primitive, Result};
/// fn is_clear<T: Primitive>(x: &Buffer<T, Host>) -> Result<bool> {
///     Ok(x.to_vec()?.iter().all(|value| *value == T::default()))
/// }
/// assert!(is_clear(&Host::local()?.zeros::<i16>(4)?)?);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number or truth value",
    label = "complex numbers and plain data can be moved, copied and viewed",
    note = "filling memory and kernels take NCCL's data types, i16, u16 and `typed_nccl::Bool`"
)]
pub trait Primitive: Element + Default + PartialEq + std::fmt::Debug {}

/// An element that `Sum`, `Prod`, `Min` and `Max` reduce: all integers and floats.
///
/// NCCL lacks `i16` and `u16`, so on GPUs reductions of those are refused; 8-bit floats need
/// compute capability 9.0. Complex numbers are not ordered, so they are not `Numeric`; a function for
/// both says `where Sum: ReduceOp<T, W>`.
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Host, Numeric, Result, Seat, Sum, World};
/// # fn main() -> Result<()> {
/// fn sum<T: Numeric, W: World>(
///     comm: &Communicator<W>,
///     x: &mut Buffer<T, W::Device>,
/// ) -> Result<()> {
///     comm.all_reduce_in_place(x, Sum)
/// }
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// # sum(&comm, &mut comm.device().zeros::<u32>(4)?)?;
/// # comm.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a type that all of `Sum`, `Prod`, `Min` and `Max` reduce",
    label = "no such reduction for this data type",
    note = "`Element` is enough to move data; `Numeric` allows `Sum`, `Prod`, `Min` and `Max`, `Float` also `Avg`",
    note = "truth values (`typed_nccl::Bool`) are reduced by `And` and `Or`; complex numbers by `Sum`, `Prod` and `Avg`"
)]
pub trait Numeric: Primitive {}

/// An integer element: what [`BitAnd`](crate::BitAnd), [`BitOr`](crate::BitOr) and
/// [`BitXor`](crate::BitXor) reduce.
///
/// ```
/// # use typed_nccl::{BitOr, Buffer, Communicator, Host, Integer, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn union<T: Integer>(comm: &Communicator<Host>, masks: &mut Buffer<T, Host>) -> Result<()> {
///     comm.all_reduce_in_place(masks, BitOr)
/// }
/// union(&comm, &mut comm.device().zeros::<u8>(4)?)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an integer",
    label = "bits are combined in integers only",
    note = "truth values (`typed_nccl::Bool`) are reduced by `And` and `Or`"
)]
pub trait Integer: Numeric {}

/// A floating-point element: what `Avg` and exact sums reduce.
///
/// ```
/// # use typed_nccl::{Avg, Buffer, Communicator, Float, Host, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn mean<T: Float>(comm: &Communicator<Host>, x: &mut Buffer<T, Host>) -> Result<()> {
///     comm.all_reduce_in_place(x, Avg)
/// }
/// mean(&comm, &mut comm.device().zeros::<f64>(4)?)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point type",
    label = "`Avg`, `exact()` and a kernel for `Float` need one",
    note = "sums of integers need no `exact()`; a kernel for integers too says `Numeric` where it says `Float`",
    note = "NCCL would average integers by adding and dividing, which truncates: use `Sum`, and divide where you read the result"
)]
pub trait Float: Numeric {}

/// A floating-point element of 16 or 8 bits, whose sums can be asked for in `f32`
/// ([`Sum::in_f32`](crate::Sum::in_f32)).
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Host, NarrowFloat, Result, Seat, Sum, bf16};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn sum<T: NarrowFloat>(comm: &Communicator<Host>, x: &mut Buffer<T, Host>) -> Result<()> {
///     comm.all_reduce_in_place(x, Sum.in_f32())
/// }
/// sum(&comm, &mut comm.device().zeros::<bf16>(4)?)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a floating-point type of 16 or 8 bits",
    label = "`in_f32` widens `f16`, `bf16`, `F8E4M3` and `F8E5M2`",
    note = "`Sum` and `Avg` sum wider floats in their own type"
)]
pub trait NarrowFloat: Float {}

/// An element that [`And`](crate::And) and [`Or`](crate::Or) reduce: [`Bool`].
///
/// ```
/// # use typed_nccl::{And, Bool, Buffer, Communicator, Host, Logical, Result, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn all<T: Logical>(comm: &Communicator<Host>, done: &mut Buffer<T, Host>) -> Result<()> {
///     comm.all_reduce_in_place(done, And)
/// }
/// all(&comm, &mut comm.device().from_slice(Bool::of(&[true]))?)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a truth value",
    label = "`And` and `Or` reduce `typed_nccl::Bool`",
    note = "integers are reduced by `BitAnd`, `BitOr` and `BitXor`"
)]
pub trait Logical: Primitive {}

/// The contents of memory: an [`Element`], or [`DynElem`], whose data type is known at run time.
///
/// ```
/// # use typed_nccl::{AnyElem, DType, DynBuffer, DynElem, Host, Readable};
/// /// Buffers of known types and of those known at run time.
/// fn bytes<E: AnyElem>(x: &impl Readable<Host, Elem = E>) -> usize {
///     x.len() * x.dtype().size()
/// }
/// let host = Host::local()?;
/// assert_eq!(bytes(&host.zeros::<f64>(4)?), 32);
/// assert_eq!(bytes::<DynElem>(&DynBuffer::zeros(&host, DType::F16, 4)?), 8);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub trait AnyElem: sealed::Sealed + 'static {}

impl<T: Element> AnyElem for T {}

/// Elements whose data type is known at run time: the contents of a
/// [`DynBuffer`](crate::DynBuffer). Operations take them by the same names and check at the call
/// what the compiler would have checked.
///
/// See the example of [`AnyElem`].
#[derive(Clone, Copy, Debug)]
pub enum DynElem {}

impl sealed::Sealed for DynElem {}

impl AnyElem for DynElem {}

/// The element whose bytes are all zero.
pub(crate) fn zero<T: Element>() -> T {
    // SAFETY: every bit pattern is a value.
    unsafe { std::mem::zeroed() }
}

/// The bytes of one element, the rest zero.
pub(crate) fn bytes<T: Primitive>(scalar: T) -> [u8; 8] {
    let mut bytes = [0_u8; 8];
    // SAFETY: every primitive type is plain data of 1 to 8 bytes without padding (asserted against
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
pub(crate) fn from_bytes<T: Primitive>(bytes: [u8; 8]) -> T {
    // SAFETY: a primitive has 8 bytes at most, as above, and every bit pattern is a value.
    unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
}

mod sealed {
    pub trait Sealed {}

    impl<T: super::Plain> Sealed for T {}
}

impl Float for half::f16 {}
impl Float for f32 {}
impl Float for f64 {}
impl Float for half::bf16 {}
impl Float for float8::F8E4M3 {}
impl Float for float8::F8E5M2 {}

impl NarrowFloat for half::f16 {}
impl NarrowFloat for half::bf16 {}
impl NarrowFloat for float8::F8E4M3 {}
impl NarrowFloat for float8::F8E5M2 {}

impl Logical for Bool {}
