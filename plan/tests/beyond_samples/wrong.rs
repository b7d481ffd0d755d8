//! What is wrong at some sizes must not be accepted for all.

use typed_nccl_plan::check::{check, check_at};
use typed_nccl_plan::ir::Plan;
use typed_nccl_plan::verdict::Sizes;

/// A plan that is wrong at these sizes is not accepted for all.
#[track_caller]
pub(crate) fn wrong(name: &str, plan: Plan, extents: &[i64], params: &[&[i64]]) {
    assert!(plan.validate().is_empty(), "{name}: no plan");
    let text = format!("{extents:?} {params:?}");
    let params = params.iter().map(|values| values.to_vec()).collect();
    let sizes = Sizes { extents: extents.to_vec(), params, text };
    let Err(rejected) = check_at(&plan, &sizes) else {
        panic!("{name}: right at {}", sizes.text);
    };
    let at = &sizes.text;
    assert!(check(&plan).is_err(), "{name}: accepted for all, and wrong at {at}:\n{rejected}");
}
