//! Reductions: how a collective combines the ranks' elements.

mod pre_mul_sum;

pub use pre_mul_sum::{FixedScalar, PreMulSum, ScalarInMemory, SettableScalar};

pub use crate::backend::ReductionName;
use crate::backend::{Reduction, form};
use crate::communicator::Resources;
use crate::{Device, DynElem, Float, Numeric, Result, World};

/// Adds. Integers wrap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum;

/// Multiplies. Integers wrap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prod;

/// Takes the minimum. A NaN loses to a number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

/// Takes the maximum. A NaN loses to a number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

/// Takes the mean; floating-point types only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Avg;

/// A reduction of elements `T` on the communicators of world `W`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot reduce `{T}` on a `Communicator<{W}>`",
    label = "made for another data type or another communicator, or no reduction",
    note = "`Sum`, `Prod`, `Min` and `Max` reduce every data type, `Avg` the floating-point ones",
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

macro_rules! built_in {
    ($($op:ident: $bound:ident is $name:ident),+ $(,)?) => { $(
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
        #[diagnostic::do_not_recommend]
        impl<W: World> ReduceOp<DynElem, W> for $op {
            #[inline]
            fn resolve<'r>(
                &self,
                _: &'r Resources<<W::Device as Device>::Backend>,
            ) -> Result<Reduction<'r, <W::Device as Device>::Backend>> {
                Ok(form::Reduction::BuiltIn(ReductionName::$name))
            }
        }
    )+ };
}

built_in! {
    Sum: Numeric is Add,
    Prod: Numeric is Multiply,
    Min: Numeric is Least,
    Max: Numeric is Greatest,
    Avg: Float is Mean,
}
