//! Local work of a plan: copies and reductions within a rank.

use std::sync::Arc;

use typed_nccl_plan::ir;
use typed_nccl_plan::lower::Elements;

use super::argument::{Back, PlanOperand};
use super::prepare::{Object, Preparing, Spot, reduction};
use crate::backend::{Backend, Combined, Copies, Kernels};
use crate::error::{BindFault, Site};
use crate::memory::{Allocation, Booking, Order, Uses};
use crate::{DType, Device, ReductionName, Result, Stream, World};

/// An assignment without its memory.
pub(super) struct Assigned {
    to: Spot,
    by: ReductionName,
    of: Vec<Spot>,
    dtype: DType,
    site: Site,
}

impl Preparing<'_> {
    pub(super) fn assigned(
        &self,
        to: &Elements,
        by: ir::Reduction,
        of: &[Elements],
        site: Site,
    ) -> Result<Assigned, BindFault> {
        let (to, of) = (self.spot(to), of.iter().map(|one| self.spot(one)).collect::<Vec<_>>());
        let (dtype, by) = (self.objects[to.object].dtype, reduction(by));
        if by == ReductionName::Mean && of.len() > 1 && !dtype.is_float() {
            return Err(BindFault::Averages { dtype });
        }
        if of.len() > 1 && !by.reduces(dtype) {
            return Err(BindFault::NotReducible { reduction: by, dtype });
        }
        Ok(Assigned { to, by, of, dtype, site })
    }
}

impl Assigned {
    /// Takes over the next assignment of the stream, if one pass over the elements gives the same
    /// bits as two; otherwise returns it. So `x += y; x += z;` is one kernel. A report of a race on
    /// a window names the line of its statement.
    pub(super) fn absorb(&mut self, next: Self, objects: &[Object]) -> Option<Self> {
        let Self { to, by, of, dtype, site } = self;
        let is_window = |spot: &Spot| objects[spot.object].is_window;
        let names_its_line = *site == next.site || !next.of.iter().any(is_window);
        let goes_on = next.to == *to
            && next.of.len() > 1
            && next.of[0] == *to
            && next.of[1..].iter().all(|one| one != to)
            && (of.len() == 1 || *by == next.by);
        let fits = of.len() + next.of.len() - 1 <= ir::MOST_ASSIGNED;
        // Narrow floats are rounded after each assignment.
        let is_rounded = next.by.averages() || dtype.is_float() && dtype.size() < 4;
        if !goes_on || !fits || is_rounded || !names_its_line {
            return Some(next);
        }
        *by = next.by;
        of.extend(next.of.into_iter().skip(1));
        None
    }

    /// Loads what the device needs for it, which may block.
    pub(super) fn load<D: Device>(&self, stream: &Stream<D>) -> Result<()> {
        match self.of.len() {
            0 | 1 => Ok(()),
            many => D::Backend::can_combine(stream.core.raw(), self.by, self.dtype, many),
        }
    }

    /// Fills in memory and enqueues it.
    pub(super) fn enqueue<W: World>(
        &self,
        stream: &Stream<W::Device>,
        places: &[PlanOperand<'_, W>],
    ) -> Result<()> {
        let &Self { ref to, by, ref of, dtype, site } = self;
        let place = |spot: &Spot| {
            let place = &places[spot.object];
            (place.allocation, place.offset(spot))
        };
        let target = place(to);
        let sources: Vec<_> = of.iter().map(place).collect();
        let count = to.len;
        if count == 0 || matches!(&of[..], [one] if one == to) {
            return Ok(());
        }
        let _booking = Booking::new(&stream.core, Both { of: &sources, to: target.0 })?;
        if let [source] = sources[..] {
            let bytes = count * dtype.size();
            // SAFETY: the plan's checks keep both ranges inside and apart, and the stream waits for
            // the memory's earlier uses.
            return unsafe { Back::<W>::copy(stream.core.raw(), source, target, bytes, site) };
        }
        let combined = Combined { by, dtype, of: &sources, to: target, count, site };
        // SAFETY: as above; a source that overlaps the target is the target. Allocations are
        // aligned for every type, and offsets are whole elements.
        unsafe { Back::<W>::combine(stream.core.raw(), combined) }
    }
}

/// The memory that it reads, and that it writes; each allocation once.
struct Both<'a, B: Backend> {
    of: &'a [(&'a Arc<Allocation<B>>, usize)],
    to: &'a Arc<Allocation<B>>,
}

impl<B: Backend> Uses<B> for Both<'_, B> {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        for (nth, (from, _)) in self.of.iter().enumerate() {
            let is_known = |known: &Arc<Allocation<B>>| Arc::ptr_eq(known, from);
            if !is_known(self.to) && !self.of[..nth].iter().any(|(known, _)| is_known(known)) {
                each(&from.order, false)?;
            }
        }
        each(&self.to.order, true)
    }
}
