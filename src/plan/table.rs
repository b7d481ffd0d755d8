//! The memory of a run, in a list that is used again and again.

use std::mem;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use super::argument::Place;
use crate::World;

/// A list of memory, which is nobody's between runs.
pub(super) struct Table<W: World> {
    /// Of the last run, which is over: not looked at.
    places: Vec<Place<'static, W>>,
    /// What the copies that a run was given change places by.
    flips: Vec<&'static AtomicBool>,
}

impl<W: World> Default for Table<W> {
    fn default() -> Self {
        Self { places: Vec::new(), flips: Vec::new() }
    }
}

impl<W: World> Table<W> {
    /// An empty one for a run.
    pub(super) fn begin(&mut self) -> Filled<'_, W> {
        self.places.clear();
        self.flips.clear();
        Filled(self)
    }
}

/// A run's list: what is in it was put there through this, and so lives for `'a`.
pub(super) struct Filled<'a, W: World>(&'a mut Table<W>);

impl<'a, W: World> Filled<'a, W> {
    #[inline]
    pub(super) fn push(&mut self, place: Place<'a, W>) {
        // SAFETY: a lifetime is all that changes. The list is emptied by `begin`, and read by `places` of this
        // alone, which gives the lifetime back.
        self.0.places.push(unsafe { mem::transmute::<Place<'a, W>, Place<'static, W>>(place) });
    }

    pub(super) fn flips_by(&mut self, parity: &'a AtomicBool) {
        // SAFETY: as in `push`, with `flips`.
        self.0.flips.push(unsafe { mem::transmute::<&'a AtomicBool, &'static AtomicBool>(parity) });
    }

    /// The memory, allocation by allocation.
    #[inline]
    pub(super) fn places(&self) -> &[Place<'a, W>] {
        &self.0.places
    }

    pub(super) fn flips(&self) -> &[&'a AtomicBool] {
        &self.0.flips
    }

    /// Puts ranges of it into another order.
    pub(super) fn reorder(&mut self, ranges: impl Iterator<Item = Range<usize>>) {
        let places = &mut self.0.places;
        let count = places.len();
        // Behind what there is, and then in its place.
        ranges.for_each(|range| places.extend_from_within(range));
        places.drain(..count);
    }
}
