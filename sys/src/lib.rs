//! NCCL's C ABI as facts: types, constants, versioned structs, functions, and a loader.
//!
//! The declarations are those of NCCL 2.32.3; releases down to 2.18 are told apart by data
//! ([`Function::since`], [`Layout::FIELDS`]), so one build works with any of them. Nothing is
//! linked: [`Api::load`] finds a library when the program runs, and every function of it is
//! optional. CUDA's types are opaque pointers; neither CUDA nor NCCL is needed to build.
//!
//! ```
//! use nccl_sys::{Api, Function};
//!
//! // SAFETY: what this machine calls libnccl.so.2 is NCCL.
//! match unsafe { Api::load() } {
//!     Ok(api) => println!("{} {}", api.origin(), api.has(Function::ncclCommGrow)),
//!     Err(error) => println!("{error}"), // every place that was tried, and why each failed
//! }
//! ```
//!
//! A caller may rely on these:
//!
//! * C enums are integers with names ([`ncclResult_t`]): a value that no header knew survives.
//! * A struct that carries `size` and `version` is made by its `new`, which writes the end of the
//!   last field for the size and [`BOUND`] for the version. Later releases put fields where older
//!   ones have padding, so `size_of` would vouch for bytes that nobody has set.
//! * A function that the loaded library lacks is a [`MissingSymbol`] when it is asked for, never a
//!   crash. AMD's RCCL loads as well ([`Library`]), and lacks some in every release.
//!
//! Deliberately not here: any rule of when a function may be called. Every function is `unsafe` and
//! has exactly NCCL's contract.

#![allow(
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    reason = "names are NCCL's own, so that its documentation and its log lines can be searched for"
)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

mod macros;

mod collectives;
mod comm;
mod config;
mod device;
mod encryption;
mod error;
mod group;
mod handles;
mod layout;
mod library;
mod loader;
mod memory;
mod p2p;
mod params;
mod pip;
mod properties;
mod reduction;
mod requirements;
mod result;
mod rma;
mod table;
mod team;
mod version;
mod window;

pub use collectives::*;
pub use comm::*;
pub use config::*;
pub use device::*;
pub use encryption::*;
pub use error::{Attempt, Failure, LoadError, MissingSymbol};
pub use group::*;
pub use handles::*;
pub use layout::{Field, Layout};
pub use library::Library;
pub use loader::{ENVIRONMENT, Origin};
pub use memory::*;
pub use p2p::*;
pub use params::*;
#[doc(hidden)]
pub use pip::site_packages;
pub use properties::*;
pub use reduction::*;
pub use requirements::*;
pub use result::*;
pub use rma::*;
pub use table::*;
pub use team::*;
pub use version::{BOUND, Version};
pub use window::*;
