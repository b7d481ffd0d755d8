//! Launches of a plan that use this library's own kernels.

use std::sync::Arc;

use typed_nccl_plan::cost::{AllReduceBy, Topology};
use typed_nccl_plan::lower::{Leg, Operation};

use super::argument::{Back, PlanOperand};
use super::prepare::{Preparing, Spot, Template};
use crate::backend::form::Collective;
use crate::backend::{Backend, KernelWay, KernelWork, NOBODY, Piece, Refusal};
use crate::communicator::On;
use crate::error::{self, BindFault, Call, CollectiveName, Site};
use crate::kernels::Launch;
use crate::memory::Allocation;
use crate::{ReductionName, Result, World};

/// Memory of a launch, and whether it is written.
pub(super) type Use<'a, B> = (&'a Arc<Allocation<B>>, bool);

/// A launch without its memory.
pub(super) struct Kernel {
    /// Its communicator's index in the plan.
    pub(super) among: usize,
    call: Call,
    work: KernelWork,
    parts: Vec<PieceTemplate>,
    /// Their objects, each once, and whether they are written.
    uses: Vec<(usize, bool)>,
    /// The messages for the other ranks if it is refused.
    pub(super) refusals: Vec<Refusal>,
}

/// A piece of it: the memory that it reads and writes.
struct PieceTemplate {
    send: Option<Spot>,
    recv: Option<Spot>,
    count: usize,
    to: u16,
    from: u16,
}

impl Preparing<'_> {
    /// A kernel for these operations; `legs` are those of messages.
    pub(super) fn kernel(
        &self,
        operations: &[Operation],
        legs: &[Leg],
        site: Site,
    ) -> Result<Kernel, BindFault> {
        let Some(among) = operations.first().map(|one| one.among().index()) else {
            return Err(BindFault::Unreadable { why: "a kernel that does nothing".to_owned() });
        };
        let mut templates = Vec::new();
        for operation in operations {
            self.operation(operation, among, site, &mut templates)?;
        }
        let mut refusals: Vec<_> = templates.iter().map(Template::refusal).collect();
        if let Template::Collective(Collective { name: CollectiveName::AllToAll, .. }) =
            templates[0]
        {
            // They count as one, of all their elements.
            refusals.truncate(1);
        }
        let count = templates.iter().map(|one| one.call().count).sum();
        let call = Call { count, ..templates[0].call() };
        let (call, work, parts) = match &templates[0] {
            Template::Collective(Collective { name: CollectiveName::AllToAll, .. }) => {
                let (rank, size) = (self.rank_in(among, self.rank), self.size_of(among));
                let parts = templates.iter().flat_map(|one| to_all(one, rank, size));
                (call, KernelWork::Messages, parts.collect())
            }
            Template::Collective(_) => {
                let parts: Vec<PieceTemplate> = templates.iter().filter_map(reduced).collect();
                (call, self.all_reduce(call, among, parts.len()), parts)
            }
            _ => {
                let call =
                    Call { operation: error::Operation::SendTo, count: 0, peer: None, ..call };
                let parts = legs.iter().map(|leg| message(leg, &templates)).collect();
                (call, KernelWork::Messages, parts)
            }
        };
        let uses = uses(&parts);
        Ok(Kernel { among, call, work, parts, uses, refusals })
    }

    fn all_reduce(&self, call: Call, among: usize, many: usize) -> KernelWork {
        let times = Topology::h200_node().kernels;
        let way = match times.all_reduce(self.size_of(among), many, call.bytes() as f64) {
            Some((AllReduceBy::Blocks, _)) => KernelWay::OneShotInBlocks,
            Some((AllReduceBy::TwoShots, _)) => KernelWay::TwoShot,
            Some((AllReduceBy::Words, _)) | None => KernelWay::OneShot,
        };
        KernelWork::AllReduce(call.reduction.unwrap_or(ReductionName::Add), way)
    }
}

