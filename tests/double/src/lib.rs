//! The common part of the doubles. A double is a library with another one's functions, and with its
//! own functions by which a test instructs and queries it.
//!
//! This crate finds a double's file, and those functions in a copy of it. The behaviour of each
//! double is in its own crate.

mod control;
mod file;

pub use control::{Sink, Tells, function, give, load, told};
pub use file::{built, write};
pub use libloading::Library;
