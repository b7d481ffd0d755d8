//! Streams: queues of work on a device.

mod convert;
mod copy;
mod core;
mod held;
mod launch;
mod mark;
mod takers;
mod threads;
mod timed;
mod undone;
mod views;

pub use launch::{Operand, OperandOn, Operands, OperandsOn};
pub use mark::Mark;
pub use timed::TimedMark;

pub(crate) use convert::convert_on;
pub(crate) use core::{Awaited, Capturable, StreamCore, StreamShared, User};
pub(crate) use held::Held;
pub(crate) use launch::{StreamAccess, hold, run};
pub(crate) use takers::{Takers, Taking};
pub(crate) use threads::{Capturing, Launching, capturing, launching};

use std::sync::Arc;

#[cfg(feature = "cuda")]
use crate::Cuda;
use crate::backend::{Launches, Streams};
#[cfg(feature = "cuda")]
use crate::config::LaunchEvent;
use crate::derived::debug;
use crate::error::{AdoptFault, NotAdoptable, Site};
use crate::one_thread::{SeveralThreads, ShareStream};
use crate::{Device, Result, record, wait};

/// A queue of work on device `D`: its work runs in order, concurrently with other streams'. Buffers
/// order themselves between streams; [`wait_for`](Self::wait_for) orders the rest.
///
/// Every communicator has its own stream (`comm.stream()`); `comm.on(&stream)` uses another.
/// Dropping a stream does not wait: enqueued work still runs. `Send`, not `Sync`.
///
/// ```
/// # use typed_nccl::{Host, Result, Seat, Sum};
/// # fn main() -> Result<()> {
/// # let comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let stream = comm.device().stream()?;
/// let mut x = comm.device().from_slice(&[1.0_f32; 4])?;
/// comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
/// comm.sync(&stream)?;
/// # comm.finish()
/// # }
/// ```
pub struct Stream<D: Device> {
    pub(crate) core: StreamCore<D::Backend>,
    device: D,
}

impl<D: Device> Stream<D> {
    pub(crate) fn open(device: &D) -> Result<Self> {
        Ok(Self { core: StreamCore::open(device.ordinal())?, device: device.clone() })
    }

    /// A stream of the device's that was just opened.
    #[cfg(feature = "cuda")]
    pub(crate) fn opened(device: &D, raw: <D::Backend as Streams>::Stream) -> Self {
        Self { core: StreamCore::of(device.ordinal(), raw, 0), device: device.clone() }
    }

    /// A stream that somebody else made. A stream being captured is refused: nothing enqueued on it
    /// would run.
    pub(crate) fn adopted(
        device: &D,
        raw: <D::Backend as Streams>::Stream,
        operation: &'static str,
        site: Site,
    ) -> Result<Self> {
        if <D::Backend as Streams>::captures(&raw)? {
            return Err(NotAdoptable::new(operation, AdoptFault::Captures, site).into());
        }
        Ok(Self { core: StreamCore::of(device.ordinal(), raw, 1), device: device.clone() })
    }

    /// A stream on which a capture records: nothing is enqueued on it.
    pub(crate) fn recording(device: &D, raw: <D::Backend as Streams>::Stream) -> Self {
        Self { core: StreamCore::recording(device.ordinal(), raw), device: device.clone() }
    }

