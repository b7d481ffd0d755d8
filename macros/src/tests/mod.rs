//! The macro, tried on text.

#[path = "../../../plan/tests/plans/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "the tests of plans want more")]
mod plans;

#[path = "../../../plan/tests/simulator/src/random.rs"]
#[allow(dead_code, unreachable_pub, reason = "the simulator asks for more, as a crate")]
mod random;

mod deep;
mod doubts;
mod mistakes;
mod mutated;
mod promised;
mod same;
mod schedules;
mod source;
mod surface;
