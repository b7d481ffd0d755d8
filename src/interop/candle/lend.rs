//! Loans of candle's tensors.

use candle_core::{Layout, Tensor, Var};

use super::super::Tensor as Described;
use super::storage::Held;
use crate::error::{NotAdoptable, Site};
use crate::memory::{Ending, Lent};
use crate::{Device, DynSlice, DynSliceMut, Lend, Result, Stream};

/// What is held of a lent tensor: its lock, and the stream that orders its uses.
#[doc(hidden)]
pub struct Borrowed<'a, D: Device> {
    stream: Option<Stream<D>>,
    held: Held<'a>,
}

impl<D: Device> Ending<D> for Borrowed<'_, D> {
    fn stream(&self) -> Option<&Stream<D>> {
        self.stream.as_ref()
    }

    fn ended(&mut self) {
        self.held.used();
    }
}

/// A locked tensor.
pub(crate) struct Locked<'a> {
    held: Held<'a>,
    layout: &'a Layout,
}

impl<'a> Locked<'a> {
    /// The view of it is to be read only.
    pub(super) fn shared(tensor: &'a Tensor) -> Self {
        let (storage, layout) = tensor.storage_and_layout();
        Self { held: Held::Shared(storage), layout }
    }

    pub(super) fn exclusive(held: Held<'a>, layout: &'a Layout) -> Self {
        Self { held, layout }
    }
}

fn lent<'a, D: Device>(
    device: &D,
    Locked { mut held, layout }: Locked<'a>,
    site: Site,
) -> Result<Lent<D, Borrowed<'a, D>>> {
    let refused = |fault| NotAdoptable::new("lend", fault, site).of("candle");
    let described = held.describe(layout).map_err(refused)?;
    // SAFETY: the elements are the storage's, initialised, and stay while its lock is held; its stream is
    // one of the primary context, as all of candle's are.
    let tensor = unsafe { Described::new(described, ()) }?;
    let (place, stream) = tensor.used_by(device, true, "lend", site)?;
    #[cfg(feature = "candle-cuda")]
    let kept = held.stream();
    // SAFETY: the lock is in the loan. What candle enqueued before is on that stream, which our uses come
    // after, or that stream waits for it; what it enqueues later is on that stream, or waits for the use
    // that is noted there. Only shared views are made of what is locked shared.
    let loan = unsafe { Lent::new(device, place, Borrowed { stream, held }, site) }?;
    #[cfg(feature = "candle-cuda")]
    kept.into_iter().for_each(|stream| loan.keep(stream));
    Ok(loan)
}

#[diagnostic::do_not_recommend]
impl<'a, D: Device> Lend<D> for &'a Tensor {
    type View<'v> = DynSlice<'v, D>;
    type Loan = Lent<D, Borrowed<'a, D>>;

    unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
        lent(device, Locked::shared(self), site)
    }

    fn view(loan: &Self::Loan) -> Self::View<'_> {
        loan.dyn_slice()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, D: Device> Lend<D> for &'a Var {
    type View<'v> = DynSlice<'v, D>;
    type Loan = Lent<D, Borrowed<'a, D>>;

    unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
        // SAFETY: the caller's promise.
        unsafe { self.as_tensor().lend(device, site) }
    }

    fn view(loan: &Self::Loan) -> Self::View<'_> {
        loan.dyn_slice()
    }
}

#[diagnostic::do_not_recommend]
impl<'a, D: Device> Lend<D> for Locked<'a> {
    type View<'v> = DynSliceMut<'v, D>;
    type Loan = Lent<D, Borrowed<'a, D>>;

    unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
        lent(device, self, site)
    }

    fn view(loan: &Self::Loan) -> Self::View<'_> {
        loan.dyn_slice_mut()
    }
}
