//! The ways in which a program gets its ranks.

mod cause;
mod from_env;
mod launch;
#[cfg(feature = "mpi")]
mod mpi;
mod others;
mod own_device;
mod place;
#[cfg(unix)]
mod processes;
mod spmd;
mod start;
#[cfg(unix)]
mod tells;

pub use launch::{launch, launch_on_host};
pub use place::Place;
pub(crate) use spmd::each;
#[cfg(any(test, feature = "models"))]
pub use spmd::one_rank;
pub use spmd::spmd;
