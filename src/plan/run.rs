//! Runs of a bound plan.
//!
//! The host makes its rank's calls in order and never waits. Streams wait for each other as the
//! schedule says. Memory is also ordered between streams as for every other operation, so the
//! program's work before and after a run is ordered with it.

use std::sync::atomic::Ordering::Relaxed;

use super::argument::PlanOperand;
use super::assigned::Table;
use super::call::{Call, Steps};
use super::children::Child;
use super::give::Run;
use super::kernels::Kernel;
use super::prepare::{Prepared, Spot, Step, Template};
use crate::backend::{Op, Refusal, Span, Target, WindowId};
use crate::communicator::On;
use crate::error::Error;
use crate::memory::Booking;
use crate::unwind::{self, Panic};
use crate::{Result, Stream, World, record};

impl<W: World> Run<'_, W> {
    /// Enqueues this rank's part of the plan; the host does not wait. All ranks of the plan run it,
    /// equally often. `steps` provides the compute steps; pass `&mut ()` if there are none.
    ///
    /// # Errors
    /// Refusals, of which the other ranks are told: missing or unsuitable memory, windows that
    /// differ from the other ranks' ([`Error::BadArgument`]), memory of another device
    /// ([`Error::OtherDevice`]), a compute step's own error. A
    /// communicator other than the one that the plan was bound to ([`Error::BoundElsewhere`]). A
    /// second run of a plan that [runs once](typed_nccl_plan::build::PlanBuilder::once)
    /// ([`Error::RanAlready`]). A poisoned communicator.
    pub fn run(mut self, steps: &mut (impl Steps<W> + ?Sized)) -> Result<()> {
        if let Some(error) = self.moving.refused.take() {
            return Err(error);
        }
        self.complete();
        if !self.fixed.lists.is_empty() {
            self.fill_counts();
        }
        self.moving.runs += 1;
        let fit = match self.moving.error.take() {
            // A refused run matches any other.
            Some(error) => {
                let _ = self.compare(None);
                Err(error)
            }
            None => {
                self.fill();
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
        let last = &mut self.moving.parted;
        if let Err(error) = self.fixed.parted.begin(&self.table, last, self.own) {
            last.forget();
            let error = self.refuse(0, error);
            self.swap();
            return Err(error);
        }
        let _named = record::is_on().then(|| record::in_plan(&self.fixed.plan.name));
        let shown = self.show().err().map(|error| (0, Stop::Failed(error)));
        let stopped = shown.or_else(|| {
            let mut all = 0..self.fixed.steps.len();
            all.find_map(|at| Some((at, self.step(at, steps, None).err()?)))
        });
        let last = self.fixed.steps.len();
        let stopped = stopped.or_else(|| Some((last, Stop::Failed(self.show().err()?))));
        if let Some((at, stop)) = stopped {
            let (error, panic) = match stop {
                Stop::Reported(error) => (self.refuse(at + 1, error), None),
                Stop::Failed(error) => (self.refuse(at, error), None),
                Stop::Panicked(error, panic) => (self.refuse(at, error), Some(panic)),
            };
            self.moving.parted.forget();
            self.swap();
            return match panic {
                Some(panic) => panic.resume(),
                None => Err(error),
            };
        }
        self.swap();
        Ok(())
    }

    /// Orders the plan's streams with other uses of the windows that peers read: peers hear of this
    /// rank's streams alone, so what the caller does to that memory comes before or after all that
    /// the streams do in a run.
    fn show(&self) -> Result<()> {
        if self.fixed.shown.is_empty() {
            return Ok(());
        }
        for stream in &self.moving.streams {
            let stream = stream.as_ref().unwrap_or(self.own);
            for &object in &self.fixed.shown {
                let order = &self.table.places()[object].allocation.order;
                drop(Booking::new(&stream.core, (order, false))?);
            }
        }
        Ok(())
    }

    /// Swaps the copies, even after a refused run, since the other ranks swap theirs.
    fn swap(&mut self) {
        for flip in self.table.flips() {
            // The caller has exclusive access to the pair, which is not `Sync`.
            flip.store(!flip.load(Relaxed), Relaxed);
        }
        self.moving.flipped = !self.moving.flipped;
        self.fixed.parted.swap(&mut self.moving.parted);
    }

    /// Compares the windows with the other ranks'.
    fn same_windows(&mut self) -> Result<()> {
        if self.fixed.same.is_none() {
            return Ok(());
        }
        let mut windows = std::mem::take(&mut self.moving.windows);
        windows.clear();
        windows.extend(self.table.places().iter().filter_map(|place| place.window));
        let outcome = self.compare(Some(&windows));
        self.moving.windows = windows;
        outcome
    }

    /// `None` because this rank refuses the run.
    fn compare(&self, windows: Option<&[WindowId]>) -> Result<()> {
        match &self.fixed.same {
            Some(same) => same.begin(self.on.core.rank, self.moving.runs - 1, windows, self.site),
            None => Ok(()),
        }
    }

    /// Makes one call, on the plan's streams or on replacements.
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
        let _teamed = stream.core.teamed(self.moving.parted.team);
        match work {
            Prepared::Compute(this) => {
                let taken = &mut self.moving.taken;
                taken.clear();
                taken.resize(self.fixed.most_written, false);
                let plan = &self.fixed.plan.name;
                let mut call = Call { plan, this, places: self.table.places(), stream, taken };
                stream.core.set_asked(true);
                let journal = self.on.core.journal.as_ref();
                let recorded =
                    journal.map(|it| (it, it.begins_work(&stream.core, &this.name, this.site)));
                let outcome = unwind::catch(|| steps.step(&mut call));
                if let Some((journal, number)) = recorded {
                    let done = outcome.as_ref().map_or(Ok(()), |done| done.clone());
                    journal.enqueued(&stream.core, number, &done);
                }
                stream.core.set_asked(false);
                outcome.map_err(|panic| {
                    let why = format!("it panicked: {}", panic.message());
                    Stop::Panicked(call.bad(why), panic)
                })??;
            }
            Prepared::Assign(this) => {
                let memory = Table { of: self.table.places(), objects: &self.fixed.objects };
                this.enqueue(self.on.core, stream, (&self.fixed.plan, &memory))?;
            }
            Prepared::Kernel(kernel) => {
                let lists = (&mut self.moving.pieces, &mut self.moving.uses);
                let launched = match &self.fixed.children[kernel.among] {
                    Child::Whole => {
                        let on: On<'_, W> = On::new(self.on.core, &stream.core);
                        kernel.launch(&on, self.table.places(), lists)
                    }
                    Child::Part(child) => {
                        kernel.launch(&child.on(stream), self.table.places(), lists)
                    }
                };
                launched.map_err(Stop::Reported)?;
            }
            Prepared::Group { among, operations, refusals } => {
                self.issue(stream, *among, operations, refusals)?;
            }
            Prepared::Counted { among, group, refusals, .. } => {
                let operations = &self.moving.passed.groups[*group];
                self.issue(stream, *among, operations, refusals)?;
            }
        }
        if let Some(event) = *records {
            stream.core.mark()?;
            self.moving.events[event] = Some((stream.core.shared(), stream.core.last_seq()));
        }
        Ok(())
    }

    /// Makes the calls of a group, on the plan's communicator or one of its parts.
    #[inline]
    fn issue(
        &self,
        stream: &Stream<W::Device>,
        among: usize,
        operations: &[Template],
        refusals: &[Refusal],
    ) -> Result<(), Stop> {
        let places = self.table.places();
        let issued = match &self.fixed.children[among] {
            Child::Whole => {
                let on: On<'_, W> = On::new(self.on.core, &stream.core);
                issue(&on, operations, refusals, places)
            }
            Child::Part(child) => issue(&child.on(stream), operations, refusals, places),
        };
        issued.map_err(Stop::Reported)
    }

    /// Records this call and all later ones as refused.
    #[cold]
    fn refuse(&self, from: usize, mut error: Error) -> Error {
        for step in &self.fixed.steps[from..] {
            error = match &step.work {
                Prepared::Compute(_) | Prepared::Assign(_) => error,
                Prepared::Kernel(Kernel { among, refusals, .. })
                | Prepared::Group { among, refusals, .. }
                | Prepared::Counted { among, refusals, .. } => match &self.fixed.children[*among] {
                    Child::Whole => self.on.core.refuse(refusals, error),
                    Child::Part(child) => child.here().core.refuse(refusals, error),
                },
            };
        }
        error
    }
}

