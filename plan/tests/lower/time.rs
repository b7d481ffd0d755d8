//! What is not done when the time is over fails, and says so.

use std::time::Instant;

use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::lower::Instance;
use typed_nccl_plan::verdict::{ProblemKind, Rejected, Sizes};

use super::words::sizes;
use crate::plans::ring;

fn sample() -> (Plan, Sizes) {
    let plan = ring::exchange().unchecked().expect("a plan");
    let sizes = sizes(&plan, 3, &[("len", 4)]);
    (plan, sizes)
}

#[track_caller]
fn is_late<T>(outcome: Result<T, Rejected>) {
    let rejected = outcome.err().expect("there is no time");
    assert!(rejected.problems.iter().all(|one| one.kind == ProblemKind::OutOfTime), "{rejected}");
    assert!(rejected.to_string().contains("no time"), "{rejected}");
}

#[test]
fn each_step_asks_the_time() {
    let (plan, sizes) = sample();
    let over = Some(Instant::now());
    is_late(Instance::new(&plan, &sizes, over));
    let instance = || Instance::new(&plan, &sizes, None).expect("it can be written out");
    is_late(instance().with_time(over).check());
    is_late(instance().with_time(over).decide());
    let decided = instance().decide().expect("there is no limit");
    is_late(instance().with_time(over).lower(&decided));
    assert!(instance().lower(&decided).is_ok());
}
