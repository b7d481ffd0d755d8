//! Communicators of another library that are non-blocking: NCCL completes their calls later, and
//! one thread at a time polls them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use nccl_sys::Function::{
    ncclAllReduce, ncclCommAbort, ncclCommGetAsyncError, ncclCommRevoke, ncclCommSuspend,
    ncclSignal,
};
use nccl_sys::{NCCL_COMM_NULL, ncclComm_t, ncclConfig_t, ncclResult_t, ncclUniqueId};
use typed_nccl::{AnyDevice, Communicator, Cuda, Error, Result, Seat, Signals, Sum, Work};

use crate::common::{calls, count, handle, says, until};
use crate::raw::id;
use crate::scenario::{NEWEST, cuda, nccl, on};

type Gpu = Cuda<AnyDevice>;
type Comm = Communicator<Gpu>;

/// A non-blocking communicator, as another library makes it.
fn theirs(rank: i32, size: i32, id: ncclUniqueId) -> ncclComm_t {
    let api = nccl().api().expect("the double loads");
    nccl().set_device(rank);
    let (init, mut comm) = (api.ncclCommInitRankConfig().expect("there"), NCCL_COMM_NULL);
    let mut config = ncclConfig_t::new();
    config.blocking = 0;
    let mut state = ncclResult_t::ncclInProgress;
    // SAFETY: `comm` is valid for a write, the configuration is complete, and each rank is taken
    // once.
    assert_eq!(unsafe { init(&raw mut comm, size, id, rank, &raw mut config) }, state);
    let ask = api.ncclCommGetAsyncError().expect("every release has it");
    while state == ncclResult_t::ncclInProgress {
        // SAFETY: the communicator is alive; `state` is valid for a write.
        assert_eq!(unsafe { ask(comm, &raw mut state) }, ncclResult_t::ncclSuccess);
    }
    assert_eq!(state, ncclResult_t::ncclSuccess);
    comm
}

fn adopt(seat: Seat, raw: ncclComm_t) -> Result<Comm> {
    let device = Gpu::any(seat.rank().index() as u32)?;
    // SAFETY: nothing else uses it.
    unsafe { Communicator::from_raw(seat, device, raw) }
}

fn alone() -> Result<(Comm, ncclComm_t)> {
    let raw = theirs(0, 1, id());
    Ok((adopt(Seat::local(1).remove(0), raw)?, raw))
}

/// Work of the communicator that is never over: it is on a held stream that nothing else uses.
fn endless(comm: &Comm) -> Result<Work<Gpu>> {
    let stream = comm.device().stream()?;
    cuda().hold(handle(&stream)?);
    Ok(comm.work(&stream.mark()?))
}

