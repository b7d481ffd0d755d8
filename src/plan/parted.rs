//! Memory whose parts several streams of a plan use side by side.
//!
//! Every other use of memory orders streams by the whole allocation. Among the streams of a plan
//! the schedule has an event wherever both use an element, in this run and from the last one, so
//! nothing else is waited for there. Uses from outside are ordered with them by the allocation.
//!
//! The events from the last run hold for memory that is where it was in that run, and only if the
//! run recorded all of them. Otherwise this run's streams get a new number, and wait for the uses
//! of the former one as for uses from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use typed_nccl_plan::ir::{Launch, Plan};
use typed_nccl_plan::lower::RankSchedule;

use super::argument::PlanOperand;
use super::prepare::Object;
use crate::{Result, Stream, World};

/// The objects of which a plan's streams use different parts.
pub(super) struct Parted {
    objects: Vec<usize>,
    /// Which of them are the first of two copies, by their place among them.
    pairs: Vec<usize>,
}

/// The memory that they had in the last run.
#[derive(Default)]
pub(super) struct Last {
    /// By address; empty if that run did not enqueue everything.
    memory: Vec<usize>,
    /// The number by which memory knows the plan's streams; 0 if there are no such objects.
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
        Self { objects, pairs }
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
        places: &[PlanOperand<'_, W>],
        last: &mut Last,
        own: &Stream<W::Device>,
    ) -> Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if self.objects.is_empty() {
            return Ok(());
        }
        let memory = || self.objects.iter().map(|&at| Arc::as_ptr(places[at].allocation).addr());
        if !memory().eq(last.memory.iter().copied()) {
            last.memory.clear();
            last.memory.extend(memory());
            last.team = NEXT.fetch_add(1, Relaxed);
        }
        for &at in &self.objects {
            let memory = places[at].allocation;
            let is_same = |other: &PlanOperand<'_, W>| Arc::ptr_eq(other.allocation, memory);
            // The schedule takes two windows of one memory for two memories.
            if places.iter().filter(|other| is_same(other)).count() == 1 {
                memory.order.part(last.team);
            }
        }
        // The others wait for what came before the run, and not for what the run enqueues here.
        own.core.mark().map(drop)
    }
}
