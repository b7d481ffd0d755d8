//! Tests that need internals: shaken timing finds results that depend on luck.

use typed_nccl_plan::build::{Bf16, PlanBuilder, SameElement, ring};
use typed_nccl_plan::ir;

use super::prepare::{Prepared, Template};
use super::{Swapped, Timing, Values, bind};
use crate::{Communicator, Host, Numeric, Result, World};

/// Runs a put to the next rank, with or without its wait, and counts the runs that end with wrong
/// numbers or an error.
fn wrong<W: World>(comm: &mut Communicator<W>, waits: bool, timing: Timing) -> Result<usize> {
    let mut plan = PlanBuilder::new("put");
    plan.ranks(2..);
    let u = plan.window().swapped().in_out::<f32>("u", 2);
    let (there, back) = (plan.signal("there"), plan.signal("back"));
    let net = plan.stream("net");
    let out = plan.output::<f32>("out", 1);
    plan.on(net).put(u.slice(..1), ring(1), u.slice(1..2)).signal(there);
    plan.on(net).wait([there.from(ring(-1))]);
    plan.on(net).transfer(u.slice(1..2), ring(1), out);
    plan.on(net).signal(back, ring(-1));
    plan.on(net).wait([back.from(ring(1))]);
    let checked = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
    let mut put = bind(comm, checked.plan(), &Values::new())?;
    put.set_timing(timing);
    if !waits {
        let is_wait = |work: &Prepared| {
            matches!(work, Prepared::Group { operations, .. }
                if operations.iter().any(|one| matches!(one, Template::Wait(_))))
        };
        let first = put.fixed.steps.iter().position(|step| is_wait(&step.work));
        put.fixed.steps.remove(first.expect("a wait"));
    }
    let mut count = 0;
    for run in 1..=20 {
        let (mut a, mut b) = (comm.window::<f32>(2)?, comm.window::<f32>(2)?);
        let mine = (comm.rank().index() * 100 + run) as f32;
        a.copy_from(&[mine, -1.0])?;
        b.copy_from(&[mine, -1.0])?;
        // Nobody puts into memory that its neighbour is still filling.
        comm.barrier()?;
        let mut u = Swapped::new(a, b);
        let mut out = crate::Device::zeros::<f32>(comm.device(), 1)?;
        let outcome = put.on(comm).write("u", &mut u).write("out", &mut out).run(&mut ());
        let told = outcome.and_then(|()| out.to_vec());
        let before = (comm.ring(-2).index() * 100 + run) as f32;
        count += usize::from(!told.is_ok_and(|told| told == [before]));
        comm.barrier()?;
        let (first, second) = u.into_parts();
        for window in [first, second] {
            comm.close(window)?;
        }
    }
    Ok(count)
}

#[test]
fn shaking_finds_a_wait_that_is_missing() {
    let counts = Host::spmd(3, |place| -> Result<[usize; 2]> {
        let mut comm = place.init()?;
        let rank = comm.rank().index() as u64;
        let right = wrong(&mut comm, true, Timing::Shaken(rank))?;
        let seed = Timing::Shaken(7 + rank);
        let missing = wrong(&mut comm, false, seed).unwrap_or(1);
        Ok([right, missing])
    });
    let counts = counts.expect("the ranks run");
    assert!(counts.iter().all(|[right, _]| *right == 0), "{counts:?}");
    assert!(counts.iter().any(|[_, missing]| *missing > 0), "{counts:?}");
}

/// The passes over `x` of a plan that adds 20 regions to it; and what `x` is then.
fn passes<P: SameElement<P>, T: Numeric>(one: T) -> Result<(usize, Vec<T>)> {
    let mut plan = PlanBuilder::new("sums");
    plan.ranks(1..);
    let (x, y) = (plan.in_out::<P>("x", 2), plan.input::<P>("y", 21));
    let net = plan.stream("net");
    for at in 0..20 {
        plan.on(net).update(x, ir::Reduction::Sum, y.slice(at..at + 2));
    }
    let checked = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
    let done = Host::spmd(1, |place| -> Result<(usize, Vec<T>)> {
        let mut comm = place.init()?;
        let mut sums = bind(&mut comm, checked.plan(), &Values::new())?;
        let mut x = comm.device().from_slice(&[one; 2])?;
        let y = comm.device().from_slice(&[one; 21])?;
        sums.on(&comm).write("x", &mut x).read("y", &y).run(&mut ())?;
        Ok((sums.fixed.steps.len(), x.to_vec()?))
    });
    Ok(done?.remove(0))
}

#[test]
fn sums_in_a_row_are_one_pass_unless_each_is_rounded() {
    // 1 + 15 regions, then 1 + 5.
    assert_eq!(passes::<f32, _>(1.0_f32), Ok((2, vec![21.0; 2])));
    assert_eq!(passes::<i8, _>(1_i8), Ok((2, vec![21; 2])));
    let one = crate::bf16::from_f32(1.0);
    assert_eq!(passes::<Bf16, _>(one), Ok((20, vec![crate::bf16::from_f32(21.0); 2])));
}
