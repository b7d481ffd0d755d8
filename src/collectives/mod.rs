//! The collectives: every rank of the communicator calls the same ones in the same order.
//!
//! All of them enqueue and return; the host does not wait for the data to move. Counts are in
//! elements. Bad input is refused before anything is sent: the refusal counts as this rank's turn,
//! and the other ranks get [`Error::Refused`](crate::Error::Refused) with the reason. Calls that
//! differ between ranks are reported on every rank at its next host wait
//! ([`Error::Mismatch`](crate::Error::Mismatch)) on the host backend; NCCL itself hangs or gives
//! wrong data.
//!
//! Each method exists on [`Communicator`](crate::Communicator), for its own stream; on
//! [`On`](crate::On), from `comm.on(&stream)`; and on [`Group`](crate::Group), except for methods
//! that allocate a buffer.

mod all_reduce;
mod broadcast;
mod draft;
mod gather;
mod methods;
mod reduce;
mod root;

#[doc(hidden)]
pub use root::IntoRoot;
pub use root::Root;

pub(crate) use draft::{Draft, View};
