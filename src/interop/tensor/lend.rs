//! Loans of tensors for the time of a closure.

use std::convert::Infallible;

use super::{Tensor, Used};
use crate::error::Site;
use crate::memory::Claim;
use crate::memory::{Ending, Lent, LentAs};
use crate::{Device, DynSlice, DynSliceMut, Lend, Result, Stream};

/// Orders the uses of a lent tensor.
#[doc(hidden)]
pub struct Theirs<D: Device> {
    stream: Option<Stream<D>>,
    /// Ends once that stream, or the host, has waited.
    _claim: Claim,
}

impl<D: Device> Ending<D> for Theirs<D> {
    fn stream(&self) -> Option<&Stream<D>> {
        self.stream.as_ref()
    }

    fn ended(&mut self) {}
}

impl<O> Tensor<O> {
    /// # Safety
    /// The tensor is borrowed for longer than the loan.
    unsafe fn lent<D: Device>(
        &self,
        device: &D,
        write: bool,
        site: Site,
    ) -> Result<Lent<D, Theirs<D>>> {
        let Used { place, stream, claim } = self.claimed_by(device, write, "lend", site)?;
        let ending = Theirs { stream, _claim: claim };
        // SAFETY: the caller's promise, and the tensor has its owner; the caller of `new` promised
        // the rest. Only shared views are made of a shared borrow.
        unsafe { Lent::new(device, place, ending, site) }
    }
}

macro_rules! by_reference {
    ($($memory:ty: $view:ident $slice:ident, write: $write:literal;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<D: Device, O> LentAs<D> for $memory {
            type View<'v> = $view<'v, D>;
        }

        #[diagnostic::do_not_recommend]
        impl<D: Device, O> Lend<D> for $memory {
            type Loan = Lent<D, Theirs<D>>;

            unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
                // SAFETY: the caller's promise.
                unsafe { self.lent(device, $write, site) }
            }

            fn view(loan: &Self::Loan) -> <Self as LentAs<D>>::View<'_> {
                loan.$slice()
            }
        }
    )+ };
}

by_reference! {
    &Tensor<O>: DynSlice dyn_slice, write: false;
    &mut Tensor<O>: DynSliceMut dyn_slice_mut, write: true;
}

/// Not implemented for tensors, so that they are lent by reference: dropping one drops its owner,
/// which frees the elements.
#[doc(hidden)]
pub trait LentByValue {
    /// Uninhabited.
    const NEVER: Infallible;
}

// Only for diagnostics: with it, passing a tensor by value is one error instead of two.
#[doc(hidden)]
#[diagnostic::do_not_recommend]
impl<D: Device, O> LentAs<D> for Tensor<O> {
    type View<'v> = DynSliceMut<'v, D>;
}

#[diagnostic::do_not_recommend]
impl<D: Device, O> Lend<D> for Tensor<O>
where
    Self: LentByValue,
{
    type Loan = Lent<D, Theirs<D>>;

    unsafe fn lend(self, _: &D, _: Site) -> Result<Self::Loan> {
        match Self::NEVER {}
    }

    fn view(_: &Self::Loan) -> <Self as LentAs<D>>::View<'_> {
        match Self::NEVER {}
    }
}
