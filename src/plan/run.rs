//! One run of a bound plan: memory in, calls out.
//!
//! The host makes the calls of its rank in their order and never waits. Streams wait for each other where
//! the schedule says so; beside that, memory is put in stream order as by every other operation, so that what
//! the program does before and after a run is ordered with it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use typed_nccl_plan::ir::Role;

use super::argument::{Place, Places, PlanMemory};
use super::bound::{Bound, Child, Fixed, Given, Moving};
use super::call::{Call, Steps};
use super::prepare::{Object, Prepared, Spot, Step, Template, TemplateKind};
use crate::backend::{
    Collective, Op, Put, Reduction, Refusal, Signal, Span, Transfer, Wait, WindowId,
};
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{ArgumentFault, BadArgument, BoundElsewhere, Error, RanAlready, Site};
use crate::unwind::{self, Panic};
use crate::{Communicator, Result, Stream, World};

impl<W: World> Bound<W> {
    /// Begins a run: give it the memory that the plan names, then [`run`](Run::run) it.
    #[track_caller]
    pub fn on<'a, S: State + CanEnqueue>(&'a mut self, comm: &'a Communicator<W, S>) -> Run<'a, W> {
        let Self { fixed, moving } = self;
        let (on, site) = (comm.here(), Site::caller());
        let found = (on.core.health.id(), W::NAME, comm.size());
        let elsewhere = (found.0 != fixed.of.0).then(|| {
            let (bound, found) = ((fixed.of.1, fixed.of.2), (found.1, found.2));
            let plan = fixed.plan.name.clone();
            Error::BoundElsewhere(Box::new(BoundElsewhere { plan, bound, found, site }))
        });
        let has_run = moving.runs > 0 && !fixed.plan.replayed;
        let refused = elsewhere.or_else(|| {
            let refusal = || RanAlready { plan: fixed.plan.name.clone(), site };
            has_run.then(|| Error::RanAlready(Box::new(refusal())))
        });
        let places = recycle(std::mem::take(&mut moving.places));
        let flips = recycle_flips(std::mem::take(&mut moving.flips));
        moving.given.fill(None);
        Run {
            fixed,
            moving,
            on,
            own: comm.stream(),
            places,
            flips,
            next: 0,
            in_order: true,
            refused,
            error: None,
            site,
        }
    }
}

/// An empty list with another one's memory: nothing is left to map, so the allocation is used again.
fn recycle<'a, W: World>(mut places: Vec<Place<'_, W>>) -> Vec<Place<'a, W>> {
    places.clear();
    places.into_iter().map_while(|_| None).collect()
}

fn recycle_flips<'a>(mut flips: Vec<&AtomicBool>) -> Vec<&'a AtomicBool> {
    flips.clear();
    flips.into_iter().map_while(|_| None).collect()
}

/// A run in the making: takes the plan's memory by name.
#[must_use = "runs nothing before `run`"]
pub struct Run<'a, W: World> {
    pub(super) fixed: &'a Fixed<W>,
    pub(super) moving: &'a mut Moving<W>,
    pub(super) on: On<'a, W>,
    /// The communicator's own stream.
    pub(super) own: &'a Stream<W::Device>,
    /// The memory that was given so far, allocation by allocation.
    pub(super) places: Vec<Place<'a, W>>,
    flips: Vec<&'a AtomicBool>,
    /// Where the next one's name is looked for first.
    next: usize,
    /// Whether memory came in the order of the plan's declarations so far.
    in_order: bool,
    /// Why no rank may run it so. The other ranks find that for themselves.
    refused: Option<Error>,
    error: Option<Error>,
    pub(super) site: Site,
}

impl<'a, W: World> Run<'a, W> {
    /// Gives memory that the plan only reads.
    pub fn read<M: PlanMemory<W> + ?Sized>(self, name: &str, memory: &'a M) -> Self {
        self.give(name, memory, false)
    }

    /// Gives memory that the plan reads and writes.
    pub fn write<M: PlanMemory<W> + ?Sized>(self, name: &str, memory: &'a mut M) -> Self {
        self.give(name, memory, true)
    }

