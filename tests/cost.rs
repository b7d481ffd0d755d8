//! A typed call allocates nothing. Its instructions are counted by `cargo run -p xtask -- cost`.

#[path = "../benches/null/mod.rs"]
mod null;

use std::hint::black_box;

use null::Null;
use typed_nccl::plan::build::{PlanBuilder, ring};
use typed_nccl::plan::{self, Call, Values};
use typed_nccl::{Communicator, Device, Result, Seat, Sum, kernel};

use crate::counting::by_this_thread;

const CALLS: u64 = 1000;

/// The number of allocations of this thread in `CALLS` calls, after one to warm up.
fn allocations(mut call: impl FnMut() -> Result<()>) -> Result<u64> {
    call()?;
    let before = by_this_thread();
    for _ in 0..CALLS {
        call()?;
    }
    Ok(by_this_thread() - before)
}

fn alone() -> Result<Communicator<Null>> {
    Seat::local(1).remove(0).init(Null(0))
}

#[test]
fn the_allocator_counts() -> Result<()> {
    let boxes = allocations(|| {
        black_box(Box::new(black_box(1_u64)));
        Ok(())
    })?;
    assert_eq!(boxes, CALLS);
    let grown = allocations(|| {
        let mut bytes = vec![black_box(1_u8)];
        bytes.reserve_exact(black_box(100));
        black_box(bytes);
        Ok(())
    })?;
    assert_eq!(grown, 2 * CALLS);
    Ok(())
}

#[test]
fn all_reduce_allocates_nothing() -> Result<()> {
    let comm = alone()?;
    let (x, mut y) = (comm.device().zeros::<f32>(64)?, comm.device().zeros::<f32>(64)?);
    assert_eq!(allocations(|| comm.all_reduce(&x, &mut y, Sum))?, 0);
    assert_eq!(allocations(|| comm.all_reduce_in_place(&mut y, Sum))?, 0);
    comm.finish()
}

#[test]
fn all_reduce_on_a_stream_allocates_nothing() -> Result<()> {
    let comm = alone()?;
    let stream = comm.device().stream()?;
    let (x, mut y) = (comm.device().zeros::<f32>(64)?, comm.device().zeros::<f32>(64)?);
    assert_eq!(allocations(|| comm.on(&stream).all_reduce(&x, &mut y, Sum))?, 0);
    assert_eq!(allocations(|| comm.on(&stream).all_reduce_in_place(&mut y, Sum))?, 0);
    comm.finish()
}

kernel! {
    #[launch(threads = 32, blocks = y.len().div_ceil(32))]
    fn axpy(a: f32, x: &[f32], y: &mut [f32]);
    // SAFETY: no GPU runs it.
    unsafe cuda "y[0] = a * x[0];";
    host {
        y[0] = a * x[0];
    }
}

/// On a device that reads its arguments at the call.
#[test]
fn a_kernel_allocates_nothing() -> Result<()> {
    let comm = alone()?;
    let (x, mut y) = (comm.device().zeros::<f32>(64)?, comm.device().zeros::<f32>(64)?);
    assert_eq!(allocations(|| comm.stream().run(axpy(2.0, &x, &mut y)))?, 0);
    comm.finish()
}

/// 64 all_reduces in one kernel.
#[test]
fn a_kernel_of_a_plan_allocates_nothing() -> Result<()> {
    kernels_allocate_nothing(false)
}

/// The same, captured.
#[test]
fn a_captured_run_allocates_nothing() -> Result<()> {
    kernels_allocate_nothing(true)
}

fn kernels_allocate_nothing(captured: bool) -> Result<()> {
    let body = |seat: Seat| -> Result<u64> {
        let device = Null(seat.rank().index() as u32);
        let mut comm = seat.init(device)?;
        let mut declared = PlanBuilder::new("small");
        declared.ranks(1..);
        if captured {
            declared.captured();
        }
        let g = declared.array(64).in_out::<f32>("g", |_| 256);
        let net = declared.stream("net");
        declared.for_each("i", ..64, |plan, i| {
            plan.on(net).all_reduce_in_place(g.at(i), Sum);
        });
        let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
        let mut plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
        assert!(plan.describe().contains("one kernel for 64 all_reduces"), "{}", plan.describe());
        let mut g = Vec::new();
        for _ in 0..64 {
            g.push(comm.device().zeros::<f32>(256)?);
        }
        let found = allocations(|| plan.on(&comm).write("g", &mut g).run(&mut ()))?;
        comm.finish()?;
        Ok(found)
    };
    let ranks: Vec<_> = std::thread::scope(|threads| {
        let ranks: Vec<_> =
            Seat::local(2).into_iter().map(|seat| threads.spawn(move || body(seat))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("it does not panic")).collect()
    });
    for found in ranks {
        assert_eq!(found?, 0);
    }
    Ok(())
}

/// After its first run a plan allocates nothing: with one stream, with several, with groups and
/// compute steps.
#[test]
fn a_run_of_a_plan_allocates_nothing() -> Result<()> {
    let mut comm = alone()?;
    let mut declared = PlanBuilder::new("measured");
    declared.ranks(1..);
    let g = declared.array(8).in_out::<f32>("g", |_| 16);
    let (a, b) = (declared.input::<f32>("a", 16), declared.output::<f32>("b", 16));
    let (net, compute) = (declared.stream("net"), declared.stream("compute"));
    declared.for_each("i", ..8, |plan, i| {
        plan.on(compute).run("backward").argument(i).writes(g.at(i));
        plan.on(net).after([compute]).all_reduce_in_place(g.at(i), Sum);
    });
    declared.on(compute).after([net]).run("apply").reads(g);
    declared.on(net).transfer(a, ring(1), b);
    let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
    let mut plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
    let mut g: Vec<_> = (0..8).map(|_| comm.device().zeros::<f32>(16)).collect::<Result<_>>()?;
    let (a, mut b) = (comm.device().zeros::<f32>(16)?, comm.device().zeros::<f32>(16)?);
    let mut seen = 0;
    let mut steps = |call: &mut Call<'_, Null>| {
        if call.name() == "backward" {
            seen += call.number(0)? + call.write::<f32>(0)?.len();
        }
        Ok(())
    };
    let run = allocations(|| {
        plan.on(&comm).write("g", &mut g).read("a", &a).write("b", &mut b).run(&mut steps)
    })?;
    assert!(seen > 0);
    assert_eq!(run, 0);
    Ok(())
}
