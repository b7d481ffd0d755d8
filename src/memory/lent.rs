//! Memory that a program lends to a closure.

use std::sync::Arc;

use super::adopted::ForeignSpan;
use super::{Allocation, Extent, Slice, SliceMut};
use crate::backend::Streams;
use crate::error::Site;
use crate::stream::Awaited;
use crate::{DType, Device, DynSlice, DynSliceMut, Element, Host, Result, Stream, wait};

/// Borrowed memory that a device can be lent: [`Device::lend`]. Sealed.
///
/// The host takes `&[T]`, `&mut [T]`, `&Vec<T>` and `&mut Vec<T>`; a GPU takes `&CudaSlice<T>`,
/// `&mut CudaSlice<T>`, `CudaView<T>` and `CudaViewMut<T>` of cudarc; both take `&Tensor` and
/// `&mut Tensor` of another library ([`interop::Tensor`](crate::interop::Tensor)), and pairs and
/// vectors of these. With the feature `ndarray` the host takes its arrays and views.
///
/// ```
/// # use typed_nccl::{Host, Lend};
/// fn accepted<L: Lend<Host>>(_: &L) {}
///
/// let mut x = vec![1.0_f32, 2.0];
/// accepted(&&x);
/// Host::local()?.lend(&mut x, |x| x.copy_from(&[3.0, 4.0]))?;
/// assert_eq!(x, [3.0, 4.0]);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{D}` cannot be lent `{Self}`",
    label = "no borrowed memory of that device",
    note = "the host is lent `&[T]` to read and `&mut [T]` to write; a GPU is lent cudarc's `&CudaSlice<T>` and `&mut CudaSlice<T>` and its views; both `&tensor` and `&mut tensor` of another library, and pairs of these",
    note = "a function generic over the device needs the bound, `where for<'a> &'a mut [f32]: Lend<D>`, or copies: `device.from_slice(..)`"
)]
pub trait Lend<D: Device>: sealed::Sealed {
    /// The loan.
    #[doc(hidden)]
    type Loan: Loan<D>;

    /// Starts the loan.
    ///
    /// # Safety
    /// The loan is ended, or dropped, while the borrow lasts: it does not carry the borrow's
    /// lifetime.
    #[doc(hidden)]
    unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan>;

    /// The closure's argument.
    #[doc(hidden)]
    fn view(loan: &Self::Loan) -> Self::View<'_>
    where
        Self: LentAs<D>;
}

/// The views of memory that is lent. They are known for every device, also for one that [`Lend`]
/// refuses, which is then one error and not another about the closure. It is no supertrait, so that
/// a bound on [`Lend`] hides none of them. Sealed.
///
/// ```
/// # use typed_nccl::{Host, LentAs, SliceMut};
/// fn same<T>(_: Option<T>, _: Option<T>) {}
///
/// // `&mut Vec<f32>` is lent as a `SliceMut`.
/// same(None::<<&mut Vec<f32> as LentAs<Host>>::View<'_>>, None::<SliceMut<'_, f32, Host>>);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not memory that can be lent",
    label = "expected a borrow: `&x` to read, `&mut x` to write"
)]
pub trait LentAs<D: Device>: sealed::Sealed {
    /// The closure's argument: a view that operations take.
    type View<'v>;
}

/// A loan: its drop returns when the memory is its owner's again.
#[doc(hidden)]
pub trait Loan<D: Device> {
    /// Ends the loan; not asked again.
    fn end(&mut self, site: Site) -> Result<()>;
}

/// Lends memory to `work`.
pub(crate) fn lend<D: Device, L: Lend<D> + LentAs<D>, R>(
    device: &D,
    memory: L,
    work: impl for<'b, 'v> FnOnce(&'b mut L::View<'v>) -> Result<R>,
    site: Site,
) -> Result<R> {
    wait::allowed("lend", site)?;
    // SAFETY: it is dropped here, whatever `work` does, and the borrow is the caller's.
    let mut loan = unsafe { memory.lend(device, site) }?;
    let outcome = {
        let mut view = L::view(&loan);
        work(&mut view)
    };
    let ended = loan.end(site);
    let value = outcome?;
    ended.map(|()| value)
}

/// Somebody else's memory, until nothing of ours uses it.
#[doc(hidden)]
pub struct Lent<D: Device, E: Ending<D>> {
    allocation: Arc<Allocation<D::Backend>>,
    len: usize,
    dtype: DType,
    /// Orders the owner's uses after ours.
    ending: Option<E>,
    site: Site,
}

/// How the uses of the memory's owner come after ours.
#[doc(hidden)]
pub trait Ending<D: Device> {
    /// The owner's stream, which waits for our uses; without one the host waits.
    fn stream(&self) -> Option<&Stream<D>>;

    /// Called when that stream waits for our uses.
    fn ended(&mut self);
}

