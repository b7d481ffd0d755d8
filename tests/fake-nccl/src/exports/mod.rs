//! NCCL's functions, in the files in which `nccl-sys` declares them.

#![allow(non_snake_case, reason = "names are NCCL's own")]

mod collectives;
mod comm;
mod device;
mod encryption;
mod group;
mod memory;
mod p2p;
mod params;
mod properties;
#[cfg(target_os = "linux")]
mod rccl;
mod reduction;
mod result;
mod rma;
mod team;
mod window;
