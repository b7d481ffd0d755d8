//! Devices: where buffers, streams and communicators live.
//!
//! A device is a kind (`Host`, `Cuda`) with a tag that says which one: `Host<At<1>>` and
//! `Host<At<0>>` are different types, so a buffer of one cannot be handed to a communicator of the
//! other. Tags name one ordinal for the life of the process.
//!
//! Not in the types: which ordinal an [`AnyDevice`] is. It is compared on every use.

#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod tag;

#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use host::Host;
pub use tag::{AnyDevice, At, DeviceTag, Local, Scoped};

#[cfg(feature = "cuda")]
pub(crate) use cuda::own_gpu;
pub(crate) use tag::claim;

use std::fmt::{Debug, Display};

use crate::backend::{AllocKind, Backend};
use crate::entry::{self, Place};
use crate::error::{Error, Failed, Site};
use crate::memory::{
    Adopted, Buffer, DeviceMem, ForeignMemory, Lend, LentAs, NcclMem, Pinned, lend,
};
use crate::{Element, Result, Stream, World};

/// One device, and the default world of the communicators on it: `Host` or `Cuda`.
///
/// # Safety
/// [`ordinal`](Self::ordinal) returns the same number for a value and its clones, for as long as
/// they live. Memory, streams and communicators are made by it, one after the other, and used
/// together.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device",
    label = "memory and streams are on a device",
    note = "devices are `Host` and `Cuda`; a function for both is generic: `fn step<D: Device>(..)`"
)]
pub unsafe trait Device: World<Device = Self> + Clone + Debug + Send + Sync {
    /// The backend of this kind of device.
    type Backend: Backend;

    /// The kind's name: `host`.
    const KIND: &'static str;

    /// The ordinal of the device among those of its kind.
    fn ordinal(&self) -> u32;

    /// Allocates `len` elements, all zero. Local; the host does not wait for other work.
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    fn zeros<T: Element>(&self, len: usize) -> Result<Buffer<T, Self>> {
        Buffer::<T, Self, DeviceMem>::alloc(self.ordinal(), len, AllocKind::Plain)
    }

    /// Allocates `len` zeroed elements of memory that can back a symmetric window (`ncclMemAlloc`).
    /// Local. On GPUs such memory comes in pieces of 2 MiB: use it for registration, and
    /// [`zeros`](Self::zeros) for the rest.
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    fn nccl_zeros<T: Element>(&self, len: usize) -> Result<Buffer<T, Self, NcclMem>> {
        Buffer::<T, Self, NcclMem>::alloc(self.ordinal(), len, AllocKind::Nccl)
    }

    /// Allocates a copy of `values`. Local; the host returns when the copy is made.
    ///
    /// # Errors
    /// The memory cannot be had.
    #[expect(clippy::wrong_self_convention, reason = "the field's name: from a host slice")]
    #[track_caller]
    fn from_slice<T: Element>(&self, values: &[T]) -> Result<Buffer<T, Self>> {
        let mut buffer = self.zeros(values.len())?;
        buffer.initialise(values)?;
        Ok(buffer)
    }

    /// Allocates `len` zeroed elements of host memory for copies in stream order (page-locked on
    /// GPUs). Local.
    ///
    /// # Errors
    /// The memory cannot be had.
    #[track_caller]
    fn pinned<T: Element>(&self, len: usize) -> Result<Pinned<T, Self>> {
        Pinned::alloc(self, len)
    }

