//! Reductions: how a collective combines the ranks' elements.

mod pre_mul_sum;

pub use pre_mul_sum::{FixedScalar, PreMulSum, ScalarInMemory, SettableScalar};

pub use crate::backend::ReductionName;
use crate::backend::{Reduction, form};
use crate::communicator::Resources;
use crate::{Device, DynElem, Float, Integer, Logical, NarrowFloat, Numeric, Result, World};

/// Adds. Integers wrap.
///
/// ```
/// # use typed_nccl::{Avg, Host, Max, Result, Seat, Sum};
/// # fn main() -> Result<()> {
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = comm.device().from_slice(&[1.0_f32, 2.0])?;
/// comm.all_reduce_in_place(&mut x, Sum)?; // or `Prod`, `Min`, `Max`, `Avg`
/// # comm.all_reduce_in_place(&mut x, Max)?;
/// # comm.all_reduce_in_place(&mut x, Avg)?;
/// # comm.finish()
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;

/// Multiplies. Integers wrap.
///
/// See the example of [`Sum`](struct@Sum).
#[derive(Clone, Copy, Debug, Default)]
pub struct Prod;

/// Takes the minimum. A NaN loses to a number.
///
/// See the example of [`Sum`](struct@Sum).
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

/// Takes the maximum. A NaN loses to a number.
///
/// See the example of [`Sum`](struct@Sum).
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

/// Takes the mean; floating-point types only.
///
/// See the example of [`Sum`](struct@Sum).
#[derive(Clone, Copy, Debug, Default)]
pub struct Avg;

/// Combines the bits of integers by "and". On the host; NCCL lacks it.
///
/// ```
/// # use typed_nccl::{BitAnd, BitOr, BitXor, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut masks = comm.device().from_slice(&[0b0110_u8])?;
/// comm.all_reduce_in_place(&mut masks, BitAnd)?; // the bits that all ranks have set
/// comm.all_reduce_in_place(&mut masks, BitOr)?; // any rank
/// comm.all_reduce_in_place(&mut masks, BitXor)?; // an odd number of ranks
/// assert_eq!(masks.to_vec()?, [0b0110]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BitAnd;

/// Combines the bits of integers by "or". On the host; NCCL lacks it.
///
/// See the example of [`BitAnd`](struct@BitAnd).
#[derive(Clone, Copy, Debug, Default)]
pub struct BitOr;

/// Combines the bits of integers by "exclusive or". On the host; NCCL lacks it.
///
/// See the example of [`BitAnd`](struct@BitAnd).
#[derive(Clone, Copy, Debug, Default)]
pub struct BitXor;

/// Whether all ranks' truth values ([`Bool`](crate::Bool)) are true. On the host; NCCL lacks it.
#[derive(Clone, Copy, Debug, Default)]
pub struct And;

/// Whether any rank's truth value ([`Bool`](crate::Bool)) is true. On the host; NCCL lacks it.
///
/// See the examples of [`Bool`](crate::Bool) with [`And`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Or;

/// A sum or mean that is exact and rounded once: [`Sum::exact`], [`Avg::exact`].
///
/// See the example of [`Sum::exact`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Exact<O>(O);

/// A sum or mean of narrow floats in `f32`: [`Sum::in_f32`], [`Avg::in_f32`].
///
/// ```
/// # use typed_nccl::{Host, InF32, Seat, Sum, bf16};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = comm.device().from_slice(&[bf16::from_f32(1.5); 4])?;
/// let in_f32: InF32<Sum> = Sum.in_f32();
/// comm.all_reduce_in_place(&mut x, in_f32)?;
/// assert_eq!(x.to_vec()?, [bf16::from_f32(1.5); 4]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct InF32<O>(O);

impl Sum {
    /// The exact sum, rounded once to the element type, to nearest with ties to even.
    ///
    /// The result's bits depend on the set of contributions alone: neither on the number or order
    /// of ranks nor on the algorithm, the message's size, the path or a capture. Intermediate sums
    /// do not overflow: 3e38 + 3e38 - 3e38 is 3e38 in `f32`. What the rounded sum itself exceeds
    /// becomes infinity, in `F8E4M3` and `F8E5M2` the largest finite value, as
    /// [`Stream::convert`](crate::Stream::convert) rounds. Subnormal numbers are kept. A NaN, or
    /// infinities of both signs, make a NaN of one bit pattern. A sum of zero is +0, unless all
    /// contributions are -0.
    ///
    /// For `all_reduce`, `reduce`, `reduce_scatter` and their uneven forms, of floating-point
    /// elements. Ranks that ask differently get [`Error::Mismatch`](crate::Error::Mismatch).
    ///
    /// NCCL's order of additions depends on all of the above, so on GPUs it only moves: every rank
    /// receives the contributions to a piece of the message, a kernel of this library adds them, and
    /// the results are gathered, all on the call's stream. What arrives takes memory of the
    /// communicator, kept until that ends: 64 MiB at most, however long the message, and 96 MiB if
    /// it sends from registered memory, or in a graph from that of NCCL's allocator. The host waits
    /// for nothing but the first use, which loads the kernels, and for a longer message than
    /// before, which allocates.
    /// Refused ([`Error::Unsupported`](crate::Error::Unsupported)) before anything is sent: with a
    /// [`CallConfig`](crate::CallConfig), in an estimate of a group, and of more than 8192 ranks.
    /// Ranks that group it with other calls do so alike.
    ///
    /// The ratio to a plain sum: `cargo bench -p benches --bench host_engine -- exact`, on GPUs
    /// `--bench gpu_exact`.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result, Seat, Sum};
    /// # fn main() -> Result<()> {
    /// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    /// let x = comm.device().from_slice(&[0.1_f32, 0.2])?;
    /// let mut y = comm.device().zeros::<f32>(2)?;
    /// comm.all_reduce(&x, &mut y, Sum.exact())?;
    /// assert_eq!(y.to_vec()?, [0.1, 0.2]);
    /// comm.finish()
    /// # }
    /// ```
    pub const fn exact(self) -> Exact<Self> {
        Exact(self)
    }

