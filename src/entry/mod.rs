//! How a program gets its ranks.

mod launch;
mod place;
mod spmd;

pub use launch::launch;
pub use place::Place;
pub use spmd::spmd;
