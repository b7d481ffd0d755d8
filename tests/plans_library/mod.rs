//! Every plan of the library, for every number of ranks that it claims up to eight: several runs in a
//! row with nothing between them, early and shaken, beside plain Rust that computes the same. And one of the
//! documentation.

mod barrier;
mod broadcast;
mod experts;
mod gradients;
mod halo_1d;
mod halo_2d;
mod hierarchical;
mod pipeline;
mod ranks;
mod refused;
mod ring;
mod turns;
