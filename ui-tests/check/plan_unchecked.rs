//! A plan says at which sizes it was checked once it is.

use typed_nccl_plan::build::{PlanBuilder, Refused, ring};

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("ring");
    plan.ranks(1..);
    let a = plan.input::<f32>("a", 8);
    let b = plan.output::<f32>("b", 8);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    let _sizes = plan.accepted().len();
    Ok(())
}
