//! What a run of a plan costs the host beside the same calls written by hand, against a device that
//! does nothing.
//!
//! `cargo bench -p benches --bench plan_run` gives nanoseconds a run, and ratios within one run:
//! several plans, each against the calls that do the same through the ordinary API.

mod null;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use null::Null;
use typed_nccl::plan::build::{PlanBuilder, ring};
use typed_nccl::plan::{self, Bound, Call, Values};
use typed_nccl::{Buffer, Communicator, Device, Result, Seat, Stream, Sum};

/// Elements in each buffer; the null device does not look at them.
const COUNT: usize = 256;
const ROUNDS: usize = 20;

/// One comparison.
struct Versus {
    name: &'static str,
    planned: f64,
    by_hand: f64,
}

fn main() -> ExitCode {
    // `cargo bench` says so; `cargo test --benches` does not, and wants it short.
    let runs = if std::env::args().any(|argument| argument == "--bench") { 20_000 } else { 20 };
    match all(runs) {
        Ok(all) => {
            for Versus { name, planned, by_hand } in all {
                let ratio = planned / by_hand;
                println!(
                    "{name:<44} planned {planned:>9.1} ns   by hand {by_hand:>9.1} ns   ratio {ratio:.3}"
                );
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn all(runs: u64) -> Result<Vec<Versus>> {
    Ok(vec![one(runs)?, grouped(runs, 64)?, exchange(runs)?, overlapped(runs, 16)?])
}

fn alone() -> Result<Communicator<Null>> {
    Seat::local(1).remove(0).init(Null(0))
}

/// Nanoseconds a run: the best of several rounds, the two sides in turn.
fn versus(
    name: &'static str,
    runs: u64,
    mut planned: impl FnMut() -> Result<()>,
    mut by_hand: impl FnMut() -> Result<()>,
) -> Result<Versus> {
    let mut best = Versus { name, planned: f64::INFINITY, by_hand: f64::INFINITY };
    let time = |run: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..runs {
            run()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / runs as f64)
    };
    for _ in 0..ROUNDS {
        best.planned = best.planned.min(time(&mut planned)?);
        best.by_hand = best.by_hand.min(time(&mut by_hand)?);
    }
    Ok(best)
}

fn buffers(comm: &Communicator<Null>, count: usize) -> Result<Vec<Buffer<f32, Null>>> {
    (0..count).map(|_| comm.device().zeros(COUNT)).collect()
}

/// A bound plan, from a builder that the closure fills.
fn bound(
    comm: &mut Communicator<Null>,
    fill: impl FnOnce(&mut PlanBuilder),
) -> Result<Bound<Null>> {
    let mut plan = PlanBuilder::new("measured");
    plan.ranks(1..);
    fill(&mut plan);
    let checked = plan.check().unwrap_or_else(|refused| panic!("{refused}"));
    plan::bind(comm, checked.plan(), &Values::new())
}

/// A single all-reduce.
fn one(runs: u64) -> Result<Versus> {
    let mut comm = alone()?;
    let mut plan = bound(&mut comm, |plan| {
        let x = plan.in_out::<f32>("x", COUNT as i64);
        let net = plan.stream("net");
        plan.on(net).all_reduce_in_place(x, Sum);
    })?;
    let (mut a, mut b) = (comm.device().zeros::<f32>(COUNT)?, comm.device().zeros::<f32>(COUNT)?);
    versus(
        "one all_reduce",
        runs,
        || plan.on(black_box(&comm)).write("x", black_box(&mut a)).run(&mut ()),
        || black_box(&comm).all_reduce_in_place(black_box(&mut b), Sum),
    )
}

/// Many all-reduces, which the plan makes a group of.
fn grouped(runs: u64, count: usize) -> Result<Versus> {
    let (mut comm, mut other) = (alone()?, alone()?);
    let mut plan = bound(&mut comm, |plan| {
        let g = plan.array(count as i64).in_out::<f32>("g", |_| COUNT);
        let net = plan.stream("net");
        plan.for_each("i", ..count as i64, |plan, i| {
            plan.on(net).all_reduce_in_place(g.at(i), Sum);
        });
    })?;
    let (mut a, mut b) = (buffers(&comm, count)?, buffers(&comm, count)?);
    versus(
        "64 all_reduces, one group",
        runs,
        || plan.on(black_box(&comm)).write("g", black_box(&mut a)).run(&mut ()),
        || {
            black_box(&mut other).group(|g| {
                for one in black_box(&mut b) {
                    g.all_reduce_in_place(one, Sum)?;
                }
                Ok(())
            })
        },
    )
}

/// A send and a receive.
fn exchange(runs: u64) -> Result<Versus> {
    let (mut comm, mut other) = (alone()?, alone()?);
    let mut plan = bound(&mut comm, |plan| {
        let (a, b) = (plan.input::<f32>("a", COUNT as i64), plan.output::<f32>("b", COUNT as i64));
        let net = plan.stream("net");
        plan.on(net).transfer(a, ring(1), b);
    })?;
    let (from, mut into) = (buffers(&comm, 2)?, buffers(&comm, 2)?);
    let (first, second) = into.split_at_mut(1);
    versus(
        "send and receive",
        runs,
        || plan.on(black_box(&comm)).read("a", &from[0]).write("b", &mut first[0]).run(&mut ()),
        || {
            black_box(&mut other).group(|g| {
                g.send(&from[1], 0)?;
                g.recv(&mut second[0], 0)
            })
        },
    )
}

/// Buckets that are computed on one stream and reduced on another.
fn overlapped(runs: u64, count: usize) -> Result<Versus> {
    let (mut comm, other) = (alone()?, alone()?);
    let mut plan = bound(&mut comm, |plan| {
        let g = plan.array(count as i64).in_out::<f32>("g", |_| COUNT);
        let (net, compute) = (plan.stream("net"), plan.stream("compute"));
        plan.for_each("i", ..count as i64, |plan, i| {
            plan.on(compute).run("backward").argument(i).writes(g.at(i));
            plan.on(net).after([compute]).all_reduce_in_place(g.at(i), Sum);
        });
        plan.on(compute).after([net]).run("apply").reads(g);
    })?;
    let (mut a, mut b) = (buffers(&comm, count)?, buffers(&comm, count)?);
    let compute = other.device().stream()?;
    let backward = |stream: &Stream<Null>, g: &mut typed_nccl::SliceMut<'_, f32, Null>| {
        stream.launch(g, |_, _| ())
    };
    let mut steps = |call: &mut Call<'_, Null>| match call.name() {
        "backward" => backward(call.stream(), &mut call.write::<f32>(0)?),
        _ => {
            for one in call.reads::<f32>(0)?.iter() {
                call.stream().launch(one, |_, _| ())?;
            }
            Ok(())
        }
    };
    versus(
        "16 buckets on two streams",
        runs,
        || plan.on(black_box(&comm)).write("g", black_box(&mut a)).run(&mut steps),
        || {
            for one in &mut b {
                backward(&compute, &mut one.all_mut())?;
                other.all_reduce_in_place(one, Sum)?;
            }
            for one in &b {
                compute.launch(one.all(), |_, _| ())?;
            }
            Ok(())
        },
    )
}
