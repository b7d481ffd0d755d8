//! Memory: buffers, views of them, and the operands of operations.
//!
//! A [`Buffer`] owns device memory and is ordered by streams: an operation waits by itself for
//! earlier ones on other streams. Views ([`Slice`], [`SliceMut`]) borrow; operations copy what they
//! need out of a view, so nothing borrowed is ever enqueued.
//!
//! Somebody else's memory becomes a buffer by adoption ([`Adopted`]), and views within a closure by
//! a loan ([`Lend`]).
//!
//! Not in the types: lengths. They are checked on use, with an error that names both sides.

mod adopted;
pub(crate) mod allocation;
mod booking;
mod buffer;
mod claims;
#[cfg(feature = "cuda")]
mod foreign_nccl;
mod indexed;
mod kind;
pub(crate) mod lease;
mod lent;
#[cfg(all(test, feature = "models"))]
mod model;
mod operand;
mod order;
pub(crate) mod owner;
mod parts;
mod pinned;
mod record;
mod slice;
mod turn;

pub use adopted::{Adopted, ForeignMemory};
pub use buffer::Buffer;
pub(crate) use buffer::allocate;
pub use indexed::HasPlaces;
pub use kind::{DeviceMem, MemoryKind, NcclMem, WindowMemory};
pub use lent::{Lend, LentAs};
pub use operand::{Elements, Holds, Readable, SameDtype, Writable};
pub use pinned::{Copying, Pinned};
#[doc(hidden)]
pub use record::{EveryOperation, TakeByValue};
pub use record::{RecordRead, RecordWrite};
pub use slice::{Slice, SliceMut};

pub(crate) use adopted::{ForeignSpan, take_back};
pub(crate) use booking::{Booking, Uses};
pub(crate) use claims::{By, Claim};
#[cfg(feature = "ndarray")]
pub(crate) use lent::HostWaits;
pub(crate) use lent::{Ending, Lent, lend};
pub(crate) use order::{Lessee, Order};
pub(crate) use record::Recorded;
pub(crate) use slice::Extent;

pub(crate) use allocation::Allocation;
pub(crate) use lease::Lease;
pub(crate) use owner::Owner;
