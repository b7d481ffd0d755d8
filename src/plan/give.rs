//! The arguments of a run: memory by its name in the plan.
//!
//! A plan may have many buffers, and every run passes all of them. So the data to compare for each
//! is in one place, and memory in the order of declaration needs no look-up.

use typed_nccl_plan::ir::{Buffer, Role};

use super::argument::{Places, PlanInput, PlanMemory, PlanOperand};
use super::bound::{Bound, Fixed, Moving};
use super::prepare::Object;
use super::table::Filled;
use crate::communicator::{CanEnqueue, On, State};
use crate::error::{
    ArgumentFault, BadArgument, BoundElsewhere, Error, OtherDevice, RanAlready, Site,
};
use crate::{Communicator, DType, Device, Stream, World};

/// Memory that the caller passes.
pub(super) struct Given {
    pub(super) name: Box<str>,
    /// Its first object and the one after its last.
    first: usize,
    end: usize,
    /// Of each of its objects, the length, and whether it is a window.
    wanted: Box<[(usize, bool)]>,
    dtype: DType,
    has_copies: bool,
    is_only_read: bool,
}

impl Given {
    /// The requirements of a plan's buffer whose objects begin at `first`.
    pub(super) fn new<'o>(
        (buffer, dtype): (&Buffer, DType),
        first: usize,
        objects: impl Iterator<Item = &'o Object>,
    ) -> Self {
        let wanted: Box<[_]> = objects.map(|object| (object.len, object.is_window)).collect();
        let (name, end) = (buffer.name.as_str().into(), first + wanted.len());
        let (has_copies, is_only_read) = (buffer.copies == 2, buffer.role == Role::In);
        Self { name, first, end, wanted, dtype, has_copies, is_only_read }
    }
}

/// A run in preparation: takes the plan's memory by name.
///
/// See the example of [`bind`](super::bind).
// It is moved for each buffer, so whatever can be elsewhere is in `Moving`.
#[must_use = "runs nothing before `run`"]
pub struct Run<'a, W: World> {
    pub(super) fixed: &'a Fixed<W>,
    pub(super) moving: &'a mut Moving<W>,
    pub(super) on: On<'a, W>,
    /// The communicator's own stream.
    pub(super) own: &'a Stream<W::Device>,
    /// The memory so far.
    pub(super) table: Filled<'a, W>,
    pub(super) site: Site,
}

impl<W: World> Bound<W> {
    /// Begins a run. Pass the plan's memory, then [`run`](Run::run) it.
    ///
    /// Runs are ordered on all ranks by the names that windows have in the plan. A window that had
    /// another name in the last run may still be read there by a peer: call
    /// [`barrier`](Communicator::barrier) after `sync` between these two runs.
    #[track_caller]
    pub fn on<'a, S: State + CanEnqueue>(&'a mut self, comm: &'a Communicator<W, S>) -> Run<'a, W> {
        let Self { fixed, moving, table } = self;
        let (on, own, site) = (comm.here(), comm.stream(), Site::caller());
        let is_here = on.core.health.id() == fixed.of.0;
        let may_run = moving.runs == 0 || fixed.plan.replayed;
        moving.refused = match is_here && may_run {
            true => fixed.locals.iter().find_map(|local| local.check(comm).err()),
            false => Some(refusal(fixed, is_here, (W::NAME, comm.size()), site)),
        };
        (moving.error, moving.next, moving.is_shuffled) = (None, 0, false);
        if !fixed.lists.is_empty() {
            moving.passed.forget();
        }
        Run { fixed, moving, on, own, table: table.begin(), site }
    }
}

