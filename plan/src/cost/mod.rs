//! Estimates the time of a schedule by arithmetic over a [`Topology`], without measurement.
//!
//! A call takes its launch, the latency of its farthest operation, and the time of its bytes on the
//! links that they share. Calls wait for each other as the [model](crate#what-waits-for-what) says,
//! and the longest chain determines the total. Estimates serve to compare schedules of one plan;
//! for a machine that was not measured, they are as good as the numbers in its topology.
//!
//! Not modelled: the host, which is assumed to be ahead; compute and communication slowing each
//! other down; switches shared by the links of several ranks; NCCL's choice of protocol by size.

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
