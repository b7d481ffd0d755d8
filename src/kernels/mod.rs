//! This library's own kernels: small operations in one launch, without NCCL.
//!
//! NCCL's collectives serve any machine and any size. Between GPUs that reach each other's memory,
//! a small one takes three times as long as its data takes to travel. [`Kernels`] has `all_reduce`,
//! alone or with the RMSNorm that commonly follows it, small all-to-alls and halo exchanges as
//! single kernels. They take any device memory, since data travels through memory of the
//! communicator. On the host they are the collectives and transfers of the same names.
//!
//! A kernel is an operation of its communicator like any other. Every rank calls it, in one order
//! with the other operations; it is compared, counted and captured in graphs. An abort ends it and
//! waits for it, and unmaps its memory only afterwards.
//!
//! Kernels of a communicator run one after the other on whatever streams, and so do NCCL's
//! operations. A kernel and an NCCL operation are ordered if they share a stream or memory, or if
//! one waits for a [mark](crate::Stream::mark). Otherwise they may run at once, each until its own
//! peers arrive, so both have to fit on each GPU together. So do all blocks of a kernel: at most 64
//! of 512 threads, and no more than the GPU has multiprocessors.
//!
//! ```
//! use typed_nccl::{Communicator, Device, Result, Sum, World, launch};
//!
//! fn body<W: World>(mut comm: Communicator<W>) -> Result<()> {
//!     let kernels = comm.kernels()?;
//!     let x = comm.device().from_slice(&[1.0_f32; 256])?;
//!     let mut y = comm.device().zeros::<f32>(256)?;
//!     kernels.all_reduce(&comm, &x, &mut y, Sum)?;
//!     assert_eq!(y.to_vec()?[0], comm.size() as f32);
//!
//!     // On another stream, and in a graph.
//!     let side = comm.device().stream()?;
//!     kernels.all_reduce_in_place(&comm.on(&side), &mut y, Sum)?;
//!     let mut graph = comm.capture(|g| kernels.all_reduce(g, &x, &mut y, Sum))?;
//!     graph.launch(&comm)?;
//!     assert_eq!(y.to_vec()?[0], comm.size() as f32);
//!     comm.finish()
//! }
//!
//! fn main() -> Result<()> {
//!     launch!(body)
//! }
//! ```

mod all_reduce;
mod call;
mod choice;
mod messages;
mod offer;
mod rms_norm;

pub(crate) use call::Launch;
pub use messages::Exchange;

/// The algorithm of an all_reduce of [`Kernels`], instead of the choice by size:
/// [`Kernels::always`].
pub use crate::backend::KernelWay as Way;

use std::marker::PhantomData;

use crate::communicator::{CanEnqueue, Core, Maker, On, State};
use crate::derived::debug;
use crate::error::Site;
use crate::{Capture, Communicator, Device, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// A communicator's kernels, made by [`Communicator::kernels`].
///
/// This is a handle: their memory belongs to the communicator and ends with it.
pub struct Kernels<W: World> {
    maker: Maker,
    /// Whether these are kernels rather than the device's own collectives.
    are_kernels: bool,
    way: Option<Way>,
    world: PhantomData<fn() -> W>,
}

/// # Kernels
///
/// This library's own, which communicate by themselves.
impl<W: World, S: State> Communicator<W, S> {
    /// Prepares the communicator for this library's own kernels, if it is not prepared yet. All
    /// ranks call it; the host waits for them. The first time in a process, the driver compiles the
    /// kernels, which takes a second or two. NCCL: `ncclCommWindowRegister` and
    /// `ncclGetPeerDevicePointer`, 2.29.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) on all ranks, naming what one of them
    /// lacks: GPUs that all reach each other's memory (of compute capability 7.0 or later, 32 at
    /// most), a release of NCCL that gives addresses, a driver of CUDA 12.4 or later. The
    /// communicator is unharmed then. A lost peer; a passed deadline.
    #[track_caller]
    pub fn kernels(&self) -> Result<Kernels<W>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        let are_kernels = core.kernel_offer("kernels", Site::caller())?.is_some();
        let maker = core.resources.maker();
        Ok(Kernels { maker, are_kernels, way: None, world: PhantomData })
    }
}

impl<W: World> Kernels<W> {
    /// The same kernels, whose [`all_reduce`](Self::all_reduce) always uses this algorithm and
    /// never NCCL. Pass the same on all ranks.
    pub fn always(&self, way: Way) -> Self {
        Self { way: Some(way), ..self.clone() }
    }

    /// Fails on another communicator, and on one that continued with other ranks.
    fn of(&self, core: &Core<Back<W>>) -> Result<()> {
        core.resources.made(self.maker, WHAT)?;
        match core.kernel_offer.get() {
            Some(_) => Ok(()),
            None => {
                let why = "the communicator went on with other ranks: call `comm.kernels()` again";
                Err(core.resources.stale(WHAT, why.to_owned()))
            }
        }
    }
}

/// Their name in messages.
const WHAT: &str = "kernels";

impl<W: World> Clone for Kernels<W> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

debug!([W: World] Kernels<W>, self => "Kernels of {}", W::NAME);

/// Where to enqueue a kernel: a communicator, for its own stream; `comm.on(&stream)`; a capture.
/// Sealed.
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Host, Result, Seat, Sum, kernels::{Issues, Kernels}};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn sum(
///     kernels: &Kernels<Host>,
///     on: &impl Issues<Host>,
///     x: &mut Buffer<f32, Host>,
/// ) -> Result<()> {
///     kernels.all_reduce_in_place(on, x, Sum)
/// }
/// let (kernels, side) = (comm.kernels()?, comm.device().stream()?);
/// let mut x = comm.device().from_slice(&[1.0_f32; 64])?;
/// sum(&kernels, &comm, &mut x)?;
/// sum(&kernels, &comm.on(&side), &mut x)?;
/// assert_eq!(x.to_vec()?, [1.0; 64]);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no place for a kernel of `{W}`",
    label = "expected `&comm`, `&comm.on(&stream)` or a capture, of the communicator that made the kernels",
    note = "kernels are used with the communicator that made them: `let kernels = comm.kernels()?`"
)]
pub trait Issues<W: World>: sealed::Sealed {
    #[doc(hidden)]
    fn on(&self) -> On<'_, W>;
}

impl<W: World, S: State + CanEnqueue> Issues<W> for Communicator<W, S> {
    fn on(&self) -> On<'_, W> {
        self.here()
    }
}

impl<W: World> Issues<W> for On<'_, W> {
    fn on(&self) -> On<'_, W> {
        *self
    }
}

impl<W: World> Issues<W> for Capture<'_, W> {
    fn on(&self) -> On<'_, W> {
        **self
    }
}

mod sealed {
    use crate::communicator::{CanEnqueue, On, State};
    use crate::{Capture, Communicator, World};

    pub trait Sealed {}

    impl<W: World, S: State + CanEnqueue> Sealed for Communicator<W, S> {}
    impl<W: World> Sealed for On<'_, W> {}
    impl<W: World> Sealed for Capture<'_, W> {}
}
