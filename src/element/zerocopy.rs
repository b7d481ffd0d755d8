//! The crate `zerocopy`, whose derives make a struct [`Plain`](crate::Plain): derive with
//! `#[zerocopy(crate = "typed_nccl::zerocopy")]`, without a dependency on it.

// An item that shares its name with one of ours makes rustc print our full path in every message.
// It does not look at aliases, so those two are renamed by aliases; the rest is re-exported whole,
// since what derives expand to changes between releases.

pub use ::zerocopy::*;

#[doc(hidden)]
pub mod pointer {
    pub use ::zerocopy::pointer::*;

    pub use super::invariant;
}

#[doc(hidden)]
pub mod invariant {
    pub use ::zerocopy::invariant::*;

    pub type Shared = ::zerocopy::invariant::Shared;
    pub type Uninit = ::zerocopy::invariant::Uninit;
}
