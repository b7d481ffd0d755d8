//! The interface to the backends: NCCL's host API as traits, split by capability.
//!
//! The device type selects the implementation statically. Before a backend sees a call, the typed
//! layer above has validated it (lengths, ranks, devices, stamps, health) and ordered buffers
//! between streams, so a backend only executes. Operations are plain data, so that recording them
//! for a group and issuing them immediately use the same types.
//!
//! This module is public for backends outside the crate (a double in a test, a null device in a
//! benchmark). It is exempt from semantic versioning.

mod copies;
mod device;
pub mod form;
mod graphs;
mod join;
mod kernels;
mod launches;
mod lifecycle;
mod memory;
mod op;
mod operations;
mod pace;
mod reads;
mod reduction;
mod streams;
mod teams;
mod timing;
mod uses;
mod waits;
mod windows;
mod wire;

pub use copies::Copies;
pub use device::{DeviceBytes, DeviceComms, Placed, WindowHandles};
pub use form::{Half, Signal, Slot, Target, Wait, WindowId};
pub use graphs::Graphs;
pub use join::{ChildPlace, Departer, Departure, Join, Part, Says, Watch};
pub use kernels::{
    Combined, KernelOffer, KernelWay, KernelWork, Kernels, MOST_PIECES, NOBODY, Piece, Rows,
};
pub use launches::{Launches, Seen};
pub use lifecycle::Lifecycle;
pub use memory::{AllocKind, Memory};
pub use op::{Collective, Op, Put, Reduction, Span, Transfer};
pub use operations::{Operations, RankOps, Refusal};
pub use pace::{Counts, Pace, Paced};
pub use reads::{Gathered, Reads, Source};
pub use reduction::ReductionName;
pub use streams::{Blame, Culprit, Keeps, Streams};
pub use teams::{Endpoint, EndpointOf, Team, TeamOf};
pub use timing::Timing;
pub(crate) use uses::uses;
pub use waits::{Awaits, Exchange, HostWait, Submission, WaitsOn, Watched, Watcher};
pub use windows::Windows;
pub use wire::{Listener, Wire};

pub use crate::device_comm::Shared as DeviceShared;
pub use crate::health::{Limit, Limits};
pub use crate::memory::allocation::Allocation;
pub use crate::memory::lease::Lease;
pub use crate::memory::owner::Owner;

/// All capabilities of a device's backend.
pub trait Backend:
    Memory
    + Streams
    + Timing
    + Copies
    + Launches
    + Lifecycle
    + Operations
    + Windows
    + DeviceComms
    + Graphs
    + Kernels
    + Reads
{
}

impl<B> Backend for B where
    B: Memory
        + Streams
        + Timing
        + Copies
        + Launches
        + Lifecycle
        + Operations
        + Windows
        + DeviceComms
        + Graphs
        + Kernels
        + Reads
{
}
