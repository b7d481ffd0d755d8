//! What doubles of libraries have in common. A double is a library with another one's functions, and with
//! functions of its own by which a test tells it what to do and asks what it did.
//!
//! Here are a double's file, and how a test finds those functions in a copy of it and is answered. What a
//! double does is its own.

mod control;
mod file;

pub use control::{Sink, Tells, function, give, load, told};
pub use file::{built, write};
pub use libloading::Library;
