//! Both sides of a collective hold one element type.

use typed_nccl_plan::build::{PlanBuilder, Refused};

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("gather");
    let n = plan.ranks(1..);
    let a = plan.input::<f32>("a", 8);
    let b = plan.output::<f32>("b", 8 * n);
    let net = plan.stream("net");
    plan.on(net).all_gather(a, b);
    plan.check()?;
    Ok(())
}
