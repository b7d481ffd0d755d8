//! Lengths of blocks, of the types that programs have.

use crate::Result;
use crate::error::{BadBlockLen, Site};

/// A length that a rank declares by [`splits`](crate::Communicator::splits) or
/// [`blocks`](crate::Communicator::blocks): any integer. Sealed.
///
/// A length below 0 is refused.
///
/// ```
/// # use typed_nccl::{BlockLen, Host, Result, Seat};
/// # fn main() -> Result<()> {
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn is_taken(_: impl BlockLen) {}
/// let counts: Vec<i32> = vec![3]; // as MPI has them
/// is_taken(counts[0]);
/// assert_eq!(comm.splits(&counts)?.send_len(), 3);
/// # comm.finish()
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a number of elements",
    label = "expected an integer, for each block"
)]
pub trait BlockLen: Copy + sealed::Sealed {
    /// The number.
    #[doc(hidden)]
    fn number(self) -> i128;
}

/// The number of elements.
pub(crate) fn block_len(operation: &'static str, len: impl BlockLen, site: Site) -> Result<usize> {
    let found = len.number();
    usize::try_from(found).map_err(|_| BadBlockLen { operation, found, site }.into())
}

crate::rank::integers!(BlockLen);

mod sealed {
    pub trait Sealed {}
}
