//! Within nodes and between them.

use typed_nccl::plan::{self, Plan, Values};
use typed_nccl::plans::{hierarchical_all_reduce, torus_all_reduce};
use typed_nccl::{Host, spmd};

use super::harness::{f32s, meshes, own, owns, reduces, refused, same, sizes};
use super::plans::nodes::{
    blue_connect, dgx1_all_reduce, ndv2_all_reduce, pcie_all_reduce, reduce_gather,
};

/// A mesh of the plan's two axes.
fn placed(plan: &Plan, (first, second): (usize, usize)) -> Values {
    f32s().axis(&plan.axes[0].name, first).axis(&plan.axes[1].name, second)
}

fn reduces_on_meshes(plan: &'static Plan) {
    meshes(|shape, len| {
        let values = placed(plan, shape).number("len", len);
        reduces(plan, (shape.0 * shape.1, len), &values);
    });
}

#[test]
fn pcie() {
    reduces_on_meshes(pcie_all_reduce::plan());
}

#[test]
fn rings_of_rings() {
    reduces_on_meshes(blue_connect::plan());
}

#[test]
fn collectives_of_collectives() {
    reduces_on_meshes(hierarchical_all_reduce::plan());
}

#[test]
fn torus() {
    reduces_on_meshes(torus_all_reduce::plan());
}

#[test]
fn ndv2() {
    let plan = ndv2_all_reduce::plan();
    sizes(&[8], |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
    refused(plan, 4, &f32s().number("len", 8), "`n` is 4 ranks, and the plan is for 8");
}

#[test]
fn dgx1() {
    let plan = dgx1_all_reduce::plan();
    sizes(&[16], |n, len| reduces(plan, (n, len), &f32s().number("len", len)));
    refused(plan, 8, &f32s().number("len", 8), "`n` is 8 ranks, and the plan is for 16");
}

/// The sums within groups of ranks, gathered from all.
#[test]
fn reduced_and_gathered() {
    let plan = reduce_gather::plan();
    meshes(|(groups, each), len| {
        let (n, part) = (groups * each, len / (groups * each));
        let values = placed(plan, (groups, each)).number("len", part);
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index();
            let mut bound = plan::bind(&mut comm, plan, &values)?;
            let mut x = comm.device().from_slice(&owns(rank, 0, each * part))?;
            let mut all = comm.device().zeros::<f32>(n * part)?;
            bound.on(&comm).write("x", &mut x).write("all", &mut all).run(&mut ())?;
            let sum = |at: usize| {
                let (group, k) = (at / part / each, at / part % each);
                let ranks = group * each..(group + 1) * each;
                ranks.map(|rank| own(rank, 0, k * part + at % part)).sum::<f32>()
            };
            let expected: Vec<f32> = (0..n * part).map(sum).collect();
            same(&all.to_vec()?, &expected, &plan.name);
            comm.finish()
        })
        .unwrap_or_else(|error| panic!("{groups} groups of {each}: {error}"));
    });
}
