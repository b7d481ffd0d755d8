//! Order between streams: buffers, marks, host copies, and what a launched closure may do.
//!
//! The random programs are compared with the same steps one after the other. The other tests hold a
//! closure up at a [`gate::Gate`], so that what must not wait for it is seen not to, and what must
//! is.

#[path = "../kernels/axpy.rs"]
mod axpy;
mod buffers;
mod copies;
mod gate;
mod handed_over;
mod kernels;
mod marks;
mod panics;
mod programs;
mod waits;
