//! Operations on memory by address, for a library that has buffers and streams of its own and
//! wants neither ours nor their types.
//!
//! Each call is one `unsafe` call, and checks all that an address leaves to be checked. Its errors,
//! its turn among this rank's calls, and what peers are told are those of the typed calls, which
//! other ranks may make instead. Deliberately not here: the order of a memory's uses on several
//! streams, and how long it lives. Both are the caller's.

mod claimed;

use std::ffi::c_void;
use std::ops::Range;

use claimed::Claimed;

use crate::communicator::{CanEnqueue, On, State};
use crate::error::Site;
use crate::{Communicator, DType, DynReduceOp, Result, World};

/// Where `len` elements start on the communicator's device. A number is turned into a pointer by
/// [`with_exposed_provenance_mut`](std::ptr::with_exposed_provenance_mut).
///
/// See the example of [`Raw::all_reduce`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawPart {
    /// The address of the first element; anything without elements.
    pub start: *mut c_void,
    /// How many elements.
    pub len: usize,
    /// Their type.
    pub dtype: DType,
}

impl RawPart {
    /// The elements from `start` on.
    pub const fn new(start: *mut c_void, len: usize, dtype: DType) -> Self {
        Self { start, len, dtype }
    }

    /// Its addresses, in bytes.
    fn bytes(&self) -> Range<usize> {
        let start = self.start.addr();
        start..start.saturating_add(self.len.saturating_mul(self.dtype.size()))
    }

    fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (self.bytes(), other.bytes());
        !one.is_empty() && !two.is_empty() && one.start < two.end && two.start < one.end
    }
}

/// An operation of [`Raw::group`]. Ranks are numbers. What only the root has is `None` elsewhere,
/// and not looked at there.
///
/// ```
/// # use typed_nccl::{DType, DynReduceOp, Host, RawOp, RawPart, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = vec![1.0_f32; 8];
/// let part = RawPart::new(x.as_mut_ptr().cast(), x.len(), DType::F32);
/// let sum = RawOp::AllReduce { send: part, recv: part, op: DynReduceOp::Add };
/// // SAFETY: the vector stays as it is until the stream is synchronised.
/// unsafe { comm.raw().group(&[sum]) }?;
/// comm.sync(comm.stream())?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are the arguments of the method of its name")]
pub enum RawOp {
    /// [`Raw::all_reduce`]
    AllReduce { send: RawPart, recv: RawPart, op: DynReduceOp },
    /// [`Raw::broadcast`]
    Broadcast { send: Option<RawPart>, recv: RawPart, root: usize },
    /// [`Raw::reduce`]
    Reduce { send: RawPart, recv: Option<RawPart>, op: DynReduceOp, root: usize },
    /// [`Raw::all_gather`]
    AllGather { send: RawPart, recv: RawPart },
    /// [`Raw::reduce_scatter`]
    ReduceScatter { send: RawPart, recv: RawPart, op: DynReduceOp },
    // `Send` would be the second of that name, and rustc would print `std::marker::Send`.
    /// [`Raw::send`]
    SendTo { part: RawPart, to: usize },
    /// [`Raw::recv`]
    RecvFrom { part: RawPart, from: usize },
}

/// A communicator that takes memory by address: [`Communicator::raw`], [`On::raw`].
///
/// ```
/// use typed_nccl::{DType, DynReduceOp, Host, RawPart, Result, Seat};
///
/// # fn main() -> Result<()> {
/// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let mut x = vec![1.0_f32; 8];
/// let part = RawPart::new(x.as_mut_ptr().cast(), x.len(), DType::F32);
/// // SAFETY: the vector stays as it is until the stream is synchronised.
/// unsafe { comm.raw().all_reduce(part, part, DynReduceOp::Add) }?;
/// comm.sync(comm.stream())?;
/// assert_eq!(x, [1.0; 8]);
/// comm.finish()
/// # }
/// ```
///
/// On a stream of another library: `comm.on(&stream).raw()`, with one `Stream::from_raw` for each
/// of its streams. The host never waits.
///
/// Where both sides of a collective are the same elements, or one is this rank's part of the other,
/// it runs in place, as NCCL's does.
///
/// # Errors
/// Of every method, as refusals that the other ranks hear of: [`Error::NotAdoptable`] for an
/// address that is null, not aligned, or (on GPUs) not CUDA's, for more bytes than memory has, and
/// for sides that overlap otherwise; [`Error::OtherDevice`], asked of CUDA by address;
/// [`Error::OtherDType`], [`Error::BadLength`], [`Error::NotReducible`], [`Error::NoSuchRank`] and
/// [`Error::NoBuffer`] as of the typed calls. A poisoned communicator. In a capture
/// [`Error::NotCapturable`], as a graph would outlive the promise.
///
/// [`Error::NotAdoptable`]: crate::Error::NotAdoptable
/// [`Error::OtherDevice`]: crate::Error::OtherDevice
/// [`Error::OtherDType`]: crate::Error::OtherDType
/// [`Error::BadLength`]: crate::Error::BadLength
/// [`Error::NotReducible`]: crate::Error::NotReducible
/// [`Error::NoSuchRank`]: crate::Error::NoSuchRank
/// [`Error::NoBuffer`]: crate::Error::NoBuffer
/// [`Error::NotCapturable`]: crate::Error::NotCapturable
///
/// # Safety
/// Of every method: the elements are on the communicator's device, those that are read are
/// initialised, and they stay until the operation is over on the stream. Until then nobody writes
/// what it reads, and nobody uses what it writes, in the same group too. Earlier uses are over, or
/// before it on the stream. Memory that one rank registered with NCCL is sent and received as such
/// on both sides.
pub struct Raw<'c, W: World> {
    on: On<'c, W>,
}