    #[inline]
    fn give<M: PlanMemory<W> + ?Sized>(mut self, name: &str, memory: &'a M, written: bool) -> Self {
        let Some(at) = self.find(name) else {
            let known = self.fixed.given.iter().map(|given| &self.fixed.plan.buffers[given.buffer]);
            let known: Vec<String> = known.map(|buffer| buffer.name.clone()).collect();
            let is_known = known.iter().any(|known| known == name);
            let why =
                if is_known { ArgumentFault::Twice } else { ArgumentFault::Unknown { known } };
            self.fault(name, why);
            return self;
        };
        self.in_order &= at == self.next;
        self.next = at + 1;
        let begin = self.places.len();
        let mut places = Places {
            core: self.on.core,
            places: &mut self.places,
            flips: &mut self.flips,
            error: &mut self.error,
        };
        memory.places(&mut places);
        self.moving.given[at] = Some(begin);
        if let Err(why) = self.fits(at, begin, written, M::SWAPPED) {
            self.fault(name, why);
        }
        self
    }

    /// Which of the plan's buffers has this name, if it was not given yet.
    #[inline]
    fn find(&self, name: &str) -> Option<usize> {
        let fixed = self.fixed;
        let is = |given: &Given| fixed.plan.buffers[given.buffer].name == name;
        let found = match fixed.given.get(self.next) {
            Some(given) if is(given) => self.next,
            _ => fixed.given.iter().position(is)?,
        };
        self.moving.given[found].is_none().then_some(found)
    }

    /// Compares memory with what the plan says of it.
    fn fits(
        &self,
        at: usize,
        begin: usize,
        written: bool,
        swapped: bool,
    ) -> Result<(), ArgumentFault> {
        let &Given { buffer, first, end } = &self.fixed.given[at];
        let declared = &self.fixed.plan.buffers[buffer];
        let objects = &self.fixed.objects[first..end];
        let places = &self.places[begin..];
        if (declared.copies == 2) != swapped {
            return Err(ArgumentFault::Copies { needed: declared.copies == 2 });
        }
        if !written && declared.role != Role::In {
            return Err(ArgumentFault::ReadOnly);
        }
        if places.len() != objects.len() {
            let copies = usize::from(declared.copies).max(1);
            let (found, needed) = (places.len() / copies, objects.len() / copies);
            return Err(ArgumentFault::Count { found, needed });
        }
        for (place, object) in places.iter().zip(objects) {
            let fits = place.dtype == object.dtype
                && place.len == object.len
                && place.window.is_some() == object.is_window
                && !place.is_uneven;
            if !fits {
                return Err(misfit(place, object));
            }
        }
        Ok(())
    }

    #[cold]
    fn fault(&mut self, buffer: &str, why: ArgumentFault) {
        let (plan, buffer) = (self.fixed.plan.name.clone(), buffer.to_owned());
        let bad = BadArgument { plan, buffer, why, site: self.site };
        self.error.get_or_insert_with(|| Error::BadArgument(Box::new(bad)));
    }

