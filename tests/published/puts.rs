//! One-sided schedules.

use super::harness::{RANKS, f32s, gathers, meshes, sizes, transposes};
use super::plans::puts::{multi_all_gather, ring_all_to_all};

#[test]
fn all_to_all_around_a_ring() {
    let plan = ring_all_to_all::plan();
    sizes(&RANKS, |n, len| transposes(plan, (n, len), &f32s().number("len", len / n)));
}

#[test]
fn all_gather_of_several_nodes() {
    meshes(|(nodes, local), len| {
        let n = nodes * local;
        let values = f32s().axis("nodes", nodes).axis("local", local).number("len", len / n);
        gathers(multi_all_gather::plan(), (n, len), &values);
    });
}
