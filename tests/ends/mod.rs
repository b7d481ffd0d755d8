//! How things end: communicators, streams, buffers and closures, in every order, and the effect on
//! waits, streams and peers. `tests/lifecycle.rs` has the plain ends.

mod common;
mod mine;

mod causes;
mod closures;
mod groups;
mod late;
mod memory;
mod peers;
mod puts;
mod reasons;
mod signals;
mod streams;
mod voided;
mod waits;
