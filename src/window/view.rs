//! Views of windows: slices, which puts read, and places, which puts write.

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::{Named, RmaSource, Window, WindowKind};
use crate::communicator::Key;
use crate::derived::{copy, debug};
use crate::memory::{Allocation, Extent, Recorded};
use crate::one_thread::{AnotherThread, UseWindowView};
use crate::rma::SignalSlot;
use crate::{Device, Element, Readable, RecordRead, Result, Slice, World, Writable};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// A shared view of part of a window. Stays on its thread.
///
/// ```
/// # use typed_nccl::{Communicator, Host, PutSource, Result, Seat, WindowPlace, WindowSlice};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let (source, target) = (comm.window::<u32>(4)?, comm.window::<u32>(4)?);
/// let part: WindowSlice<'_, u32, Host, _> = source.slice(1..3);
/// let place: WindowPlace<'_, u32, Host, _> = target.at(2);
/// comm.put_signal(part, 0, place)?;
/// comm.wait_signal(0)?;
/// assert_eq!((part.to_vec()?, target.slice(2..).len()), (vec![0, 0], 2));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct WindowSlice<'w, T, W: World, K> {
    named: &'w Named,
    slice: Slice<'w, T, W::Device>,
    types: PhantomData<fn() -> (W, K)>,
}

impl<'w, T: Element, W: World, K: WindowKind> WindowSlice<'w, T, W, K> {
    pub(super) fn new(named: &'w Named, slice: Slice<'w, T, W::Device>) -> Self {
        Self { named, slice, types: PhantomData }
    }

    /// The memory and the range, and the window it is in.
    pub(crate) fn registered(&self) -> (&'w Arc<Allocation<Back<W>>>, Extent, &'w Named) {
        let (allocation, extent) = self.slice.into_place();
        (allocation, extent, self.named)
    }

    /// The same view under another name of the same device.
    pub(crate) fn named<V: World<Device: Device<Backend = Back<W>>>>(
        self,
    ) -> WindowSlice<'w, T, V, K> {
        WindowSlice::new(self.named, self.slice.on())
    }

    /// How many elements; 0 for a range past the end.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A view of part of this view.
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        Self::new(self.named, self.slice.slice(range))
    }

    /// Copies the elements to the host; see [`Buffer::to_vec`](crate::Buffer::to_vec).
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.slice.to_vec()
    }
}

copy!([T, W: World, K] WindowSlice<'_, T, W, K>);

debug!(
    [T: Element, W: World, K: WindowKind] WindowSlice<'_, T, W, K>,
    self => "{:?} of a {} window on {}", self.slice, K::NAME, W::NAME
);

/// A place in a window: the target of a put, on the peer that the put names.
///
/// See the example of [`WindowSlice`].
pub struct WindowPlace<'w, T, W: World, K> {
    named: &'w Named,
    pub(crate) offset: usize,
    pub(crate) slot: SignalSlot,
    types: PhantomData<fn() -> (T, W, K)>,
}

impl<'w, T: Element, W: World, K: WindowKind> WindowPlace<'w, T, W, K> {
    pub(super) fn new(named: &'w Named, offset: usize) -> Self {
        Self { named, offset, slot: SignalSlot::default(), types: PhantomData }
    }

    pub(crate) fn key(&self) -> &'w Key {
        &self.named.key
    }

    /// The same place under another name of the same device.
    pub(crate) fn named<V: World<Device: Device<Backend = Back<W>>>>(
        self,
    ) -> WindowPlace<'w, T, V, K> {
        let Self { named, offset, slot, .. } = self;
        WindowPlace { named, offset, slot, types: PhantomData }
    }

    /// How many elements the part of the rank with this number has.
    pub(crate) fn len_of(&self, number: usize) -> usize {
        self.named.lens.of(number)
    }

    /// The same place, for a put that raises `slot` instead of the first signal of the first
    /// context.
    pub fn raising(self, slot: SignalSlot) -> Self {
        Self { slot, ..self }
    }
}

debug!(
    [T: Element, W: World, K: WindowKind] WindowPlace<'_, T, W, K>,
    self => "element {} of a {} {} window on {}", self.offset, T::DTYPE, K::NAME, W::NAME
);

