//! Signals: raised by puts and signals, consumed by waits.

use std::collections::{HashMap, VecDeque};

use super::comm::Place;
use super::state::{State, Step};
use crate::backend::Slot;
use crate::error::Error;

/// The signals that each rank has received, by sender and slot.
pub(super) struct Signals {
    size: usize,
    slots: Slot,
    cells: Vec<Cell>,
    /// Signals that their sender refused to send, by cell and number: the wait that consumes one is
    /// told.
    refused: HashMap<usize, VecDeque<(u64, Error)>>,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    raised: u64,
    consumed: u64,
}

impl Signals {
    pub(super) fn new(size: usize, slots: Slot) -> Self {
        let per_pair = slots.context as usize * slots.index as usize;
        let cells = vec![Cell::default(); size * size * per_pair];
        Self { size, slots, cells, refused: HashMap::new() }
    }

    /// The typed layer hands out slots that exist.
    fn cell(&self, to: usize, from: usize, slot: Slot) -> usize {
        let (contexts, indexes) = (self.slots.context as usize, self.slots.index as usize);
        let pair = to * self.size + from;
        (pair * contexts + slot.context as usize) * indexes + slot.index as usize
    }

    /// How many arrived and were not consumed.
    pub(super) fn count(&self, to: usize, from: usize, slot: Slot) -> u64 {
        let cell = self.cells.get(self.cell(to, from, slot)).copied().unwrap_or_default();
        cell.raised - cell.consumed
    }

    /// Consumes signals, if there are enough; how many of the kind were consumed so far.
    pub(super) fn consume(
        &mut self,
        to: usize,
        from: usize,
        slot: Slot,
        count: u64,
    ) -> Option<u64> {
        let cell = self.cell(to, from, slot);
        match self.cells.get_mut(cell) {
            Some(cell) if cell.raised - cell.consumed >= count => {
                cell.consumed += count;
                Some(cell.consumed)
            }
            _ => None,
        }
    }

    /// The first refusal among the signals that were consumed last.
    pub(super) fn take_refusal(&mut self, to: usize, from: usize, slot: Slot) -> Option<Error> {
        if self.refused.is_empty() {
            return None;
        }
        let cell = self.cell(to, from, slot);
        let consumed = self.cells.get(cell)?.consumed;
        let refused = self.refused.get_mut(&cell)?;
        let mut first = None;
        while refused.front().is_some_and(|(number, _)| *number < consumed) {
            let next = refused.pop_front().map(|(_, error)| error);
            first = first.or(next);
        }
        first
    }
}

impl State {
    /// A signal from `place` arrives at `to`; with a reason if it was refused.
    pub(super) fn raise(&mut self, place: Place, to: usize, slot: Slot, refused: Option<Error>) {
        let Some(comm) = self.comm(place) else { return };
        let cell = comm.signals.cell(to, place.rank, slot);
        let Some(at) = comm.signals.cells.get_mut(cell) else { return };
        let number = at.raised;
        at.raised += 1;
        let is_refused = refused.is_some();
        if let Some(reason) = refused {
            comm.signals.refused.entry(cell).or_default().push_back((number, reason));
        }
        if comm.members[to].flight.is_some() {
            self.todo.push(Step::Member(place.of(to)));
        }
        self.order_raised(place, (to, slot), number, is_refused);
    }
}
