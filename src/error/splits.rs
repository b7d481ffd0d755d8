//! Lengths by rank that cannot be used.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::refusal::UNHARMED;

/// A rank declared its lengths for too few ranks, or for too many. Every rank gets it.
///
/// ```
/// # use typed_nccl::{Error, Host, spmd};
/// # spmd::<Host>(3, |place| {
/// # let comm = place.init()?;
/// let counts: &[usize] = if comm.rank() == 1 { &[8] } else { &[8, 8, 8] };
/// let Err(Error::BadSplits(bad)) = comm.splits(counts) else { panic!("1 count, 3 ranks") };
/// assert_eq!((bad.rank.index(), bad.found, bad.size), (1, 1, 3));
/// # comm.finish() }).expect("every rank ends well");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("splits: rank {rank} gave {found} {}, and there are {size} ranks (at {site}); give a count for each rank; nothing was sent", if *.found == 1 { "count" } else { "counts" })]
pub struct BadSplits {
    /// The rank.
    pub rank: crate::Rank,
    /// How many counts it gave.
    pub found: usize,
    /// The number of ranks.
    pub size: usize,
    /// The call site of this rank's call.
    pub site: Site,
}

/// A rank declared a length that is no number of elements.
///
/// ```
/// # use typed_nccl::{Error, Host, Seat};
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let refused = comm.splits(&[-1]);
/// assert!(matches!(refused, Err(Error::BadBlockLen(bad)) if bad.found == -1));
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "{operation}: {found} is not a number of elements (at {site}); give 0 for an empty block; {UNHARMED}"
)]
pub struct BadBlockLen {
    /// The method.
    pub operation: &'static str,
    /// The length.
    pub found: i128,
    /// The call site.
    pub site: Site,
}

/// Declared lengths of which one rank's exceed what a buffer can hold.
///
/// See the example of [`BadLength`](super::BadLength).
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct SplitsTooLong {
    /// The method.
    pub operation: &'static str,
    /// The rank.
    pub rank: crate::Rank,
    /// Whether the rank receives these elements; it sends them otherwise.
    pub receives: bool,
    /// The number of elements from or to each rank.
    pub counts: Vec<usize>,
    /// The call site.
    pub site: Site,
}

impl fmt::Display for SplitsTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, rank, receives, counts, site } = self;
        let (does, side) = if *receives { ("receive", "from") } else { ("send", "to") };
        write!(
            f,
            "{operation}: rank {rank} would {does} {counts:?} elements {side} the ranks, more than a buffer can hold (at {}); declare fewer on all ranks; nothing was sent",
            site
        )
    }
}
