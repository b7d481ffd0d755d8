//! User compute in stream order.

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Held, Launching, Stream, StreamCore};
use crate::backend::{Backend, Launches, Seen, Span};
use crate::device_comm::Entered;
use crate::error::{OtherDevice, Site};
use crate::memory::{Allocation, Booking, Order, Uses};
use crate::{
    DevComm, Device, Element, Readable, Result, Slice, SliceMut, WindowKind, WindowSlice, World,
    Writable, record,
};

/// One operand of [`Stream::launch`]: `&buffer` is read, `&mut buffer` is written. Views are also
/// passed by value: `x.slice(..3)`, `y.slice_mut(..3)`.
///
/// See the example of [`OperandsOn`].
pub trait Operand: sealed::Sealed {
    /// The closure's argument: `&[T]` or `&mut [T]` on the host.
    type View<'v>;

    /// Held by the queue until the closure runs.
    #[doc(hidden)]
    type Held: Send + Sync + 'static;

    /// The backend of the operand's device.
    #[doc(hidden)]
    type Backend: Backend;

    /// Adds the memory that the closure will see.
    #[doc(hidden)]
    fn seen<'v>(held: &'v Self::Held, seen: &mut Vec<Seen<'v, Self::Backend>>);

    /// The view.
    ///
    /// # Safety
    /// Called once, in stream order, for a use that was ordered after the earlier ones; the view
    /// ends with the closure.
    #[doc(hidden)]
    unsafe fn view<'v>(held: &'v Self::Held) -> Self::View<'v>;
}

/// An operand that a stream on `D` accepts: one on its own device.
///
/// See the example of [`OperandsOn`].
#[diagnostic::on_unimplemented(
    message = "a stream on `{D}` cannot hand `{Self}` to a closure",
    label = "this is taken by value, on another device than the stream, not device memory, or more than twelve operands",
    note = "operands are on the stream's own device: `&x` for what is read, `&mut x` for what is written, views by value, and `&dev` for a device communicator; of a guard, `&*guard` or `&mut *guard`",
    note = "pass one, or a tuple of up to twelve; for more, or for a list, launch several times: a stream runs them in order"
)]
pub trait OperandOn<D: Device>: Operand<Backend = D::Backend> {
    /// Checks the operand, and takes hold of the memory.
    #[doc(hidden)]
    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held>;

    /// The memory, and whether it is written; `None` for a device communicator, which is entered
    /// instead.
    #[doc(hidden)]
    fn used(&self) -> Option<(&Arc<Allocation<D::Backend>>, bool)>;

    /// Keeps what another thread could end from ending until the launch is recorded.
    #[doc(hidden)]
    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, D::Backend>,
    ) -> Result<()> {
        let _ = (stream, entered);
        Ok(())
    }

    /// Announces the operand to the next launch of this thread.
    #[doc(hidden)]
    fn announce(held: &Self::Held) {
        let _ = held;
    }
}

/// The operands of [`Stream::launch`]: one, or a tuple of up to twelve.
///
/// See the example of [`OperandsOn`].
#[diagnostic::on_unimplemented(
    message = "a stream cannot hand `{Self}` to a closure",
    label = "expected `&buffer` for what is read, `&mut buffer` for what is written",
    note = "operands are buffers, views and device communicators on the stream's own device, one or a tuple of up to twelve"
)]
pub trait Operands {
    /// The closure's arguments.
    type Views<'v>;

    /// Held by the queue until the closure runs.
    #[doc(hidden)]
    type Held: Send + Sync + 'static;

    /// See [`Operand`].
    ///
    /// # Safety
    /// As for [`Operand::view`].
    #[doc(hidden)]
    unsafe fn views<'v>(held: &'v Self::Held) -> Self::Views<'v>;
}

/// Operands that a stream on `D` accepts.
///
/// ```
/// # use typed_nccl::{Host, Operand, OperandOn, Operands, OperandsOn, Result, Stream};
/// /// One operand, or a tuple of them, on this stream's device.
/// fn order<O: OperandsOn<Host>>(stream: &Stream<Host>, operands: O) -> Result<()> {
///     stream.launch(operands, |_, ()| {})
/// }
/// fn is_operand(_: &(impl Operand + OperandOn<Host>)) {}
/// fn are_operands(_: &impl Operands) {}
///
/// let (stream, x) = (Host::local()?.stream()?, Host::local()?.zeros::<f32>(4)?);
/// is_operand(&&x);
/// are_operands(&(&x, &x));
/// order(&stream, &x)?;
/// order(&stream, (&x, &x))?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a stream on `{D}` cannot hand `{Self}` to a closure",
    label = "this is taken by value, on another device than the stream, not device memory, or more than twelve operands",
    note = "operands are on the stream's own device: `&x` for what is read, `&mut x` for what is written, views by value, and `&dev` for a device communicator; of a guard, `&*guard` or `&mut *guard`",
    note = "pass one, or a tuple of up to twelve; for more, or for a list, launch several times: a stream runs them in order",
    note = "`launch` runs a closure; a kernel is run by `stream.run(..)`"
)]
pub trait OperandsOn<D: Device>: Operands {
    /// See [`OperandOn`].
    #[doc(hidden)]
    fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held>;

