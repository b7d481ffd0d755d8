//! The memory that a run passes to a plan: whole buffers and windows, or views of buffers.

use std::sync::Arc;

use super::Swapped;
use super::prepare::Spot;
use super::table::Filled;
use crate::backend::WindowId;
use crate::communicator::Core;
use crate::derived::copy;
use crate::error::Error;
use crate::memory::{Allocation, Extent};
use crate::{Buffer, DType, Device, Element, Slice, SliceMut, Window, World};

pub(super) type Back<W> = <<W as World>::Device as Device>::Backend;

/// One allocation for a plan, or part of one.
pub(super) struct PlanOperand<'a, W: World> {
    pub(super) allocation: &'a Arc<Allocation<Back<W>>>,
    /// Where it begins in the allocation, in elements.
    pub(super) start: usize,
    /// In elements.
    pub(super) len: usize,
    /// Its id, if it is a window.
    pub(super) window: Option<WindowId>,
    /// Whether the ranks' parts of it differ in length.
    pub(super) is_uneven: bool,
}

impl<W: World> PlanOperand<'_, W> {
    /// Where a spot of it begins in the allocation, in bytes.
    #[inline]
    pub(super) fn offset(&self, spot: &Spot) -> usize {
        self.start * spot.size + spot.offset()
    }
}

copy!([W: World] PlanOperand<'_, W>);

/// Collects memory, allocation by allocation.
#[doc(hidden)]
pub struct Places<'p, 'a, W: World> {
    pub(super) core: &'p Core<Back<W>>,
    pub(super) table: &'p mut Filled<'a, W>,
    /// A window of another communicator, or a view past its buffer.
    pub(super) error: &'p mut Option<Error>,
}

impl<'a, W: World> Places<'_, 'a, W> {
    fn view(&mut self, (allocation, extent): (&'a Arc<Allocation<Back<W>>>, Extent)) {
        let (start, len) = extent.checked().unwrap_or_else(|bad| {
            self.error.get_or_insert_with(|| Error::BadRange(Box::new(bad)));
            (0, 0)
        });
        let (window, is_uneven) = (None, false);
        self.table.push_view(PlanOperand { allocation, start, len, window, is_uneven });
    }
}

/// Memory that a plan only reads: buffers, symmetric windows and views of buffers; slices and
/// vectors of these, or of references to them, for an array; and [`Swapped`] pairs for two copies.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat, plan::{Bound, PlanInput}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn run<M: PlanInput<Host>>(
///     plan: &mut Bound<Host>,
///     comm: &typed_nccl::Communicator<Host>,
///     x: &M, // such as `&x`, `&x.slice(..4)`, `&[&x, &y]`
/// ) -> Result<()> {
///     plan.on(comm).read("x", x).run(&mut ())
/// }
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory that a plan on `{W}` can be given",
    label = "this lives on another device, or is neither a buffer, a window nor a view",
    note = "give a `Buffer`, a view of one, a symmetric `Window`, a `Swapped` pair, or a slice of them for an array"
)]
pub trait PlanInput<W: World> {
    /// Whether it has two copies.
    #[doc(hidden)]
    const SWAPPED: bool = false;

    /// Of its elements.
    #[doc(hidden)]
    const DTYPE: DType;

    /// Its allocations; of two copies, the current one first.
    #[doc(hidden)]
    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>);
}

/// Memory that a plan reads and writes: [`PlanInput`] without shared views and references.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat, plan::{Bound, PlanMemory}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn run<M: PlanMemory<Host>>(
///     plan: &mut Bound<Host>,
///     comm: &typed_nccl::Communicator<Host>,
///     x: &mut M,
/// ) -> Result<()> {
///     plan.on(comm).write("x", x).run(&mut ())
/// }
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory that a plan on `{W}` can write",
    label = "this lives on another device, is shared, or is neither a buffer, a window nor a view",
    note = "give a `Buffer`, a view from `slice_mut`, a symmetric `Window`, a `Swapped` pair, or a slice of them for an array"
)]
pub trait PlanMemory<W: World>: PlanInput<W> {}

/// One allocation, which can be half of a [`Swapped`] pair.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be half of a `Swapped` pair on `{W}`",
    label = "a pair is of two buffers, or of two symmetric windows",
    note = "where the plan has an array of two copies, give a list of pairs: `[Swapped::new(a, b), ..]`"
)]
pub trait OneAllocation<W: World>: PlanMemory<W> {}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World<Device = D>, D: Device, M> OneAllocation<W> for Buffer<T, D, M> {}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World> OneAllocation<W> for Window<T, W> {}

impl<T: Element, W: World<Device = D>, D: Device, M> PlanInput<W> for Buffer<T, D, M> {
    const DTYPE: DType = T::DTYPE;

    #[inline]
    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        let (allocation, start, len, is_uneven) = (self.allocation(), 0, self.len(), false);
        places.table.push(PlanOperand { allocation, start, len, window: None, is_uneven });
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World<Device = D>, D: Device> PlanInput<W> for Slice<'_, T, D> {
    const DTYPE: DType = T::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        places.view(self.into_place());
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World<Device = D>, D: Device> PlanInput<W> for SliceMut<'_, T, D> {
    const DTYPE: DType = T::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        places.view(self.place());
    }
}

impl<T: Element, W: World> PlanInput<W> for Window<T, W> {
    const DTYPE: DType = T::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        if let Err(error) = places.core.resources.window(&self.named.key) {
            places.error.get_or_insert(error);
        }
        let (allocation, window) = self.registered();
        let (start, len, is_uneven) = (0, self.len(), !self.is_even());
        let window = Some(window);
        places.table.push(PlanOperand { allocation, start, len, window, is_uneven });
    }
}

