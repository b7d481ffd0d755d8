//! What a schedule takes, estimated: arithmetic over a [`Topology`], no measurement.
//!
//! A call takes its launch, the latency of the farthest of its operations, and the time its bytes need on the
//! links that they share. Calls wait for each other as the [model](crate#what-waits-for-what) says, and the
//! longest chain of them is the whole. Good for comparing two schedules of one plan; the numbers of a machine
//! that nobody measured are as good as what was put in.
//!
//! Not modelled: the host, which is taken to be ahead; that compute and communication slow each other down;
//! switches that are shared by more than one rank's links; NCCL's choice of protocol for a size.

mod bytes;
mod collectives;
mod estimate;
mod kernels;
mod show;
mod topology;

pub(crate) use bytes::Groups;
pub use estimate::{Busy, Computes, CriticalCall, Estimate, estimate, estimate_with};
pub use kernels::{AllReduceBy, KernelTimes};
pub use topology::{Link, Topology};
