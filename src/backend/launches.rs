//! Closures in stream order.

use super::{Backend, Memory, Streams};
use crate::Result;
use crate::compute::{Arguments, Grid, Kernel};
use crate::error::Site;

/// Part of a block that a closure accesses.
pub struct Seen<'v, B: Memory> {
    /// The block.
    pub block: &'v B::Block,
    /// The offset in bytes.
    pub offset: usize,
    /// The length in bytes.
    pub bytes: usize,
    /// Whether the closure writes it.
    pub write: bool,
}

/// User compute in stream order.
///
/// # Safety
/// A launched closure runs after everything enqueued before it on its stream and before what is
/// enqueued later, at most once.
pub unsafe trait Launches: Streams {
    /// A closure's view of an operand that it reads.
    type ViewOnceTheDeviceIsKnown<'v, T: crate::Element>;

    /// A closure's view of an operand that it writes.
    type ViewMutOnceTheDeviceIsKnown<'v, T: crate::Element>;

    /// A closure's raw stream, if the device has one.
    type Raw<'v>;

    /// Blocks peers' writes to operands in windows while a closure accesses them.
    type Guard<'v>;

    /// Guards the operands of a closure that is about to run, launched at `site`.
    fn guard<'v>(parts: &[Seen<'v, Self>], site: Site) -> Self::Guard<'v>;

    /// Enqueues `work`.
    ///
    /// # Errors
    /// The device reports an error.
    fn launch(
        stream: &Self::Stream,
        site: Site,
        work: impl for<'v> FnOnce(Self::Raw<'v>) + Send + 'static,
    ) -> Result<()>;

    /// A kernel that is ready to run: its code, if the device loads it.
    type Loaded: Copy + Send + Sync + 'static;

    /// Prepares a kernel for a stream's device.
    ///
    /// # Errors
    /// It does not fit the device, or cannot be compiled.
    fn load(stream: &Self::Stream, kernel: &'static Kernel, site: Site) -> Result<Self::Loaded>;

    /// Enqueues a kernel that was loaded for the stream's device.
    ///
    /// # Errors
    /// The device reports an error.
    ///
    /// # Safety
    /// The arguments match the kernel's declaration, are within their blocks and aligned; other
    /// uses of their memory are ordered before or after.
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
    ) -> Self::ViewOnceTheDeviceIsKnown<'v, T>;

    /// An exclusive view of part of a block.
    ///
    /// # Safety
    /// `offset` is aligned for `T`, the range is within the block, and nothing else touches it for
    /// `'v`.
    unsafe fn view_mut<'v, T: crate::Element>(
        block: &Self::Block,
        offset: usize,
        len: usize,
    ) -> Self::ViewMutOnceTheDeviceIsKnown<'v, T>;
}
