//! Closures in stream order.

use super::{Backend, Memory, Streams};
use crate::Result;
use crate::error::Site;
use crate::kernel::{Arguments, Grid, Kernel};

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

    /// What running a kernel needs: its code, where the device has to load it.
    type Loaded: Copy + Send + Sync + 'static;

    /// Makes a kernel ready on the device of a stream.
    ///
    /// # Errors
    /// It does not fit the device, or cannot be compiled.
    fn load(stream: &Self::Stream, kernel: &'static Kernel, site: Site) -> Result<Self::Loaded>;

    /// Enqueues a kernel, which was loaded for the stream's device.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// The arguments are those that the kernel declares, in their blocks and aligned; other uses of their
    /// memory are ordered before and after.
    unsafe fn run(
        stream: &Self::Stream,
        site: Site,
        kernel: (&'static Kernel, Self::Loaded),
        grid: Grid,
        arguments: impl Arguments<Self>,
    ) -> Result<()>
    where
        Self: Backend;

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
