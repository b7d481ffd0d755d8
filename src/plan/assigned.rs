//! Local work of a plan: copies and reductions within a rank, and of peers' windows.

use std::sync::Arc;

use typed_nccl_plan::ir;
use typed_nccl_plan::lower::Elements;

use super::argument::{Back, PlanOperand};
use super::prepare::{Object, Preparing, Spot, reduction};
use crate::backend::{Backend, Combined, Copies, Gathered, Kernels, Reads, Source};
use crate::communicator::Core;
use crate::error::{BindFault, Error, Site, Unsupported};
use crate::memory::{Allocation, Booking, Order, Uses};
use crate::{DType, Device, Rank, ReductionName, Result, Stream, World};

/// An assignment without its memory.
pub(super) struct Assigned {
    to: Spot,
    by: ReductionName,
    of: Vec<From>,
    dtype: DType,
    site: Site,
}

/// Part of an allocation of this rank, or of a peer's window.
#[derive(PartialEq)]
struct From {
    spot: Spot,
    peer: Option<Rank>,
}

impl Preparing<'_> {
    pub(super) fn assigned(
        &self,
        to: &Elements,
        by: ir::Reduction,
        of: &[Elements],
        site: Site,
    ) -> Result<Assigned, BindFault> {
        let from = |one: &Elements| {
            let peer = one.rank.map(|rank| Rank::at(rank as usize));
            From { spot: self.spot(one), peer }
        };
        let (to, of) = (self.spot(to), of.iter().map(from).collect::<Vec<_>>());
        let (dtype, by) = (self.objects[to.object].dtype, reduction(by));
        if by == ReductionName::Mean && of.len() > 1 && !by.reduces(dtype) {
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
        let is_window = |from: &From| objects[from.spot.object].is_window;
        let is_target = |from: &From| from.peer.is_none() && from.spot == next.to;
        let names_its_line = *site == next.site || !next.of.iter().any(is_window);
        let goes_on = next.to == *to
            && next.of.len() > 1
            && is_target(&next.of[0])
            && !next.of[1..].iter().any(is_target)
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
            many => {
                let (dtype, _) = self.by.computes_with(self.dtype, 0);
                D::Backend::can_combine(stream.core.raw(), self.by, dtype, many)
            }
        }
    }

    /// The peers whose windows it reads, each with the object.
    pub(super) fn peers(&self) -> impl Iterator<Item = (usize, Rank)> {
        self.of.iter().filter_map(|from| Some((from.spot.object, from.peer?)))
    }

    /// Fills in memory and enqueues it.
    pub(super) fn enqueue<W: World>(
        &self,
        core: &Core<Back<W>>,
        stream: &Stream<W::Device>,
        (plan, places): (&ir::Plan, &Table<'_, W>),
    ) -> Result<()> {
        let &Self { ref to, by, ref of, dtype, site } = self;
        let place = |spot: &Spot| {
            let place = &places.of[spot.object];
            (place.allocation, place.offset(spot))
        };
        let target = place(to);
        let own = of.iter().filter(|from| from.peer.is_none());
        let sources: Vec<_> = own.map(|from| place(&from.spot)).collect();
        let count = to.len;
        let keeps = |only: &From| only.peer.is_none() && only.spot == *to;
        if count == 0 || matches!(&of[..], [one] if keeps(one)) {
            return Ok(());
        }
        let of = match sources.len() == of.len() {
            true => None,
            // Before anything is enqueued.
            false => Some(self.sources(core, plan, places)?),
        };
        let _booking = Booking::new(&stream.core, Both { of: &sources, to: target.0 })?;
        if let Some(of) = of {
            let gathered = Gathered { by, dtype, of, to: target, count, site };
            // SAFETY: as below; the plan's checks keep peers' ranges inside their windows.
            return unsafe { Back::<W>::gather(core.comm()?, stream.core.raw(), gathered) };
        }
        if let [source] = sources[..] {
            let bytes = count * dtype.size();
            // SAFETY: the plan's checks keep both ranges inside and apart, and the stream waits for
            // the memory's earlier uses.
            return unsafe { Back::<W>::copy(stream.core.raw(), source, target, bytes, site) };
        }
        let (dtype, count) = by.computes_with(dtype, count);
        let combined = Combined { by, dtype, of: &sources, to: target, count, site };
        // SAFETY: as above; a source that overlaps the target is the target. Allocations are
        // aligned for every type, and offsets are whole elements.
        unsafe { Back::<W>::combine(stream.core.raw(), combined) }
    }

    /// The sources, with the peers' parts of the windows that this run got.
    fn sources<'a, W: World>(
        &self,
        core: &Core<Back<W>>,
        plan: &ir::Plan,
        places: &Table<'a, W>,
    ) -> Result<Vec<Source<'a, Back<W>>>> {
        let comm = core.comm()?;
        let source = |From { spot, peer }: &From| {
            let place = &places.of[spot.object];
            let offset = place.offset(spot);
            let Some(peer) = *peer else { return Ok(Source::Own(place.allocation, offset)) };
            let part = place.window.and_then(|id| Back::<W>::part(comm, id, peer));
            part.map(|part| Source::Peer(part, offset)).ok_or_else(|| {
                let buffer = places.objects[spot.object].buffer;
                unreached(&plan.buffers[buffer].name, peer)
            })
        };
        self.of.iter().map(source).collect()
    }
}

/// The memory of a run, and what each of it is.
pub(super) struct Table<'a, W: World> {
    pub(super) of: &'a [PlanOperand<'a, W>],
    pub(super) objects: &'a [Object],
}

#[cold]
fn unreached(window: &str, peer: Rank) -> Error {
    Error::from(Unsupported {
        what: format!("a read of rank {peer}'s `{window}`"),
        needs: "a window whose memory this rank reaches".to_owned(),
        found: "the communicator gives no address of it".to_owned(),
    })
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
