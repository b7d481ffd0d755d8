//! The seam to what carries out the work: NCCL's host API as traits, split by capability.
//!
//! The device type picks the implementation statically. The typed layer above validates every call
//! (lengths, ranks, devices, stamps, health) and orders buffers between streams before a backend
//! sees it, so a backend only carries out; the shapes handed over are plain data, so that recording
//! them for a group and issuing them now are the same thing.
//!
//! This module is public for backends outside the crate (a double in a test, a null device in a
//! benchmark). It is exempt from semantic versioning.

mod op;
mod pace;
mod wire;

pub use op::{Collective, Half, Op, Put, Reduction, Signal, Slot, Span, Transfer, Wait, WindowId};
pub use pace::{Counts, Pace, Paced};
pub use wire::{Listener, Wire};

pub use crate::communicator::{Limit, Limits};
pub use crate::control::{Exchange, Submission};
pub use crate::memory::{Allocation, Owner};

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::DType;
use crate::communicator::{Health, MemoryStats};
use crate::error::{Call, Error, Site, Surplus, Unsupported};
use crate::{Rank, Result, Team};

/// Everything that a device's backend does.
pub trait Backend: Memory + Streams + Copies + Launches + Lifecycle + Operations + Windows {}

impl<B: Memory + Streams + Copies + Launches + Lifecycle + Operations + Windows> Backend for B {}

/// Which allocator memory comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllocKind {
    /// The device's own.
    Device,
    /// NCCL's (`ncclMemAlloc`), which can back a symmetric window.
    Nccl,
}

/// Memory on a device.
///
/// # Safety
/// A block that is allocated is `bytes` long, aligned to at least 16, and every byte is initialised and stays
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

    /// Copies from the device to the host, asked for at `site`; returns when it is done.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// `offset + bytes` is within the block, `to` is writable for `bytes`, and no enqueued
    /// operation writes the range meanwhile.
    unsafe fn read(
        block: &Self::Block,
        offset: usize,
        to: *mut u8,
        bytes: usize,
        site: Site,
    ) -> Result<()>;

    /// Copies from the host to the device, asked for at `site`; returns when it is done.
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
        site: Site,
    ) -> Result<()>;

    /// A block over `bytes` bytes of somebody else's, aligned for their elements only.
    ///
    /// # Errors
    /// It has no such blocks.
    ///
    /// # Safety
    /// The bytes are on the device of that ordinal, initialised, and the block's alone until it goes to
    /// [`let_go`](Self::let_go); those of no elements are nowhere.
    unsafe fn adopt(ordinal: u32, start: *mut u8, bytes: usize) -> Result<Self::Block> {
        let _ = (ordinal, start, bytes);
        Err(Error::Unsupported(Box::new(Unsupported {
            what: "memory of somebody else's".to_owned(),
            needs: "a device that can use it".to_owned(),
            found: format!("`{}` cannot", Self::KIND),
        })))
    }

    /// A block over the first `bytes` bytes of another one of NCCL's memory, which can back a window as
    /// that one can. It goes to [`let_go`](Self::let_go).
    ///
    /// # Errors
    /// It has no such blocks.
    ///
    /// # Safety
    /// There are so many bytes. The other block stays until this one's owner is dropped, and nothing uses
    /// it meanwhile.
    unsafe fn alias(block: &Self::Block, bytes: usize) -> Result<Self::Block> {
        let _ = (block, bytes);
        Err(Error::Unsupported(Box::new(Unsupported {
            what: "a second buffer over NCCL's memory".to_owned(),
            needs: "a device that can use it".to_owned(),
            found: format!("`{}` cannot", Self::KIND),
        })))
    }

    /// [`retire`](Self::retire) for a block that another library named, or [`let_go`](Self::let_go) for one
    /// that has an owner: whatever the device does at this moment may still use it.
    fn retire_exported(block: Self::Block, owner: Option<Owner>, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        match owner {
            None => Self::retire(block, streams),
            Some(owner) => Self::let_go(block, Some(owner), streams),
        }
    }

    /// [`retire`](Self::retire) for a block of [`adopt`](Self::adopt) or [`alias`](Self::alias). Drops the owner when no work on
    /// the streams can use the block any more.
    fn let_go(block: Self::Block, owner: Option<Owner>, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        drop((block, streams));
        drop(owner);
    }

    /// Takes back a block that nobody names any more. Work enqueued on `streams` may still use it;
    /// nothing else does. Neither blocks nor panics. A backend whose queues hold what they use has
    /// nothing to do.
    fn retire(block: Self::Block, streams: Vec<Self::Stream>)
    where
        Self: Streams,
    {
        drop((block, streams));
    }
}