/// Runs this while another thread checks the communicator for errors. Each poll of a third thread
/// waits until it has done so once more.
fn checked<R>(work: &Work<Gpu>, run: impl FnOnce() -> Result<R>) -> Result<R> {
    static CHECKS: AtomicUsize = AtomicUsize::new(0);
    static CHECKER: OnceLock<ThreadId> = OnceLock::new();
    static OVER: AtomicBool = AtomicBool::new(false);
    nccl().before(|function| {
        let checks = CHECKER.get().is_some_and(|checker| *checker == thread::current().id());
        if function == ncclCommGetAsyncError && !checks {
            let before = CHECKS.load(Relaxed);
            // One of them may have begun before.
            let is_checked = || CHECKS.load(Relaxed) > before + 1;
            until("it is checked", || is_checked() || OVER.load(Relaxed));
        }
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            CHECKER.set(thread::current().id()).expect("one thread does");
            while !OVER.load(Relaxed) {
                assert_eq!(work.is_done(), Ok(false));
                CHECKS.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        let outcome = run();
        OVER.store(true, Relaxed);
        outcome
    })
}

/// The doubles report a second poll at the same time.
#[test]
fn a_call_in_progress_is_polled_by_one_thread_at_once() {
    on(NEWEST, || {
        let (comm, _) = alone()?;
        let (work, mut x) = (endless(&comm)?, comm.device().zeros::<f32>(4)?);
        let before = count(ncclCommGetAsyncError);
        checked(&work, || comm.all_reduce_in_place(&mut x, Sum))?;
        assert_eq!(count(ncclAllReduce), 1);
        assert!(count(ncclCommGetAsyncError) > before + 1, "it was in progress");
        comm.finish()
    });
}

/// NCCL suspends and resumes on a thread of its own, for which the rank's thread waits.
#[test]
fn a_suspension_in_progress_is_polled_by_one_thread_at_once() {
    on(NEWEST, || {
        let (comm, _) = alone()?;
        let work = endless(&comm)?;
        let comm = checked(&work, || comm.suspend()?.resume())?;
        assert_eq!(count(ncclCommSuspend), 1);
        comm.finish()
    });
}

/// A revocation polls too. It ends the wait for a call that NCCL never completes.
#[test]
fn a_revocation_ends_the_polls() {
    static POLLS: AtomicUsize = AtomicUsize::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);
    on(NEWEST, || {
        let (comm, raw) = alone()?;
        let mut x = comm.device().zeros::<f32>(4)?;
        nccl().set_async_error(raw, ncclResult_t::ncclInProgress);
        nccl().before(|function| {
            if function == ncclCommGetAsyncError {
                POLLS.fetch_add(1, Relaxed);
            } else if function == ncclCommRevoke {
                until("the call has returned", || OVER.load(Relaxed));
            }
        });
        let asks = comm.abort_handle();
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                until("it is polled", || POLLS.load(Relaxed) > 3);
                assert!(asks.abort("enough"));
            });
            let outcome = comm.all_reduce_in_place(&mut x, Sum);
            OVER.store(true, Relaxed);
            outcome.expect_err("it is revoked")
        });
        says(&error, &["enough"]);
        until("it is revoked", || count(ncclCommRevoke) == 1);
        drop(comm);
        until("it is aborted", || count(ncclCommAbort) == 1);
        Ok(())
    });
}

/// Ranks 1 and 2 wait for two signals each, and rank 0 aborts instead. Returns the ranks that it
/// signals. If it is `slow`, NCCL does not complete its first signal.
fn signalled(slow: bool) -> Result<Vec<i128>> {
    nccl().set_rma(true);
    let (id, enqueued) = (id(), Barrier::new(3));
    let rank = |seat: Seat| {
        let raw = theirs(seat.rank().index() as i32, 3, id);
        let mut comm = adopt(seat, raw)?;
        let _window = comm.window::<f64>(4)?;
        if comm.rank().index() == 0 {
            enqueued.wait();
            if slow {
                nccl().set_async_error(raw, ncclResult_t::ncclInProgress);
            }
            comm.abort_because("it has seen enough");
            return Ok(());
        }
        let stream = handle(comm.stream())?;
        cuda().hold(stream);
        let mut two = Signals::new();
        two.expect(0_usize).expect(0_usize);
        comm.wait_signals(&two)?;
        enqueued.wait();
        let error = comm.sync(comm.stream()).expect_err("the signals never come");
        says(&error, &["it has seen enough"]);
        until("rank 0 ends", || count(ncclCommAbort) > 0);
        cuda().release(stream);
        Ok::<_, Error>(())
    };
    thread::scope(|scope| {
        let ranks: Vec<_> =
            Seat::local(3).into_iter().map(|seat| scope.spawn(|| rank(seat))).collect();
        ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
    })?;
    until("all end", || count(ncclCommAbort) == 3);
    Ok(calls(ncclSignal).iter().map(|call| call.int("peer")).collect())
}

/// Each signal is in progress for a while, and NCCL takes the next one only then.
#[test]
fn whoever_aborts_raises_all_signals_that_it_owes() {
    on(NEWEST, || {
        let mut peers = signalled(false)?;
        peers.sort_unstable();
        assert_eq!(peers, [1, 1, 2, 2]);
        Ok(())
    });
}

/// The abort does not wait for a signal that NCCL never completes.
#[test]
fn a_signal_that_stays_in_progress_is_given_up() {
    on(NEWEST, || {
        assert_eq!(signalled(true)?.len(), 1);
        Ok(())
    });
}
