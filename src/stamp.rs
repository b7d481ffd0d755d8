//! Stamps: which communicator made a value.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A communicator (lineage) and its incarnation (generation).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Stamp {
    pub(crate) lineage: u32,
    pub(crate) generation: u32,
}

impl Stamp {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self { lineage: NEXT.fetch_add(1, Relaxed), generation: 0 }
    }
}

/// The communicator that created a value without a slot: a signal, declared lengths.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Maker {
    pub(crate) stamp: Stamp,
    pub(crate) name: &'static str,
}
