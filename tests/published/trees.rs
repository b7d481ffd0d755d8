//! Trees.

use typed_nccl::plans::double_tree_all_reduce;

use super::harness::{POWERS, RANKS, f32s, in_place, owns, reduces, refused, sizes};
use super::plans::trees::{binary_tree_broadcast, mirrored_trees_all_reduce};

#[test]
fn mirrored() {
    let plan = mirrored_trees_all_reduce::plan();
    sizes(&POWERS, |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
    refused(plan, 3, &f32s().number("len", 2), "`n` is 3 ranks, and the plan is for powers of 2");
}

#[test]
fn double() {
    sizes(&RANKS, |n, len| {
        for pieces in [1, 4] {
            let values = f32s().number("len", len).number("pieces", pieces);
            reduces(double_tree_all_reduce::plan(), (n, len), &values);
        }
    });
}

#[test]
fn broadcast_in_pieces() {
    sizes(&RANKS, |n, len| {
        for k in [1, 8] {
            let values = f32s().number("k", k).number("len", len);
            let plan = binary_tree_broadcast::plan();
            in_place(plan, (n, len), &values, |_, run| Some(owns(0, run, len)));
        }
    });
}