/// Streams and points in them.
///
/// # Safety
/// `reached` is true only when everything enqueued on the stream before `point` was called is over
/// and its writes are visible to the calling thread; what is enqueued after `wait_for` runs after
/// the point.
pub unsafe trait Streams: Memory {
    /// Whether points can be reached because a communicator ended, without its work: kernels that were
    /// told to stop.
    const ENDS_REACH_POINTS: bool = false;

    /// A queue of work.
    type Stream: Clone + Send + Sync + 'static;

    /// A place in a stream's order.
    type Point: Clone + Send + Sync + 'static;

    /// Opens a stream.
    ///
    /// # Errors
    /// The device cannot.
    fn open(ordinal: u32) -> Result<Self::Stream>;

    /// The stream of another library that has this handle.
    ///
    /// # Errors
    /// It has no such streams.
    ///
    /// # Safety
    /// It is a stream of the device of that ordinal, and stays for as long as it is used.
    unsafe fn theirs(ordinal: u32, handle: usize) -> Result<Self::Stream> {
        let _ = (ordinal, handle);
        Err(Error::Unsupported(Box::new(Unsupported {
            what: "a stream of somebody else's".to_owned(),
            needs: "a GPU".to_owned(),
            found: format!("`{}` has none", Self::KIND),
        })))
    }

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

    /// What keeps the point from being reached, as far as it is known. Asked when a deadline passed.
    fn blame(point: &Self::Point) -> Option<Blame>;

    /// Takes the error that work without a communicator left on the stream of this point.
    fn take_error(point: &Self::Point) -> Option<Error>;

    /// Whether everything that was enqueued is over. Asked where ends reach points, before one.
    fn is_drained(stream: &Self::Stream) -> bool {
        Self::point(stream).and_then(|point| Self::reached(&point)).unwrap_or(true)
    }

    /// Why operations before the point, which is reached, did not happen: their communicator ended.
    /// Unlike an error that is taken it stays, for each thread that wants the data.
    fn undone(point: &Self::Point) -> Option<Error> {
        let _ = point;
        None
    }
}

/// A thread that waits, for a device or for other ranks.
pub struct HostWait<'w, B: Backend> {
    /// What it waits for.
    pub on: WaitsOn<'w, B>,
    /// The call that waits: `to_vec`.
    pub operation: &'static str,
    /// Where it was made.
    pub site: Site,
    /// The communicators whose end ends the wait.
    pub users: Box<dyn Fn() -> Vec<Arc<Health>> + Send>,
    /// The communicator whose call it is: until it returns, nobody makes another.
    pub within: Option<u64>,
}

