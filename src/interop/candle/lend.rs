//! Loans of candle's tensors.

use candle_core::{Layout, Storage, Tensor, Var};

use super::super::Tensor as Described;
use super::storage::{Held, OperandStorage};
use crate::error::{NotAdoptable, Site};
use crate::memory::{By, Claim};
use crate::memory::{Ending, Lent, LentAs};
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

    /// Storage that is borrowed, so that nothing else needs a claim on it.
    pub(super) fn borrowed(held: Held<'a>, layout: &'a Layout) -> Self {
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
    // SAFETY: the loan holds the storage: candle's lock, or a borrow of it. candle's earlier
    // work is on that stream, which our uses come after, or that stream waits for it; its later
    // work is on that stream, or waits for the use recorded there. Only shared views are made of
    // storage that is locked or borrowed as shared.
    let loan = unsafe { Lent::new(device, place, Borrowed { stream, held, _claim: claim }, site) }?;
    #[cfg(feature = "candle-cuda")]
    kept.into_iter().for_each(|stream| loan.keep(stream));
    Ok(loan)
}

/// What an operation of candle's reads: its storage and layout, to be lent within the operation.
///
/// Made by [`storage`].
///
/// See the example of [`storage`].
pub struct StorageRef<'a>(Locked<'a>);

/// What an operation of candle's writes, such as the storage that it returns.
///
/// Made by [`storage_mut`].
///
/// See the example of [`storage`].
pub struct StorageMut<'a>(Locked<'a>);

/// Lends the elements of `layout` for reading, in a custom operation of candle's
/// (`CustomOp1::cpu_fwd`, `cuda_fwd`).
///
/// The layout must be contiguous and in C order, as for a tensor that is lent: apply the operation
/// to `x.contiguous()?`.
///
/// ```
/// use candle_core::backend::{BackendDevice as _, BackendStorage as _};
/// use candle_core::{CpuStorage, CustomOp1, Layout, Shape, Tensor};
/// use typed_nccl::interop::candle;
/// use typed_nccl::{Host, Max, Result, Seat};
///
/// /// The largest of all ranks' elements.
/// struct Largest(typed_nccl::Communicator<Host>);
///
/// impl CustomOp1 for Largest {
///     fn name(&self) -> &'static str {
///         "largest"
///     }
///
///     fn cpu_fwd(&self, x: &CpuStorage, at: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
///         let mut y = x.device().zeros_impl(at.shape(), x.dtype())?;
///         let whole = Layout::contiguous(at.shape());
///         let both = (candle::storage(x, at), candle::storage_mut(&mut y, &whole));
///         self.0.device().lend(both, |(x, y)| self.0.all_reduce(x, y, Max))?;
///         Ok((y, at.shape().clone()))
///     }
/// }
///
/// fn main() -> Result<()> {
///     let op = Largest(Seat::local(1).remove(0).init(Host::local()?)?);
///     let x = Tensor::arange(0.0_f32, 6.0, &candle_core::Device::Cpu)?;
///     assert_eq!(x.apply_op1_no_bwd(&op)?.to_vec1::<f32>()?, x.to_vec1::<f32>()?);
///     op.0.finish()
/// }
/// ```
pub fn storage<'a>(storage: &'a impl OperandStorage, layout: &'a Layout) -> StorageRef<'a> {
    StorageRef(Locked::borrowed(Held::of(storage), layout))
}

/// Lends the elements of `layout` for reading and writing; otherwise as [`storage`].
pub fn storage_mut<'a>(storage: &'a mut impl OperandStorage, layout: &'a Layout) -> StorageMut<'a> {
    StorageMut(Locked::borrowed(Held::of_mut(storage), layout))
}

macro_rules! of_candle {
    ($($memory:ty: $view:ident $slice:ident, $locked:expr;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<'a, D: Device> LentAs<D> for $memory {
            type View<'v> = $view<'v, D>;
        }

        #[diagnostic::do_not_recommend]
        impl<'a, D: Device> Lend<D> for $memory {
            type Loan = Lent<D, Borrowed<'a, D>>;

            unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
                let locked: fn(Self, Site) -> Result<Locked<'a>> = $locked;
                lent(device, locked(self, site)?, site)
            }

            fn view(loan: &Self::Loan) -> <Self as LentAs<D>>::View<'_> {
                loan.$slice()
            }
        }
    )+ };
}

of_candle! {
    &'a Tensor: DynSlice dyn_slice, Locked::shared;
    &'a Var: DynSlice dyn_slice, |it, site| Locked::shared(it.as_tensor(), site);
    StorageRef<'a>: DynSlice dyn_slice, |it, _| Ok(it.0);
    StorageMut<'a>: DynSliceMut dyn_slice_mut, |it, _| Ok(it.0);
    Locked<'a>: DynSliceMut dyn_slice_mut, |it, _| Ok(it);
}
