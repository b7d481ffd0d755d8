//! A simulator of communication plans that shares nothing with the checker but what a plan is, and
//! what its rules are called.
//!
//! [`simulate`] expands one size of a plan, runs it step by step and says which rules it breaks. It
//! judges one size: whether a message is read at any of the sizes that are checked (A15) is no
//! question for it, and claims between statements are none.

mod data;
mod differ;
mod dump;
mod every;
mod expand;
mod far;
mod generate;
mod hang;
mod instance;
mod link;
mod machine;
pub mod make;
mod memory;
mod number;
mod order;
mod outcome;
mod random;
mod rules;
pub mod schedule;
mod shrink;
mod unit;
mod value;
mod variants;

use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::Sizes;

pub use differ::{Report, Table, compare, run_many};
pub use dump::dump;
pub use every::{Every, plan_of, run_every};
pub use generate::{case, guarded as random_guarded, plan as random_plan, sizes};
pub use outcome::Outcome;
pub use random::Random;
pub use shrink::shrink;
pub use variants::{Variants, run_variants};

use instance::Instance;
use link::Linked;
use number::Malformed;

/// What is wrong with one size of a plan.
pub fn simulate(plan: &Plan, sizes: &Sizes) -> Outcome {
    let mut outcome = Outcome::default();
    if let Err(Malformed(why)) = run(plan, sizes, &mut outcome) {
        return Outcome { malformed: Some(why), ..Outcome::default() };
    }
    outcome
}

fn run(plan: &Plan, sizes: &Sizes, outcome: &mut Outcome) -> Result<(), Malformed> {
    let instance = Instance::new(plan, sizes)?;
    rules::places::lengths(&instance, outcome);
    let units = expand::expand(&instance, outcome)?;
    rules::messages::check(&instance, &units, outcome);
    rules::collectives::check(&instance, &units, outcome);
    rules::groups::check(&units, outcome);
    rules::signals::check(&instance, &units, outcome);
    rules::places::check(&instance, &units, outcome);
    rules::coverage::check(&instance, &units, outcome)?;
    let linked = Linked::new(&instance, &units, link::runs(&instance));
    hang::check(&linked, outcome);
    let clocks = order::Clocks::new(&linked);
    order::communicators(&linked, &clocks, outcome);
    order::races(&linked, &clocks, outcome);
    order::callers(&linked, &clocks, outcome);
    data::check(&instance, &units, outcome)
}

/// Runs one size of a plan in random schedules: what is wrong if they do not all leave the same
/// values, or if one shows a race. Of a plan that breaks a rule, nothing is said.
pub fn shake(plan: &Plan, sizes: &Sizes, random: &mut Random, many: usize) -> Option<String> {
    let mut outcome = Outcome::default();
    let instance = Instance::new(plan, sizes).ok()?;
    let units = expand::expand(&instance, &mut outcome).ok()?;
    let linked = Linked::new(&instance, &units, link::runs(&instance));
    data::schedules(&linked, random, many)
}