    /// The sum in `f32` of floats of 16 or 8 bits, rounded once to the element type.
    ///
    /// [`Sum`] leaves the accumulator to the backend: the host's is `f32` in rank order, so this is
    /// the same there, and NCCL adds `f16` and `bf16` in their own type, rounding at every step. On
    /// GPUs it is refused ([`Error::Unsupported`](crate::Error::Unsupported)) before anything is
    /// sent.
    pub const fn in_f32(self) -> InF32<Self> {
        InF32(self)
    }
}

impl Avg {
    /// The exact sum, divided by the number of ranks and rounded once: see [`Sum::exact`].
    pub const fn exact(self) -> Exact<Self> {
        Exact(self)
    }

    /// The mean in `f32` of floats of 16 or 8 bits, rounded once: see [`Sum::in_f32`].
    pub const fn in_f32(self) -> InF32<Self> {
        InF32(self)
    }
}

/// A reduction of elements `T` on the communicators of world `W`.
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Host, Max, ReduceOp, Result, Seat, Sum, World};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn reduce<W: World>(
///     comm: &Communicator<W>,
///     x: &mut Buffer<f32, W::Device>,
///     op: impl ReduceOp<f32, W>,
/// ) -> Result<()> {
///     comm.all_reduce_in_place(x, op)
/// }
/// let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
/// reduce(&comm, &mut x, Sum)?;
/// reduce(&comm, &mut x, Max)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot reduce `{T}` on a `Communicator<{W}>`",
    label = "made for another data type or another communicator, or no reduction",
    note = "`Sum`, `Prod`, `Min` and `Max` reduce every data type of numbers, `Avg` the floating-point ones",
    note = "a `PreMulSum<T, W>` reduces its own `T` on the communicator that made it: make another with `pre_mul_sum`"
)]
pub trait ReduceOp<T, W: World>: sealed::Sealed {
    /// The backend's form of it, after comparing stamps.
    #[doc(hidden)]
    fn resolve<'r>(
        &self,
        resources: &'r Resources<<W::Device as Device>::Backend>,
    ) -> Result<Reduction<'r, <W::Device as Device>::Backend>>;
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl<T, W: crate::World, S> Sealed for super::PreMulSum<T, W, S> {}
}

/// An operator on one element type.
macro_rules! reduces {
    ($element:ty, $op:ty: $name:ident) => {
        #[diagnostic::do_not_recommend]
        impl<W: World> ReduceOp<$element, W> for $op {
            #[inline]
            fn resolve<'r>(
                &self,
                _: &'r Resources<<W::Device as Device>::Backend>,
            ) -> Result<Reduction<'r, <W::Device as Device>::Backend>> {
                Ok(form::Reduction::BuiltIn(ReductionName::$name))
            }
        }
    };
}

macro_rules! built_in {
    ($($op:ty: $bound:ident is $name:ident),+ $(,)?) => { $(
        impl sealed::Sealed for $op {}

        impl<T: $bound, W: World> ReduceOp<T, W> for $op {
            #[inline]
            fn resolve<'r>(
                &self,
                _: &'r Resources<<W::Device as Device>::Backend>,
            ) -> Result<Reduction<'r, <W::Device as Device>::Backend>> {
                Ok(form::Reduction::BuiltIn(ReductionName::$name))
            }
        }

        // For run-time types, the call itself refuses `Avg` of integers.
        reduces!(DynElem, $op: $name);
    )+ };
}

built_in! {
    Sum: Numeric is Add,
    Prod: Numeric is Multiply,
    Min: Numeric is Least,
    Max: Numeric is Greatest,
    Avg: Float is Mean,
    Exact<Sum>: Float is ExactAdd,
    Exact<Avg>: Float is ExactMean,
    InF32<Sum>: NarrowFloat is WideAdd,
    InF32<Avg>: NarrowFloat is WideMean,
    BitAnd: Integer is BitwiseAnd,
    BitOr: Integer is BitwiseOr,
    BitXor: Integer is BitwiseXor,
    And: Logical is LogicalAnd,
    Or: Logical is LogicalOr,
}

#[cfg(feature = "num-complex")]
mod complex {
    use num_complex::Complex;

    use super::*;

    macro_rules! of_complex {
        ($($op:ty: $name:ident),+ $(,)?) => { $(
            reduces!(Complex<f32>, $op: $name);
            reduces!(Complex<f64>, $op: $name);
        )+ };
    }

    of_complex! {
        Sum: Add,
        Prod: Multiply,
        Avg: Mean,
        Exact<Sum>: ExactAdd,
        Exact<Avg>: ExactMean,
    }
}
