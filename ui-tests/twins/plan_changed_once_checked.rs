//! A checked plan changes no more.

use typed_nccl_plan::build::{PlanBuilder, Refused, ring};

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("ring");
    plan.ranks(1..);
    let a = plan.in_out::<f32>("a", 8);
    let b = plan.in_out::<f32>("b", 8);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    let _plan = plan.check()?;
    Ok(())
}
