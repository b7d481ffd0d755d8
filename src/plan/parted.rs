//! Memory whose parts several streams of a plan use side by side.
//!
//! Every other use of memory orders streams by the whole allocation. Among the streams of a plan
//! the schedule has an event wherever both use an element, in this run and from the last one, so
//! nothing else is waited for there. Uses from outside are ordered with them by the allocation.
//!
//! The events from the last run hold for memory that is where it was in that run, and only if the
//! run recorded all of them. Otherwise this run's streams get a new number, and wait for the uses
//! of the former one as for uses from outside.
//!
//! Views of one buffer, passed as several buffers of the plan, are such parts too: the plan's
//! streams must not wait for each other where it was checked that they need not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use typed_nccl_plan::ir::{Launch, Plan};
use typed_nccl_plan::lower::RankSchedule;

use super::argument::PlanOperand;
use super::prepare::Object;
use super::table::Filled;
use crate::{Result, Stream, World};

/// The objects of which a plan's streams use different parts.
pub(super) struct Parted {
    objects: Vec<usize>,
    /// Which of them are the first of two copies, by their place among them.
    pairs: Vec<usize>,
    has_streams: bool,
}

/// The memory that they had in the last run.
#[derive(Default)]
pub(super) struct Last {
    /// By address and start; empty if the next run must not rely on that run's events.
    memory: Vec<(usize, usize)>,
    /// The number by which memory knows the plan's streams; 0 if they share no memory.
    pub(super) team: u64,
}

impl Last {
    /// The run did not enqueue everything, so events of it are missing.
    pub(super) fn forget(&mut self) {
        self.memory.clear();
    }
}

impl Parted {
    pub(super) fn new(plan: &Plan, all: &[Object], schedule: &RankSchedule) -> Self {
        // Runs of a captured plan have no events between them.
        let parted = match plan.launch {
            Launch::Eager => schedule.parted(),
            Launch::Captured => Vec::new(),
        };
        let is_parted = |object: &Object| {
            let place = (object.buffer as u32, object.index.unwrap_or(0) as u32);
            parted.binary_search(&place).is_ok()
        };
        let objects: Vec<usize> =
            all.iter().enumerate().filter(|(_, one)| is_parted(one)).map(|(at, _)| at).collect();
        let is_first = |at: usize| all[at].copies == 2 && !all[at].is_second;
        let pairs = (0..objects.len()).filter(|&place| is_first(objects[place])).collect();
        Self { objects, pairs, has_streams: plan.streams.len() > 1 }
    }

    /// The copies change places for the next run.
    pub(super) fn swap(&self, last: &mut Last) {
        for &first in &self.pairs {
            if first + 1 < last.memory.len() {
                last.memory.swap(first, first + 1);
            }
        }
    }

    /// Begins a run with this memory; `own` is the stream that work outside of the plan uses too.
    pub(super) fn begin<W: World>(
        &self,
        table: &Filled<'_, W>,
        last: &mut Last,
        own: &Stream<W::Device>,
    ) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let places = table.places();
        let joint = || places.iter().filter(|place| is_joint(place, places));
        let has_joint = self.has_streams && table.has_views() && joint().next().is_some();
        if self.objects.is_empty() && !has_joint {
            last.team = 0;
            return Ok(());
        }
        let place = |&at: &usize| (Arc::as_ptr(places[at].allocation).addr(), places[at].start);
        let memory = || self.objects.iter().map(place);
        if has_joint || !memory().eq(last.memory.iter().copied()) {
            last.memory.clear();
            last.team = NEXT.fetch_add(1, Relaxed);
        }
        if has_joint {
            joint().for_each(|place| place.allocation.order.part(last.team));
        } else if last.memory.is_empty() {
            last.memory.extend(memory());
        }
        for &at in &self.objects {
            // The schedule takes two windows of one memory for two memories.
            if sharing(&places[at], places).count() == 1 {
                places[at].allocation.order.part(last.team);
            }
        }
        // The others wait for what came before the run, and not for what the run enqueues here.
        own.core.mark().map(drop)
    }
}

/// The places in one allocation.
fn sharing<'p, 'a, W: World>(
    place: &PlanOperand<'a, W>,
    places: &'p [PlanOperand<'a, W>],
) -> impl Iterator<Item = &'p PlanOperand<'a, W>> {
    let memory = place.allocation;
    places.iter().filter(move |other| Arc::ptr_eq(other.allocation, memory))
}

/// Whether it is one of several in an allocation, which borrows keep apart where one is written.
fn is_joint<W: World>(place: &PlanOperand<'_, W>, places: &[PlanOperand<'_, W>]) -> bool {
    sharing(place, places).count() > 1 && sharing(place, places).all(|other| other.window.is_none())
}