    /// Enqueues this rank's part of the plan; the host does not wait. All ranks of the plan run it, the same
    /// number of times. `steps` runs the compute steps in between; `&mut ()` where there are none.
    ///
    /// # Errors
    /// Refusals, which the other ranks are told of: memory that is missing or does not fit, windows that
    /// are not those of the other ranks ([`Error::BadArgument`]), a compute step's own error. Another
    /// communicator than the plan was bound to ([`Error::BoundElsewhere`]). A second run
    /// of a plan that is [for one](typed_nccl_plan::build::PlanBuilder::once) ([`Error::RanAlready`]). A poisoned
    /// communicator.
    pub fn run(mut self, steps: &mut (impl Steps<W> + ?Sized)) -> Result<()> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        if let Some(at) = self.moving.given.iter().position(Option::is_none) {
            let buffer = self.fixed.plan.buffers[self.fixed.given[at].buffer].name.clone();
            self.fault(&buffer, ArgumentFault::Missing);
        }
        self.moving.runs += 1;
        let fit = match self.error.take() {
            // A refused run differs from nobody's.
            Some(error) => {
                let _ = self.compare(None);
                Err(error)
            }
            None => {
                self.table();
                self.same_windows()
            }
        };
        if let Err(error) = fit {
            let error = self.refuse(0, error);
            self.swap();
            return Err(error);
        }
        if self.is_captured() {
            let outcome = self.launch(steps);
            self.swap();
            return outcome;
        }
        for at in 0..self.fixed.steps.len() {
            let Err(stop) = self.step(at, steps, None) else { continue };
            let (error, panic) = match stop {
                Stop::Told(error) => (error, None),
                Stop::Failed(error) => (self.refuse(at, error), None),
                Stop::Panicked(error, panic) => (self.refuse(at, error), Some(panic)),
            };
            self.swap();
            return match panic {
                Some(panic) => panic.resume(),
                None => Err(error),
            };
        }
        self.swap();
        Ok(())
    }

    /// The copies change places, also after a run that was refused: the other ranks made theirs.
    fn swap(&mut self) {
        for flip in &self.flips {
            flip.fetch_xor(true, Relaxed);
        }
        self.moving.flipped = !self.moving.flipped;
        self.keep();
    }

    /// Compares the windows that were given with the other ranks'.
    fn same_windows(&mut self) -> Result<()> {
        if self.fixed.same.is_none() {
            return Ok(());
        }
        let mut windows = std::mem::take(&mut self.moving.windows);
        windows.clear();
        windows.extend(self.places.iter().filter_map(|place| place.window));
        let outcome = self.compare(Some(&windows));
        self.moving.windows = windows;
        outcome
    }

    /// With none, because this rank refuses the run.
    fn compare(&self, windows: Option<&[WindowId]>) -> Result<()> {
        match &self.fixed.same {
            Some(same) => same.begin(self.on.core.rank, self.moving.runs - 1, windows, self.site),
            None => Ok(()),
        }
    }

    /// Brings the places into the order of the plan's objects: what was given, then local memory.
    fn table(&mut self) {
        if !self.in_order {
            self.reorder();
        }
        let locals = &self.fixed.locals;
        for (at, local) in locals.iter().enumerate() {
            let object = &self.fixed.objects[local.object];
            // The other one of two, in every other run.
            let twin = match (object.copies, local.is_second) {
                (2, false) if self.moving.flipped => at + 1,
                (2, true) if self.moving.flipped => at - 1,
                _ => at,
            };
            self.places.push(locals[twin].place());
        }
    }

    /// Puts memory that was given in another order into that of the plan's declarations.
    #[cold]
    fn reorder(&mut self) {
        let given = self.places.clone();
        self.places.clear();
        for (Given { first, end, .. }, begin) in self.fixed.given.iter().zip(&self.moving.given) {
            let begin = begin.unwrap_or(0);
            self.places.extend_from_slice(&given[begin..begin + (end - first)]);
        }
    }

    /// Makes one call, on the plan's streams or on others in their place.
    pub(super) fn step(
        &mut self,
        at: usize,
        steps: &mut (impl Steps<W> + ?Sized),
        lanes: Option<&[Stream<W::Device>]>,
    ) -> Result<(), Stop> {
        let Step { stream, waits, records, work } = &self.fixed.steps[at];
        let stream = match lanes {
            Some(lanes) => &lanes[*stream],
            None => self.moving.streams[*stream].as_ref().unwrap_or(self.own),
        };
        for &event in waits {
            if let Some((other, seq)) = &self.moving.events[event] {
                stream.core.wait_for_use(other, *seq)?;
            }
        }
        self.moving.timing.hold(stream)?;
        match work {
            Prepared::Compute(this) => {
                let taken = &mut self.moving.taken;
                taken.clear();
                taken.resize(self.fixed.most_written, false);
                let plan = &self.fixed.plan.name;
                let mut call = Call { plan, this, places: &self.places, stream, taken };
                unwind::catch(|| steps.step(&mut call)).map_err(|panic| {
                    let why = format!("it panicked: {}", panic.message());
                    Stop::Panicked(call.bad(why), panic)
                })??;
            }
            Prepared::Kernel(kernel) => {
                let on = On::new(self.on.core, &stream.core);
                let lists = (&mut self.moving.pieces, &mut self.moving.uses);
                kernel.launch(&on, &self.places, lists).map_err(Stop::Told)?;
            }
            Prepared::Group { among, operations, refusals } => {
                let issued = match &self.fixed.children[*among] {
                    Child::Whole => {
                        let on: On<'_, W> = On::new(self.on.core, &stream.core);
                        issue(&on, operations, refusals, &self.places)
                    }
                    Child::Part(child) => {
                        issue(&child.on(stream), operations, refusals, &self.places)
                    }
                };
                issued.map_err(Stop::Told)?;
            }
        }
        if let Some(event) = *records {
            self.moving.events[event] = Some((stream.core.shared(), stream.core.last_seq()));
            stream.core.mark()?;
        }
        Ok(())
    }

    /// Books this call and all that follow as refused.
    #[cold]
    fn refuse(&self, from: usize, mut error: Error) -> Error {
        for step in &self.fixed.steps[from..] {
            error = match &step.work {
                Prepared::Compute(_) => error,
                Prepared::Kernel(kernel) => self.on.core.refuse(&kernel.refusals, error),
                Prepared::Group { among, refusals, .. } => match &self.fixed.children[*among] {
                    Child::Whole => self.on.core.refuse(refusals, error),
                    Child::Part(child) => child.here().core.refuse(refusals, error),
                },
            };
        }
        error
    }

    /// Keeps the lists' memory for the next run.
    fn keep(&mut self) {
        self.moving.places = recycle(std::mem::take(&mut self.places));
        self.moving.flips = recycle_flips(std::mem::take(&mut self.flips));
    }
}

