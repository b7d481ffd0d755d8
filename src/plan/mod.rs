//! Plans: whole communication schedules, declared once, checked for all ranks, and run through
//! typed interfaces.
//!
//! [`plan!`](crate::plan!) declares a plan in the program's source and checks it at compile time.
//! [`build`] makes one at run time; `serde` loads one from elsewhere. [`bind`] makes it ready on a
//! communicator: the ranks agree that they have the same plan, and check it for their number.

mod agree;
mod argument;
mod asked;
mod assigned;
mod bound;
pub mod build;
mod call;
mod captured;
mod children;
mod counted;
mod declaration;
mod give;
mod kernel_support;
mod kernels;
mod local;
mod pace;
mod parted;
mod prepare;
mod run;
mod same;
mod swapped;
mod table;
#[cfg(test)]
mod tests;
mod timing;
mod values;
mod warm_up;
mod whole;
mod window_record;

// Single names: whole modules would bring along names that this crate has too (see `build`).
pub use typed_nccl_plan::check::{Accepted, check};
pub use typed_nccl_plan::ir::Plan;
pub use typed_nccl_plan::lower::{Schedule, lower};
pub use typed_nccl_plan::verdict::Sizes;
pub use typed_nccl_plan::{cost, verdict};

pub use argument::{InputOf, MemoryOf, PlanInput, PlanMemory, WholeOf};
pub use bound::{Bound, bind};
pub use call::{Call, Closure, NoClosure, Slices, SlicesMut, Steps};
#[doc(hidden)]
pub use declaration::{Declaration, here};
pub use give::Run;
pub use swapped::Swapped;
pub use timing::Timing;
pub use values::Values;

/// Declares a communication plan, and checks it at compile time.
///
#[doc = include_str!("language.md")]
#[macro_export]
macro_rules! plan {
    // Passes `$crate` on, since a program may rename this crate.
    ($($tokens:tt)*) => { $crate::__private::plan! { ($crate) $($tokens)* } };
}
