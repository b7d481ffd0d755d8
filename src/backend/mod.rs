//! The seam to what carries out the work: NCCL's host API as traits, split by capability.
//!
//! The device type picks the implementation statically. The typed layer above validates every call
//! (lengths, ranks, devices, stamps, health) and orders buffers between streams before a backend
//! sees it, so a backend only carries out; the shapes handed over are plain data, so that recording
//! them for a group and issuing them now are the same thing.
//!
//! This module is public for backends outside the crate (a double in a test, a null device in a
//! benchmark). It is exempt from semantic versioning.

mod collective;

pub use collective::{Collective, Reduction, Span};

pub use crate::memory::Allocation;

use std::sync::Arc;
use std::time::Duration;

use crate::DType;
use crate::Result;
use crate::communicator::Health;
use crate::error::{Call, Error};

/// Everything that a device's backend does.
pub trait Backend: Memory + Streams + Launches + Lifecycle + Collectives {}

impl<B: Memory + Streams + Launches + Lifecycle + Collectives> Backend for B {}

/// Which allocator memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocKind {
    /// The device's own.
    Device,
    /// NCCL's (`ncclMemAlloc`), which can back a symmetric window.
    Nccl,
}

/// Memory on a device.
///
/// # Safety
/// A block is `bytes` long, aligned to at least 16, and every byte is initialised and stays
/// readable and writable through the backend until the block is dropped. Dropping a block neither
/// blocks nor panics.
pub unsafe trait Memory: Sized + 'static {
    /// The device kind's name in messages: `host`.
    const KIND: &'static str;

    /// One allocation.
    type Block: Send + Sync + 'static;

    /// Allocates zeroed memory.
    ///
    /// # Errors
    /// It cannot be had.
    fn alloc(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Self::Block>;

    /// Copies from the device to the host; returns when it is done.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// `offset + bytes` is within the block, `to` is writable for `bytes`, and no enqueued
    /// operation writes the range meanwhile.
    unsafe fn read(block: &Self::Block, offset: usize, to: *mut u8, bytes: usize) -> Result<()>;

    /// Copies from the host to the device; returns when it is done.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// `offset + bytes` is within the block, `from` is readable for `bytes`, and no enqueued
    /// operation touches the range meanwhile.
    unsafe fn write(
        block: &Self::Block,
        offset: usize,
        from: *const u8,
        bytes: usize,
    ) -> Result<()>;
}

/// Streams and points in them.
///
/// # Safety
/// `reached` is true only when everything enqueued on the stream before `point` was called is over
/// and its writes are visible to the calling thread; what is enqueued after `wait_for` runs after
/// the point.
pub unsafe trait Streams: Memory {
    /// A queue of work.
    type Stream: Clone + Send + Sync + 'static;

    /// A place in a stream's order.
    type Point: Clone + Send + Sync + 'static;

    /// Opens a stream.
    ///
    /// # Errors
    /// The device cannot.
    fn open(ordinal: u32) -> Result<Self::Stream>;

    /// The point after everything enqueued so far.
    ///
    /// # Errors
    /// The device reports one.
    fn point(stream: &Self::Stream) -> Result<Self::Point>;

    /// Makes what is enqueued later on `stream` wait for `point`; the host does not wait.
    ///
    /// # Errors
    /// The device reports one.
    fn wait_for(stream: &Self::Stream, point: &Self::Point) -> Result<()>;

    /// Whether the point is reached; never blocks.
    ///
    /// # Errors
    /// The device reports one.
    fn reached(point: &Self::Point) -> Result<bool>;

    /// Lets the calling thread rest, or help, until the point may be reached, `at_most` this long.
    fn pause(point: &Self::Point, at_most: Duration);

    /// What keeps the point from being reached: the communicator (by [`Health::id`]) and a report,
    /// as far as it is known. Asked when a deadline passed.
    fn blame(point: &Self::Point) -> Option<(u64, String)>;

    /// Takes the error that work without a communicator left on the stream of this point.
    fn take_error(point: &Self::Point) -> Option<Error>;
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

    /// Enqueues `work`.
    ///
    /// # Errors
    /// The device reports one.
    fn launch(
        stream: &Self::Stream,
        site: &'static std::panic::Location<'static>,
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

/// What a backend needs to join a communicator.
pub struct Join {
    /// The same on all ranks, and unique: NCCL's unique id.
    pub id: u64,
    /// This rank.
    pub rank: u32,
    /// How many ranks.
    pub size: u32,
    /// This rank's device.
    pub ordinal: u32,
    /// The communicator's name.
    pub name: &'static str,
    /// Where faults and pending errors of this rank's communicator go.
    pub health: Arc<Health>,
}

/// Says that a rank leaves, and why.
pub type Departer = Box<dyn Fn(&str, Departure) + Send + Sync>;

/// How a rank leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// What it enqueued still runs.
    AfterItsWork,
    /// What it enqueued is void.
    AtOnce,
}

/// A communicator's life.
///
/// # Safety
/// After `finalize` or `abort` returned, operations enqueued earlier touch their memory only while
/// they hold it alive.
pub unsafe trait Lifecycle: Launches {
    /// One rank's communicator.
    type Comm: Send + 'static;

    /// A reduction operator made at run time.
    type Operator: Copy + Send + 'static;

    /// Joins. Called by all ranks of `id`.
    ///
    /// # Errors
    /// The communicator cannot be made.
    fn connect(join: Join) -> Result<Self::Comm>;

    /// Whether everything that this rank enqueued is over.
    fn is_idle(comm: &Self::Comm) -> bool;

    /// Books a refusal as this rank's operation `seq`, so that the others can be told.
    fn refuse(comm: &Self::Comm, seq: u64, reason: &Error);

    /// A way to say, from any thread, that this rank will enqueue nothing more and why, so that
    /// peers that wait for it can be told. It never touches a communicator that another thread may
    /// be inside.
    fn departer(comm: &Self::Comm) -> Departer;

    /// Makes an operator that scales by `scalar` (one element of `dtype`, native byte order, the
    /// rest zero) before it adds.
    ///
    /// # Errors
    /// The backend cannot.
    fn pre_mul_sum(comm: &Self::Comm, dtype: DType, scalar: [u8; 8]) -> Result<Self::Operator>;

    /// The end after `finish`: every rank is idle.
    fn finalize(comm: Self::Comm);

    /// The end at any time.
    fn abort(comm: Self::Comm, why: &str);
}

/// The collectives.
///
/// # Safety
/// The backend reads and writes the spans that [`Collective`] documents for its operation, in
/// stream order, and nothing else, and holds their memory until it is done.
pub unsafe trait Collectives: Lifecycle {
    /// Enqueues one collective; the host does not wait for it.
    ///
    /// # Errors
    /// It could not be enqueued. Errors of the operation itself go to the communicator's health.
    fn collective(
        comm: &Self::Comm,
        stream: &Self::Stream,
        collective: &Collective<'_, Self>,
    ) -> Result<()>
    where
        Self: Backend;
}

impl Call {
    /// A collective's data, as bytes.
    pub fn bytes(&self) -> usize {
        self.count.saturating_mul(self.dtype.size())
    }
}