    /// A stream that the device captures, for a graph that keeps `graph`.
    pub(crate) fn capturing(
        device: &D,
        raw: <D::Backend as Streams>::Stream,
        graph: Arc<Capturable>,
    ) -> Self {
        Self { core: StreamCore::capturing(device.ordinal(), raw, graph), device: device.clone() }
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Names the stream on the timeline that `TYPED_NCCL_TRACE` asks for. Without a name it is
    /// `stream 1`, `stream 2`, .. of its rank, by first use.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result};
    /// # fn main() -> Result<()> {
    /// let compute = Host::local()?.stream()?.named("compute");
    /// # compute.sync()
    /// # }
    /// ```
    #[must_use = "it is the stream"]
    pub fn named(self, name: &str) -> Self {
        record::name_stream(self.core.id(), || name);
        self
    }

    /// The point after everything enqueued so far. The host does not wait.
    ///
    /// Marking right after an operation lets other streams that use its buffers wait for that
    /// operation only, not for later work here.
    ///
    /// # Errors
    /// [`Error::NotCapturable`](crate::Error::NotCapturable) in a step of a captured plan: a stream
    /// that waited for the mark would be captured too, with memory that the plan does not keep. To
    /// run beside the step, use a step on another stream of the plan. An error of the device.
    #[track_caller]
    pub fn mark(&self) -> Result<Mark<D>> {
        self.core.orders_others("mark", Site::caller())?;
        Ok(Mark::new(self.core.shared(), self.core.mark()?, self.core.last_seq()))
    }

    /// Makes later work here wait for `mark`. The host does not wait.
    ///
    /// # Errors
    /// [`Error::NotCapturable`](crate::Error::NotCapturable) in a step of a captured plan, whose
    /// order the plan declares (`after`). An error of the device.
    #[track_caller]
    pub fn wait_for(&self, mark: &Mark<D>) -> Result<()> {
        self.core.orders_others("wait_for", Site::caller())?;
        self.core.wait_for(mark.stream(), mark.point())
    }

    /// Waits on the host for everything enqueued so far, within the shortest deadline of the
    /// communicators that used this stream, or 10 minutes if none did.
    ///
    /// # Errors
    /// What went wrong on the stream, once; a passed deadline; an abort.
    #[track_caller]
    pub fn sync(&self) -> Result<()> {
        wait::until(&[Awaited::now(&self.core.shared())?], None, "sync", Site::caller())
    }

    /// Enqueues your own computation in stream order; the host does not wait.
    ///
    /// `operands` is one operand or a tuple of up to twelve: `&buffer` to read, `&mut buffer` to
    /// write; views also by value, `x.slice(..3)` and `y.slice_mut(..3)`. For a list of buffers,
    /// launch once for each. On the host the closure gets `&[T]` and `&mut [T]` and runs later, on
    /// another thread; it must not wait for a stream or a communicator. A panic in it surfaces at
    /// the next host wait as [`Error::Panicked`](crate::Error::Panicked). Calls that were enqueued
    /// behind it until then are refused on all ranks.
    ///
    /// In a function generic over the device the views have no methods, since what they are depends
    /// on the device: declare the computation with [`kernel!`](crate::kernel!) instead, and
    /// [`run`](Self::run) it.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result};
    /// # fn main() -> Result<()> {
    /// let host = Host::local()?;
    /// let stream = host.stream()?;
    /// let x = host.from_slice(&[1.0f32, 2.0])?;
    /// let mut y = host.zeros::<f32>(2)?;
    /// stream.launch((&x, &mut y), |(x, y), _| {
    ///     for (y, x) in y.iter_mut().zip(x) {
    ///         *y = 2.0 * x;
    ///     }
    /// })?;
    /// assert_eq!(y.to_vec()?, [2.0, 4.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An operand on another device; a view past the end of its buffer.
    #[track_caller]
    pub fn launch<A, F>(&self, operands: A, work: F) -> Result<()>
    where
        A: OperandsOn<D>,
        F: for<'v, 'r> FnOnce(A::Views<'v>, <D::Backend as Launches>::Raw<'r>) + Send + 'static,
    {
        launch::enqueue(self, operands, work, Site::caller())
    }
}

#[cfg(feature = "cuda")]
impl<T> Stream<Cuda<T>> {
    /// Makes later work here wait until the last collective that was given `event`
    /// ([`CallConfig::launched`](crate::CallConfig::launched)) has been launched, on any stream; it
    /// may still be running. Without such a collective it waits for nothing. The host does not
    /// wait.
    ///
    /// # Errors
    /// As [`wait_for`](Self::wait_for).
    #[track_caller]
    pub fn wait_launched(&self, event: &LaunchEvent) -> Result<()> {
        self.core.orders_others("wait_launched", Site::caller())?;
        crate::cuda::hold(event, self.core.raw())
    }
}

// SAFETY: never applies: nothing implements `ShareStream`, and no other crate can.
unsafe impl<D: Device> Sync for Stream<D> where SeveralThreads: ShareStream<Self> {}

debug!([D: Device] Stream<D>, self => "Stream #{} on {:?}", self.core.id(), self.device);