/// Why a run stops.
pub(super) enum Stop {
    /// The other ranks do not know.
    Failed(Error),
    /// A group failed, which told them of that group.
    Reported(Error),
    /// A compute step panicked; the other ranks do not know.
    Panicked(Error, Panic),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Fills in memory and issues a group.
fn issue<W: World, V: World<Device = W::Device>>(
    on: &On<'_, V>,
    templates: &[Template],
    refusals: &[Refusal],
    places: &[PlanOperand<'_, W>],
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
    places: &[PlanOperand<'a, W>],
) -> Op<'a, <W::Device as crate::Device>::Backend> {
    let target = |into: &Spot| Target {
        // Whatever is given for a window is one.
        window: places[into.object].window.unwrap_or_default(),
        offset: into.offset(),
    };
    template.map(|spot, _| span(spot, places), |none| match *none {}, target, |none| match *none {})
}

fn span<'a, W: World>(
    spot: &Spot,
    places: &[PlanOperand<'a, W>],
) -> Span<'a, <W::Device as crate::Device>::Backend> {
    let place = places[spot.object];
    // SAFETY: a step's spots are inside their objects' lengths, as the plan's preparation checked;
    // the memory was compared with its object, and begins at `start`, in elements of that type.
    unsafe { Span::new(place.allocation, place.offset(spot), spot.len) }
}