    /// Makes a buffer of memory that `owner` owns; nothing is copied. Local; the host does not
    /// wait: existing uses of the memory come before the buffer's.
    ///
    /// The owner lives as long as anything may use the memory. [`into_inner`](Buffer::into_inner)
    /// returns it.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result, Seat, Sum};
    /// # fn main() -> Result<()> {
    /// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    /// let mut gradients = comm.device().adopt(vec![1.0_f32, 2.0])?;
    /// comm.all_reduce_in_place(&mut gradients, Sum)?;
    /// let gradients: Vec<f32> = gradients.into_inner()?;
    /// # assert_eq!(gradients, [1.0, 2.0]);
    /// comm.finish()
    /// # }
    /// ```
    ///
    /// # Errors
    /// With the owner: [`Error::NotAdoptable`],
    /// [`Error::OtherDevice`].
    #[track_caller]
    fn adopt<O: ForeignMemory<Self>>(
        &self,
        owner: O,
    ) -> Result<Buffer<O::Elem, Self, Adopted<O>>, Failed<O>> {
        Buffer::adopt(self, owner, Site::caller())
    }

    /// Lends borrowed memory to `work`, which gets views of it for operations; nothing is copied.
    /// Returns when the memory is the program's again, also if `work` fails or panics. On the host
    /// device **the host waits** for what `work` enqueued, however long that takes (a passed
    /// deadline ends the communicator to blame); on a GPU the memory's own stream waits, and the
    /// host does not.
    ///
    /// ```
    /// # use typed_nccl::{Host, Result, Seat, Sum};
    /// # fn main() -> Result<()> {
    /// let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    /// let (x, mut y) = (vec![1.0_f32, 2.0], vec![0.0; 2]);
    /// comm.device().lend((&x, &mut y), |(x, y)| comm.all_reduce(x, y, Sum))?;
    /// assert_eq!(x, y);
    /// comm.finish()
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of `work`, else of what it enqueued; else as [`adopt`](Self::adopt), except that
    /// memory of no elements can be lent.
    #[track_caller]
    fn lend<L: Lend<Self> + LentAs<Self>, R>(
        &self,
        memory: L,
        work: impl for<'b, 'v> FnOnce(&'b mut L::View<'v>) -> Result<R>,
    ) -> Result<R> {
        lend(self, memory, work, Site::caller())
    }

    /// Opens a stream: a queue whose work runs in order, beside other streams' work.
    ///
    /// # Errors
    /// The device cannot open one.
    fn stream(&self) -> Result<Stream<Self>> {
        Stream::open(self)
    }
}

/// A kind of device that [`spmd`](crate::spmd) can hand out, one per rank: `Host` or `Cuda`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be handed out to ranks",
    label = "expected `Host` or `Cuda`, or a parameter with the bound `DeviceFamily`",
    note = "a function generic over the devices of its ranks is `fn start<D: DeviceFamily>(..)`"
)]
pub trait DeviceFamily: Device {
    /// A device whose type belongs to one call of one closure.
    type Scoped<'id>: Device<Backend = Self::Backend>;

    /// Runs `body` as `n` ranks, one thread and one device each, and returns their values, by rank,
    /// as [`Host::spmd`] does.
    ///
    /// ```
    /// use typed_nccl::{DeviceFamily, Host, Result};
    ///
    /// fn sizes<D: DeviceFamily>(n: usize) -> Result<Vec<usize>> {
    ///     D::spmd(n, |place| {
    ///         let comm = place.init()?;
    ///         let size = comm.size();
    ///         comm.finish().map(|()| size)
    ///     })
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// assert_eq!(sizes::<Host>(3)?, [3; 3]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The first cause, as of [`spmd`](crate::spmd).
    fn spmd<R: Send, E: From<Error> + Display + Send + 'static>(
        n: usize,
        body: impl for<'id> Fn(Place<Self::Scoped<'id>>) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        entry::each::<Self, _, _>("DeviceFamily::spmd", n, body)
    }

    /// The device of that ordinal, under that type.
    #[doc(hidden)]
    fn scoped<'id>(ordinal: u32) -> Self::Scoped<'id>;

    /// The device of each of `n` ranks of this process, by rank.
    #[doc(hidden)]
    fn ordinals(n: usize) -> Result<Vec<u32>> {
        Ok((0..).take(n).collect())
    }
}
