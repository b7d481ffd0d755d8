//! NCCL's half of the NCCL backend: communicators, operations, windows.
//!
//! A rank's communicator is used only by the thread that has it, with one exception: a thread that
//! waits for its work polls it for errors, under a lock that its end also takes.
//!
//! The ranks of one process form a [`family`]. They meet in it, announce departures and compare
//! their calls, so that different calls are an error instead of a hang.

mod api;
mod buffers;
mod calls;
mod comm;
mod compare;
mod config;
mod connect;
mod destroying;
mod device;
mod early;
mod environment;
mod exact;
mod exit;
mod family;
mod functions;
mod graphs;
mod handle;
mod issue;
mod join;
mod kernel_resources;
mod kernels;
pub mod library;
mod lifecycle;
mod making;
mod one_sided;
pub mod params;
mod polling;
mod properties;
mod raw;
mod reads;
mod recorder;
mod release;
mod shared;
mod signals;
mod simulate;
mod split;
mod suspend;
mod traffic;
mod values;
mod watch;
mod window;

pub(crate) use api::{alloc, free};
pub(crate) use environment::{refused_variables, shares_gpus};
pub(crate) use graphs::Captured;
pub(crate) use raw::{adopt, give_away, handle};
pub(crate) use traffic::Traffic;
