//! A plan moves what NCCL moves.

use typed_nccl_plan::build::{PlanBuilder, Refused};

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("flags");
    plan.ranks(1..);
    plan.in_out::<bool>("flags", 8);
    plan.unchecked()?;
    Ok(())
}
