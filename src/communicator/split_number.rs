//! Colours and keys of a split, of the types that programs have.

use crate::Rank;
use crate::error::{BadColor, Site};

/// A colour or a key of a [split](crate::Communicator::split): any integer, or a [`Rank`]. Sealed.
///
/// A colour below 0 is refused: C's `MPI_UNDEFINED` and `NCCL_SPLIT_NOCOLOR` are
/// [`split_some`](crate::Communicator::split_some) with `None` here. Every key fits.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat, SplitNumber, tag};
/// # fn main() -> Result<()> {
/// # let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
/// tag!(Node);
/// let color: usize = world.rank().index() / 8;
/// fn is_taken(_: impl SplitNumber) {}
/// is_taken(color);
/// let node = world.split::<Node>(color, world.rank())?;
/// # node.finish()?;
/// # world.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a colour nor a key of a split",
    label = "expected an integer or a `Rank`",
    note = "ranks of one colour form a child, ordered by their keys; a rank without a colour calls `split_some::<L>(None, key)`"
)]
pub trait SplitNumber: Copy + sealed::Sealed {
    /// The number.
    #[doc(hidden)]
    fn number(self) -> i128;
}

/// What a rank asks for when a [`Clique`](crate::Clique::split) is divided: a closure from its rank
/// to its colour and its key. Sealed.
///
/// See the example of [`Clique::split`](crate::Clique::split).
#[diagnostic::on_unimplemented(
    message = "`{Self}` gives no colour and key of a rank",
    label = "expected a closure, `|rank| (color, key)`"
)]
pub trait AsksForAPart:
    FnMut(Rank) -> (<Self as AsksForAPart>::Color, <Self as AsksForAPart>::Key)
{
    /// The type of the colours.
    type Color: SplitNumber;

    /// The type of the keys.
    type Key: SplitNumber;
}

impl<F: FnMut(Rank) -> (C, K), C: SplitNumber, K: SplitNumber> AsksForAPart for F {
    type Color = C;
    type Key = K;
}

/// The colour.
pub(crate) fn color(color: impl SplitNumber, site: Site) -> Result<u64, BadColor> {
    let found = color.number();
    u64::try_from(found).map_err(|_| BadColor { found, site })
}

crate::rank::integers!(SplitNumber);

#[diagnostic::do_not_recommend]
impl SplitNumber for Rank {
    #[inline]
    fn number(self) -> i128 {
        self.index() as i128
    }
}

impl sealed::Sealed for Rank {}

mod sealed {
    pub trait Sealed {}
}