// Not implemented for lists: the plan's table has the halves of each pair side by side.
impl<M: OneAllocation<W>, W: World> PlanInput<W> for Swapped<M> {
    const SWAPPED: bool = true;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        self.current().places(places);
        self.next().places(places);
        places.table.flips_by(self.parity());
    }
}

impl<M: PlanInput<W>, W: World> PlanInput<W> for [M] {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        for one in self {
            one.places(places);
        }
    }
}

impl<M: PlanInput<W>, W: World> PlanInput<W> for Vec<M> {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        self.as_slice().places(places);
    }
}

impl<M: PlanInput<W>, W: World, const N: usize> PlanInput<W> for [M; N] {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        self.as_slice().places(places);
    }
}

#[diagnostic::do_not_recommend]
impl<M: PlanInput<W> + ?Sized, W: World> PlanInput<W> for &M {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        M::places(self, places);
    }
}

#[diagnostic::do_not_recommend]
impl<M: PlanInput<W> + ?Sized, W: World> PlanInput<W> for &mut M {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        M::places(self, places);
    }
}

impl<T: Element, W: World<Device = D>, D: Device, M> PlanMemory<W> for Buffer<T, D, M> {}

#[diagnostic::do_not_recommend]
impl<T: Element, W: World<Device = D>, D: Device> PlanMemory<W> for SliceMut<'_, T, D> {}

impl<T: Element, W: World> PlanMemory<W> for Window<T, W> {}

impl<M: OneAllocation<W>, W: World> PlanMemory<W> for Swapped<M> {}

impl<M: PlanMemory<W>, W: World> PlanMemory<W> for [M] {}

impl<M: PlanMemory<W>, W: World> PlanMemory<W> for Vec<M> {}

impl<M: PlanMemory<W>, W: World, const N: usize> PlanMemory<W> for [M; N] {}

#[diagnostic::do_not_recommend]
impl<M: PlanMemory<W> + ?Sized, W: World> PlanMemory<W> for &mut M {}

/// Memory of elements `T` that a field of a plan's `Buffers` takes if the plan only reads it: a
/// buffer, a view of one, or a symmetric window.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat, plan, plan::InputOf};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// plan! {
///     copy(n: Ranks, len: usize) {
///         in x: [f32; len];
///         out y: [f32; len];
///         send x to rank into y;
///     }
/// }
///
/// fn run<M: InputOf<f32, Host>>(
///     copy: &mut copy::Bound<Host>,
///     comm: &typed_nccl::Communicator<Host>,
///     x: &M, // such as `&x`, `&x.slice(..4)`
/// ) -> Result<Vec<f32>> {
///     let mut y = comm.device().zeros(6)?;
///     copy.run(comm, copy::Buffers { x, y: &mut y.slice_mut(1..5) })?;
///     y.to_vec()
/// }
/// # let mut copy = copy::bind(&mut comm, copy::Params { len: 4 })?;
/// # let x = comm.device().from_slice(&[1.0; 9])?;
/// # assert_eq!(run(&mut copy, &comm, &x.slice(3..7))?, [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not memory of `{T}` that a plan on `{W}` can read",
    label = "the plan declares one memory of `{T}` here",
    note = "pass a reference to a `Buffer`, a view of one, or a symmetric `Window`"
)]
pub trait InputOf<T: Element, W: World>: PlanInput<W> {}

/// Memory of elements `T` that a field of a plan's `Buffers` takes if the plan writes it:
/// [`InputOf`] without shared views.
///
/// See the example of [`InputOf`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not memory of `{T}` that a plan on `{W}` can write",
    label = "the plan declares one memory of `{T}` here, and writes it",
    note = "pass a `&mut` to a `Buffer`, a view from `slice_mut`, or a symmetric `Window`"
)]
pub trait MemoryOf<T: Element, W: World>: InputOf<T, W> + PlanMemory<W> {}

/// Each half of a [`Swapped`] pair in a field of a plan's `Buffers`: a buffer of elements `T`.
///
/// See the example of [`Swapped`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a whole buffer of `{T}` on `{W}`",
    label = "the plan declares two copies of a buffer of `{T}` here",
    note = "pass `&mut Swapped::new(a, b)` of two buffers of `{T}`"
)]
pub trait WholeOf<T: Element, W: World>: OneAllocation<W> {}

impl<T: Element, W: World<Device = D>, D: Device, M> InputOf<T, W> for Buffer<T, D, M> {}

impl<T: Element, W: World<Device = D>, D: Device, M> MemoryOf<T, W> for Buffer<T, D, M> {}

impl<T: Element, W: World<Device = D>, D: Device, M> WholeOf<T, W> for Buffer<T, D, M> {}

impl<T: Element, W: World<Device = D>, D: Device> InputOf<T, W> for Slice<'_, T, D> {}

impl<T: Element, W: World<Device = D>, D: Device> InputOf<T, W> for SliceMut<'_, T, D> {}

impl<T: Element, W: World<Device = D>, D: Device> MemoryOf<T, W> for SliceMut<'_, T, D> {}

impl<T: Element, W: World> InputOf<T, W> for Window<T, W> {}

impl<T: Element, W: World> MemoryOf<T, W> for Window<T, W> {}

#[diagnostic::do_not_recommend]
impl<M: InputOf<T, W> + ?Sized, T: Element, W: World> InputOf<T, W> for &M {}

#[diagnostic::do_not_recommend]
impl<M: InputOf<T, W> + ?Sized, T: Element, W: World> InputOf<T, W> for &mut M {}

#[diagnostic::do_not_recommend]
impl<M: MemoryOf<T, W> + ?Sized, T: Element, W: World> MemoryOf<T, W> for &mut M {}
