//! Partners at distances of powers of two.

use typed_nccl::plans::halving_all_reduce;

use super::harness::{POWERS, f32s, gathers, reduces, refused, sizes};
use super::plans::doubling::{doubling_all_gather, ncv4_all_reduce};

#[test]
fn all_gather() {
    let plan = doubling_all_gather::plan();
    sizes(&POWERS, |n, len| gathers(plan, (n, len), &f32s().number("len", len / n)));
    refused(plan, 3, &f32s().number("len", 1), "`n` is 3 ranks, and the plan is for powers of 2");
}

#[test]
fn rabenseifner() {
    let plan = halving_all_reduce::plan();
    sizes(&POWERS, |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
    refused(plan, 7, &f32s().number("len", 7), "`n` is 7 ranks, and the plan is for powers of 2");
}

#[test]
fn ncv4() {
    let plan = ncv4_all_reduce::plan();
    sizes(&[4], |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
    refused(plan, 8, &f32s().number("len", 8), "`n` is 8 ranks, and the plan is for 4");
}
