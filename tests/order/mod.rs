//! Order between streams: buffers, marks, host copies, and what a launched closure may do.
//!
//! The random programs are compared with the same steps one after the other. The other tests block
//! a closure at a [`gate::Gate`], to see what waits for it and what does not.

#[path = "../kernels/axpy.rs"]
mod axpy;
mod buffers;
mod copies;
mod gate;
mod handed_over;
mod kernels;
mod marks;
mod overlap;
mod panics;
mod programs;
mod waits;
