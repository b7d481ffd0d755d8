//! A put writes a window.

use typed_nccl_plan::build::{PlanBuilder, Refused, ring};

fn main() -> Result<(), Refused> {
    let mut plan = PlanBuilder::new("put");
    plan.ranks(2..);
    let a = plan.window().input::<f32>("a", 8);
    let u = plan.swapped().local::<f32>("u", 8);
    let (net, arrived, free) = (plan.stream("net"), plan.signal("arrived"), plan.signal("free"));
    plan.on(net).put(a, ring(1), u.slice(..8)).signal(arrived);
    plan.on(net).wait([arrived.from(ring(-1))]);
    plan.on(net).signal(free, ring(-1));
    plan.on(net).wait([free.from(ring(1))]);
    plan.check()?;
    Ok(())
}
