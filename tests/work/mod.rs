//! Handles of enqueued work: by threads, by tasks without a runtime, and by tokio's.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use static_assertions::assert_impl_all;
use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Call, Values};
use typed_nccl::{AnyDevice, CommConfig, Communicator, Error, Host, Result, Seat, Sum, Work};

use crate::plans::declared::steps_of;
use crate::ranks::spmd;

mod server;
mod service;
mod tasks;

assert_impl_all!(Work<Host<AnyDevice>>: Send, Sync, Unpin, Future<Output = Result<()>>);

/// Longer means that nobody wakes a task.
const LIMIT: Duration = Duration::from_secs(20);

/// Two ranks on threads of their own, with this deadline.
fn two<T: Send>(
    deadline: Duration,
    rank: impl Fn(Communicator<Host<AnyDevice>>) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    thread::scope(|scope| {
        let start = |seat: Seat| {
            let rank = &rank;
            scope.spawn(move || {
                let device = Host::any(seat.rank().index() as u32)?;
                let config = CommConfig::builder().deadline(deadline).build();
                let comm = Communicator::builder().seat(seat).device(device).config(config);
                // The deadline may be short.
                rank(comm.build().start()?.ready().wait_until(Instant::now() + LIMIT)?)
            })
        };
        let ranks: Vec<_> = Seat::local(2).into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
    })
}

fn on_a_runtime<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let limited = async { tokio::time::timeout(LIMIT, future).await };
    let started = Instant::now();
    let outcome = runtime.expect("a runtime").block_on(limited);
    // The limit's own timer wakes the task too.
    assert!(started.elapsed() < LIMIT, "nobody woke the task");
    outcome.expect("it is over")
}

#[test]
fn a_handle_says_whether_its_work_is_over() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        if comm.rank().index() == 1 {
            // Rank 0 has seen by then that it is not over.
            comm.barrier()?;
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        let work = comm.submitted()?;
        if comm.rank().index() == 0 {
            assert!(!work.is_done()?);
            assert!(!work.wait_within(Duration::from_millis(20))?);
            comm.barrier()?;
        }
        assert!(work.wait_within(Duration::from_secs(60))?);
        work.wait()?;
        assert!(work.is_done()?);
        assert_eq!(x.to_vec()?, [2]);
        comm.finish()
    })
}

/// Each handle is of what was enqueued before it, on its stream.
#[test]
fn handles_of_streams_and_marks() -> Result<()> {
    spmd::<Host>(1, |place| {
        let comm = place.init()?;
        let (other, (go, gone)) = (comm.device().stream()?, channel::<()>());
        let before = comm.on(&other).submitted()?;
        let mark = other.mark()?;
        other.launch((), move |(), ()| {
            let _ = gone.recv();
        })?;
        let after = comm.on(&other).submitted()?;
        assert!(before.is_done()? && comm.work(&mark).is_done()? && comm.submitted()?.is_done()?);
        assert!(!after.is_done()?);
        drop(go);
        on_a_runtime(after)?;
        comm.finish()
    })
}

#[test]
fn a_task_waits_for_a_peer() {
    let outcomes = two(Duration::from_secs(60), |comm| {
        if comm.rank().index() == 1 {
            thread::sleep(Duration::from_millis(50));
        }
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        on_a_runtime(comm.submitted()?)?;
        assert_eq!(x.to_vec()?, [2]);
        comm.finish()
    });
    for outcome in outcomes {
        outcome.expect("both take part");
    }
}

#[test]
fn a_task_is_told_of_a_peer_that_leaves() {
    let outcomes = two(Duration::from_secs(60), |comm| {
        if comm.rank().index() == 1 {
            thread::sleep(Duration::from_millis(50));
            drop(comm.abort());
            return Ok(());
        }
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        on_a_runtime(comm.submitted()?)
    });
    let [told, left] = <[_; 2]>::try_from(outcomes).expect("two ranks");
    left.expect("it left");
    let error = told.expect_err("rank 1 left");
    assert!(matches!(error, Error::PeerFailed(_)), "{error}");
}

#[test]
fn a_task_has_the_communicators_deadline() {
    let given_up = Barrier::new(2);
    let outcomes = two(Duration::from_secs(2), |comm| {
        if comm.rank().index() == 1 {
            given_up.wait();
            return Ok(());
        }
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let outcome = on_a_runtime(comm.submitted()?);
        given_up.wait();
        assert!(comm.health().is_err());
        outcome
    });
    let [told, _] = <[_; 2]>::try_from(outcomes).expect("two ranks");
    let error = told.expect_err("nobody came");
    assert!(matches!(error, Error::Timeout(_)), "{error}");
    assert!(error.to_string().contains("tests/work/mod.rs"), "{error}");
}

/// A handle outlives its communicator, and says that it has ended.
#[test]
fn a_handle_of_a_communicator_that_has_ended() {
    let outcomes = two(Duration::from_secs(60), |comm| {
        let mut x = comm.device().from_slice(&[1_u64])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let work = comm.submitted()?;
        comm.barrier()?;
        comm.sync(comm.stream())?;
        comm.finish()?;
        assert_eq!(x.to_vec()?, [2]);
        Ok(work)
    });
    for outcome in outcomes {
        let work = outcome.expect("it finished");
        assert!(work.is_done().is_ok_and(|done| done), "{work:?}");
    }
}

/// A plan's handle is of all of its streams; the communicator's is of the plan's first.
#[test]
fn a_handle_of_a_plan() -> Result<()> {
    let mut two = PlanBuilder::new("two");
    two.ranks(1..);
    let (x, y) = (two.in_out::<f32>("x", 4), two.in_out::<f32>("y", 4));
    let (first, second) = (two.stream("first"), two.stream("second"));
    two.on(first).all_reduce_in_place(x, Sum);
    two.on(second).after([first]).run("late").writes(y);
    let two = two.check().expect("a plan that is right");
    spmd::<Host>(2, |place| {
        let mut comm = place.init()?;
        let mut bound = plan::bind(&mut comm, two.plan(), &Values::new())?;
        let (mut x, mut y) = (comm.device().zeros::<f32>(4)?, comm.device().zeros::<f32>(4)?);
        let (go, gone) = channel::<()>();
        let mut gone = Some(gone);
        let mut late = steps_of(&comm, |call: &mut Call<'_, _>| {
            let gone = gone.take();
            call.stream().launch(&mut call.write::<f32>(0)?, move |y, ()| {
                let _ = gone.map(|gone| gone.recv());
                y.fill(7.0);
            })
        });
        bound.on(&comm).write("x", &mut x).write("y", &mut y).run(&mut late)?;
        let (all, first) = (bound.submitted(&comm)?, comm.submitted()?);
        on_a_runtime(first)?;
        assert!(!all.is_done()?);
        drop(go);
        on_a_runtime(all)?;
        assert_eq!(y.to_vec()?, [7.0; 4]);
        comm.finish()
    })
}

/// What a task did not wait for goes on; a handle that is dropped is forgotten.
#[test]
fn a_handle_that_is_dropped() -> Result<()> {
    spmd::<Host>(2, |place| {
        let comm = place.init()?;
        let mut x = comm.device().from_slice(&[1_u64])?;
        if comm.rank().index() == 1 {
            comm.barrier()?;
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        if comm.rank().index() == 0 {
            let mut work = pin!(comm.submitted()?);
            let poll = Pin::as_mut(&mut work).poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(poll, Poll::Pending), "{poll:?}");
        }
        if comm.rank().index() == 0 {
            comm.barrier()?;
        }
        assert_eq!(x.to_vec()?, [2]);
        comm.finish()
    })
}
