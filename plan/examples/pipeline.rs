//! A plan from its declaration to its picture: `cargo run -p typed-nccl-plan --example pipeline
//! [picture.svg]`.
//!
//! Microbatches go forward through any number of ranks. The plan is checked for all of them, then
//! lowered for four ranks and three microbatches, explained, estimated and drawn.

use std::error::Error;
use std::time::Duration;

use typed_nccl_plan::build::{PlanBuilder, chain};
use typed_nccl_plan::cost::{Topology, estimate_with};
use typed_nccl_plan::lower::lower;
use typed_nccl_plan::verdict::Sizes;

fn main() -> Result<(), Box<dyn Error>> {
    let mut plan = PlanBuilder::new("forward");
    plan.ranks(2..);
    let (mb, len) = (plan.param("mb", 1..), plan.param("len", 1..));
    let input = plan.array(mb).in_out::<f32>("input", |_| len);
    let output = plan.array(mb).output::<f32>("output", |_| len);
    let (net, compute) = (plan.stream("net"), plan.stream("compute"));

    plan.for_each("i", ..mb, |plan, i| {
        plan.sequence(|plan| {
            plan.on(compute).after([net]).run("fwd").reads(input.at(i)).writes(output.at(i));
            plan.on(net).after([compute]).transfer(output.at(i), chain(1), input.at(i));
        });
    });

    let plan = plan.check()?;
    println!("`{}`: {}", plan.plan().name, plan.accepted());

    let sizes = Sizes {
        extents: vec![4],
        params: vec![vec![3], vec![1 << 20]],
        text: "n = 4, mb = 3, len = 1048576".to_owned(),
    };
    let schedule = lower(plan.plan(), &sizes)?;
    println!("\n{}", schedule.to_text(plan.plan()));
    println!("{}", schedule.explain(plan.plan()));
    let estimate = estimate_with(plan.plan(), &schedule, &Topology::h200_node(), |_| {
        Duration::from_micros(200)
    });
    println!("{estimate}");
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(path, schedule.to_svg(plan.plan()))?;
    }
    Ok(())
}