/// Why a run does not go on.
pub(super) enum Stop {
    /// The other ranks do not know.
    Failed(Error),
    /// A group's, which told them.
    Told(Error),
    /// A compute step panicked; the other ranks do not know.
    Panicked(Error, Panic),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

#[cold]
fn misfit<W: World>(place: &Place<'_, W>, object: &Object) -> ArgumentFault {
    if place.dtype != object.dtype {
        return ArgumentFault::DataType { found: place.dtype, needed: object.dtype };
    }
    if place.window.is_some() != object.is_window {
        return ArgumentFault::Registration { needed: object.is_window };
    }
    if place.is_uneven {
        return ArgumentFault::Uneven;
    }
    ArgumentFault::Length { index: object.index, found: place.len, needed: object.len }
}

/// Fills a group's templates with memory and issues it.
fn issue<W: World, V: World<Device = W::Device>>(
    on: &On<'_, V>,
    templates: &[Template],
    refusals: &[Refusal],
    places: &[Place<'_, W>],
) -> Result<()> {
    if let ([only], [refusal]) = (templates, refusals) {
        return on.run(*refusal, Ok(fill(only, places)));
    }
    let mut lists = on.core.lists();
    lists.ops.extend(templates.iter().map(|template| fill(template, places)));
    let issued = on.issue(&mut lists.ops, refusals);
    on.core.keep_lists(lists);
    issued
}

pub(super) fn fill<'a, W: World>(
    template: &Template,
    places: &[Place<'a, W>],
) -> Op<'a, <W::Device as crate::Device>::Backend> {
    let call = template.call;
    let span = |spot: &Spot| span(spot, places);
    match &template.kind {
        TemplateKind::Collective { name, send, recv } => Op::Collective(Collective {
            name: *name,
            call,
            reduction: call.reduction.map(Reduction::BuiltIn),
            send: send.as_ref().map(span),
            recv: recv.as_ref().map(span),
            config: None,
        }),
        TemplateKind::Transfer { half, peer, spot } => {
            Op::Transfer(Transfer { half: *half, call, peer: *peer, span: span(spot) })
        }
        TemplateKind::Put { peer, from, into, slot } => Op::Put(Put {
            call,
            peer: *peer,
            span: span(from),
            // Whatever is given for a window is one.
            window: places[into.object].window.unwrap_or_default(),
            offset: into.start * places[into.object].dtype.size(),
            slot: *slot,
        }),
        TemplateKind::Signal { peer, slot } => {
            Op::Signal(Signal { call, peer: *peer, slot: *slot })
        }
        TemplateKind::Wait { peer, slot, count } => {
            Op::Wait(Wait { call, peer: *peer, slot: *slot, count: *count })
        }
    }
}

fn span<'a, W: World>(
    spot: &Spot,
    places: &[Place<'a, W>],
) -> Span<'a, <W::Device as crate::Device>::Backend> {
    let place = places[spot.object];
    // SAFETY: a step's spots lie inside its objects' lengths, which the plan's preparation checked, and
    // what stands for an object was compared with it.
    unsafe { Span::new(place.allocation, spot.start * place.dtype.size(), spot.len) }
}