impl<W: World> Raw<'_, W> {
    /// Combines `send` of every rank into `recv` on every rank, as
    /// [`all_reduce`](Communicator::all_reduce). NCCL: `ncclAllReduce`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn all_reduce(&self, send: RawPart, recv: RawPart, op: DynReduceOp) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.group(&[RawOp::AllReduce { send, recv, op }]) }
    }

    /// Copies the root's `send` into `recv` on every rank, as
    /// [`broadcast`](Communicator::broadcast). NCCL: `ncclBroadcast`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn broadcast(
        &self,
        send: Option<RawPart>,
        recv: RawPart,
        root: usize,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.group(&[RawOp::Broadcast { send, recv, root }]) }
    }

    /// Combines `send` of every rank into the root's `recv`, as
    /// [`reduce_into`](Communicator::reduce_into). NCCL: `ncclReduce`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn reduce(
        &self,
        send: RawPart,
        recv: Option<RawPart>,
        op: DynReduceOp,
        root: usize,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.group(&[RawOp::Reduce { send, recv, op, root }]) }
    }

    /// Puts `send` of every rank into `recv`, by rank; `recv` is as many times as long as there are
    /// ranks. As [`all_gather`](Communicator::all_gather). NCCL: `ncclAllGather`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn all_gather(&self, send: RawPart, recv: RawPart) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.group(&[RawOp::AllGather { send, recv }]) }
    }

    /// Combines `send` of every rank; rank r gets block r of the result in `recv`. As
    /// [`reduce_scatter`](Communicator::reduce_scatter). NCCL: `ncclReduceScatter`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn reduce_scatter(
        &self,
        send: RawPart,
        recv: RawPart,
        op: DynReduceOp,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.group(&[RawOp::ReduceScatter { send, recv, op }]) }
    }

    /// Sends to rank `to`, as [`send`](Communicator::send). NCCL: `ncclSend`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn send(&self, part: RawPart, to: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.group(&[RawOp::SendTo { part, to }]) }
    }

    /// Receives from rank `from`, as [`recv`](Communicator::recv). NCCL: `ncclRecv`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn recv(&self, part: RawPart, from: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.group(&[RawOp::RecvFrom { part, from }]) }
    }

    /// Issues these as one, as [`group`](Communicator::group). One bad argument refuses all. NCCL:
    /// `ncclGroupStart`, `ncclGroupEnd`.
    ///
    /// # Errors
    /// See [`Raw`].
    ///
    /// # Safety
    /// See [`Raw`].
    #[track_caller]
    pub unsafe fn group(&self, ops: &[RawOp]) -> Result<()> {
        let (core, site) = (self.on.core, Site::caller());
        let refusals: Vec<_> = ops.iter().filter_map(|op| op.refusal(core)).collect();
        let refuse = |error| Err(core.refuse(&refusals, error));
        // SAFETY: the caller's promise.
        let claimed = ops.iter().map(|op| unsafe { Claimed::new(core, op, site) });
        let claimed = match claimed.collect::<Result<Vec<_>>>() {
            Ok(claimed) => claimed,
            Err(error) => return refuse(error),
        };
        let drafts = claimed.iter().map(|claimed| claimed.draft(core, site));
        let checked = drafts.collect::<Result<Vec<_>>>().and_then(|drafts| {
            core.can_be_one(&drafts)?;
            Ok(drafts)
        });
        match checked {
            Ok(drafts) if drafts.is_empty() => Ok(()),
            Ok(mut drafts) => self.on.issue(&mut drafts, &refusals),
            Err(error) => refuse(error),
        }
    }
}

impl<'c, W: World> On<'c, W> {
    /// Its operations on memory by address: see [`Communicator::raw`].
    pub fn raw(self) -> Raw<'c, W> {
        Raw { on: self }
    }
}

impl<W: World, S: State> Communicator<W, S> {
    /// Its operations on memory by address, for a library that has buffers and streams of its own.
    /// On another stream: `comm.on(&stream).raw()`. Free of cost.
    pub fn raw(&self) -> Raw<'_, W>
    where
        S: CanEnqueue,
    {
        self.here().raw()
    }
}
