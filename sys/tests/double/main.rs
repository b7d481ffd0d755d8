//! The loader, the table and the structs, against a double of libnccl. Needs no library.
//!
//! Every test takes a copy of the double, which is a library of its own. What depends on the whole
//! process runs this program again as a child.
#![cfg(target_os = "linux")]

#[macro_use]
mod common;

mod finding;
mod gates;
mod log;
mod rccl;
mod results;
mod wire;
