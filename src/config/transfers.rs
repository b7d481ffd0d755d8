//! The memory that sends and receives accept.

use serde::{Deserialize, Serialize};

/// The memory that a communicator's sends and receives accept. All of its ranks choose the same.
///
/// NCCL has a shorter path for messages, directly from one rank's memory to the other's. A rank
/// takes it if its own memory is registered and expects the other rank to do the same; if that one
/// does not, both hang. Neither rank can see what the other one passes. So the path is chosen once
/// per communicator, which lets each rank check its own memory alone.
///
/// A program that needs both uses two communicators:
/// [`split_with`](crate::Communicator::split_with) creates a child with the other choice.
///
/// ```
/// use typed_nccl::{CommConfig, Host, Transfers, spmd};
///
/// spmd::<Host>(2, |place| {
///     let config = CommConfig::builder().transfers(Transfers::Registered).build();
///     let mut comm = place.init_with(config)?;
///     let (x, mut y) = (comm.device().nccl_zeros::<f32>(4)?, comm.device().nccl_zeros::<f32>(4)?);
///     let registered = [comm.register_buffer(&x)?, comm.register_buffer(&y)?];
///     let peer = comm.ring(1);
///     comm.group(|g| {
///         g.send(&x, peer)?;
///         g.recv(&mut y, peer)
///     })?;
///     registered.into_iter().try_for_each(|buffer| comm.deregister_buffer(buffer))?;
///     comm.finish()
/// })
/// .expect("both ranks end well");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Transfers {
    /// Any memory of the device, registered or not. NCCL copies each message through its own
    /// buffers.
    #[default]
    Any,
    /// Memory of NCCL's allocator (`nccl_zeros` and the like) that this rank has registered with
    /// the communicator: as a buffer ([`register_buffer`](crate::Communicator::register_buffer)),
    /// or in a window of kind `Symmetric`, `SymmetricStrict` or `LocalOnly`. NCCL sends messages
    /// without a copy where it can. Other memory is refused with
    /// [`Error::NotRegistered`](crate::Error::NotRegistered). NCCL: 2.19; the environment must not
    /// disable registration (`NCCL_LOCAL_REGISTER=0`).
    Registered,
}
