//! Loans of candle's tensors.

use candle_core::{Layout, Storage, Tensor, Var};

use super::super::Tensor as Described;
use super::storage::Held;
use crate::error::{NotAdoptable, Site};
use crate::memory::{By, Claim};
use crate::memory::{Ending, Lent};
use crate::{Device, DynSlice, DynSliceMut, Lend, Result, Stream};

/// The storage of a lent tensor, and the stream that orders its uses.
#[doc(hidden)]
pub struct Borrowed<'a, D: Device> {
    stream: Option<Stream<D>>,
    held: Held<'a>,
    _claim: Option<Claim>,
}

impl<D: Device> Ending<D> for Borrowed<'_, D> {
    fn stream(&self) -> Option<&Stream<D>> {
        self.stream.as_ref()
    }

    fn ended(&mut self) {
        self.held.used();
    }
}

/// A tensor that nobody else writes.
pub(crate) struct Locked<'a> {
    held: Held<'a>,
    layout: &'a Layout,
    /// The claim on shared elements; `Taken` claims the elements that it takes.
    claim: Option<Claim>,
}

/// Claims everything over that storage, of any tensor.
pub(super) fn claim(storage: &Storage, write: bool, site: Site) -> Result<Claim> {
    // A storage stays in place while one of its tensors is borrowed. Its address identifies its
    // elements, which are outside it while they are lent for writing.
    let at = std::ptr::from_ref(storage).addr();
    let claim = Claim::new(at..at + 1, write, By { library: "candle", operation: "lend", site });
    Ok(claim.map_err(|fault| NotAdoptable::new("lend", fault, site).of("candle"))?)
}

impl<'a> Locked<'a> {
    /// Its view is read-only.
    pub(super) fn shared(tensor: &'a Tensor, site: Site) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let claim = Some(claim(&storage, false, site)?);
        Ok(Self { held: Held::shared(storage), layout, claim })
    }

    pub(super) fn exclusive(held: Held<'a>, layout: &'a Layout) -> Self {
        Self { held, layout, claim: None }
    }
}

fn lent<'a, D: Device>(
    device: &D,
    Locked { mut held, layout, claim }: Locked<'a>,
    site: Site,
) -> Result<Lent<D, Borrowed<'a, D>>> {
    let refused = |fault| NotAdoptable::new("lend", fault, site).of("candle");
    let described = held.describe(layout).map_err(refused)?;
    // SAFETY: the elements are the storage's, initialised, and stay while it is held; its stream
    // belongs to the primary context, as all of candle's do.
    let tensor = unsafe { Described::new(described, ()) }?;
    let (place, stream) = tensor.used_by(device, true, "lend", site)?;
    #[cfg(feature = "candle-cuda")]
    let kept = held.stream();
    // SAFETY: the loan holds the storage: candle's lock, or the only reference. candle's earlier
    // work is on that stream, which our uses come after, or that stream waits for it; its later
    // work is on that stream, or waits for the use recorded there. Only shared views are made of
    // shared storage.
    let loan = unsafe { Lent::new(device, place, Borrowed { stream, held, _claim: claim }, site) }?;
    #[cfg(feature = "candle-cuda")]
    kept.into_iter().for_each(|stream| loan.keep(stream));
    Ok(loan)
}

#[diagnostic::do_not_recommend]
impl<'a, D: Device> Lend<D> for &'a Tensor {
    type View<'v> = DynSlice<'v, D>;
    type Loan = Lent<D, Borrowed<'a, D>>;

    unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
        lent(device, Locked::shared(self, site)?, site)
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