// SAFETY: never applies: nothing implements `UseWindowView`, and no other crate can.
unsafe impl<T, W: World, K> Send for WindowSlice<'_, T, W, K> where
    AnotherThread: UseWindowView<Self>
{
}

// SAFETY: as for `Send`.
unsafe impl<T, W: World, K> Sync for WindowSlice<'_, T, W, K> where
    AnotherThread: UseWindowView<Self>
{
}

// SAFETY: as for `WindowSlice`.
unsafe impl<T, W: World, K> Send for WindowPlace<'_, T, W, K> where
    AnotherThread: UseWindowView<Self>
{
}

// SAFETY: as for `WindowSlice`.
unsafe impl<T, W: World, K> Sync for WindowPlace<'_, T, W, K> where
    AnotherThread: UseWindowView<Self>
{
}

/// A source for puts of world `W`: a slice of one of its symmetric windows, or a whole one.
///
/// ```
/// # use typed_nccl::{Communicator, Host, PutSource, Result, Seat, Window};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// /// A slice of a window, or a whole one.
/// fn put<'w>(
///     comm: &Communicator<Host>,
///     source: impl PutSource<'w, Host, Elem = u32>,
///     target: &Window<u32, Host>,
/// ) -> Result<()> {
///     comm.put_signal(source, 0, target.at(0))?;
///     comm.wait_signal(0)
/// }
/// let (source, target) = (comm.window(4)?, comm.window(4)?);
/// put(&comm, &source, &target)?;
/// put(&comm, source.slice(1..3), &target)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the source of a put on `{W}`",
    label = "not a slice of one of `{W}`'s symmetric windows",
    note = "a put reads from registered memory of its own communicator: `window.slice(a..b)`",
    note = "register a buffer with `comm.register_window(buffer)`, or allocate with `comm.window(len)`"
)]
pub trait PutSource<'w, W: World>: sealed::Sealed {
    /// The element type.
    type Elem: Element;

    /// The slice.
    #[doc(hidden)]
    fn source(self) -> Source<'w, Self::Elem, W>;
}

/// A put's source, whatever its kind.
#[doc(hidden)]
pub struct Source<'w, T, W: World> {
    pub(crate) slice: Slice<'w, T, W::Device>,
    pub(crate) key: &'w Key,
}

impl<'w, T: Element, W: World, K: RmaSource> PutSource<'w, W> for WindowSlice<'w, T, W, K> {
    type Elem = T;

    fn source(self) -> Source<'w, T, W> {
        Source { slice: self.slice, key: &self.named.key }
    }
}

impl<'w, T: Element, W: World, K: RmaSource> PutSource<'w, W> for &'w Window<T, W, K> {
    type Elem = T;

    fn source(self) -> Source<'w, T, W> {
        Source { slice: self.local(), key: &self.named.key }
    }
}

// `do_not_recommend`: a window of another device is refused with the message for buffers.
#[diagnostic::do_not_recommend]
impl<T: Element, D: Device, W: World<Device = D>, K: WindowKind> Readable<D> for Window<T, W, K> {
    #[inline]
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        (&self.allocation, Extent::whole(self.named.lens.own()))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device, W: World<Device = D>, K: WindowKind> Writable<D> for Window<T, W, K> {}

#[diagnostic::do_not_recommend]
impl<T: Element, D: Device, W: World<Device = D>, K: WindowKind> Readable<D>
    for WindowSlice<'_, T, W, K>
{
    #[inline]
    fn place(&self) -> (&Arc<Allocation<D::Backend>>, Extent) {
        self.slice.into_place()
    }
}

#[diagnostic::do_not_recommend]
impl<'w, T: Element, D: Device, W: World<Device = D>, K: WindowKind> RecordRead<'w, D>
    for WindowSlice<'w, T, W, K>
{
    #[inline]
    fn recorded(self) -> Recorded<'w, D::Backend> {
        self.slice.recorded()
    }
}

mod sealed {
    use crate::{Window, WindowSlice, World};

    pub trait Sealed {}
    impl<T, W: World, K> Sealed for WindowSlice<'_, T, W, K> {}
    impl<T, W: World, K> Sealed for &Window<T, W, K> {}
}
