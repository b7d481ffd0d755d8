//! Good plans and random ones, for several sizes each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use typed_nccl_plan::ir::{Launch, Plan};
use typed_nccl_plan::lower::{Work, lower};
use typed_nccl_plan::verdict::Sizes;

use super::verify::{no_time, verify};
use super::words::joined;
use crate::plans;

/// How many random plans are lowered, each for several sizes.
const CASES: usize = 600;

/// Sizes that a plan claims, up to eight ranks: at most three for each number of ranks.
fn few(plan: &Plan) -> Vec<Sizes> {
    let mut found: BTreeMap<i64, Vec<Sizes>> = BTreeMap::new();
    for sizes in plans::small::sizes(plan) {
        found.entry(sizes.extents.iter().product()).or_default().push(sizes);
    }
    let smallest = found.keys().next().copied().unwrap_or_default();
    let fits = found.into_iter().filter(|(ranks, _)| *ranks <= smallest.max(8));
    fits.flat_map(|(_, of)| {
        let step = of.len().div_ceil(3).max(1);
        of.into_iter().step_by(step)
    })
    .collect()
}

#[test]
fn good_plans() {
    for (name, plan) in plans::good() {
        let plan = plan.unchecked().expect("a plan");
        for sizes in few(&plan) {
            println!("{name}, {}", sizes.text);
            verify(&plan, &sizes);
        }
    }
}

#[test]
fn random_plans() {
    let mut random = plan_simulator::Random::new(5);
    let (mut good, mut fused, mut carried, mut waits) = (0, 0, 0, 0);
    let (mut kernels, mut exchanges) = (0, 0);
    for _ in 0..CASES {
        let (plan, all) = plan_simulator::case(&mut random);
        for sizes in all {
            let right = lower(&plan, &sizes).is_ok();
            if !right || sizes.extents.iter().product::<i64>() > 8 {
                continue;
            }
            let seen = catch_unwind(AssertUnwindSafe(|| verify(&plan, &sizes)));
            let Ok(schedule) = seen else {
                panic!("{}\n{}", sizes.text, plan_simulator::dump(&plan));
            };
            let calls = || schedule.ranks.iter().flat_map(|rank| &rank.calls);
            good += 1;
            let with = schedule.clone().with_kernels(&plan, &no_time());
            kernels += usize::from(with.ranks != schedule.ranks);
            let has = |is: &dyn Fn(&Work) -> bool| {
                usize::from(with.ranks[0].calls.iter().any(|call| is(&call.work)))
            };
            exchanges += has(&|work| matches!(work, Work::Kernel { legs, .. } if !legs.is_empty()));
            fused += usize::from(joined(&schedule) > 0);
            carried += usize::from(calls().any(|call| !call.carried.is_empty()));
            waits += usize::from(calls().any(|call| !call.waits.is_empty()));
        }
    }
    println!(
        "{good} instances: {fused} with groups joined, {waits} with waits, {carried} across runs, \
         {kernels} with kernels, {exchanges} with messages by kernels"
    );
    assert!(good > 500 && fused > 100 && carried > 25 && waits > 100 && kernels > 25);
    assert!(exchanges > 25);
}

#[test]
fn a_captured_plan_carries_nothing() {
    for (_, plan) in plans::good() {
        let mut plan = plan.unchecked().expect("a plan");
        plan.launch = Launch::Captured;
        let schedule = verify(&plan, few(&plan).last().expect("a size"));
        let calls = schedule.ranks.iter().flat_map(|rank| &rank.calls);
        assert!(calls.clone().all(|call| call.carried.is_empty()));
    }
}
