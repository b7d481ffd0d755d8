//! All-to-alls, and messages of a plan's own pattern.

use typed_nccl::plan::Plan;
use typed_nccl::plans::{
    all_to_next, bruck_all_to_all, three_step_all_to_all, two_step_all_to_all,
};

use super::harness::{RANKS, f32s, from_to, meshes, owns, refused, sizes, transposes};
use super::plans::all_to_all::{pairs_all_to_all, to_both};

#[test]
fn all_pairs() {
    let plan = pairs_all_to_all::plan();
    sizes(&RANKS, |n, len| transposes(plan, (n, len), &f32s().number("len", len / n)));
}

#[test]
fn bruck() {
    let plan = bruck_all_to_all::plan();
    sizes(&RANKS, |n, len| transposes(plan, (n, len), &f32s().number("len", len)));
}

fn transposes_on_nodes(plan: &'static Plan) {
    meshes(|(nodes, local), len| {
        let n = nodes * local;
        let values = f32s().axis("nodes", nodes).axis("local", local).number("part", len / n);
        transposes(plan, (n, len), &values);
    });
}

#[test]
fn two_steps() {
    transposes_on_nodes(two_step_all_to_all::plan());
}

#[test]
fn three_steps() {
    transposes_on_nodes(three_step_all_to_all::plan());
}

/// To the next rank; the first one gets nothing.
#[test]
fn to_next() {
    meshes(|(nodes, local), len| {
        let values = f32s().axis("nodes", nodes).axis("local", local).number("len", len);
        from_to(all_to_next::plan(), nodes * local, (len, len), &values, |rank, run| {
            rank.checked_sub(1).map_or_else(|| vec![-1.0; len], |before| owns(before, run, len))
        });
    });
}

#[test]
fn a_pattern_of_its_own() {
    let plan = to_both::plan();
    sizes(&[3], |n, len| {
        from_to(plan, n, (len, len), &f32s().number("len", len), |rank, run| match rank {
            0 => vec![-1.0; len],
            _ => owns(0, run, len),
        });
    });
    refused(plan, 4, &f32s().number("len", 1), "`n` is 4 ranks, and the plan is for 3");
}
