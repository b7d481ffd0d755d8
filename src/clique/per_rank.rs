//! One value per rank of a clique.

use std::fmt;
use std::ops::Index;

/// One value per rank of a clique, each on its rank's device. It cannot be indexed by number, so
/// position i always meets rank i.
///
/// ```
/// # use typed_nccl::{Clique, Host, Result};
/// # fn main() -> Result<()> {
/// let clique = Clique::init(Host::open_each(&[0, 1])?)?;
/// let names = clique.per_rank(|rank, _| Ok(format!("rank {rank}")))?;
/// assert_eq!(names.into_vec(), ["rank 0", "rank 1"]);
/// # clique.finish()
/// # }
/// ```
pub struct PerRank<X> {
    items: Vec<X>,
    clique: u64,
}

impl<X> PerRank<X> {
    pub(super) fn new(items: Vec<X>, clique: u64) -> Self {
        Self { items, clique }
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the clique has no ranks.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The values, by rank; they no longer belong to a clique.
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

/// A value that can be indexed by a rank's number. Nothing of a clique implements it.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` is not indexed by number",
    label = "each rank's value goes to its own rank only",
    note = "`clique.each(&per_rank, |lane, part| ..)` hands the values out, rank by rank; `clique.to_host(&per_rank)?` reads buffers, `per_rank.into_vec()` takes the values apart"
)]
pub trait IndexedByNumber {
    #[doc(hidden)]
    fn never(&self) -> !;
}

/// Not available: position i always meets rank i.
impl<X> Index<usize> for PerRank<X>
where
    Self: IndexedByNumber,
{
    type Output = X;

    fn index(&self, _: usize) -> &X {
        self.never()
    }
}

impl<X: fmt::Debug> fmt::Debug for PerRank<X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}
