//! The macro, tried on text.

#[path = "../../../plan/tests/plans/mod.rs"]
mod plans;

mod mistakes;
mod same;
mod source;