/// The piece of an all_reduce.
fn reduced(template: &Template) -> Option<PieceTemplate> {
    let Template::Collective(Collective { call, send, recv, .. }) = template else { return None };
    let (send, recv) = (send.clone(), recv.clone());
    Some(PieceTemplate { send, recv, count: call.count, to: NOBODY, from: NOBODY })
}

/// The pieces of an all_to_all: every rank's k-th piece travels k ranks ahead.
fn to_all(template: &Template, rank: usize, size: usize) -> impl Iterator<Item = PieceTemplate> {
    let (count, (send, recv)) = (template.call().count, template.sides());
    let block = move |spot: Option<&Spot>, of: usize| {
        spot.map(|spot| Spot { start: spot.start + of * count, len: count, ..*spot })
    };
    (0..size).map(move |shift| {
        let (to, from) = ((rank + shift) % size, (rank + size - shift) % size);
        let (send, recv) = (block(send, to), block(recv, from));
        PieceTemplate { send, recv, count, to: to as u16, from: from as u16 }
    })
}

/// The piece of a leg.
fn message(leg: &Leg, templates: &[Template]) -> PieceTemplate {
    let half = |of: Option<u32>| match &templates[of? as usize] {
        Template::Transfer(one) => Some((one.peer.index() as u16, one.span.clone())),
        _ => None,
    };
    let (to, send) = half(leg.send).unzip();
    let (from, recv) = half(leg.receive).unzip();
    let [to, from] = [to, from].map(|peer| peer.unwrap_or(NOBODY));
    PieceTemplate { send, recv, count: leg.len as usize, to, from }
}

fn uses(parts: &[PieceTemplate]) -> Vec<(usize, bool)> {
    let mut uses = Vec::<(usize, bool)>::new();
    for PieceTemplate { send, recv, .. } in parts {
        for (spot, write) in [(send, false), (recv, true)] {
            let Some(Spot { object, .. }) = spot else { continue };
            match uses.iter_mut().find(|(known, _)| known == object) {
                Some((_, written)) => *written |= write,
                None => uses.push((*object, write)),
            }
        }
    }
    uses
}

impl Kernel {
    /// Fills in memory and launches it, reusing the lists of the last launch.
    pub(super) fn launch<W: World, V: World<Device = W::Device>>(
        &self,
        on: &On<'_, V>,
        places: &[PlanOperand<'_, W>],
        (pieces, uses): (&mut Vec<Piece>, &mut Vec<Use<'static, Back<W>>>),
    ) -> Result<()> {
        pieces.clear();
        pieces.extend(self.parts.iter().map(|part| Piece {
            source: at(part.send.as_ref(), places),
            target: at(part.recv.as_ref(), places),
            count: part.count,
            to: part.to,
            from: part.from,
        }));
        let mut used = recycle(std::mem::take(uses));
        let allocation = |&(object, write): &(usize, bool)| {
            let place: &PlanOperand<'_, W> = &places[object];
            (place.allocation, write)
        };
        used.extend(self.uses.iter().map(allocation));
        let refusals = &self.refusals;
        let launch = Launch { call: self.call, work: self.work, pieces, uses: &used, refusals };
        let launched = on.core.launch(on.stream, &launch);
        *uses = recycle(used);
        launched
    }
}

/// The address of a spot; null for a side of a message without a peer.
fn at<W: World>(spot: Option<&Spot>, places: &[PlanOperand<'_, W>]) -> *mut u8 {
    let Some(spot) = spot else { return std::ptr::null_mut() };
    let place = &places[spot.object];
    place.allocation.address().wrapping_byte_add(place.offset(spot))
}

/// An empty list with the storage of another one.
fn recycle<'a, B: Backend>(mut uses: Vec<Use<'_, B>>) -> Vec<Use<'a, B>> {
    uses.clear();
    uses.into_iter().map_while(|_| None).collect()
}
