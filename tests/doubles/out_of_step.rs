//! One rank fails at a graph: the other one is told on every communicator that the graph uses, and
//! freed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use fake_cuda::Code;
use nccl_sys::Function::{ncclAllReduce, ncclCommAbort, ncclCommDestroy};
use typed_nccl::plan::build::{Checked, PlanBuilder};
use typed_nccl::plan::{self, Call, Values};
use typed_nccl::{Communicator, Cuda, Error, Result, Sum, World};

use crate::common::{clear, connect, count, says, until};
use crate::scenario::{NEWEST, cuda, nccl, on};

/// No test waits for it.
const DEADLINE: u64 = 600_000;

/// Whether rank 1 is inside NCCL, where its `all_reduce` connects to rank 0.
static INSIDE: AtomicBool = AtomicBool::new(false);

/// From now on, `all_reduce` waits for ranks that never come.
fn connects() {
    nccl().before(|function| {
        if function == ncclAllReduce {
            INSIDE.store(true, Relaxed);
        }
    });
    nccl().set_stuck(ncclAllReduce, true);
}

/// What rank 0 does in place of an `all_reduce`.
fn panics() -> ! {
    until("rank 1 is inside", || INSIDE.load(Relaxed));
    resume_unwind(Box::new("no kernel"))
}

/// Rank 0 has its own panic, and both ranks know of it.
#[track_caller]
fn both_know<W: World, T>(comm: &Communicator<W>, outcome: thread::Result<Result<T>>) {
    let fault = comm.health().expect_err("it is poisoned");
    says(&fault, &["a graph could not be captured: a closure in it panicked: no kernel"]);
    match (comm.rank().index(), outcome) {
        (0, Err(panic)) => assert_eq!(panic.downcast_ref(), Some(&"no kernel")),
        (1, Ok(Err(error))) => {
            assert!(matches!(error, Error::PeerFailed(_)), "{error}");
            says(&error, &["rank 0 left", "a closure in it panicked: no kernel"]);
        }
        (rank, outcome) => panic!("rank {rank}: {:?}", outcome.map(|done| done.map(drop))),
    }
}

#[test]
fn a_closure_that_panics_in_a_capture_is_told_to_a_rank_that_connects() {
    on(NEWEST, || {
        connects();
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, DEADLINE)?;
            let own = comm.rank().index();
            let mut x = comm.device().zeros::<f32>(4)?;
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                comm.capture(|g| {
                    g.launch(&mut x, move |_, _| {
                        if own == 0 {
                            panics()
                        }
                    })?;
                    g.all_reduce_in_place(&mut x, Sum)
                })
            }));
            both_know(&comm, outcome);
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// A captured plan with a communicator of its own, for the one row of its ranks.
fn row() -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("row");
    let (_, columns) = (plan.axis("rows", 1..), plan.axis("columns", 2..));
    plan.captured();
    let x = plan.in_out::<f32>("x", 4);
    let (row, net, done) =
        (plan.communicator("row", [columns]), plan.stream("net"), plan.signal("done"));
    plan.on(net).run("ask").writes(x);
    plan.on(net).among(row).all_reduce_in_place(x, Sum);
    plan.on(net).signal(done, columns.ring(1));
    plan.on(net).wait([done.from(columns.ring(-1))]);
    plan.check().unwrap_or_else(|refused| panic!("{refused}"))
}

fn values() -> Values {
    Values::new().axis("rows", 1).axis("columns", 2)
}

fn fills<W: World>(call: &mut Call<'_, W>) -> Result<()> {
    let mut x = call.write::<f32>(0)?;
    call.stream().fill(&mut x, 1.0)
}

/// Rank 1 is inside NCCL with the communicator of the row.
#[test]
fn a_step_that_panics_in_a_capture_is_told_on_the_plans_own_communicators() {
    on(NEWEST, || {
        nccl().set_rma(true);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, DEADLINE)?;
            let own = comm.rank().index();
            let mut bound = plan::bind(&mut comm, row().plan(), &values())?;
            let mut x = comm.device().zeros::<f32>(4)?;
            comm.barrier()?;
            if own == 0 {
                connects();
            }
            comm.barrier()?;
            let outcome = catch_unwind(AssertUnwindSafe(|| match own {
                0 => bound.on(&comm).write("x", &mut x).run(&mut |_: &mut Call<'_, _>| panics()),
                _ => bound.on(&comm).write("x", &mut x).run(&mut fills),
            }));
            both_know(&comm, outcome);
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// Rank 1's part of the launch waits for rank 0. Its communicators end at once.
#[test]
fn a_launch_that_fails_is_told_on_the_plans_own_communicators() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let faults = [
            // The launch itself; its order after an exact sum, and after a signal.
            ("cuGraphLaunch", Code::OUT_OF_MEMORY, ""),
            ("cuStreamWaitEvent", Code::OUT_OF_MEMORY, "sum"),
            ("cuStreamWaitEvent", Code::OUT_OF_MEMORY, "signal"),
        ];
        for (function, code, before) in faults {
            clear();
            let together = Barrier::new(2);
            Cuda::spmd(2, |place| {
                let mut comm = connect(place, DEADLINE)?;
                let own = comm.rank().index();
                // Signals need one.
                let _window = comm.window::<u8>(1)?;
                let mut bound = plan::bind(&mut comm, row().plan(), &values())?;
                let device = comm.device();
                let (mut x, mut y) = (device.zeros::<f32>(4)?, device.zeros::<f32>(4)?);
                bound.on(&comm).write("x", &mut x).run(&mut fills)?;
                let other = device.stream()?;
                match before {
                    "sum" => comm.on(&other).all_reduce_in_place(&mut y, Sum.exact())?,
                    "signal" => {
                        comm.on(&other).signal(1 - own)?;
                        comm.on(&other).wait_signal(1 - own)?;
                    }
                    _ => {}
                }
                comm.barrier()?;
                if own == 1 {
                    bound.on(&comm).write("x", &mut x).run(&mut fills)?;
                    together.wait();
                } else {
                    together.wait();
                    cuda().fail(function, code);
                    let failed = bound.on(&comm).write("x", &mut x).run(&mut fills);
                    assert_error!(failed, CudaFailed, "OUT_OF_MEMORY");
                }
                together.wait();
                assert!(comm.health().is_err(), "{before}");
                Ok::<_, Error>(())
            })?;
            until("all end", || nccl().live().communicators == 0);
            assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (4, 0), "{before}");
        }
        Ok(())
    });
}
