//! Every plan of the library, for every number of ranks up to eight that it supports: several runs
//! in a row without anything in between, early and shaken, compared with plain Rust. And one plan
//! of the documentation.

mod barrier;
mod broadcast;
mod exchanged;
mod experts;
mod gradients;
mod halo_1d;
mod halo_2d;
mod hierarchical;
mod pipeline;
mod ranks;
mod reduced;
mod refused;
mod ring;
mod turns;
