//! Random plans of what kernels do: collectives on windows and on other memory, messages, and
//! compute steps between them that use some of it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use plan_simulator::Random;
use typed_nccl_plan::build::{Buffer, Plain, PlanBuilder, Symmetric, chain, ring};
use typed_nccl_plan::ir::{Plan, Reduction};
use typed_nccl_plan::lower::{Work, lower};

use super::verify::{no_time, verify};
use super::words::{joined, sizes};

const CASES: usize = 400;

/// Memory that collectives use, all of one length.
struct Memory {
    windows: Vec<Buffer<f32, Symmetric>>,
    others: Vec<Buffer<f32, Plain>>,
    numbers: Vec<Buffer<i64, Symmetric>>,
}

impl Memory {
    fn new(plan: &mut PlanBuilder) -> Self {
        let len = plan.size() * 2;
        let name = |kind: &str, at: usize| format!("{kind}{at}");
        Self {
            windows: (0..4).map(|at| plan.window().in_out(&name("w", at), len)).collect(),
            others: (0..3).map(|at| plan.in_out(&name("x", at), len)).collect(),
            numbers: (0..2).map(|at| plan.window().in_out(&name("n", at), len)).collect(),
        }
    }
}

fn random(random: &mut Random) -> Plan {
    let mut plan = PlanBuilder::new("stretches");
    plan.ranks(1..);
    if random.chance(1, 3) {
        plan.captured();
    }
    if random.chance(1, 3) {
        plan.once();
    }
    let Memory { windows, others, numbers } = Memory::new(&mut plan);
    let (net, cmp) = (plan.stream("net"), plan.stream("cmp"));
    for _ in 0..3 + random.below(8) {
        let (one, other) = (random.below(4), random.below(4));
        let (a, b) = (windows[one], windows[other]);
        let (x, n) = (others[random.below(3)], numbers[random.below(2)]);
        let by = if random.chance(1, 4) { Reduction::Max } else { Reduction::Sum };
        let distance = if random.chance(1, 2) { 1 } else { -1 };
        match random.below(12) {
            0..=3 => plan.on(net).all_reduce_in_place(a, by),
            4 => plan.on(net).all_reduce_in_place(x, by),
            5 => plan.on(net).all_reduce_in_place(n, by),
            6 if one != other => plan.on(net).all_reduce(a, b, by),
            7 if one != other => plan.on(net).all_to_all(a, b),
            8 => plan.on(net).transfer(a, ring(distance), x),
            9 => plan.on(net).transfer(a.slice(..1), chain(distance), x.slice(1..2)),
            10 => drop(plan.on(cmp).run("look").reads(a)),
            _ => drop(plan.on(cmp).run("step").reads(x).writes(b)),
        }
    }
    plan.unchecked().expect("a plan")
}

#[test]
fn kernels_join_what_nccl_does_not() {
    let mut numbers = Random::new(11);
    let (mut good, mut stretches, mut messages) = (0, 0, 0);
    for _ in 0..CASES {
        let plan = random(&mut numbers);
        let sizes = sizes(&plan, 2 + numbers.below(3) as i64, &[]);
        if lower(&plan, &sizes).is_err() {
            continue;
        }
        let seen = catch_unwind(AssertUnwindSafe(|| verify(&plan, &sizes)));
        let Ok(schedule) = seen else {
            panic!("{}\n{}", sizes.text, plan_simulator::dump(&plan));
        };
        let with = schedule.clone().with_kernels(&plan, &no_time());
        let is_message =
            |work: &Work| matches!(work, Work::Kernel { legs, .. } if !legs.is_empty());
        good += 1;
        stretches += usize::from(joined(&with) > joined(&schedule));
        messages += usize::from(with.ranks[0].calls.iter().any(|call| is_message(&call.work)));
    }
    println!(
        "{good} plans: {stretches} with collectives joined for kernels, {messages} with messages"
    );
    assert!(good > 200 && stretches > 50 && messages > 50);
}
