//! Rings.

use typed_nccl::plans::ring_all_reduce;

use super::harness::{RANKS, f32s, gathers, in_place, reduces, refused, sizes, sums};
use super::plans::rings::{pipeline_ring, ring_all_gather};

#[test]
fn all_reduce() {
    sizes(&RANKS, |n, len| reduces(ring_all_reduce::plan(), (n, len), &f32s().number("len", len)));
}

#[test]
fn all_gather() {
    sizes(&RANKS, |n, len| {
        gathers(ring_all_gather::plan(), (n, len), &f32s().number("len", len / n));
    });
}

/// The first half of the ranks adds up, the other one gets the sums.
#[test]
fn pipeline() {
    sizes(&[2, 4, 8, 16], |n, len| {
        let half = n / 2;
        let values = f32s().axis("halves", 2).axis("n", half).number("len", len);
        in_place(pipeline_ring::plan(), (n, len), &values, |rank, run| {
            (rank >= half).then(|| sums(0, half, run, len))
        });
    });
    let values = f32s().axis("halves", 3).axis("n", 1).number("len", 1);
    refused(pipeline_ring::plan(), 3, &values, "`halves` is 3 ranks, and the plan is for 2");
}
