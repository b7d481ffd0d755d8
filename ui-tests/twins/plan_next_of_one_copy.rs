//! Only a buffer of two copies has another one.

use typed_nccl_plan::build::{PlanBuilder, Refused};

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("step");
    plan.ranks(1..);
    let u = plan.swapped().in_out::<f32>("u", 8);
    let cmp = plan.stream("cmp");
    plan.on(cmp).run("step").reads(u).writes(u.next());
    plan.check()?;
    Ok(())
}
