//! Runs of captured plans: one launch, on devices with graphs.
//!
//! The first run with given memory captures, on all ranks together; later runs with the same memory
//! launch that graph. NCCL exchanges addresses of captured memory, so no rank captures alone:
//! either all ranks pass the memory of an earlier run, or all pass new memory.

use std::ptr;
use std::sync::Arc;

use typed_nccl_plan::ir::{Launch, Role};

use super::argument::{Back, PlanOperand};
use super::call::Steps;
use super::children::Child;
use super::give::Run;
use super::prepare::{Prepared, Template};
use super::run::{Stop, fill};
use crate::backend::{Graphs, Streams, WindowId};
use crate::communicator::Core;
use crate::error::{CaptureFault, Error, NotCapturable};
use crate::graph::{CaptureSummary, Held, Leases, all_captured, all_ready};
use crate::memory::Lessee;
use crate::stream::{Capturable, Capturing};
use crate::{Result, Stream, World, unwind};

/// How many sets of memory a plan keeps graphs for.
const KEPT: usize = 8;

/// The graph of runs with the same memory.
pub(super) struct Captured<W: World> {
    /// The allocations by address, where they are used from, and their windows. The graph keeps
    /// them alive, so no other allocation has these addresses.
    memory: Vec<(usize, usize, Option<WindowId>)>,
    held: Held<Back<W>>,
}

fn memory_of<W: World>(place: &PlanOperand<'_, W>) -> (usize, usize, Option<WindowId>) {
    (Arc::as_ptr(place.allocation).addr(), place.start, place.window)
}

impl<'a, W: World> Run<'a, W> {
    /// Whether a run is a launch.
    pub(super) fn is_captured(&self) -> bool {
        Back::<W>::ARE_CAPTURED && self.fixed.plan.launch == Launch::Captured
    }

    /// Launches the graph for this memory; captures it first if there is none.
    pub(super) fn launch(&mut self, steps: &mut (impl Steps<W> + ?Sized)) -> Result<()> {
        let is_it = |known: &Captured<W>| {
            let memory = known.memory.iter().copied();
            memory.eq(self.table.places().iter().map(memory_of)) && known.held.is_alive()
        };
        let at = match self.moving.graphs.iter().position(is_it) {
            Some(at) => at,
            None => {
                let captured = self.capture(steps)?;
                let graphs = &mut self.moving.graphs;
                graphs.retain(|known| known.held.is_alive());
                if graphs.len() == KEPT {
                    graphs.remove(0);
                }
                graphs.push(captured);
                graphs.len() - 1
            }
        };
        let held = &self.moving.graphs[at].held;
        // It may be a step of another plan, whose memory is not this one's.
        let _own = self.own.core.teamed(0);
        match self.has_parts() {
            true => held.launch(&self.cores(), &self.own.core),
            false => held.launch(&[self.on.core], &self.own.core),
        }
    }

    /// Whether the plan has communicators of its own.
    fn has_parts(&self) -> bool {
        self.fixed.children.iter().any(|child| matches!(child, Child::Part(_)))
    }

