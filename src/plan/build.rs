//! Plans built at run time: declared in Rust, then checked.
//!
//! These are the names from the crate `typed-nccl-plan` that programs need. A program that needs
//! others, such as the types of handles in a function's arguments or the plan as data, depends on
//! that crate too. (If all of it were here, the compiler would know two things called `Buffer`, and
//! print the crate's path in every message about one.)

pub use typed_nccl_plan::build::stand_ins::*;
pub use typed_nccl_plan::build::{
    Checked, Generic, Number, Open, Peer, PlanBuilder, PlanElement, Refused, at, chain, either,
    ring,
};
use typed_nccl_plan::ir::Reduction;

use crate::{Avg, Max, Min, Prod, Sum};

macro_rules! named_as {
    ($($op:ident),+) => { $(
        impl From<$op> for Reduction {
            fn from(_: $op) -> Self {
                Self::$op
            }
        }
    )+ };
}

named_as!(Sum, Prod, Min, Max, Avg);
