//! Plans, most of them made at run time, bound and run on the host backend.

mod computed;
pub(crate) mod declared;
mod errors;
mod listed;
mod one_sided;
mod parted;
mod passed;
mod registered;
mod uneven;
mod wrong;

use typed_nccl::plan::build::{Checked, PlanBuilder, ring};
use typed_nccl::plan::{self, Swapped, Values};
use typed_nccl::{Buffer, Communicator, Device, Error, Host, Result, Sum, Window, World};

use crate::ranks::spmd;

use declared::{checked, grad_sync, halo, steps_of};

/// Every rank sends `len` elements to the next one.
fn shift(len: i64) -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("shift");
    plan.ranks(1..);
    let k = plan.param("len", len..);
    let (a, b) = (plan.input::<f32>("a", k), plan.output::<f32>("b", k));
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    plan.check().expect("a plan for any number of ranks")
}

fn numbered<W: World>(comm: &Communicator<W>, len: usize) -> Result<Buffer<f32, W::Device>> {
    let first = (comm.rank().index() * 100) as f32;
    let values: Vec<f32> = (0..len).map(|at| first + at as f32).collect();
    comm.device().from_slice(&values)
}

#[test]
fn a_ring_runs_again_and_again() {
    for n in 1..=8 {
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let mut shift =
                plan::bind(&mut comm, shift(1).plan(), &Values::new().number("len", 3))?;
            let mut a = numbered(&comm, 3)?;
            let mut b = comm.device().zeros::<f32>(3)?;
            for round in 0..5 {
                shift.on(&comm).read("a", &a).write("b", &mut b).run(&mut ())?;
                let from = comm.ring(-1).index() as f32 * 100.0 + round as f32;
                assert_eq!(b.to_vec()?, [from, from + 1.0, from + 2.0]);
                let next: Vec<f32> = a.to_vec()?.iter().map(|x| x + 1.0).collect();
                a.copy_from(&next)?;
            }
            comm.finish()
        })
        .expect("every rank verifies its own numbers");
    }
}

/// Buckets of different lengths, reduced while the next one is computed.
#[test]
fn buckets_are_reduced_beside_backward() {
    let sync = grad_sync();
    let sizes = [5_usize, 1, 64];
    for n in [1, 2, 4] {
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let values = Values::new().number("k", sizes.len()).list("sizes", &sizes);
            let mut sync = plan::bind(&mut comm, sync.plan(), &values)?;
            let mut grads = Vec::new();
            for len in sizes {
                grads.push(comm.device().zeros::<f32>(len)?);
            }
            let rank = comm.rank().index() as f32;
            for round in 0..3 {
                let mut applied = Vec::new();
                let mut steps = steps_of(&comm, |call| {
                    if call.name() == "backward" {
                        let (i, mut g) = (call.number(0)? as f32, call.write::<f32>(0)?);
                        return call
                            .stream()
                            .launch(&mut g, move |g, _| g.fill(rank + i + round as f32));
                    }
                    let g = call.reads::<f32>(0)?;
                    applied = g.iter().map(|one| one.len()).collect();
                    assert!(call.write::<f32>(0).is_err() && call.number(0).is_err());
                    Ok(())
                });
                sync.on(&comm).write("g", &mut grads).run(&mut steps)?;
                assert_eq!(applied, sizes);
                let mean = (n - 1) as f32 / 2.0;
                for (i, (grad, len)) in grads.iter().zip(sizes).enumerate() {
                    assert_eq!(grad.to_vec()?, vec![mean + i as f32 + round as f32; len]);
                }
            }
            comm.finish()
        })
        .expect("every rank verifies its own numbers");
    }
}

