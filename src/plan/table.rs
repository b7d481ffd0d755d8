//! The memory of a run, in a reusable list.

use std::mem;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::argument::PlanOperand;
use crate::World;

/// A list of memory without an owner between runs.
pub(super) struct Table<W: World> {
    /// Entries of the last run, never read.
    places: Vec<PlanOperand<'static, W>>,
    /// The flags that swap the copies passed to a run.
    flips: Vec<&'static AtomicBool>,
    /// Whether a view was passed.
    has_views: bool,
}

impl<W: World> Default for Table<W> {
    fn default() -> Self {
        Self { places: Vec::new(), flips: Vec::new(), has_views: false }
    }
}

impl<W: World> Table<W> {
    /// Empties it for a run.
    pub(super) fn begin(&mut self) -> Filled<'_, W> {
        self.places.clear();
        self.flips.clear();
        self.has_views = false;
        Filled(self)
    }
}

/// A run's list: its entries were all added through this, and so live for `'a`.
pub(super) struct Filled<'a, W: World>(&'a mut Table<W>);

impl<'a, W: World> Filled<'a, W> {
    #[inline]
    pub(super) fn push(&mut self, place: PlanOperand<'a, W>) {
        // SAFETY: only a lifetime changes. `begin` empties the list, and only `places` of this
        // value reads it, which restores the lifetime.
        self.0
            .places
            .push(unsafe { mem::transmute::<PlanOperand<'a, W>, PlanOperand<'static, W>>(place) });
    }

    pub(super) fn flips_by(&mut self, parity: &'a AtomicBool) {
        // SAFETY: as in `push`, with `flips`.
        self.0.flips.push(unsafe { mem::transmute::<&'a AtomicBool, &'static AtomicBool>(parity) });
    }

    /// [`push`](Self::push) for a view, of whose buffer the run may have others.
    #[inline]
    pub(super) fn push_view(&mut self, place: PlanOperand<'a, W>) {
        self.0.has_views = true;
        self.push(place);
    }

    pub(super) fn has_views(&self) -> bool {
        self.0.has_views
    }

    /// The memory, allocation by allocation.
    #[inline]
    pub(super) fn places(&self) -> &[PlanOperand<'a, W>] {
        &self.0.places
    }

    pub(super) fn flips(&self) -> &[&'a AtomicBool] {
        &self.0.flips
    }

    /// Reorders it by ranges.
    pub(super) fn reorder(&mut self, ranges: impl Iterator<Item = Range<usize>>) {
        let places = &mut self.0.places;
        let count = places.len();
        // Append the new order, then move it to the front.
        ranges.for_each(|range| places.extend_from_within(range));
        places.drain(..count);
    }
}
