//! A value for each rank of a clique.

use std::fmt;

/// One value per rank of a clique, each on its rank's device. There is no indexing by number:
/// position i always meets rank i.
pub struct PerRank<X> {
    items: Vec<X>,
    clique: u64,
}

impl<X> PerRank<X> {
    pub(super) fn new(items: Vec<X>, clique: u64) -> Self {
        Self { items, clique }
    }

    /// How many ranks.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the clique has no ranks.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The values, by rank; they are not a clique's any more.
    pub fn into_vec(self) -> Vec<X> {
        self.items
    }

    pub(super) fn clique(&self) -> u64 {
        self.clique
    }

    pub(super) fn items(&self) -> &[X] {
        &self.items
    }

    pub(super) fn items_mut(&mut self) -> &mut [X] {
        &mut self.items
    }
}

impl<X: fmt::Debug> fmt::Debug for PerRank<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}
