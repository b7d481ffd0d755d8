//! The checker, the lowering, the cost model and the pictures, by plans that are right, plans that are
//! nearly so, and random ones.

mod plans;
mod sample;
mod schedules;

mod builder;
mod catalogue;
mod catalogue_simulated;
mod claims;
mod cost;
mod deep;
mod lower;
mod pictures;
mod show;
mod soundness;
mod validate;
mod variants;
mod warnings;
