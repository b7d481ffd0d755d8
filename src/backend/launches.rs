//! Closures in stream order.

use super::{Memory, Streams};
use crate::Result;
use crate::error::Site;

/// Part of a block that a closure sees.
pub struct Seen<'v, B: Memory> {
    /// The block.
    pub block: &'v B::Block,
    /// From this byte on.
    pub offset: usize,
    /// So many bytes.
    pub bytes: usize,
    /// Whether they are written.
    pub write: bool,
}

/// User compute in stream order.
///
/// # Safety
/// A launched closure runs after everything enqueued before it on its stream and before what is
/// enqueued later, at most once.
pub unsafe trait Launches: Streams {
    /// What a closure gets for an operand that it reads.
    type View<'v, T: crate::Element>;

    /// What a closure gets for an operand that it writes.
    type ViewMut<'v, T: crate::Element>;

    /// What a closure gets beside its operands: the raw stream, where the device has one.
    type Raw<'v>;

    /// Keeps peers' writes away from operands in windows while a closure sees them.
    type Guard<'v>;

    /// Guards the parts of blocks that a closure is about to see, launched at `site`.
    fn guard<'v>(parts: &[Seen<'v, Self>], site: Site) -> Self::Guard<'v>;

    /// Enqueues `work`.
    ///
    /// # Errors
    /// The device reports one.
    fn launch(
        stream: &Self::Stream,
        site: Site,
        work: impl for<'v> FnOnce(Self::Raw<'v>) + Send + 'static,
    ) -> Result<()>;

    /// A shared view of part of a block.
    ///
    /// # Safety
    /// `offset` is aligned for `T`, the range is within the block, and nothing writes it for `'v`.
    unsafe fn view<'v, T: crate::Element>(
        block: &Self::Block,
        offset: usize,
        len: usize,
    ) -> Self::View<'v, T>;

    /// An exclusive view of part of a block.
    ///
    /// # Safety
    /// `offset` is aligned for `T`, the range is within the block, and nothing else touches it for
    /// `'v`.
    unsafe fn view_mut<'v, T: crate::Element>(
        block: &Self::Block,
        offset: usize,
        len: usize,
    ) -> Self::ViewMut<'v, T>;
}