/// Why every rank refuses such a run; the others find out by themselves.
#[cold]
pub(super) fn refusal<W: World>(
    fixed: &Fixed<W>,
    is_here: bool,
    found: (&'static str, usize),
    site: Site,
) -> Error {
    let plan = fixed.plan.name.clone();
    if is_here {
        return Error::from(RanAlready { plan, site });
    }
    let bound = (fixed.of.1, fixed.of.2);
    BoundElsewhere { plan, bound, found, site }.into()
}

impl<'a, W: World> Run<'a, W> {
    /// Passes memory that the plan only reads: `&x`, `&x.slice(a..b)`, `&[&x, &y]` for an array.
    #[inline(always)]
    pub fn read<M: PlanInput<W> + ?Sized>(mut self, name: &str, memory: &'a M) -> Self {
        self.give(name, memory, false);
        self
    }

    /// Passes memory that the plan reads and writes: `&mut y`, `&mut y.slice_mut(a..b)`,
    /// `&mut y.parts_mut([4, 4])` for an array.
    #[inline(always)]
    pub fn write<M: PlanMemory<W> + ?Sized>(mut self, name: &str, memory: &'a mut M) -> Self {
        self.give(name, memory, true);
        self
    }

    fn give<M: PlanInput<W> + ?Sized>(&mut self, name: &str, memory: &'a M, is_written: bool) {
        let (fixed, moving) = (self.fixed, &mut *self.moving);
        let given = match fixed.given.get(moving.next) {
            Some(given) if !moving.is_shuffled && *given.name == *name => given,
            _ => match self.find(name) {
                Ok(given) => given,
                Err(why) => return self.fault(name, why),
            },
        };
        let moving = &mut *self.moving;
        moving.next += 1;
        let begin = self.table.places().len();
        let (core, table, error) = (self.on.core, &mut self.table, &mut moving.error);
        memory.places(&mut Places { core, table, error });
        let places = &self.table.places()[begin..];
        let mut ordinals = places.iter().map(|place| place.allocation.ordinal());
        if let Some(found) = ordinals.find(|&found| found != core.ordinal) {
            let (needed, site) = (core.ordinal, self.site);
            moving.error.get_or_insert_with(|| elsewhere::<W>(found, needed, site));
        }
        let fits = given.dtype == M::DTYPE
            && given.has_copies == M::SWAPPED
            && (is_written || given.is_only_read)
            && places.len() == given.wanted.len()
            && places.iter().zip(&given.wanted).all(|(place, wanted)| place.fits(wanted));
        if !fits {
            let objects = &fixed.objects[given.first..given.end];
            let why = misfit((given, objects), places, is_written, (M::SWAPPED, M::DTYPE));
            self.fault(name, why);
        }
    }

    /// Finds the plan's buffer of this name, in whatever order they are passed.
    #[cold]
    fn find(&mut self, name: &str) -> Result<&'a Given, ArgumentFault> {
        let given = &self.fixed.given;
        let Moving { next, is_shuffled, begins, .. } = &mut *self.moving;
        if !*is_shuffled {
            // So far they came in order.
            begins.clear();
            begins.extend(given[..*next].iter().map(|given| Some(given.first)));
            begins.resize(given.len(), None);
            *is_shuffled = true;
        }
        let is = |given: &Given| *given.name == *name;
        let at = match given.get(*next) {
            Some(given) if is(given) => Some(*next),
            _ => given.iter().position(is),
        };
        let Some(at) = at else {
            let known = given.iter().map(|given| given.name.to_string()).collect();
            return Err(ArgumentFault::Unknown { known });
        };
        if begins[at].is_some() {
            return Err(ArgumentFault::Twice);
        }
        begins[at] = Some(self.table.places().len());
        *next = at;
        Ok(&given[at])
    }

    #[cold]
    pub(super) fn fault(&mut self, buffer: &str, why: ArgumentFault) {
        let (plan, buffer) = (self.fixed.plan.name.clone(), buffer.to_owned());
        let bad = BadArgument { plan, buffer, why, site: self.site };
        self.moving.error.get_or_insert_with(|| Error::from(bad));
    }

    /// Records missing memory as an error.
    pub(super) fn complete(&mut self) {
        let fixed = self.fixed;
        let missing = match self.moving.is_shuffled {
            true => self.moving.begins.iter().position(Option::is_none),
            false => Some(self.moving.next).filter(|&next| next < fixed.given.len()),
        };
        if let Some(at) = missing {
            self.fault(&fixed.given[at].name, ArgumentFault::Missing);
        }
    }

    /// Sorts the places into the order of the plan's objects: the caller's, then local memory.
    pub(super) fn fill(&mut self) {
        let (given, locals) = (&self.fixed.given, &self.fixed.locals);
        if self.moving.is_shuffled {
            let begins = self.moving.begins.iter().map(|begin| begin.unwrap_or(0));
            let ranges = given.iter().zip(begins);
            self.table.reorder(ranges.map(|(given, begin)| begin..begin + given.end - given.first));
        }
        for (at, local) in locals.iter().enumerate() {
            let object = &self.fixed.objects[local.object];
            // The other one of two, in every other run.
            let twin = match (object.copies, local.is_second) {
                (2, false) if self.moving.flipped => at + 1,
                (2, true) if self.moving.flipped => at - 1,
                _ => at,
            };
            self.table.push(locals[twin].place());
        }
    }
}

impl<W: World> PlanOperand<'_, W> {
    #[inline]
    fn fits(&self, &(len, is_window): &(usize, bool)) -> bool {
        self.len == len && self.window.is_some() == is_window && !self.is_uneven
    }
}

/// The error about memory of another device, which `AnyDevice` does not show.
#[cold]
fn elsewhere<W: World>(found: u32, needed: u32, site: Site) -> Error {
    let (operation, what, kind) = ("run", "buffer", W::Device::KIND);
    OtherDevice { operation, what, kind, found, needed, site }.into()
}

/// How memory differs from the plan's declaration.
#[cold]
fn misfit<W: World>(
    (given, objects): (&Given, &[Object]),
    places: &[PlanOperand<'_, W>],
    is_written: bool,
    (is_swapped, dtype): (bool, DType),
) -> ArgumentFault {
    if given.has_copies != is_swapped {
        return ArgumentFault::Copies { needed: given.has_copies };
    }
    if !is_written && !given.is_only_read {
        return ArgumentFault::ReadOnly;
    }
    let copies = if given.has_copies { 2 } else { 1 };
    let (found, needed) = (places.len() / copies, objects.len() / copies);
    if found == needed && dtype != given.dtype {
        return ArgumentFault::DataType { found: dtype, needed: given.dtype };
    }
    let mut both = places.iter().zip(&given.wanted);
    let unfit = both.position(|(place, wanted)| !place.fits(wanted));
    let Some(at) = unfit.filter(|_| found == needed) else {
        return ArgumentFault::Count { found, needed };
    };
    let (place, object) = (&places[at], &objects[at]);
    if place.window.is_some() != object.is_window {
        return ArgumentFault::Registration { needed: object.is_window };
    }
    if place.is_uneven {
        return ArgumentFault::Uneven;
    }
    ArgumentFault::Length { index: object.index, found: place.len, needed: object.len }
}
