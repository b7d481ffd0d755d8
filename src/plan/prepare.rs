//! Turns one rank's schedule into calls for the backend.
//!
//! Everything that does not change between runs is computed here once: ranks of communicators,
//! counts, offsets, signals. A run adds the memory.

use std::convert::Infallible;

use typed_nccl_plan::ir::{self, CollectiveKind, Role};
use typed_nccl_plan::lower::{self, Operation as Lowered, Schedule, Work};

use super::assigned::Assigned;
use super::kernels::Kernel;
use super::pace::Pace;
use crate::backend::form::{self, Collective, Put, Reduction, Transfer};
use crate::backend::{Half, Refusal, Signal, Slot, Wait};
use crate::error::{BindFault, Call, Operation, Site};
use crate::{DType, Rank, ReductionName};

/// Part of an allocation, by its index in the table of objects.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spot {
    pub(super) object: usize,
    /// In elements.
    pub(super) start: usize,
    pub(super) len: usize,
    /// Of an element, in bytes.
    pub(super) size: usize,
}

impl Spot {
    /// Its start, in bytes.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.start * self.size
    }
}

/// An allocation of a plan: a buffer, one of an array, one of two copies.
pub(super) struct Object {
    pub(super) buffer: usize,
    /// Its index in an array.
    pub(super) index: Option<usize>,
    pub(super) len: usize,
    pub(super) dtype: DType,
    pub(super) is_window: bool,
    pub(super) is_local: bool,
    pub(super) copies: usize,
    /// Whether it is the second of two.
    pub(super) is_second: bool,
}

/// One call of a rank's host.
pub(super) struct Step {
    /// The plan's stream.
    pub(super) stream: usize,
    pub(super) waits: Vec<usize>,
    pub(super) records: Option<usize>,
    pub(super) work: Prepared,
}

/// Its work.
pub(super) enum Prepared {
    Compute(Computes),
    Assign(Assigned),
    Group {
        among: usize,
        operations: Vec<Template>,
        refusals: Vec<Refusal>,
    },
    /// A group with messages of lengths that each run passes; its operations are those of that
    /// number in [`Passed`](super::counted::Passed).
    Counted {
        among: usize,
        group: usize,
        counted: Vec<Counted>,
        refusals: Vec<Refusal>,
    },
    Kernel(Kernel),
}

impl Prepared {
    /// How many regions a step of the program writes.
    pub(super) const fn writes(&self) -> usize {
        match self {
            Self::Compute(compute) => compute.writes.len(),
            Self::Assign(_) | Self::Group { .. } | Self::Counted { .. } | Self::Kernel(_) => 0,
        }
    }
}

/// An operation of a group, and the number among all that a run passes that is its length.
pub(super) struct Counted {
    pub(super) at: usize,
    pub(super) number: usize,
}

/// A compute step.
pub(super) struct Computes {
    pub(super) name: String,
    pub(super) site: Site,
    pub(super) arguments: Vec<i64>,
    pub(super) reads: Vec<Region>,
    pub(super) writes: Vec<Region>,
}

/// A region of a compute step: one spot, or one for each buffer of an array.
pub(super) struct Region {
    pub(super) spots: Vec<Spot>,
    /// Of all of them; `None` without a spot.
    pub(super) dtype: Option<DType>,
    /// Whether the step both reads and writes it.
    pub(super) is_updated: bool,
}

/// An operation without its memory. Puts go to a spot of the peer's memory.
pub(super) type Template = form::Op<Spot, Infallible, Spot, Infallible>;

/// The inputs of preparation.
pub(super) struct Preparing<'a> {
    pub(super) plan: &'a ir::Plan,
    pub(super) extents: &'a [i64],
    pub(super) objects: &'a [Object],
    /// For each buffer, its first object.
    pub(super) first: &'a [usize],
    pub(super) rank: usize,
    /// Whether all signals are one counter.
    pub(super) one_signal: bool,
    /// The communicator's number of signals.
    pub(super) signals: u32,
    pub(super) sites: &'a [Site],
    pub(super) site: Site,
    pub(super) pace: &'a Pace,
}

