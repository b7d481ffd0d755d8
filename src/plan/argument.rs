//! The memory that a run passes to a plan.

use std::sync::Arc;

use super::Swapped;
use super::table::Filled;
use crate::backend::WindowId;
use crate::communicator::Core;
use crate::error::Error;
use crate::memory::Allocation;
use crate::{Buffer, DType, Device, Element, Window, World};

pub(super) type Back<W> = <<W as World>::Device as Device>::Backend;

/// One allocation for a plan.
pub(super) struct PlanOperand<'a, W: World> {
    pub(super) allocation: &'a Arc<Allocation<Back<W>>>,
    /// In elements.
    pub(super) len: usize,
    /// Its id, if it is a window.
    pub(super) window: Option<WindowId>,
    /// Whether the ranks' parts of it differ in length.
    pub(super) is_uneven: bool,
}

impl<W: World> Clone for PlanOperand<'_, W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: World> Copy for PlanOperand<'_, W> {}

/// Collects memory, allocation by allocation.
#[doc(hidden)]
pub struct Places<'p, 'a, W: World> {
    pub(super) core: &'p Core<Back<W>>,
    pub(super) table: &'p mut Filled<'a, W>,
    /// A window of another communicator.
    pub(super) error: &'p mut Option<Error>,
}

/// Memory for a plan: buffers and symmetric windows, slices and vectors of them for an array, and
/// [`Swapped`] pairs of them for two copies.
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
    message = "`{Self}` is no memory that a plan on `{W}` can be given",
    label = "this lives on another device, or is neither a buffer nor a window",
    note = "give a `Buffer`, a symmetric `Window`, a `Swapped` pair of them, or a slice of them for an array"
)]
pub trait PlanMemory<W: World> {
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

impl<T: Element, W: World<Device = D>, D: Device, M> PlanMemory<W> for Buffer<T, D, M> {
    const DTYPE: DType = T::DTYPE;

    #[inline]
    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        let (allocation, len) = (self.allocation(), self.len());
        places.table.push(PlanOperand { allocation, len, window: None, is_uneven: false });
    }
}

impl<T: Element, W: World> PlanMemory<W> for Window<T, W> {
    const DTYPE: DType = T::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        if let Err(error) = places.core.resources.window(&self.named.key) {
            places.error.get_or_insert(error);
        }
        let (allocation, window) = self.registered();
        let (len, window, is_uneven) = (self.len(), Some(window), !self.is_even());
        places.table.push(PlanOperand { allocation, len, window, is_uneven });
    }
}

// Not implemented for lists: the plan's table has the halves of each pair side by side.
impl<M: OneAllocation<W>, W: World> PlanMemory<W> for Swapped<M> {
    const SWAPPED: bool = true;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        self.current().places(places);
        self.next().places(places);
        places.table.flips_by(self.parity());
    }
}

impl<M: PlanMemory<W>, W: World> PlanMemory<W> for [M] {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        for one in self {
            one.places(places);
        }
    }
}

impl<M: PlanMemory<W>, W: World> PlanMemory<W> for Vec<M> {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        self.as_slice().places(places);
    }
}

impl<M: PlanMemory<W>, W: World, const N: usize> PlanMemory<W> for [M; N] {
    const SWAPPED: bool = M::SWAPPED;
    const DTYPE: DType = M::DTYPE;

    fn places<'a>(&'a self, places: &mut Places<'_, 'a, W>) {
        self.as_slice().places(places);
    }
}