    /// The plan's communicators, the whole one first.
    fn cores(&self) -> Vec<&'a Core<Back<W>>> {
        let parts = self.fixed.children.iter().filter_map(|child| match child {
            Child::Whole => None,
            Child::Part(part) => Some(part.here().core),
        });
        std::iter::once(self.on.core).chain(parts).collect()
    }

    fn capture(&mut self, steps: &mut (impl Steps<W> + ?Sized)) -> Result<Captured<W>> {
        let cores = self.cores();
        let leases = self.agreed()?;
        let comms = cores.iter().map(|core| core.comm()).collect::<Result<Vec<_>>>()?;
        self.moving.events.fill(None);
        let (streams, device) = (self.fixed.plan.streams.len(), self.own.device());
        let kept = self.table.places().iter().map(|place| ptr::from_ref(&place.allocation.order));
        let graph = Arc::new(Capturable {
            memory: kept.map(<*const _>::addr).collect(),
            makers: cores.iter().map(|core| core.resources.maker()).collect(),
        });
        let enqueue = |raw: &[<Back<W> as Streams>::Stream]| {
            let lane = |raw: &<Back<W> as Streams>::Stream| {
                Stream::capturing(device, raw.clone(), Arc::clone(&graph))
            };
            let lanes: Vec<_> = raw.iter().map(lane).collect();
            (0..self.fixed.steps.len()).try_for_each(|at| {
                self.step(at, steps, Some(&lanes)).map_err(|stop| match stop {
                    Stop::Failed(error) | Stop::Reported(error) => self.placed(error),
                    Stop::Panicked(_, panic) => panic.resume(),
                })
            })
        };
        let captured = {
            let _capturing = Capturing::enter();
            unwind::catch(|| Back::<W>::capture(&comms, streams, enqueue))
        };
        self.moving.events.fill(None);
        let graph = all_captured(&cores, captured, self.site)?;
        let mut names: Vec<_> =
            self.table.places().iter().filter_map(|place| place.window).collect();
        if self.fixed.steps.iter().any(|step| matches!(step.work, Prepared::Compute(_))) {
            // A step's kernels may use any of them.
            names.extend(cores.iter().flat_map(|core| core.resources.device_comms()));
        }
        let held = Held::new(&cores, (leases, self.waits()), names, Some(graph));
        Ok(Captured { memory: self.table.places().iter().map(memory_of).collect(), held })
    }

    /// Gives the error about a step's memory the place of the run.
    fn placed(&self, error: Error) -> Error {
        match error {
            Error::NotCapturable(not) if not.fault == CaptureFault::NotThePlans => {
                Error::from(NotCapturable { site: self.site, ..*not })
            }
            error => error,
        }
    }

    /// All of the plan's memory, if its kind is the same on every rank: NCCL chooses its protocols
    /// by it.
    fn agreed(&self) -> Result<Leases<Back<W>>> {
        let (core, site) = (self.on.core, self.site);
        // Asks every communicator before failing, so that the ranks of each are told.
        let may: Vec<_> = self.cores().iter().map(|core| core.may_wait("run", site)).collect();
        may.into_iter().collect::<Result<()>>()?;
        let mut leases = self.leases();
        // The subsets first, so that all ranks learn of their errors.
        for (among, child) in self.fixed.children.iter().enumerate() {
            if let Child::Part(part) = child {
                let core = part.here().core;
                leases = all_ready(core, leases, self.said(core, |at| at == among)?, site);
            }
        }
        let is_whole = |at: usize| matches!(self.fixed.children[at], Child::Whole);
        all_ready(core, leases, self.said(core, is_whole)?, site)
    }

    /// The transfers and their memory, which the ranks of a communicator compare. The order of
    /// signals was checked with the plan.
    fn said(&self, core: &Core<Back<W>>, is_of: impl Fn(usize) -> bool) -> Result<CaptureSummary> {
        let (mut said, comm) = (CaptureSummary::default(), core.comm()?);
        for step in &self.fixed.steps {
            let Prepared::Group { among, operations, .. } = &step.work else { continue };
            let ops = operations.iter().map(|template| fill(template, self.table.places()));
            ops.filter(|op| is_of(*among) && !op.is_one_sided()).for_each(|op| said.add(comm, &op));
        }
        Ok(said)
    }

    /// All of the plan's memory.
    fn leases(&self) -> Result<Leases<Back<W>>> {
        let (mut leases, comm) = (Leases::new(Lessee::Plan), self.on.core.comm()?);
        for (place, object) in self.table.places().iter().zip(&self.fixed.objects) {
            let write = self.fixed.plan.buffers[object.buffer].role != Role::In;
            leases.add(comm, place.allocation, write).map_err(|fault| {
                Error::from(NotCapturable { operation: "run", fault, site: self.site })
            })?;
        }
        Ok(leases)
    }

    /// Whether it waits for signals.
    fn waits(&self) -> bool {
        self.fixed.steps.iter().any(|step| match &step.work {
            Prepared::Group { operations, .. } => {
                operations.iter().any(|one| matches!(one, Template::Wait(_)))
            }
            // No plan is captured whose messages have other lengths in each run.
            Prepared::Compute(_)
            | Prepared::Assign(_)
            | Prepared::Kernel(_)
            | Prepared::Counted { .. } => false,
        })
    }
}
