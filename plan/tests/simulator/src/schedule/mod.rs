//! Runs a schedule as NCCL and CUDA would, in any order that they allow, and shares no code with
//! what made it.
//!
//! Streams run their calls in order; a call starts when the events that it waits for are there and,
//! as NCCL has it, when the calls before it on its communicators have ended. All operations of a
//! group start together; a message or a collective ends when all its ends have started. What is
//! read is compared between start and end; what is being written is torn until the end.

mod calls;
mod collectives;
mod effects;
mod machine;
mod memory;

use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::lower::Schedule;

use crate::random::Random;
pub use calls::communicator;
use machine::Machine;
use memory::{Place, Value};

/// All memory, in order.
#[derive(Debug, PartialEq, Eq)]
pub struct Left(Vec<(Place, Vec<Value>)>);

/// What several runs of a schedule, one after another, leave in memory, in the order of events that
/// a seed gives. Panics if they hang, or if two calls use the same memory at once.
pub fn run_schedule(plan: &Plan, schedule: &Schedule, runs: usize, seed: u64) -> Left {
    let mut machine = Machine::new(plan, schedule, runs);
    machine.run(&mut Random::new(seed));
    Left(machine.memory.all())
}
