//! Plans that are right, and plans that are nearly so: data for every test that wants some.

#![allow(dead_code, unused_macros, unreachable_pub, reason = "not every test wants all of it")]

pub mod near_miss;

pub mod halo;
pub mod one_f1b;
pub mod pipeline;
pub mod ring;

use typed_nccl_plan::build::PlanBuilder;

pub use near_miss::NearMiss;

/// Gives the good plans to a macro: `file { function .. }`.
macro_rules! each_good_plan {
    ($do:ident) => {
        $do! {
            halo { one_sided two_sided }
            one_f1b { listed }
            pipeline { forward }
            ring { exchange }
        }
    };
}

/// Gives the near misses to a macro: `file { function .. }`.
macro_rules! each_near_miss {
    ($do:ident) => {
        $do! {
            halo {
                claims_two_ranks one_copy one_copy_twice wait_with_its_cause two_signals_in_a_graph
                awaits_one_too_many
            }
            one_f1b { without_groups grouped_on_one_end }
            pipeline { reads_what_nobody_wrote one_buffer_for_both }
            ring {
                sends_first sends_what_nobody_receives receives_doubles onto_itself itself_in_two_steps
                output_of_a_chain
            }
        }
    };
}

macro_rules! list {
    ($($file:ident { $($name:ident)+ })+) => {
        vec![$($((concat!(stringify!($file), "::", stringify!($name)), $file::$name())),+),+]
    };
}

/// Every good plan, by its name.
pub fn good() -> Vec<(&'static str, PlanBuilder)> {
    each_good_plan!(list)
}

/// Every near miss, by its name.
pub fn near_misses() -> Vec<(&'static str, NearMiss)> {
    each_near_miss!(list)
}

#[allow(unused_imports, reason = "not every test wants both")]
pub(crate) use {each_good_plan, each_near_miss};
