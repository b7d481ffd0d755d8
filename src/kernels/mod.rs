//! Kernels of this library's own: small operations in one launch, without NCCL.
//!
//! NCCL's collectives are made for any machine and any size; between GPUs that reach each other's memory, a
//! small one takes three times as long as its data takes to travel. [`Kernels`] has all_reduce, alone or with
//! what commonly follows it, small all-to-alls and halo exchanges as single kernels over such memory. On the
//! host they are the collectives of the same names.

mod kit;

use std::fmt;
use std::marker::PhantomData;

use crate::communicator::{CanEnqueue, Maker, State};
use crate::error::Site;
use crate::{Communicator, Result, World};

/// A communicator's kernels: made by [`Communicator::kernels`], used with it.
///
/// They have memory of their own in the communicator, which ends with it; this is a key to them.
pub struct Kernels<W: World> {
    maker: Maker,
    world: PhantomData<fn() -> W>,
}

impl<W: World, S: State> Communicator<W, S> {
    /// Makes what this library's own kernels need on the communicator, if it is not there yet. All ranks call
    /// it; the host waits for them. NCCL: `ncclCommWindowRegister` and `ncclGetPeerDevicePointer`, 2.29.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported), on all ranks, with what one of them lacks: GPUs that
    /// reach each other's memory, a release of NCCL or a driver that is new enough. The communicator is
    /// unharmed then. A lost peer; a passed deadline.
    #[track_caller]
    pub fn kernels(&self) -> Result<Kernels<W>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.kit("kernels", Site::caller())?;
        Ok(Kernels { maker: core.resources.maker(), world: PhantomData })
    }
}

impl<W: World> Clone for Kernels<W> {
    fn clone(&self) -> Self {
        Self { maker: self.maker, world: PhantomData }
    }
}

impl<W: World> fmt::Debug for Kernels<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernels of {}", W::NAME)
    }
}