    /// See [`OperandOn`].
    #[doc(hidden)]
    fn used(
        &self,
        each: impl FnMut((&Arc<Allocation<D::Backend>>, bool)) -> Result<()>,
    ) -> Result<()>;

    /// See [`OperandOn`].
    #[doc(hidden)]
    fn enter<'a>(
        &'a self,
        stream: &StreamAccess<'a, D>,
        entered: &mut Entered<'a, D::Backend>,
    ) -> Result<()> {
        let _ = (stream, entered);
        Ok(())
    }

    /// See [`OperandOn`].
    #[doc(hidden)]
    fn announce(held: &Self::Held) {
        let _ = held;
    }

    /// See [`Operand`].
    #[doc(hidden)]
    fn seen<'v>(held: &'v Self::Held, seen: &mut Vec<Seen<'v, D::Backend>>);
}

/// The stream of a launch.
#[doc(hidden)]
pub struct StreamAccess<'s, D: Device> {
    pub(crate) core: &'s StreamCore<D::Backend>,
    pub(crate) site: Site,
}

impl<'s, D: Device> StreamAccess<'s, D> {
    pub(crate) fn new(core: &'s StreamCore<D::Backend>, site: Site) -> Self {
        Self { core, site }
    }

    pub(crate) fn take<A: Readable<D>>(&self, operand: &A) -> Result<Held<D::Backend>> {
        self.check(operand).map(Held::from)
    }

    pub(crate) fn check<'a, A: Readable<D>>(&self, operand: &'a A) -> Result<Span<'a, D::Backend>> {
        let span = operand.span()?;
        let at = (span.allocation().ordinal(), self.core.ordinal());
        OtherDevice::unless_same("launch", "operand", D::KIND, at, self.site)?;
        Ok(span)
    }
}

#[diagnostic::do_not_recommend]
impl<A: Operand> Operands for A {
    type Views<'v> = A::View<'v>;
    type Held = <A as Operand>::Held;

    unsafe fn views<'v>(held: &'v Self::Held) -> Self::Views<'v> {
        // SAFETY: the caller's promise is the same.
        unsafe { A::view(held) }
    }
}

// Not for every `OperandOn`: a compile error about a tuple would no longer point at the operand.
macro_rules! alone {
    ($([$($params:tt)*] $operand:ty, on $device:ty;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($params)*> OperandsOn<$device> for $operand {
            fn hold(&self, stream: &StreamAccess<'_, $device>) -> Result<<Self as Operands>::Held> {
                OperandOn::hold(self, stream)
            }

            fn used(
                &self,
                each: impl FnMut((&Arc<Allocation<<$device as Device>::Backend>>, bool)) -> Result<()>,
            ) -> Result<()> {
                OperandOn::used(self).map_or(Ok(()), each)
            }

            fn enter<'a>(
                &'a self,
                stream: &StreamAccess<'a, $device>,
                entered: &mut Entered<'a, <$device as Device>::Backend>,
            ) -> Result<()> {
                OperandOn::enter(self, stream, entered)
            }

            fn announce(held: &<Self as Operands>::Held) {
                <Self as OperandOn<$device>>::announce(held);
            }

            fn seen<'v>(
                held: &'v <Self as Operands>::Held,
                seen: &mut Vec<Seen<'v, <$device as Device>::Backend>>,
            ) {
                <Self as Operand>::seen(held, seen);
            }
        }
    )+ };
}

alone! {
    [D: Device, A: Readable<D, Elem: Element>] &A, on D;
    [D: Device, A: Writable<D, Elem: Element>] &mut A, on D;
    [T: Element, D: Device] Slice<'_, T, D>, on D;
    [T: Element, D: Device] SliceMut<'_, T, D>, on D;
    [T: Element, W: World, K: WindowKind] WindowSlice<'_, T, W, K>, on W::Device;
    [D: Device, W: World<Device = D>] &DevComm<W>, on D;
}

impl Operands for () {
    type Views<'v> = ();
    type Held = ();

    unsafe fn views(_: &()) {}
}

#[diagnostic::do_not_recommend]
impl<D: Device> OperandsOn<D> for () {
    fn hold(&self, _: &StreamAccess<'_, D>) -> Result<()> {
        Ok(())
    }

    fn used(
        &self,
        _: impl FnMut((&Arc<Allocation<D::Backend>>, bool)) -> Result<()>,
    ) -> Result<()> {
        Ok(())
    }

