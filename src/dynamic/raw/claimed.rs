//! What an address leaves to be checked, and the operation that follows.

use std::sync::Arc;

use typed_nccl_plan::ir::Side;

use super::{RawOp, RawPart};
use crate::backend::{Backend, Half, Op, Refusal, form};
use crate::collectives::{Draft, View};
use crate::communicator::Core;
use crate::error::{AdoptFault, CollectiveName, NotAdoptable, OtherDevice, Site};
use crate::memory::{Allocation, Extent};
use crate::{DynReduceOp, Result, p2p};

/// An operation whose addresses were checked, with a header for each.
pub(super) enum Claimed<B: Backend> {
    Collective {
        name: CollectiveName,
        send: Option<Place<B>>,
        recv: Option<Place<B>>,
        op: Option<DynReduceOp>,
        root: Option<usize>,
    },
    Transfer {
        half: Half,
        place: Place<B>,
        peer: usize,
    },
}

/// Elements by address, and the header by which operations name memory.
pub(super) struct Place<B: Backend> {
    part: RawPart,
    allocation: Arc<Allocation<B>>,
}

impl<B: Backend> Place<B> {
    /// # Safety
    /// See [`Raw`](super::Raw).
    unsafe fn new(
        core: &Core<B>,
        operation: &'static str,
        part: RawPart,
        site: Site,
    ) -> Result<Self> {
        let RawPart { start, len, dtype } = part;
        let refused = |fault| NotAdoptable::new(operation, fault, site);
        let bytes = dtype.bytes_of(len).ok_or_else(|| refused(AdoptFault::TooLong))?;
        if let Some(fault) = AdoptFault::of_address(start.addr(), len, dtype) {
            return Err(refused(fault).into());
        }
        let needed = core.ordinal;
        let found = match bytes {
            0 => needed,
            _ => B::whose(start.cast(), needed)
                .ok_or_else(|| refused(AdoptFault::HostMemory { pinned: false }))?,
        };
        OtherDevice::unless_same(operation, "memory", B::KIND, (found, needed), site)?;
        // SAFETY: the caller's promise: nothing else uses the bytes until the operation is over.
        let block = unsafe { B::adopt(needed, start.cast(), bytes) }?;
        let allocation = Allocation::adopted(needed, block, None);
        // The promise ends with the operation: no graph and no registration may keep the memory.
        allocation.order.set_lent();
        Ok(Self { part, allocation: Arc::new(allocation) })
    }

    fn view(&self) -> View<'_, B> {
        // SAFETY: the allocation has this many elements of that type.
        unsafe { Extent::whole(self.part.len).span(&self.allocation, self.part.dtype.size()) }
    }
}

impl RawOp {
    /// What peers are told if it is refused.
    pub(super) fn refusal<B: Backend>(&self, core: &Core<B>) -> Option<Refusal> {
        match *self {
            Self::SendTo { to, .. } => p2p::refusals(Half::SendTo, to, core),
            Self::RecvFrom { from, .. } => p2p::refusals(Half::RecvFrom, from, core),
            _ => Some(Refusal::Collective),
        }
    }
}

impl<B: Backend> Claimed<B> {
    /// # Safety
    /// See [`Raw`](super::Raw).
    pub(super) unsafe fn new(core: &Core<B>, op: &RawOp, site: Site) -> Result<Self> {
        use CollectiveName as Name;
        let place = |operation, part| {
            // SAFETY: the caller's promise.
            unsafe { Place::new(core, operation, part, site) }
        };
        let collective = |name: Name, send, recv, op, root: Option<usize>| {
            let is_root = |root| core.number(root) == Some(core.rank.index());
            let side = |side: Side, part: Option<RawPart>| {
                let part = part.filter(|_| side.is_on(root.is_none_or(is_root)));
                part.map(|part| place(name.name(), part)).transpose()
            };
            let spec = name.spec();
            let (send, recv) = (side(spec.send, send)?, side(spec.recv, recv)?);
            Ok(Self::Collective { name, send, recv, op, root })
        };
        let transfer = |half: Half, part, peer| {
            let place = place(half.operation().name(), part)?;
            Ok(Self::Transfer { half, place, peer })
        };
        match *op {
            RawOp::AllReduce { send, recv, op } => {
                collective(Name::AllReduce, Some(send), Some(recv), Some(op), None)
            }
            RawOp::Broadcast { send, recv, root } => {
                collective(Name::Broadcast, send, Some(recv), None, Some(root))
            }
            RawOp::Reduce { send, recv, op, root } => {
                collective(Name::Reduce, Some(send), recv, Some(op), Some(root))
            }
            RawOp::AllGather { send, recv } => {
                collective(Name::AllGather, Some(send), Some(recv), None, None)
            }
            RawOp::ReduceScatter { send, recv, op } => {
                collective(Name::ReduceScatter, Some(send), Some(recv), Some(op), None)
            }
            RawOp::SendTo { part, to } => transfer(Half::SendTo, part, to),
            RawOp::RecvFrom { part, from } => transfer(Half::RecvFrom, part, from),
        }
    }

    /// The operation, with the checks of the typed calls.
    pub(super) fn draft(&self, core: &Core<B>, site: Site) -> Result<Op<'_, B>> {
        let (name, send, recv, op, root) = match self {
            Self::Transfer { half, place, peer } => {
                return Draft::new(core, place.part.dtype, site).transfer(
                    *half,
                    place.view(),
                    *peer,
                );
            }
            Self::Collective { name, send, recv, op, root } => (*name, send, recv, *op, *root),
        };
        let op = || op.map(|op| Ok(form::Reduction::BuiltIn(op.name())));
        let dtype = |side: &Option<Place<B>>| side.as_ref().map(|place| place.part.dtype);
        let view = |side| Option::as_ref(side).map(Place::view);
        // Where one side is only the root's, the other says the type.
        let (own, other) = match name.spec().send.only_root {
            true => (dtype(recv), dtype(send)),
            false => (dtype(send), dtype(recv)),
        };
        let draft = Draft::new(core, own.unwrap_or(crate::DType::U8), site).against(other);
        let apart = draft.collective(name, (view(send), view(recv)), op(), root)?;
        let (Some(send), Some(recv)) = (send, recv) else { return Ok(apart) };
        if !send.part.overlaps(&recv.part) {
            return Ok(apart);
        }
        match whole_of(name, core.rank.index(), send, recv) {
            Some(whole) => draft.in_place(name, whole.view(), op(), root),
            None => Err(NotAdoptable::new(name.name(), AdoptFault::Overlaps, site).into()),
        }
    }
}

/// The side that contains the other where the collective can run in it: the same elements, or this
/// rank's part of all.
fn whole_of<'p, B: Backend>(
    name: CollectiveName,
    rank: usize,
    send: &'p Place<B>,
    recv: &'p Place<B>,
) -> Option<&'p Place<B>> {
    let spec = name.spec();
    let (whole, part, times) = match (spec.send.is_whole, spec.recv.is_whole) {
        (false, false) => (recv, send, 0),
        (true, false) => (send, recv, rank),
        (false, true) => (recv, send, rank),
        (true, true) => return None,
    };
    let (all, own) = (whole.part.bytes(), part.part.bytes());
    let start = own.len().checked_mul(times).and_then(|before| all.start.checked_add(before));
    (start == Some(own.start)).then_some(whole)
}
