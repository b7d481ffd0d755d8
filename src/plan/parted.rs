//! Memory whose parts several streams of a plan use side by side.
//!
//! Every other use of memory orders streams by the whole allocation. Among the streams of a plan
//! the schedule has an event wherever both use an element, in this run and from the last one, so
//! nothing else is waited for there. Uses from outside are ordered with them by the allocation.

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
    /// The number by which memory knows the plan's streams; 0 if there are no such objects.
    pub(super) team: u64,
}

impl Parted {
    pub(super) fn new(plan: &Plan, objects: &[Object], schedule: &RankSchedule) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Runs of a captured plan have no events between them.
        let parted = match plan.launch {
            Launch::Eager => schedule.parted(),
            Launch::Captured => Vec::new(),
        };
        let is_parted = |object: &Object| {
            let place = (object.buffer as u32, object.index.unwrap_or(0) as u32);
            parted.binary_search(&place).is_ok()
        };
        let objects: Vec<usize> = objects
            .iter()
            .enumerate()
            .filter(|(_, one)| is_parted(one))
            .map(|(at, _)| at)
            .collect();
        let team = if objects.is_empty() { 0 } else { NEXT.fetch_add(1, Relaxed) };
        Self { objects, team }
    }

    /// Begins a run with this memory; `own` is the stream that work outside of the plan uses too.
    pub(super) fn begin<W: World>(
        &self,
        places: &[PlanOperand<'_, W>],
        own: &Stream<W::Device>,
    ) -> Result<()> {
        if self.team == 0 {
            return Ok(());
        }
        for &at in &self.objects {
            let memory = places[at].allocation;
            let is_same = |other: &PlanOperand<'_, W>| Arc::ptr_eq(other.allocation, memory);
            // The schedule takes two windows of one memory for two memories.
            if places.iter().filter(|other| is_same(other)).count() == 1 {
                memory.order.part(self.team);
            }
        }
        // The others wait for what came before the run, and not for what the run enqueues here.
        own.core.mark().map(drop)
    }
}
