//! Signals: counters that puts and signals raise and waits lower.

use std::collections::HashMap;

use super::comm::Place;
use super::state::{State, Step};
use crate::backend::Slot;
use crate::error::Error;

/// How many signals each rank has received and not consumed, by sender and slot.
pub(super) struct Signals {
    size: usize,
    slots: Slot,
    counts: Vec<u64>,
    /// Signals that their sender refused to send: the wait that would consume them is told.
    refused: HashMap<usize, Error>,
}

impl Signals {
    pub(super) fn new(size: usize, slots: Slot) -> Self {
        let per_pair = slots.context as usize * slots.index as usize;
        Self { size, slots, counts: vec![0; size * size * per_pair], refused: HashMap::new() }
    }

    /// The typed layer hands out slots that exist.
    fn cell(&self, to: usize, from: usize, slot: Slot) -> usize {
        let (contexts, indexes) = (self.slots.context as usize, self.slots.index as usize);
        let pair = to * self.size + from;
        (pair * contexts + slot.context as usize) * indexes + slot.index as usize
    }

    pub(super) fn count(&self, to: usize, from: usize, slot: Slot) -> u64 {
        self.counts.get(self.cell(to, from, slot)).copied().unwrap_or(0)
    }

    /// Lowers a counter, if it is high enough.
    pub(super) fn consume(&mut self, to: usize, from: usize, slot: Slot, count: u64) -> bool {
        let cell = self.cell(to, from, slot);
        match self.counts.get_mut(cell) {
            Some(have) if *have >= count => {
                *have -= count;
                true
            }
            _ => false,
        }
    }

    pub(super) fn take_refusal(&mut self, to: usize, from: usize, slot: Slot) -> Option<Error> {
        if self.refused.is_empty() { None } else { self.refused.remove(&self.cell(to, from, slot)) }
    }
}

impl State {
    /// A signal from `place` arrives at `to`; with a reason if it was refused.
    pub(super) fn raise(&mut self, place: Place, to: usize, slot: Slot, refused: Option<Error>) {
        let Some(comm) = self.comm(place) else { return };
        let cell = comm.signals.cell(to, place.rank, slot);
        if let Some(count) = comm.signals.counts.get_mut(cell) {
            *count += 1;
        }
        if let Some(reason) = refused {
            comm.signals.refused.entry(cell).or_insert(reason);
        }
        if comm.members[to].flight.is_some() {
            self.todo.push(Step::Member(place.of(to)));
        }
    }
}
