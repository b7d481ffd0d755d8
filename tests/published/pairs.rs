//! All ranks with all others at once.

use typed_nccl::plans::{one_shot_all_reduce, two_shot_all_reduce};

use super::harness::{POWERS, RANKS, f32s, gathers, reduces, refused, sizes};
use super::plans::pairs::{local_tree_all_reduce, pairs_all_gather};

#[test]
fn all_gather() {
    sizes(&RANKS, |n, len| {
        gathers(pairs_all_gather::plan(), (n, len), &f32s().number("len", len / n));
    });
}

#[test]
fn all_reduce_in_one_step() {
    let plan = one_shot_all_reduce::plan();
    sizes(&RANKS, |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
}

#[test]
fn all_reduce() {
    let plan = two_shot_all_reduce::plan();
    sizes(&RANKS, |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
}

#[test]
fn all_reduce_with_a_local_tree() {
    let plan = local_tree_all_reduce::plan();
    sizes(&POWERS, |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
    refused(plan, 7, &f32s().number("len", 7), "`n` is 7 ranks, and the plan is for powers of 2");
}
