//! Roles in the collectives that have a root.

use crate::{AsRank, Rank};

/// The buffer on the root, and the root's rank elsewhere.
///
/// ```
/// # use typed_nccl::{Communicator, Device, Result, Root};
/// # fn f<D: Device>(comm: &Communicator<D>) -> Result<()> {
/// let mut mine = comm.device().zeros::<f32>(4)?;
/// let all = match comm.rank().index() {
///     0 => Some(comm.device().zeros::<f32>(4 * comm.size())?),
///     _ => None,
/// };
/// comm.scatter(Root::here_or_at(all.as_ref(), 0), &mut mine)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Root<X> {
    /// This rank is the root, and this is its buffer.
    Here(X),
    /// That rank is the root.
    There(Rank),
}

impl<X> Root<X> {
    /// Rank `root` is the root; the operation checks it.
    pub fn at(root: impl AsRank) -> Self {
        Self::There(Rank::kept(root))
    }

    /// The root's buffer, if this rank is the root, and the root's rank.
    pub(crate) fn split(self, own: Rank) -> (Option<X>, Rank) {
        match self {
            Self::Here(buffer) => (Some(buffer), own),
            Self::There(root) => (None, root),
        }
    }

    /// This rank if it has the buffer, else rank `root`: for code that all ranks share.
    pub fn here_or_at(buffer: Option<X>, root: impl AsRank) -> Self {
        buffer.map_or_else(|| Self::at(root), Self::Here)
    }
}

/// What says which rank is the root, and gives its buffer: a [`Root`]. Sealed. A parameter of this
/// type instead of `Root<X>` has a message of its own: rustc would propose to wrap a number in
/// `Root::Here`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which rank is the root and give its buffer",
    label = "expected a `Root`",
    note = "for code that all ranks share: `Root::here_or_at(buffer, 0)`, where `buffer` is an `Option` that only the root fills",
    note = "for a rank alone: `Root::Here(&x)` on the root, `Root::at(0)` elsewhere; methods named `.._in_place` take the root's rank as a number"
)]
pub trait IntoRoot<X>: sealed::Sealed {
    #[doc(hidden)]
    fn into_root(self) -> Root<X>;
}

impl<X> IntoRoot<X> for Root<X> {
    #[inline]
    fn into_root(self) -> Self {
        self
    }
}

mod sealed {
    pub trait Sealed {}
    impl<X> Sealed for super::Root<X> {}
}