/// What a thread waits for.
pub enum WaitsOn<'w, B: Backend> {
    /// A point of a stream.
    Point(&'w B::Point),
    /// Everything that this rank enqueued.
    Idle(&'w B::Comm),
    /// The other ranks' parts of an exchange on the host.
    Exchange(&'w Exchange),
    /// The turn of a request that its rank submitted.
    Submission(&'w Submission),
}

/// A wait that is noted, until it is dropped.
pub type Watcher = Box<dyn Watched>;

/// See [`Watcher`].
pub trait Watched {
    /// Looks whether the wait can end. Called from time to time by the thread that waits.
    fn look(&self);
}

/// What holds up a stream.
#[derive(Clone, Debug)]
pub struct Blame {
    /// Whose fault it is.
    pub culprit: Culprit,
    /// Who waits for whom, as far as it is known.
    pub report: String,
}

/// Whose fault it is that a stream does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Culprit {
    /// A communicator's, by [`Health::id`].
    Known(u64),
    /// One of those that used the stream.
    Unknown,
    /// No communicator's: work of the program's own.
    Program,
}

/// Copies in stream order, between pinned host memory and the device and within the device.
///
/// # Safety
/// Pinned memory is `bytes` long, aligned to at least 16, initialised, and readable and writable
/// through its address until it is dropped. A copy touches it after everything enqueued before and
/// before what is enqueued later on the stream, and holds it until it is done.
pub unsafe trait Copies: Streams {
    /// Host memory that the device copies from and to by itself.
    type Pinned: Send + Sync + 'static;

    /// Allocates zeroed pinned memory.
    ///
    /// # Errors
    /// It cannot be had.
    fn pin(ordinal: u32, bytes: usize) -> Result<Self::Pinned>;

    /// Its address.
    fn pinned_address(pinned: &Self::Pinned) -> *mut u8;

    /// Enqueues a copy of the first `bytes` bytes of `from` to byte `offset` of `to`, and gives the
    /// point behind it. After an error nothing touches `from`.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// Both ranges are inside; the allocation's earlier uses are ordered before; nobody touches
    /// `from` until the point is reached.
    unsafe fn upload(
        stream: &Self::Stream,
        from: &Arc<Self::Pinned>,
        to: &Arc<Allocation<Self>>,
        offset: usize,
        bytes: usize,
        site: Site,
    ) -> Result<Self::Point>
    where
        Self: Backend;

    /// Enqueues a copy of `bytes` bytes from byte `offset` of `from` to the start of `to`, and gives
    /// the point behind it. After an error nothing touches `to`.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// As [`upload`](Self::upload), the other way round.
    unsafe fn download(
        stream: &Self::Stream,
        from: &Arc<Allocation<Self>>,
        offset: usize,
        to: &Arc<Self::Pinned>,
        bytes: usize,
        site: Site,
    ) -> Result<Self::Point>
    where
        Self: Backend;

    /// Enqueues a copy of `bytes` bytes within the device, from and to these bytes on.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// Both ranges are inside, and apart; both allocations' earlier uses are ordered before.
    unsafe fn copy(
        stream: &Self::Stream,
        from: (&Arc<Allocation<Self>>, usize),
        to: (&Arc<Allocation<Self>>, usize),
        bytes: usize,
        site: Site,
    ) -> Result<()>
    where
        Self: Backend;

    /// Gets ready to convert between these types, which are not the same; it may wait.
    ///
    /// # Errors
    /// The device reports one.
    fn can_convert(stream: &Self::Stream, from: DType, to: DType) -> Result<()> {
        let _ = (stream, from, to);
        Ok(())
    }

    /// Enqueues converting `count` elements within the device, from and to these bytes on.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// As for [`copy`](Self::copy); each start is aligned for its type.
    unsafe fn convert(
        stream: &Self::Stream,
        from: (&Arc<Allocation<Self>>, usize, DType),
        to: (&Arc<Allocation<Self>>, usize, DType),
        count: usize,
        site: Site,
    ) -> Result<()>
    where
        Self: Backend;

    /// Enqueues writing `count` times the first `size` bytes of `value` (1, 2, 4 or 8) from this byte on.
    ///
    /// # Errors
    /// The device reports one.
    ///
    /// # Safety
    /// The range is inside and aligned to `size`; the allocation's earlier uses are ordered before.
    unsafe fn fill(
        stream: &Self::Stream,
        to: (&Arc<Allocation<Self>>, usize),
        value: [u8; 8],
        size: usize,
        count: usize,
        site: Site,
    ) -> Result<()>
    where
        Self: Backend;
}

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
    /// How many contexts and signals per context one-sided operations have.
    pub slots: Slot,
    /// Whether its children may share its resources.
    pub split_share: bool,
    /// Where faults and pending errors of this rank's communicator go.
    pub health: Arc<Health>,
    /// How long joining may take.
    pub deadline: Duration,
    /// How long the communicator's waits may take.
    pub limits: Arc<Limits>,
    /// How many ids of NCCL's the ranks connect by; none to have the backend choose.
    pub ids: Option<u32>,
    /// To the ranks in other processes; none where all ranks share this one's memory.
    pub wire: Option<Arc<dyn Wire>>,
}

/// One rank's part in the division of a communicator.
pub struct Part {
    /// Its place in a child; none for a rank that stays out.
    pub place: Option<ChildPlace>,
    /// Whether the child is one that borrows its parent: such a one may share the parent's resources.
    pub borrows: bool,
    /// Who has no part in it and makes no call, where there is one child of all others.
    pub without: Vec<u32>,
}

/// A rank's place in a communicator that is made of some of another one's ranks.
pub struct ChildPlace {
    /// Which child: the same on all of its ranks, another one on those of other children.
    pub color: u32,
    /// The rank there.
    pub rank: u32,
    /// How many ranks it has.
    pub size: u32,
    /// Its name.
    pub name: &'static str,
    /// How many contexts and signals per context its one-sided operations have.
    pub slots: Slot,
    /// Whether its own children may share its resources.
    pub split_share: bool,
    /// How long it may take to connect.
    pub deadline: Duration,
}

/// Looks at a communicator while somebody waits for its work, and once more when the wait is over;
/// leaves what it finds with the health. Must not block; runs on whatever thread waits.
pub type Watch = Box<dyn Fn(&Health) + Send + Sync>;

/// Says that a rank leaves, and why.
pub type Departer = Box<dyn Fn(&str, Departure) + Send + Sync>;

/// How a rank leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Departure {
    /// It is done, as far as it knows. What it enqueued still runs.
    Finished,
    /// Before its time. What it enqueued still runs.
    AfterItsWork,
    /// What it enqueued is void.
    AtOnce,
    /// The communicator is over for all, and this rank goes on with some of them.
    Survives,
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
    type Operator: Clone + Send + 'static;

    /// A communicator in the making.
    type Joining: Send + 'static;

    /// A communicator that is being divided.
    type Dividing: Send + 'static;

    /// Whether the ranks of a communicator are threads of one process, always.
    const IN_PROCESS: bool = false;

    /// What it runs on and all ranks must have in common, for people: `NCCL 2.28.3`. Empty if there is
    /// nothing to compare.
    fn release() -> String {
        String::new()
    }

    /// Where in its machine a device is, whatever its ordinal: `PCI 0000:1b:00`. None where that is not
    /// known.
    fn place(ordinal: u32) -> Option<String> {
        let _ = ordinal;
        None
    }

    /// Whether there can be communicators with so many contexts and signals.
    ///
    /// # Errors
    /// There cannot.
    fn offers(slots: Slot) -> Result<()> {
        let _ = slots;
        Ok(())
    }

    /// Starts to join; the host does not wait. Called by all ranks of `id`. What is dropped before
    /// it is [`joined`](Self::joined) ends by itself. A rank of a child passes what
    /// [`divide`](Self::divide) gave it, one of a communicator that another library made what takes it.
    ///
    /// # Errors
    /// The communicator cannot be made.
    fn join(join: Join, from: Option<Self::Dividing>) -> Result<Self::Joining>;

    /// The communicator, once it is made; never blocks. Not asked again after it gave one.
    ///
    /// # Errors
    /// The communicator cannot be made.
    fn joined(joining: &mut Self::Joining) -> Result<Option<Self::Comm>>;

    /// A communicator that was [`joined`](Self::joined) is used from here on. Before that, one that another
    /// library made stays that library's, whatever becomes of this one.
    fn keep(comm: &Self::Comm) {
        let _ = comm;
    }

    /// Starts to divide a communicator into children; the host does not wait. Called by all its ranks but
    /// those that the part is `without`, also those that stay out, when they have agreed on it and nothing is under way on it. None where
    /// children join as first communicators do. What is dropped before it is over has failed: the
    /// communicator can only be aborted.
    ///
    /// # Errors
    /// It cannot be divided.
    fn divide(comm: &Self::Comm, part: &Part) -> Result<Option<Self::Dividing>> {
        let _ = (comm, part);
        Ok(None)
    }

    /// Whether a communicator can be divided without calls of those who are left out. All ranks of one
    /// release say the same.
    fn leaves_out(comm: &Self::Comm) -> bool {
        let _ = comm;
        false
    }

    /// Whether the part of a rank that stays out of a division is over, or what
    /// [`suspend`](Self::suspend) and [`resume`](Self::resume) started; never blocks.
    ///
    /// # Errors
    /// It has failed.
    fn divided(dividing: &mut Self::Dividing) -> Result<bool>;

    /// Whether communicators like this one can be suspended: alike on all ranks.
    ///
    /// # Errors
    /// They cannot.
    fn can_suspend(comm: &Self::Comm) -> Result<()> {
        let _ = comm;
        Ok(())
    }

    /// Starts to give back what device memory it need not keep; the host does not wait. Called by all of
    /// its ranks, when they have agreed on it and nothing is under way on any of them. None where it is
    /// done at once. What is dropped before it is over has failed: the communicator can only be aborted.
    ///
    /// # Errors
    /// It cannot be suspended.
    fn suspend(comm: &Self::Comm) -> Result<Option<Self::Dividing>> {
        let _ = comm;
        Ok(None)
    }

    /// Starts to take that memory again, in the same way. Until it has, there are no operations.
    ///
    /// # Errors
    /// It cannot be resumed.
    fn resume(comm: &Self::Comm) -> Result<Option<Self::Dividing>> {
        let _ = comm;
        Ok(None)
    }

    /// What device memory it has for itself.
    ///
    /// # Errors
    /// That is not known.
    fn memory(comm: &Self::Comm) -> Result<MemoryStats> {
        let _ = comm;
        Ok(MemoryStats::default())
    }

    /// A rank of communicator `id` will never connect.
    fn absent(id: u64, rank: Rank, why: &str) {
        let _ = (id, rank, why);
    }

    /// Whether everything that this rank enqueued is over.
    fn is_idle(comm: &Self::Comm) -> bool;

    /// Lets the calling thread rest, or help, until `is_idle` may have changed.
    fn rest(comm: &Self::Comm, at_most: Duration) {
        let _ = comm;
        std::thread::sleep(at_most);
    }

    /// What tells how far the ranks have come.
    fn pace(comm: &Self::Comm) -> Box<dyn Pace> {
        let _ = comm;
        Box::new(())
    }

    /// Notes a host wait that found nothing to do for a while. A backend that can tell that it will
    /// never end poisons the communicators at fault.
    fn watch(wait: HostWait<'_, Self>) -> Option<Watcher>
    where
        Self: Backend,
    {
        let _ = wait;
        None
    }

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

    /// The same with a scalar in device memory, read when an operation runs. The operator holds it.
    ///
    /// # Errors
    /// The backend cannot.
    fn pre_mul_sum_device(
        comm: &Self::Comm,
        dtype: DType,
        scalar: &Arc<Allocation<Self>>,
    ) -> Result<Self::Operator>
    where
        Self: Backend;

    /// An operator that nothing names any more.
    fn drop_operator(comm: &Self::Comm, operator: Self::Operator) {
        let _ = (comm, operator);
    }

    /// What the other ranks have to know of this one's work at its end, where they cannot see it.
    fn last_words(comm: &Self::Comm) -> Vec<u8> {
        let _ = comm;
        Vec::new()
    }

    /// Every rank's work is over; these are their last words, by rank.
    ///
    /// # Errors
    /// They do not fit each other.
    fn conclude(comm: &Self::Comm, words: &[Arc<[u8]>]) -> Result<()> {
        let _ = (comm, words);
        Ok(())
    }

    /// The signals that reached this rank and that it never awaited, asked when every rank is idle.
    /// Not those in slots that no rank awaited at all, the first one apart.
    fn unawaited(comm: &Self::Comm) -> Vec<Surplus> {
        let _ = comm;
        Vec::new()
    }

    /// What this rank sent and nobody received, or was sent and did not receive, asked when every rank
    /// is idle: where a send can be over before it is met.
    fn unmet(comm: &Self::Comm) -> Option<Error> {
        let _ = comm;
        None
    }

    /// The end after `finish`: every rank is idle.
    fn finalize(comm: Self::Comm);

    /// The end at any time.
    fn abort(comm: Self::Comm, why: &str);
}

/// Operations.
///
/// # Safety
/// The backend reads and writes the spans that [`Op`] documents, in stream order, and nothing else,
/// and holds their memory until it is done.
pub unsafe trait Operations: Lifecycle {
    /// Enqueues `ops` as one group (one operation is a group of its own); the host does not wait.
    /// Inside a group NCCL's order holds: one-sided operations in program order, then collectives,
    /// then transfers.
    ///
    /// # Errors
    /// They could not be enqueued. Errors of the operations go to the communicator's health.
    ///
    /// # Safety
    /// The operations passed validation: spans, counts, ranks and offsets fit each other as [`Op`]
    /// says. Every earlier use of their memory that conflicts is before them in stream order.
    unsafe fn issue(comm: &Self::Comm, stream: &Self::Stream, ops: &[Op<'_, Self>]) -> Result<()>
    where
        Self: Backend;

    /// Enqueues the groups of several ranks of this thread as one.
    ///
    /// # Errors
    /// As [`issue`](Self::issue).
    ///
    /// # Safety
    /// As [`issue`](Self::issue), for each.
    unsafe fn issue_together(parts: &[RankOps<'_, '_, Self>]) -> Result<()>
    where
        Self: Backend,
    {
        parts.iter().try_for_each(|part| {
            // SAFETY: the caller's promise holds for each part.
            unsafe { Self::issue(part.comm, part.stream, part.ops) }
        })
    }

    /// Books refused operations as this rank's, so that the others can be told.
    fn refuse(comm: &Self::Comm, ops: &[Refusal], reason: &Error);
}

/// One rank's part of what several ranks of one thread issue together.
pub struct RankOps<'p, 'a, B: Backend> {
    /// The rank's communicator.
    pub comm: &'p B::Comm,
    /// Its stream.
    pub stream: &'p B::Stream,
    /// Its operations.
    pub ops: &'p [Op<'a, B>],
}

/// An operation that this rank refused, as far as the others have to know.
#[derive(Clone, Copy, Debug)]
pub enum Refusal {
    /// Its part of a collective.
    Collective,
    /// A send to a rank.
    SendTo(Rank),
    /// A receive from a rank.
    RecvFrom(Rank),
    /// A put or signal to a rank.
    Signal(Rank, Slot),
    /// A wait for so many signals of a rank. The typed layer has this rank's next wait in the slot consume
    /// them too; a backend does nothing.
    Wait(Rank, Slot, u32),
}

/// Windows: memory that peers write.
///
/// # Safety
/// A registered allocation is held until it is unregistered or the communicator ends, and touched
/// by puts within its first `bytes` bytes only.
pub unsafe trait Windows: Lifecycle {
    /// What the backend keeps of a registered window.
    type Window: Send + 'static;

    /// Registers this rank's part of window `id`. Collective; the caller has compared the ranks'
    /// parts, and puts nothing anybody's way before all have returned.
    ///
    /// # Errors
    /// It cannot be registered.
    fn register(
        comm: &Self::Comm,
        id: WindowId,
        allocation: &Arc<Allocation<Self>>,
        bytes: usize,
        flags: u32,
    ) -> Result<Self::Window>
    where
        Self: Backend;

    /// The end of a window: nothing uses it any more on any rank.
    fn unregister(comm: &Self::Comm, id: WindowId, window: Self::Window);

    /// The address of a block.
    fn address(block: &Self::Block) -> *mut u8;

    /// The address here of a peer's part of a window, if it has one.
    fn peer_address(comm: &Self::Comm, id: WindowId, peer: Rank) -> Option<*mut u8>;

    /// The address through which all parts of a window are written, if there is one.
    fn multimem_address(comm: &Self::Comm, id: WindowId) -> Option<*mut u8>;

    /// The ranks whose windows have addresses here.
    fn lsa_team(comm: &Self::Comm, world: Team) -> Team;

    /// Registers memory for faster communication; NCCL's handle, if it keeps one.
    ///
    /// # Errors
    /// It cannot be registered.
    fn register_buffer(
        comm: &Self::Comm,
        allocation: &Arc<Allocation<Self>>,
        bytes: usize,
    ) -> Result<Option<u64>>
    where
        Self: Backend;

    /// Ends such a registration.
    ///
    /// # Errors
    /// The backend reports one.
    fn deregister_buffer(comm: &Self::Comm, handle: Option<u64>) -> Result<()>;
}

impl Call {
    /// A collective's data, as bytes.
    pub fn bytes(&self) -> usize {
        self.count.saturating_mul(self.dtype.size())
    }
}
