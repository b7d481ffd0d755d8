//! The NCCL backend against doubles of CUDA's driver and of NCCL: its calls, their order and
//! arguments, and its handling of failures. Needs no GPU.
//!
//! Each scenario runs in its own process, because a process loads its libraries once. Data moves
//! within a device only, as the double of NCCL moves none.

#[cfg(all(feature = "cuda", target_os = "linux"))]
#[macro_use]
mod common;
#[cfg(all(feature = "cuda", target_os = "linux"))]
#[path = "../ends/mine.rs"]
mod mine;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod scenario;

#[cfg(all(feature = "cuda", target_os = "linux"))]
mod adopt;
#[cfg(all(feature = "cuda", target_os = "linux"))]
#[path = "../kernels/axpy.rs"]
mod axpy;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod booking;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod by_address;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod captured;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod config;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod configured;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod connect;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod destroyed;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod device;
#[cfg(all(feature = "cuda", feature = "dlpack", target_os = "linux"))]
mod dlpack;
mod elements;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod environment;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod exact;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod graphs;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod groups;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod kernels;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod lowered;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod memory;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod one_sided;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod opening;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod operators;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod order;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod ordered;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod ours;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod out_of_step;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod polls;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod queries;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod raw;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod rccl;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod reach;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod reasons;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod registered;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod registered_theirs;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod signals;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod stuck;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod suspend;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod tensor;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod transfers;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod turns;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod voided;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod waits;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod windows;
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod wire;

#[cfg(not(all(feature = "cuda", target_os = "linux")))]
#[test]
fn skipped() {
    println!("SKIPPED: the doubles are for Linux, and for builds with the feature `cuda`");
}
