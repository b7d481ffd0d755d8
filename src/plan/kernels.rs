//! Launches of a plan that are kernels of this library's own.

use std::fmt::Write;
use std::sync::Arc;

use typed_nccl_plan::cost::{AllReduceBy, Topology};
use typed_nccl_plan::ir::{ElementType, Plan};
use typed_nccl_plan::lower::{Operation, Schedule, Work};

use super::argument::{Back, Place};
use super::prepare::{Preparing, Spot, TemplateKind};
use crate::backend::{Backend, KernelWay, KernelWork, NOBODY, Piece, Refusal};
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{BindFault, Call, Error, Site};
use crate::kernels::Launch;
use crate::memory::Allocation;
use crate::{AnyDevice, Communicator, DType, Device, Host, ReductionName, Result, World};

/// Memory of a launch, and whether it is written.
pub(super) type Use<'a, B> = (&'a Arc<Allocation<B>>, bool);

/// Whether a plan's communicator has kernels: the same on all ranks.
pub(super) enum OwnKernels {
    /// It has.
    Offered,
    /// The plan has no use for them, or does without; the device has none.
    Not,
    /// It lacks something.
    Lacking(Error),
}

impl OwnKernels {
    /// Makes them, if the plan has use for them. All ranks call it, with one plan: the host waits for them.
    pub(super) fn of<W: World, S: State + CanEnqueue>(
        comm: &Communicator<W, S>,
        plan: &Plan,
        lowered: Option<&Schedule>,
        site: Site,
    ) -> Result<Self> {
        // The host has none, and need not ask the others.
        if W::Device::KIND == Host::<AnyDevice>::KIND {
            return Ok(Self::Not);
        }
        // The ranks have compared no element types yet, so they do not count here.
        let has_use = lowered.is_some_and(|lowered| {
            let chosen = lowered.clone().with_kernels(plan, &Topology::h200_node());
            let mut calls = chosen.ranks.iter().flat_map(|rank| &rank.calls);
            calls.any(|call| matches!(call.work, Work::Kernel(_)))
        });
        if !has_use {
            return Ok(Self::Not);
        }
        match comm.here().core.kit("bind", site) {
            Ok(Some(_)) => Ok(Self::Offered),
            Ok(None) => Ok(Self::Not),
            Err(error @ Error::Unsupported(_)) => Ok(Self::Lacking(error)),
            Err(error) => Err(error),
        }
    }

    /// Which launches they do.
    pub(super) fn choose(&self, plan: &Plan, dtypes: &[DType], lowered: Schedule) -> Schedule {
        let Self::Offered = self else { return lowered };
        let mut plan = plan.clone();
        for (buffer, dtype) in plan.buffers.iter_mut().zip(dtypes) {
            buffer.element = element(*dtype);
        }
        lowered.with_kernels(&plan, &Topology::h200_node())
    }

    /// What `describe` says of them.
    pub(super) fn told(&self) -> String {
        let mut told = String::new();
        if let Self::Lacking(why) = self {
            // Writing to a string does not fail.
            let _ = write!(told, "\nNo kernels of this library: {why}");
        }
        told
    }
}

fn element(dtype: DType) -> ElementType {
    match dtype {
        DType::I8 => ElementType::I8,
        DType::U8 => ElementType::U8,
        DType::I32 => ElementType::I32,
        DType::U32 => ElementType::U32,
        DType::I64 => ElementType::I64,
        DType::U64 => ElementType::U64,
        DType::F16 => ElementType::F16,
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::Bf16 => ElementType::Bf16,
        DType::F8E4M3 => ElementType::F8E4M3,
        DType::F8E5M2 => ElementType::F8E5M2,
    }
}

/// A launch without its memory.
pub(super) struct Kernel {
    call: Call,
    work: KernelWork,
    /// What each piece reads and writes.
    pieces: Vec<(Spot, Spot)>,
    /// The objects among them, each once, and whether they are written.
    uses: Vec<(usize, bool)>,
}

impl Preparing<'_> {
    /// A kernel that does these all_reduces.
    pub(super) fn kernel(&self, operations: &[Operation], site: Site) -> Result<Kernel, BindFault> {
        let (mut pieces, mut uses) = (Vec::new(), Vec::<(usize, bool)>::new());
        let mut first: Option<Call> = None;
        let (mut count, mut ranks) = (0, 1);
        for operation in operations {
            let Operation::Collective { kind, send, recv, among, .. } = operation else { continue };
            let spots = [send, recv].map(|part| part.as_ref().map(|part| self.spot(part)));
            let [send, recv] = spots;
            let template = self.collective(kind, send, recv, among.index(), site)?;
            let TemplateKind::Collective { send: Some(send), recv: Some(recv), .. } = template.kind
            else {
                continue;
            };
            count += template.call.count;
            ranks = self.size_of(among.index());
            first.get_or_insert(template.call);
            for (object, write) in [(send.object, false), (recv.object, true)] {
                match uses.iter_mut().find(|(known, _)| *known == object) {
                    Some((_, written)) => *written |= write,
                    None => uses.push((object, write)),
                }
            }
            pieces.push((send, recv));
        }
        let Some(first) = first else {
            return Err(BindFault::Unreadable { why: "a kernel that does nothing".to_owned() });
        };
        let call = Call { count, ..first };
        let times = Topology::h200_node().kernels;
        let way = match times.all_reduce(ranks, pieces.len(), call.bytes() as f64) {
            Some((AllReduceBy::Blocks, _)) => KernelWay::OneShotInBlocks,
            Some((AllReduceBy::TwoShots, _)) => KernelWay::TwoShot,
            Some((AllReduceBy::Words, _)) | None => KernelWay::OneShot,
        };
        let work = KernelWork::AllReduce(first.reduction.unwrap_or(ReductionName::Add), way);
        Ok(Kernel { call, work, pieces, uses })
    }
}

impl Kernel {
    /// Fills it with memory and launches it; the lists are those of the last launch.
    pub(super) fn launch<W: World>(
        &self,
        on: &On<'_, W>,
        places: &[Place<'_, W>],
        (pieces, uses): (&mut Vec<Piece>, &mut Vec<Use<'static, Back<W>>>),
    ) -> Result<()> {
        pieces.clear();
        pieces.extend(self.pieces.iter().map(|(send, recv)| Piece {
            source: at(send, places),
            target: at(recv, places),
            count: send.len,
            to: NOBODY,
            from: NOBODY,
        }));
        let mut used = recycle(std::mem::take(uses));
        let allocation = |&(object, write): &(usize, bool)| {
            let place: &Place<'_, W> = &places[object];
            (place.allocation, write)
        };
        used.extend(self.uses.iter().map(allocation));
        let refusals = &[Refusal::Collective];
        let launch = Launch { call: self.call, work: self.work, pieces, uses: &used, refusals };
        let launched = on.core.launch(on.stream, &launch);
        *uses = recycle(used);
        launched
    }
}

/// Where a spot is.
fn at<W: World>(spot: &Spot, places: &[Place<'_, W>]) -> *mut u8 {
    let place = &places[spot.object];
    place.allocation.address().wrapping_byte_add(spot.start * place.dtype.size())
}

/// An empty list with another one's memory.
fn recycle<'a, B: Backend>(mut uses: Vec<Use<'_, B>>) -> Vec<Use<'a, B>> {
    uses.clear();
    uses.into_iter().map_while(|_| None).collect()
}
