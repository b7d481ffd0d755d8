//! Single all_reduces: by a plan with kernels of this library's own, and by NCCL; call by call and
//! captured.

use typed_nccl::plan::{self, Bound, Values, build::PlanBuilder};
use typed_nccl::{Communicator, Device, Result, Sum, World};

use crate::{ROUNDS, time};

const BYTES: [usize; 9] =
    [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

const WAYS: [&str; 5] = ["plan", "captured", "NCCL by a plan", "captured", "by hand"];

/// Microseconds of each size and way.
pub(crate) type Times = [[f64; WAYS.len()]; BYTES.len()];

pub(crate) fn measure<W: World>(comm: &mut Communicator<W>, runs: u32) -> Result<Times> {
    let mut times = [[f64::INFINITY; WAYS.len()]; BYTES.len()];
    for (bytes, times) in BYTES.iter().zip(&mut times) {
        let len = bytes / size_of::<f32>();
        let mut plans = [
            bound(comm, len, false, true)?,
            bound(comm, len, true, true)?,
            bound(comm, len, false, false)?,
            bound(comm, len, true, false)?,
        ];
        let mut x = comm.device().zeros::<f32>(len)?;
        for _ in 0..ROUNDS {
            for (way, best) in times.iter_mut().enumerate() {
                let (all, _) = time(comm, runs, |comm| match plans.get_mut(way) {
                    Some(plan) => plan.on(comm).write("x", &mut x).run(&mut ()),
                    None => comm.all_reduce_in_place(&mut x, Sum),
                })?;
                *best = best.min(all);
            }
        }
    }
    Ok(times)
}

fn bound<W: World>(
    comm: &mut Communicator<W>,
    len: usize,
    captured: bool,
    kernels: bool,
) -> Result<Bound<W>> {
    let mut plan = PlanBuilder::new("single");
    plan.ranks(1..);
    if captured {
        plan.captured();
    }
    if !kernels {
        plan.without_kernels();
    }
    let x = plan.in_out::<f32>("x", len as i64);
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(x, Sum);
    let checked = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
    plan::bind(comm, checked.plan(), &Values::new())
}

pub(crate) fn print(ranks: &[Times]) {
    println!(
        "  one all_reduce, us{:>14}{:>11}{:>16}{:>11}{:>11}",
        WAYS[0], WAYS[1], WAYS[2], WAYS[3], WAYS[4]
    );
    for (at, bytes) in BYTES.iter().enumerate() {
        let most = |way: usize| ranks.iter().map(|rank| rank[at][way]).fold(0.0, f64::max);
        println!(
            "  {:>10} B{:>20.2}{:>11.2}{:>16.2}{:>11.2}{:>11.2}",
            bytes,
            most(0),
            most(1),
            most(2),
            most(3),
            most(4)
        );
    }
}