impl<D: Device, E: Ending<D>> Lent<D, E> {
    /// # Safety
    /// The elements are there, initialised, and stay until this is ended or dropped. Nobody else
    /// touches them meanwhile (or only reads them, if only shared views are made), except work
    /// before `place.after`.
    pub(crate) unsafe fn new(
        device: &D,
        place: ForeignSpan<D>,
        ending: E,
        site: Site,
    ) -> Result<Self> {
        let (len, dtype) = (place.len, place.dtype);
        // SAFETY: the caller's promise: `end` leaves no use.
        let allocation = unsafe { place.claim(device, "lend", site) }?;
        allocation.order.set_lent();
        Ok(Self { allocation, len, dtype, ending: Some(ending), site })
    }

    pub(crate) fn slice<T: Element>(&self) -> Slice<'_, T, D> {
        Slice::new(&self.allocation, Extent::whole(self.len))
    }

    pub(crate) fn slice_mut<T: Element>(&self) -> SliceMut<'_, T, D> {
        SliceMut::new(&self.allocation, Extent::whole(self.len))
    }

    pub(crate) fn dyn_slice(&self) -> DynSlice<'_, D> {
        DynSlice::new(&self.allocation, Extent::whole(self.len), self.dtype)
    }

    pub(crate) fn dyn_slice_mut(&self) -> DynSliceMut<'_, D> {
        DynSliceMut::new(&self.allocation, Extent::whole(self.len), self.dtype)
    }

    /// Kept until nothing uses the memory.
    #[cfg(feature = "candle-cuda")]
    pub(crate) fn keep(&self, kept: impl Send + 'static) {
        self.allocation.own(super::Owner::new(Box::new(kept), None));
    }

    /// Makes the owner's stream wait for every use.
    fn hand_over(&self, theirs: &Stream<D>) -> Result<()> {
        let points = self.allocation.order.points(true)?;
        points.iter().try_for_each(|at| theirs.core.wait_for(&at.stream, &at.point))
    }

    /// Waits until nothing uses the memory, however long that takes, for it is borrowed. When a
    /// deadline passes, the communicator to blame is poisoned, which ends its operations.
    fn wait(&self, site: Site) -> Result<()> {
        let mut outcome = Ok(());
        loop {
            // A failed device runs nothing any more.
            let points = self.allocation.order.points(true)?;
            let waited = wait::until(&points, None, "lend", site);
            outcome = outcome.and(waited);
            let busy = points
                .iter()
                .find(|at| !<D::Backend as Streams>::reached(&at.point).unwrap_or(true));
            let Some(Awaited { point, .. }) = busy else {
                return outcome.and_then(|()| self.allocation.order.tell_undone());
            };
            <D::Backend as Streams>::pause(point, wait::REST);
        }
    }
}

impl<D: Device, E: Ending<D>> Loan<D> for Lent<D, E> {
    fn end(&mut self, site: Site) -> Result<()> {
        let Some(mut ending) = self.ending.take() else { return Ok(()) };
        match ending.stream().map(|theirs| self.hand_over(theirs)) {
            Some(Ok(())) => {
                ending.ended();
                Ok(())
            }
            Some(Err(error)) => self.wait(site).and(Err(error)),
            None => self.wait(site),
        }
    }
}

impl<D: Device, E: Ending<D>> Drop for Lent<D, E> {
    fn drop(&mut self) {
        // After a panic, or when a second loan was refused.
        if let Err(error) = self.end(self.site) {
            log::warn!("{error}");
        }
    }
}

/// The host waits.
#[doc(hidden)]
pub struct HostWaits;

impl<D: Device> Ending<D> for HostWaits {
    fn stream(&self) -> Option<&Stream<D>> {
        None
    }

    fn ended(&mut self) {}
}

impl<Tag> Lent<Host<Tag>, HostWaits> {
    /// # Safety
    /// As for [`new`](Self::new).
    pub(crate) unsafe fn on_host<T: Element>(
        device: &Host<Tag>,
        (start, len): (*mut T, usize),
        site: Site,
    ) -> Result<Self> {
        let place = ForeignSpan::of(start, len, device.ordinal(), None);
        // SAFETY: the caller's promise.
        unsafe { Self::new(device, place, HostWaits, site) }
    }
}

macro_rules! on_the_host {
    ($($memory:ty: $view:ident $slice:ident, $start:expr;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<'a, T: Element, D: Device> LentAs<D> for $memory {
            type View<'v> = $view<'v, T, D>;
        }

        #[diagnostic::do_not_recommend]
        impl<'a, T: Element, Tag> Lend<Host<Tag>> for $memory {
            type Loan = Lent<Host<Tag>, HostWaits>;

            unsafe fn lend(self, device: &Host<Tag>, site: Site) -> Result<Self::Loan> {
                let elements: (*mut T, usize) = $start(self);
                // SAFETY: the caller's promise: the borrow outlives the loan; only shared views are
                // made of a shared borrow.
                unsafe { Lent::on_host(device, elements, site) }
            }

            fn view(loan: &Self::Loan) -> <Self as LentAs<Host<Tag>>>::View<'_> {
                loan.$slice()
            }
        }
    )+ };
}