/// The table of objects, the caller's before local ones; and the first object of each buffer.
pub(super) fn objects(
    plan: &ir::Plan,
    lengths: &[Vec<u64>],
    dtypes: &[DType],
) -> (Vec<Object>, Vec<usize>) {
    let (mut objects, mut first) = (Vec::new(), vec![0; plan.buffers.len()]);
    let mut order: Vec<usize> = (0..plan.buffers.len()).collect();
    order.sort_by_key(|&at| plan.buffers[at].role == Role::Local);
    for at in order {
        let buffer = &plan.buffers[at];
        first[at] = objects.len();
        let copies = usize::from(buffer.copies);
        for (index, &len) in lengths[at].iter().enumerate() {
            for copy in 0..copies {
                objects.push(Object {
                    buffer: at,
                    index: buffer.array.as_ref().map(|_| index),
                    len: usize::try_from(len).unwrap_or(usize::MAX),
                    dtype: dtypes[at],
                    is_window: buffer.window,
                    is_local: buffer.role == Role::Local,
                    copies,
                    is_second: copy == 1,
                });
            }
        }
    }
    (objects, first)
}

impl Preparing<'_> {
    /// This rank's calls, as many as there is time for, or why this library cannot make them; and
    /// the groups with lengths that runs pass.
    pub(super) fn steps(
        &self,
        schedule: &Schedule,
    ) -> Result<(Vec<Step>, Vec<Vec<Template>>), BindFault> {
        let (mut steps, mut groups) = (Vec::new(), Vec::new());
        for call in schedule.ranks[self.rank].calls.iter().take_while(|_| !self.pace.is_over()) {
            let waits: Vec<usize> =
                call.waits.iter().chain(&call.carried).map(|event| event.0 as usize).collect();
            let (stream, records) = (call.stream.index(), call.records.map(|e| e.0 as usize));
            let site = self.site_of(call.from.first().copied().unwrap_or_default());
            match &call.work {
                Work::Compute { name, arguments, reads, writes, regions } => {
                    let compute = self.compute((name, site), arguments, reads, writes, regions);
                    let work = Prepared::Compute(compute);
                    steps.push(Step { stream, waits, records, work });
                }
                Work::Assign { to, by, of } => {
                    let next = self.assigned(to, *by, of, site)?;
                    let next = match steps.last_mut() {
                        Some(Step {
                            stream: same,
                            records: before,
                            work: Prepared::Assign(last),
                            ..
                        }) if *same == stream && before.is_none() && waits.is_empty() => {
                            let rest = last.absorb(next, self.objects);
                            if rest.is_none() {
                                *before = records;
                            }
                            rest
                        }
                        _ => Some(next),
                    };
                    steps.extend(next.map(|next| {
                        let work = Prepared::Assign(next);
                        Step { stream, waits, records, work }
                    }));
                }
                Work::Kernel { operations, legs } => {
                    let work = Prepared::Kernel(self.kernel(operations, legs, site)?);
                    steps.push(Step { stream, waits, records, work });
                }
                Work::Group(operations) => {
                    // All of one communicator.
                    if let Some(first) = operations.first() {
                        let among = first.among().index();
                        let work = self.group(among, operations, site, &mut groups)?;
                        steps.push(Step { stream, waits, records, work });
                    }
                }
            }
        }
        Ok((steps, groups))
    }

    /// The caller's windows of this rank that other ranks read, by object: of two copies both, as
    /// what is read in one run is the other one in the next.
    pub(super) fn shown(&self, schedule: &Schedule) -> Vec<usize> {
        let own = u32::try_from(self.rank).ok();
        let mut shown = Vec::new();
        for call in schedule.ranks.iter().flat_map(|rank| &rank.calls) {
            let Work::Assign { of, .. } = &call.work else { continue };
            for of in of.iter().filter(|of| of.rank.is_some() && of.rank == own) {
                let object = self.spot(of).object;
                let Object { is_local, copies, is_second, .. } = self.objects[object];
                if is_local || shown.contains(&object) {
                    continue;
                }
                shown.push(object);
                if copies == 2 {
                    shown.push(if is_second { object - 1 } else { object + 1 });
                }
            }
        }
        shown
    }

    /// The site of a statement in the program, if it has one.
    fn site_of(&self, at: ir::Location) -> Site {
        let here = |site: &&Site| (site.line(), site.column()) == (at.line, at.column);
        self.sites.iter().find(here).copied().unwrap_or(self.site)
    }

    pub(super) fn spot(&self, part: &lower::Elements) -> Spot {
        let first = self.first[part.buffer as usize];
        let copies = self.objects[first].copies;
        let object = first + part.index as usize * copies + usize::from(part.next);
        // Parts are inside their objects, whose length fits.
        let (start, len) = (part.start as usize, (part.end - part.start) as usize);
        let size = self.objects[object].dtype.size();
        Spot { object, start, len, size }
    }

    fn compute(
        &self,
        (name, site): (&str, Site),
        arguments: &[i64],
        reads: &[lower::Elements],
        writes: &[lower::Elements],
        regions: &(Vec<u32>, Vec<u32>),
    ) -> Computes {
        let split = |parts: &[lower::Elements], regions: &[u32]| -> Vec<Region> {
            let mut parts = parts.iter().map(|part| self.spot(part));
            let region = |&len: &u32| {
                let spots: Vec<Spot> = parts.by_ref().take(len as usize).collect();
                let dtype = spots.first().map(|spot| self.objects[spot.object].dtype);
                Region { spots, dtype, is_updated: false }
            };
            regions.iter().map(region).collect()
        };
        let (mut reads, writes) = (split(reads, &regions.0), split(writes, &regions.1));
        for read in &mut reads {
            // The checks ensured that read regions equal written ones, or do not overlap them.
            read.is_updated = writes.iter().any(|write| write.spots == read.spots);
        }
        let (name, arguments) = (name.to_owned(), arguments.to_vec());
        Computes { name, site, arguments, reads, writes }
    }

    fn group(
        &self,
        among: usize,
        operations: &[Lowered],
        site: Site,
        groups: &mut Vec<Vec<Template>>,
    ) -> Result<Prepared, BindFault> {
        let (mut templates, mut counted) = (Vec::new(), Vec::new());
        for operation in operations {
            if let Lowered::Send { from: part, .. } | Lowered::Receive { to: part, .. } = operation
            {
                let at = templates.len();
                counted.extend(part.count.map(|number| Counted { at, number: number as usize }));
            }
            self.operation(operation, among, site, &mut templates)?;
        }
        let refusals = templates.iter().map(Template::refusal).collect();
        if !counted.is_empty() {
            groups.push(templates);
            return Ok(Prepared::Counted { among, group: groups.len() - 1, counted, refusals });
        }
        Ok(Prepared::Group { among, operations: templates, refusals })
    }

    pub(super) fn operation(
        &self,
        operation: &Lowered,
        among: usize,
        site: Site,
        templates: &mut Vec<Template>,
    ) -> Result<(), BindFault> {
        let peer_of = |rank: u32| Rank::at(self.rank_in(among, rank as usize));
        let call = |operation, dtype, count, peer| {
            let call = Call::new(operation, dtype, count, site);
            Call { peer: Some(peer), ..call }
        };
        let transfer = |half: Half, part, peer| {
            let (span, peer) = (self.spot(part), peer_of(peer));
            let call = call(half.operation(), self.objects[span.object].dtype, span.len, peer);
            Template::Transfer(Transfer { half, call, peer, span })
        };
        templates.push(match operation {
            Lowered::Collective { kind, send, recv, .. } => {
                let (send, recv) = (send.as_ref(), recv.as_ref());
                let send = send.map(|part| self.spot(part));
                let recv = recv.map(|part| self.spot(part));
                self.collective(kind, send, recv, among, site)?
            }
            Lowered::Send { from, peer, .. } => transfer(Half::SendTo, from, *peer),
            Lowered::Receive { to, peer, .. } => transfer(Half::RecvFrom, to, *peer),
            Lowered::Put { from, peer, to, signal, .. } => {
                let (span, to, peer) = (self.spot(from), self.spot(to), peer_of(*peer));
                let slot = signal.map_or_else(|| self.unheard(), |signal| Ok(self.slot(signal)))?;
                let dtype = self.objects[span.object].dtype;
                let call = call(Operation::PutSignal, dtype, span.len, peer);
                Template::Put(Put { call, peer, span, to, slot })
            }
            Lowered::Signal { signal, peer, .. } => {
                let (peer, slot) = (peer_of(*peer), self.slot(*signal));
                let call = call(Operation::Signal, DType::U8, 0, peer);
                Template::Signal(Signal { call, peer, slot })
            }
            Lowered::Wait { signals, .. } => {
                templates.extend(signals.iter().map(|&(signal, peer, count)| {
                    let (peer, slot) = (peer_of(peer), self.slot(signal));
                    let call = call(Operation::WaitSignal, DType::U8, count as usize, peer);
                    Template::Wait(Wait { call, peer, slot, count })
                }));
                return Ok(());
            }
        });
        Ok(())
    }

    fn collective(
        &self,
        kind: &CollectiveKind<u32>,
        send: Option<Spot>,
        recv: Option<Spot>,
        among: usize,
        site: Site,
    ) -> Result<Template, BindFault> {
        let size = self.size_of(among).max(1);
        let len = |spot: &Option<Spot>| spot.as_ref().map_or(0, |spot| spot.len);
        let name = kind.name();
        let spec = name.spec();
        let count = match spec.wholes() {
            (true, true) => len(&send) / size,
            _ if spec.sends_part() => len(&send),
            _ => len(&recv),
        };
        let spot = send.as_ref().or(recv.as_ref());
        let dtype = spot.map_or(DType::U8, |spot| self.objects[spot.object].dtype);
        let mut call = Call::new(name, dtype, count, site);
        call.reduction = kind.reduction().map(reduction);
        if let Some(reduction) = call.reduction.filter(|by| !by.reduces(dtype)) {
            return Err(match reduction {
                ReductionName::Mean => BindFault::Averages { dtype },
                reduction => BindFault::NotReducible { reduction, dtype },
            });
        }
        // The checks ensured that it is a rank of the communicator.
        call.root = kind.root().map(|&root| Rank::at(root as usize));
        let reduction = call.reduction.map(Reduction::BuiltIn);
        Ok(Template::Collective(Collective { name, call, reduction, send, recv, config: None }))
    }

    fn slot(&self, signal: ir::SignalId) -> Slot {
        self.in_graph(Slot::at(0, if self.one_signal { 0 } else { signal.0 }))
    }

    /// Captured plans use the signals of graphs.
    fn in_graph(&self, slot: Slot) -> Slot {
        Slot { captured: self.plan.launch == ir::Launch::Captured, ..slot }
    }

    /// NCCL has no put without a signal, so it raises one for which nothing waits.
    fn unheard(&self) -> Result<Slot, BindFault> {
        let index = u32::try_from(self.plan.signals.len()).unwrap_or(u32::MAX);
        if index < self.signals {
            return Ok(self.in_graph(Slot::at(0, index)));
        }
        Err(BindFault::NoSpareSignal { needed: index.saturating_add(1) })
    }

    /// The size of a communicator of the plan.
    pub(super) fn size_of(&self, among: usize) -> usize {
        let axes = self.plan.communicators[among].axes.iter();
        axes.map(|axis| self.extents[axis.index()] as usize).product()
    }

    /// The rank in a communicator for a rank of the plan.
    pub(super) fn rank_in(&self, among: usize, rank: usize) -> usize {
        rank_in(&self.plan.communicators[among], self.extents, rank)
    }
}

/// The rank in a communicator for a rank of the plan.
pub(super) fn rank_in(communicator: &ir::Communicator, extents: &[i64], rank: usize) -> usize {
    let mut left = rank;
    let mut place = vec![0; extents.len()];
    for (at, extent) in extents.iter().enumerate().rev() {
        place[at] = left % (*extent as usize);
        left /= *extent as usize;
    }
    let axes = communicator.axes.iter().map(|axis| axis.index());
    axes.fold(0, |number, axis| number * extents[axis] as usize + place[axis])
}

pub(super) fn reduction(reduction: ir::Reduction) -> ReductionName {
    match reduction {
        ir::Reduction::Sum => ReductionName::Add,
        ir::Reduction::Prod => ReductionName::Multiply,
        ir::Reduction::Min => ReductionName::Least,
        ir::Reduction::Max => ReductionName::Greatest,
        ir::Reduction::Avg => ReductionName::Mean,
    }
}