/// An all-reduce within the nodes, between them, and within them again.
#[test]
fn communicators_of_some_ranks() {
    let mut declared = PlanBuilder::new("hierarchical");
    let (nodes, local) = (declared.axis("nodes", 1..), declared.axis("local", [2, 4]));
    let (node, rail) =
        (declared.communicator("node", [local]), declared.communicator("rail", [nodes]));
    let len = declared.param("len", 1..);
    declared.promise((len % local.size()).eq(0));
    let x = declared.in_out::<f64>("x", len);
    let part = x.chunk(local.size(), local.rank());
    let net = declared.stream("net");
    declared.on(net).among(node).reduce_scatter(x, part, Sum);
    declared.on(net).among(rail).all_reduce_in_place(part, Sum);
    declared.on(net).among(node).all_gather(part, x);
    let hierarchical = checked(declared);
    for (nodes, local) in [(1, 2), (2, 2), (3, 2), (2, 4)] {
        let n = nodes * local;
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let values = Values::new().axis("nodes", nodes).axis("local", local).number("len", 8);
            let mut reduce = plan::bind(&mut comm, hierarchical.plan(), &values)?;
            for round in 0..2 {
                let own: Vec<f64> =
                    (0..8).map(|at| (comm.rank().index() + at + round) as f64).collect();
                let mut x = comm.device().from_slice(&own)?;
                reduce.on(&comm).write("x", &mut x).run(&mut ())?;
                let sum = |at: usize| (0..n).map(|rank| rank + at + round).sum::<usize>() as f64;
                assert_eq!(x.to_vec()?, (0..8).map(sum).collect::<Vec<f64>>());
            }
            comm.finish()
        })
        .expect("every rank verifies its own numbers");
    }
}

/// Neighbours put their edges into each other's windows, whose two copies swap.
#[test]
fn a_halo_in_windows_of_two_copies() {
    let halo = halo::<f32>(3);
    let (m, h) = (12_usize, 2);
    for n in 3..=6 {
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index();
            let mut first: Window<f32, _> = comm.window(m)?;
            let second: Window<f32, _> = comm.window(m)?;
            let own = m - 2 * h;
            let start: Vec<f32> = (0..m).map(|at| (rank * own + at) as f32).collect();
            first.copy_from(&start)?;
            let mut u = Swapped::new(first, second);
            let values = Values::new().number("m", m).number("h", h);
            let mut halo = plan::bind(&mut comm, halo.plan(), &values)?;
            // The whole ring as one rank would compute it: each element becomes the sum of itself
            // and the one two places further on.
            let mut whole: Vec<f32> = (0..n * own).map(|at| (at + h) as f32).collect();
            for _ in 0..4 {
                let mut steps = steps_of(&comm, |call| {
                    let (u, mut next) = (call.read::<f32>(0)?, call.write::<f32>(0)?);
                    call.stream().launch((&u, &mut next), move |(u, next), _| {
                        for (at, next) in next.iter_mut().enumerate() {
                            *next = u[at + h] + u[at + 2 * h];
                        }
                    })
                });
                halo.on(&comm).write("u", &mut u).run(&mut steps)?;
                whole =
                    (0..whole.len()).map(|at| whole[at] + whole[(at + h) % whole.len()]).collect();
                let inner = u.current().slice(h..m - h).to_vec()?;
                assert_eq!(inner, whole[rank * own..(rank + 1) * own]);
            }
            comm.finish()
        })
        .expect("every rank verifies its own numbers");
    }
}

#[test]
fn ranks_that_bind_different_plans_are_all_told() {
    let outcomes = Host::spmd(3, |place| -> Result<String> {
        let mut comm = place.init()?;
        let len = if comm.rank().index() == 1 { 4 } else { 3 };
        let bound = plan::bind(&mut comm, shift(1).plan(), &Values::new().number("len", len));
        let error = bound.err().map(|error| error.to_string()).unwrap_or_default();
        comm.finish()?;
        Ok(error)
    })
    .expect("every rank verifies its own numbers");
    for told in outcomes {
        assert!(told.contains("rank 1 bind `shift` for n = 3, len = 4"), "{told}");
        assert!(told.contains("ranks 0 and 2 bind `shift` for n = 3, len = 3"), "{told}");
    }
}

#[test]
fn a_value_that_the_plan_does_not_claim() {
    let outcomes = Host::spmd(2, |place| -> Result<Error> {
        let mut comm = place.init()?;
        let len = if comm.rank().index() == 0 { 1 } else { 2 };
        let bound = plan::bind(&mut comm, shift(2).plan(), &Values::new().number("len", len));
        let error = bound.expect_err("rank 0 cannot");
        comm.finish()?;
        Ok(error)
    })
    .expect("every rank verifies its own numbers");
    let own = "plan `shift` cannot be bound (at tests/plans/mod.rs:";
    assert!(outcomes[0].to_string().starts_with(own), "{}", outcomes[0]);
    assert!(outcomes[0].to_string().ends_with("`len` is 1, and the plan is for 2 or more"));
    assert!(matches!(outcomes[1], Error::PlansDiffer(_)));
    assert!(outcomes[1].to_string().contains("rank 0 cannot: `len` is 1"), "{}", outcomes[1]);
}