on_the_host! {
    &'a [T]: Slice slice, |it: &[T]| (it.as_ptr().cast_mut(), it.len());
    &'a Vec<T>: Slice slice, |it: &[T]| (it.as_ptr().cast_mut(), it.len());
    &'a mut [T]: SliceMut slice_mut, |it: &mut [T]| (it.as_mut_ptr(), it.len());
    &'a mut Vec<T>: SliceMut slice_mut, |it: &mut [T]| (it.as_mut_ptr(), it.len());
}

#[diagnostic::do_not_recommend]
impl<D: Device, A: LentAs<D>, B: LentAs<D>> LentAs<D> for (A, B) {
    type View<'v> = (A::View<'v>, B::View<'v>);
}

#[diagnostic::do_not_recommend]
impl<D: Device, A, B> Lend<D> for (A, B)
where
    A: Lend<D> + LentAs<D>,
    B: Lend<D> + LentAs<D>,
{
    type Loan = (A::Loan, B::Loan);

    unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
        // SAFETY: the caller's promise.
        let first = unsafe { self.0.lend(device, site) }?;
        // SAFETY: as above.
        let second = unsafe { self.1.lend(device, site) }?;
        Ok((first, second))
    }

    fn view(loan: &Self::Loan) -> <Self as LentAs<D>>::View<'_> {
        (A::view(&loan.0), B::view(&loan.1))
    }
}

impl<D: Device, A: Loan<D>, B: Loan<D>> Loan<D> for (A, B) {
    fn end(&mut self, site: Site) -> Result<()> {
        let first = self.0.end(site);
        self.1.end(site).and(first)
    }
}

#[diagnostic::do_not_recommend]
impl<D: Device, L: LentAs<D>> LentAs<D> for Vec<L> {
    type View<'v> = Vec<L::View<'v>>;
}

#[diagnostic::do_not_recommend]
impl<D: Device, L: Lend<D> + LentAs<D>> Lend<D> for Vec<L> {
    type Loan = Vec<L::Loan>;

    unsafe fn lend(self, device: &D, site: Site) -> Result<Self::Loan> {
        // SAFETY: the caller's promise.
        self.into_iter().map(|one| unsafe { one.lend(device, site) }).collect()
    }

    fn view(loan: &Self::Loan) -> <Self as LentAs<D>>::View<'_> {
        loan.iter().map(L::view).collect()
    }
}

impl<D: Device, A: Loan<D>> Loan<D> for Vec<A> {
    fn end(&mut self, site: Site) -> Result<()> {
        let mut outcome = Ok(());
        for one in self {
            let ended = one.end(site);
            outcome = outcome.and(ended);
        }
        outcome
    }
}

mod sealed {
    pub trait Sealed {}
    impl<T> Sealed for &[T] {}
    impl<T> Sealed for &mut [T] {}
    impl<T> Sealed for &Vec<T> {}
    impl<T> Sealed for &mut Vec<T> {}
    impl<A, B> Sealed for (A, B) {}
    impl<L> Sealed for Vec<L> {}
    impl<O> Sealed for crate::interop::Tensor<O> {}
    impl<O> Sealed for &crate::interop::Tensor<O> {}
    impl<O> Sealed for &mut crate::interop::Tensor<O> {}
    #[cfg(feature = "candle")]
    impl Sealed for &candle_core::Tensor {}
    #[cfg(feature = "candle")]
    impl Sealed for &candle_core::Var {}
    #[cfg(feature = "candle")]
    impl Sealed for crate::interop::candle::Locked<'_> {}
    #[cfg(feature = "candle")]
    impl Sealed for crate::interop::candle::StorageRef<'_> {}
    #[cfg(feature = "candle")]
    impl Sealed for crate::interop::candle::StorageMut<'_> {}
    #[cfg(feature = "ndarray")]
    mod arrays {
        use ndarray::{ArrayBase, ArrayViewMut, RawData};

        use super::Sealed;

        impl<S: RawData, I> Sealed for &ArrayBase<S, I> {}
        impl<S: RawData, I> Sealed for &mut ArrayBase<S, I> {}
        impl<T, I> Sealed for ArrayViewMut<'_, T, I> {}
    }
    #[cfg(feature = "cuda")]
    mod cuda {
        use cudarc::driver::{CudaSlice, CudaView, CudaViewMut};

        use super::Sealed;

        impl<T> Sealed for &CudaSlice<T> {}
        impl<T> Sealed for &mut CudaSlice<T> {}
        impl<T> Sealed for CudaView<'_, T> {}
        impl<T> Sealed for CudaViewMut<'_, T> {}
    }
}
