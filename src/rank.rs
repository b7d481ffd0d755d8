//! Ranks: places in a communicator, checked where they enter.

use std::fmt;

/// One place in a communicator, from 0 to its size.
///
/// A `Rank` that comes from a communicator (`comm.rank()`, `comm.ring(1)`) is in range there.
/// Methods take `impl AsRank`, so that a plain number works too; it is checked on entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rank(pub(crate) u32);

impl Rank {
    /// The rank as a number.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// Rank `index`; whoever uses it checks that the communicator has it.
    #[inline]
    pub fn from_index(index: usize) -> Self {
        Self::at(index)
    }

    /// The rank `offset` places further on a ring of `size`.
    pub(crate) fn ring(self, offset: isize, size: usize) -> Self {
        let size = size.max(1);
        let forward = offset.rem_euclid(isize::try_from(size).unwrap_or(isize::MAX));
        Self::at((self.index() + forward.unsigned_abs()) % size)
    }

    #[inline]
    pub(crate) fn at(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What names a rank: a [`Rank`], or a number. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a rank",
    label = "expected a `Rank` or a `usize`",
    note = "`comm.rank()` is this rank; a plain number such as `0` is a `usize`"
)]
pub trait AsRank: Copy + sealed::Sealed {
    /// The rank as a number, not checked yet.
    fn index(self) -> usize;
}

impl AsRank for Rank {
    #[inline]
    fn index(self) -> usize {
        self.index()
    }
}

impl AsRank for usize {
    #[inline]
    fn index(self) -> usize {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Rank {}
    impl Sealed for usize {}
}
