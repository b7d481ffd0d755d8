//! Device communicators without their types: what is required, what is made, and who uses it.

mod gin;
mod requirements;
mod shared;
#[cfg(feature = "cuda")]
mod view;

pub use gin::{Connection, EveryNth, EveryRank, Gin, ReachesAll, SameRail};
pub use requirements::{AsksForTheNetwork, Counted, Requirements};
pub use shared::Shared;
#[cfg(feature = "cuda")]
pub use view::DevCommView;

pub(crate) use requirements::Listed;
pub(crate) use shared::{CommInfo, Entered, numbered};
