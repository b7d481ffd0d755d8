//! Which memory sends and receives may name.

use serde::{Deserialize, Serialize};

/// Which memory the sends and receives of a communicator may name: one choice for all of its ranks.
///
/// NCCL has a shorter way for messages, straight from one rank's memory into the other's. It takes it
/// where its own rank's memory is registered, counts on the other rank to do the same, and both wait for
/// ever if it does not. Neither rank sees what the other one passes. So the way is chosen once for a
/// communicator: what a rank passes can then be checked by that rank alone.
///
/// The two are for different programs, or for two communicators of one program:
/// [`split_with`](crate::Communicator::split_with) makes a child of the other choice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Transfers {
    /// Any memory of the device, registered or not. NCCL copies each message through buffers of its own.
    #[default]
    Any,
    /// Memory of NCCL's allocator (`nccl_zeros` and its like) that this rank has registered with the
    /// communicator: as a buffer ([`register_buffer`](crate::Communicator::register_buffer)), or in a
    /// window of kind `Symmetric`, `SymmetricStrict` or `LocalOnly`. Messages go without a copy where
    /// NCCL has such a way. Other memory is refused with [`Error::NotRegistered`](crate::Error::NotRegistered).
    /// NCCL: 2.19; the environment must not turn registration off (`NCCL_LOCAL_REGISTER=0`).
    Registered,
}
