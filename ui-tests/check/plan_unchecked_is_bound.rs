//! What runs a plan takes a checked one.

use typed_nccl_plan::build::{Checked, PlanBuilder, Refused, ring};

fn bind(plan: &PlanBuilder<Checked>) -> usize {
    plan.plan().steps.len()
}

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("ring");
    plan.ranks(1..);
    let a = plan.input::<f32>("a", 8);
    let b = plan.output::<f32>("b", 8);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    bind(&plan);
    Ok(())
}
