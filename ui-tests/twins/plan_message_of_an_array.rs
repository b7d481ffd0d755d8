//! An operation moves one buffer, not an array of them.

use typed_nccl_plan::build::{PlanBuilder, Refused, ring};

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("ring");
    plan.ranks(1..);
    let a = plan.array(2).input::<f32>("a", |_| 8);
    let b = plan.output::<f32>("b", 8);
    let net = plan.stream("net");
    plan.on(net).transfer(a.at(0), ring(1), b);
    plan.check()?;
    Ok(())
}