    fn seen(_: &(), _: &mut Vec<Seen<'_, D::Backend>>) {}
}

macro_rules! tuples {
    ($(($($operand:ident $index:tt),+)),+ $(,)?) => { $(
        impl<$($operand: Operand),+> Operands for ($($operand,)+) {
            type Views<'v> = ($($operand::View<'v>,)+);
            type Held = ($($operand::Held,)+);

            unsafe fn views<'v>(held: &'v Self::Held) -> Self::Views<'v> {
                // SAFETY: the caller's promise holds for each operand.
                ($(unsafe { $operand::view(&held.$index) },)+)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<D: Device, $($operand: OperandOn<D>),+> OperandsOn<D> for ($($operand,)+) {
            fn hold(&self, stream: &StreamAccess<'_, D>) -> Result<Self::Held> {
                Ok(($(self.$index.hold(stream)?,)+))
            }

            fn used(
                &self,
                mut each: impl FnMut((&Arc<Allocation<D::Backend>>, bool)) -> Result<()>,
            ) -> Result<()> {
                $(if let Some(used) = self.$index.used() { each(used)?; })+
                Ok(())
            }

            fn enter<'a>(
                &'a self,
                stream: &StreamAccess<'a, D>,
                entered: &mut Entered<'a, D::Backend>,
            ) -> Result<()> {
                $(self.$index.enter(stream, entered)?;)+
                Ok(())
            }

            fn announce(held: &Self::Held) {
                $(<$operand as OperandOn<D>>::announce(&held.$index);)+
            }

            fn seen<'v>(held: &'v Self::Held, seen: &mut Vec<Seen<'v, D::Backend>>) {
                $(<$operand as Operand>::seen(&held.$index, seen);)+
            }
        }
    )+ };
}

tuples!(
    (A 0),
    (A 0, B 1),
    (A 0, B 1, C 2),
    (A 0, B 1, C 2, E 3),
    (A 0, B 1, C 2, E 3, F 4),
    (A 0, B 1, C 2, E 3, F 4, G 5),
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6),
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7),
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8),
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8, K 9),
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8, K 9, L 10),
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11),
);

/// Operands, as the memory that a launch uses.
struct Used<'a, D, A>(&'a A, PhantomData<D>);

impl<D: Device, A: OperandsOn<D>> Uses<D::Backend> for Used<'_, D, A> {
    fn each(&self, mut each: impl FnMut(&Order<D::Backend>, bool) -> Result<()>) -> Result<()> {
        self.0.used(|(allocation, write)| each(&allocation.order, write))
    }
}

pub(super) fn enqueue<D: Device, A, F>(
    stream: &Stream<D>,
    operands: A,
    work: F,
    site: Site,
) -> Result<()>
where
    A: OperandsOn<D>,
    F: for<'v, 'r> FnOnce(A::Views<'v>, <D::Backend as Launches>::Raw<'r>) + Send + 'static,
{
    let held = hold(stream, &operands, site)?;
    let mut entered = Entered::default();
    operands.enter(&StreamAccess { core: &stream.core, site }, &mut entered)?;
    let _booking = Booking::new(&stream.core, Used(&operands, PhantomData))?;
    A::announce(&held);
    let _recorded = record::work(&stream.core, "launch", site);
    <D::Backend as Launches>::launch(stream.core.raw(), site, move |raw| {
        run::<D, A>(&held, site, |views| work(views, raw));
    })
}

/// Checks operands, and takes hold of their memory.
pub(crate) fn hold<D: Device, A: OperandsOn<D>>(
    stream: &Stream<D>,
    operands: &A,
    site: Site,
) -> Result<A::Held> {
    operands.hold(&StreamAccess::new(&stream.core, site))
}

/// Hands memory to a closure, in stream order.
pub(crate) fn run<D: Device, A: OperandsOn<D>>(
    held: &A::Held,
    site: Site,
    work: impl for<'v> FnOnce(A::Views<'v>),
) {
    let _launching = Launching::enter();
    let mut seen = Vec::new();
    A::seen(held, &mut seen);
    let _guard = <D::Backend as Launches>::guard(&seen, site);
    // SAFETY: every launch goes through the backend, which runs it in stream order, after the waits
    // of a booking.
    let views = unsafe { A::views(held) };
    work(views);
}

mod sealed {
    use crate::{Buffer, Device, Peers, Slice, SliceMut, WindowSlice, World};

    pub trait Sealed {}
    impl<A> Sealed for &A {}
    impl<A> Sealed for &mut A {}
    impl<T, D: Device, M> Sealed for Buffer<T, D, M> {}
    impl<T, D: Device> Sealed for Slice<'_, T, D> {}
    impl<T, D: Device> Sealed for SliceMut<'_, T, D> {}
    impl<T, W: World, K> Sealed for WindowSlice<'_, T, W, K> {}
    impl<T, W: World, K> Sealed for Peers<'_, T, W, K> {}
}
