//! The checks, each of one part of a machine.

pub(crate) mod gpus;
pub(crate) mod launchers;
pub(crate) mod libraries;
pub(crate) mod limits;
mod names;
pub(crate) mod network;
pub(crate) mod variables;
