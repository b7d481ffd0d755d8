//! Host waits that fail: deadlines, errors of NCCL and of CUDA, ranks that differ.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fake_cuda::Code;
use nccl_sys::Function::{ncclAllReduce, ncclCommAbort, ncclCommDestroy};
use nccl_sys::ncclResult_t;
use typed_nccl::{Communicator, Cuda, Error, Max, Result, Stream, Sum};

use crate::common::{LONG, Wire, alone, clear, connect, connect_for, count, handle, says, until};
use crate::scenario::{NEWEST, cuda, nccl, on};

/// Blocks work enqueued on a communicator's own stream.
pub(crate) fn hold<T>(stream: &Stream<Cuda<T>>) -> Result<()> {
    cuda().hold(handle(stream)?);
    Ok(())
}

/// NCCL's handle of a communicator.
fn comm_of<T>(comm: &Communicator<Cuda<T>>) -> Result<usize> {
    Ok(Wire::of(comm)?.comm as usize)
}

/// Sets NCCL's asynchronous error of it.
fn set_async_error(comm: usize, result: ncclResult_t) {
    nccl().set_async_error(std::ptr::without_provenance_mut(comm), result);
}

#[test]
fn a_deadline_names_every_ranks_last_call() {
    on(NEWEST, || {
        Cuda::spmd(3, |place| {
            let first = place.rank().index() == 0;
            let comm = connect(place, if first { 3000 } else { 20_000 })?;
            let (mut x, y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<i64>(5)?);
            let mut all = comm.device().zeros::<i64>(15)?;
            let before = format!(
                "    all_reduce of 8 f32, Sum, at tests/doubles/waits.rs:{}\n",
                line!() + 2
            );
            comm.all_reduce_in_place(&mut x, Sum)?;
            comm.barrier()?;
            if !first {
                until("rank 0 gives up", || comm.health().is_err());
                let told = comm.health().expect_err("rank 0 gave up");
                assert!(matches!(told, Error::PeerFailed(_)), "{told}");
                says(&told, &["rank 0 left", "timeout: to_vec (at tests/doubles/waits.rs:"]);
                return Ok::<_, Error>(());
            }
            hold(comm.stream())?;
            let line = line!() + 1;
            comm.send(&x, 1)?;
            comm.all_gather(&y, &mut all)?;
            let at = "at tests/doubles/waits.rs";
            // Transfers and collectives in one list, in order.
            let called = format!(
                "\n  rank 0, 2 collectives so far:\n{before}    send of 8 f32 to 1, {at}:{line}\n    \
                 all_gather of 5 i64, {at}:{}\n",
                line + 1
            );
            let error = assert_error!(
                all.to_vec(),
                Timeout,
                "timeout: to_vec (at tests/doubles/waits.rs:",
                "; the last 8 calls of each rank on World, in order:\n",
                called,
                "\n  ranks 1 and 2, 1 collective so far:\n    all_reduce of 8 f32, Sum, at tests/",
            );
            assert!(error.is_fatal());
            clear();
            assert_error!(comm.all_reduce_in_place(&mut x, Sum), Timeout, "to_vec");
            assert_eq!(count(ncclAllReduce), 0);
            Ok(())
        })?;
        // A poisoned communicator is aborted, never destroyed.
        assert_eq!(nccl().live().communicators, 0);
        assert_eq!(count(ncclCommDestroy), 0);
        Ok(())
    });
}

#[test]
fn transfers_and_refusals_are_in_the_report() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let mut comm = connect_for(place, 3000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            comm.within(LONG).barrier()?;
            if comm.rank().index() == 1 {
                // From another peer, and of another kind: this does not end rank 0's wait.
                let error = comm.recv(&mut x.slice_mut(0..9), 0).expect_err("past the end");
                assert!(error.is_refusal());
                comm.within(LONG).barrier()?;
                until("rank 0 gives up", || comm.health().is_err());
                return Ok::<_, Error>(());
            }
            comm.within(LONG).barrier()?;
            hold(comm.stream())?;
            comm.recv(&mut x, 1)?;
            assert_error!(
                x.to_vec(),
                Timeout,
                "\n  rank 0, 0 collectives so far:\n    recv of 8 f32 from 1, at tests/doubles/waits.rs:",
                "\n  rank 1, 0 collectives so far:\n    a call that it refused\n",
                "\n  rank 1 refused its receive from rank 0: ",
                "reaches past a buffer of 8",
            );
            Ok(())
        })
        .map(drop)
    });
}

#[test]
fn an_error_that_nccl_finds_by_itself() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            let raw = comm_of(&comm)?;
            hold(comm.stream())?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            together.wait();
            if comm.rank().index() == 0 {
                // Being in progress is not an error.
                set_async_error(raw, ncclResult_t::ncclInProgress);
                nccl().set_last_error("peer closed its socket");
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let asks = nccl_sys::Function::ncclCommGetAsyncError;
                        let before = count(asks);
                        until("it asks", || count(asks) > before + 3);
                        set_async_error(raw, ncclResult_t::ncclRemoteError);
                    });
                    let error = assert_error!(
                        comm.sync(comm.stream()),
                        NcclFailed,
                        "ncclCommGetAsyncError of NCCL 2.32.3 gave ncclRemoteError: remote process",
                        "; peer closed its socket",
                    );
                    assert!(error.is_fatal());
                });
            }
            let error = comm.sync(comm.stream()).expect_err("rank 0 failed");
            if comm.rank().index() == 1 {
                assert!(matches!(error, Error::PeerFailed(_)), "{error}");
                says(&error, &["rank 0 left: ncclCommGetAsyncError", "ncclRemoteError"]);
            }
            assert_eq!(comm.health().expect_err("poisoned").to_string(), error.to_string());
            Ok::<_, Error>(())
        })?;
        assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (2, 0));
        Ok(())
    });
}

/// An error that precedes the end of the wait is reported by this wait, or by the next one.
#[test]
fn an_error_of_work_that_is_over() {
    on(NEWEST, || {
        let comm = alone()?;
        let mut x = comm.device().zeros::<f32>(8)?;
        let raw = comm_of(&comm)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        set_async_error(raw, ncclResult_t::ncclSystemError);
        let _ = x.to_vec();
        assert_error!(comm.health(), NcclFailed, "ncclSystemError");
        assert_error!(comm.finish(), NcclFailed, "ncclSystemError");
        assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (1, 0));
        Ok(())
    });
}

#[test]
fn a_fault_of_the_device() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            hold(comm.stream())?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            together.wait();
            if comm.rank().index() == 0 {
                thread::scope(|scope| {
                    scope.spawn(|| {
                        clear();
                        until("it asks", || cuda().called().contains(&"cuEventQuery"));
                        cuda().set_fault(true);
                    });
                    let name = "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was";
                    let error = assert_error!(x.to_vec(), CudaFailed, "work on cuda:0", name);
                    assert!(error.is_fatal());
                });
                clear();
                let again = comm.all_reduce_in_place(&mut x, Sum);
                assert_error!(again, CudaFailed, "work on cuda:0");
                assert_eq!(count(ncclAllReduce), 0);
                assert!(x.to_vec().is_err() && comm.device().zeros::<f32>(8).is_err());
                assert!(comm.device().stream().is_err());
            } else {
                until("rank 0 tells", || comm.health().is_err());
                let told = comm.health().expect_err("rank 0 failed");
                says(&told, &["rank 0 left: work on cuda:0 failed", "ILLEGAL_ADDRESS"]);
            }
            Ok::<_, Error>(())
        })?;
        assert_eq!((nccl().live().communicators, count(ncclCommDestroy)), (0, 0));
        Ok(())
    });
}

/// Driver calls that fail once, where a rank enqueues or waits.
#[test]
fn failures_of_the_driver_on_the_way() {
    on(NEWEST, || {
        let device = Cuda::<typed_nccl::AnyDevice>::any(0)?;
        let (first, second) = (device.stream()?, device.stream()?);
        let mut x = device.zeros::<f32>(8)?;
        first.launch(&mut x, |_, _| ())?;
        cuda().fail("cuStreamWaitEvent", Code::UNKNOWN);
        let outcome = second.launch(&mut x, |_, _| ());
        assert_error!(outcome, CudaFailed, "waiting for an event on cuda:0", "CUDA_ERROR_UNKNOWN");
        cuda().fail("cuEventRecord", Code::UNKNOWN);
        assert_error!(first.mark(), CudaFailed, "recording an event on cuda:0");
        cuda().fail("cuMemcpyDtoHAsync_v2", Code::UNKNOWN);
        assert_error!(x.to_vec(), CudaFailed, "copying to the host on cuda:0");
        cuda().fail("cuMemcpyHtoDAsync_v2", Code::UNKNOWN);
        assert_error!(x.copy_from(&[1.0; 8]), CudaFailed, "copying from the host on cuda:0");
        cuda().fail("cuEventSynchronize", Code::UNKNOWN);
        assert_error!(x.to_vec(), CudaFailed, "copying to the host on cuda:0");
        cuda().fail("cuMemcpyHtoDAsync_v2", Code::UNKNOWN);
        let failed = first.upload(device.pinned::<f32>(8)?, &mut x).expect_err("told to fail");
        says(&failed.error, &["copying on cuda:0 failed", "CUDA_ERROR_UNKNOWN"]);
        assert_eq!(failed.value.len(), 8, "the pinned memory comes back");
        cuda().fail("cuCtxGetCurrent", Code::UNKNOWN);
        assert_error!(device.stream(), CudaFailed, "binding on cuda:0");
        second.launch(&mut x, |_, _| ())?;
        assert_eq!(x.to_vec()?, [0.0; 8]);
        Ok(())
    });
}

#[test]
fn calls_that_differ() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        let errors = Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let (mut x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(9)?);
            comm.all_reduce_in_place(&mut x, Sum)?;
            hold(comm.stream())?;
            let line = match comm.rank().index() {
                0 => {
                    comm.all_reduce_in_place(&mut x, Max)?;
                    line!() - 1
                }
                _ => {
                    comm.all_reduce_in_place(&mut y, Max)?;
                    line!() - 1
                }
            };
            together.wait();
            let error = comm.sync(comm.stream()).expect_err("they differ");
            assert!(comm.health().is_err());
            assert!(comm.all_reduce_in_place(&mut x, Sum).is_err());
            Ok::<_, Error>((line, error))
        })?;
        let [first, second] = [errors[0].0, errors[1].0];
        let lines = [
            "collective #1 on World differs between ranks: ",
            &format!("rank 0 called all_reduce of 8 f32, Max, at tests/doubles/waits.rs:{first}; "),
            &format!(
                "rank 1 called all_reduce of 9 f32, Max, at tests/doubles/waits.rs:{second}; "
            ),
            "the communicator has ended",
        ];
        for (_, error) in &errors {
            says(error, &lines);
            assert!(matches!(error, Error::Mismatch(_)), "{error}");
        }
        assert_eq!(count(ncclAllReduce), 4, "none after the error");
        Ok(())
    });
}

#[test]
fn a_refusal_is_told_to_the_others() {
    on(NEWEST, || {
        let together = Barrier::new(3);
        Cuda::spmd(3, |place| {
            let comm = connect(place, 20_000)?;
            let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(24)?);
            comm.all_gather(&x, &mut y)?;
            hold(comm.stream())?;
            let reason = "the receive buffer holds 16 f32, 3 ranks x 8 need 24";
            if comm.rank().index() == 1 {
                let error = comm.all_gather(&x, &mut y.slice_mut(0..16)).expect_err("refused");
                assert!(error.is_refusal(), "{error}");
                says(&error, &[reason]);
                together.wait();
                // Its own work continues until the others give up.
                until("the others are told", || comm.health().is_err());
                return Ok::<_, Error>(());
            }
            let line = line!() + 1;
            comm.all_gather(&x, &mut y)?;
            together.wait();
            let error = y.to_vec().expect_err("rank 1 does not take part");
            let call =
                format!("all_gather of 8 f32, at tests/doubles/waits.rs:{line}, on World, did not");
            says(&error, &[&call, "rank 1 refused its part: ", reason]);
            assert!(matches!(error, Error::Refused(_) | Error::PeerFailed(_)), "{error}");
            assert!(comm.health().is_err());
            Ok(())
        })
        .map(drop)
    });
}

#[test]
fn a_refused_send_is_told_to_who_receives() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            hold(comm.stream())?;
            if comm.rank().index() == 1 {
                comm.send(&x, 0)?;
                let error = comm.send(&x.slice(1..10), 0).expect_err("past the end");
                assert!(error.is_refusal());
                together.wait();
                until("the other gives up", || comm.health().is_err());
                return Ok::<_, Error>(());
            }
            comm.recv(&mut x, 1)?;
            comm.recv(&mut x, 1)?;
            together.wait();
            let call = "recv of 8 f32 from 1, at tests/doubles/waits.rs:";
            assert_error!(x.to_vec(), Refused, call, "rank 1 refused its part", "1..10");
            Ok(())
        })
        .map(drop)
    });
}

/// A call that all ranks refuse has no consequences.
#[test]
fn a_refusal_of_all_harms_nothing() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            let past = match comm.rank().index() {
                0 => comm.send(&x.slice(0..9), 1),
                _ => comm.recv(&mut x.slice_mut(0..9), 0),
            };
            assert!(past.is_err_and(|error| error.is_refusal()));
            assert!(comm.reduce_in_place(&mut x, Sum, 2).is_err_and(|error| error.is_refusal()));
            comm.barrier()?;
            match comm.rank().index() {
                0 => comm.send(&x, 1)?,
                _ => comm.recv(&mut x, 0)?,
            }
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!(x.to_vec()?, [0.0; 8]);
            comm.finish()
        })
        .map(drop)
    });
}

/// More refusals than are kept per rank.
const MANY: usize = 300;

/// A rank that is far ahead still knows that it refused a call, even after its own refusal was
/// dropped.
#[test]
fn an_old_refusal_of_all_harms_nothing() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let is_ahead = comm.rank().index() == 0;
            let mut x = comm.device().zeros::<f32>(8)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            match is_ahead {
                true => comm.send(&x, 1)?,
                false => comm.recv(&mut x, 0)?,
            }
            let mut refuse = |times: usize| {
                for _ in 0..times {
                    let refused = comm.reduce_in_place(&mut x, Sum, 2);
                    assert!(refused.is_err_and(|error| error.is_refusal()));
                }
            };
            let first = if is_ahead { MANY } else { 1 };
            refuse(first);
            comm.barrier()?;
            // The wait checks for calls of this rank that others refused.
            comm.sync(comm.stream())?;
            comm.barrier()?;
            refuse(MANY - first);
            comm.barrier()?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert_eq!(x.to_vec()?, [0.0; 8]);
            comm.finish()
        })
        .map(drop)
    });
}

/// One rank's repeated refusals do not hide another's, earlier or later.
#[test]
fn many_refusals_of_one_rank_hide_none_of_another() {
    on(NEWEST, || {
        let together = Barrier::new(3);
        for order in [[1, 2], [2, 1]] {
            Cuda::spmd(3, |place| {
                let comm = connect(place, 20_000)?;
                let rank = comm.rank().index();
                let mut x = comm.device().zeros::<f32>(8)?;
                hold(comm.stream())?;
                for turn in order {
                    let times = if rank == 2 { MANY } else { 1 };
                    for _ in (0..times).filter(|_| rank == turn) {
                        let refused = match rank {
                            1 => comm.all_reduce_in_place(&mut x.slice_mut(0..9), Sum),
                            // Rank 1 receives nothing, so no rank waits for it.
                            _ => comm.send(&x.slice(0..9), 1),
                        };
                        assert!(refused.is_err_and(|error| error.is_refusal()));
                    }
                    together.wait();
                }
                if rank != 1 {
                    comm.all_reduce_in_place(&mut x, Sum)?;
                }
                together.wait();
                if rank == 1 {
                    until("the others are told", || comm.health().is_err());
                    return Ok::<_, Error>(());
                }
                let error = x.to_vec().expect_err("rank 1 does not take part");
                let call = "all_reduce of 8 f32, Sum, at tests/doubles/waits.rs:";
                says(&error, &[call, "rank 1 refused its part: ", "reaches past a buffer of 8"]);
                assert!(matches!(error, Error::Refused(_) | Error::PeerFailed(_)), "{error}");
                Ok(())
            })?;
        }
        Ok(())
    });
}

#[test]
fn an_abort_ends_waits() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            hold(comm.stream())?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            together.wait();
            if comm.rank().index() == 1 {
                assert_error!(x.to_vec(), PeerFailed, "rank 0 left", "the program ends");
                return Ok::<_, Error>(());
            }
            let abort = comm.abort_handle();
            thread::scope(|scope| {
                scope.spawn(move || {
                    clear();
                    until("it waits", || cuda().called().contains(&"cuEventQuery"));
                    assert!(abort.abort("the program ends"));
                });
                assert_error!(x.to_vec(), Abort, "aborted by rank 0", "the program ends");
            });
            // The handle makes no calls; the owner's end does.
            assert!(nccl().live().communicators > 0);
            drop(comm);
            Ok(())
        })?;
        assert_eq!(nccl().live().communicators, 0);
        assert_eq!(count(ncclCommDestroy), 0);
        Ok(())
    });
}

/// A thread that does not return from NCCL cannot report it, so another one does.
#[test]
fn a_call_that_does_not_return() {
    static STUCK: AtomicBool = AtomicBool::new(true);
    on(NEWEST, || {
        nccl().before(|function| {
            while function == ncclAllReduce && STUCK.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
        });
        Cuda::spmd(2, |place| {
            let comm = connect_for(place, 3000)?;
            let mut x = comm.device().zeros::<f32>(8)?;
            if comm.rank().index() == 0 {
                comm.all_reduce_in_place(&mut x, Sum)?;
                let error = comm.health().expect_err("it took too long");
                assert!(matches!(error, Error::Timeout(_)), "{error}");
                says(&error, &["timeout: all_reduce (at tests/doubles/waits.rs:"]);
                says(&error, &["its thread is inside NCCL", "\n  rank 1: none"]);
                return Ok::<_, Error>(());
            }
            until("rank 0 is given up", || comm.health().is_err());
            STUCK.store(false, Ordering::Relaxed);
            says(&comm.health().expect_err("told"), &["rank 0 left", "inside NCCL"]);
            Ok(())
        })
        .map(drop)
    });
}

/// The rank that drops a faulty communicator may not know of the fault. The next wait for its
/// stream reports it; later waits belong to the stream's new users. Readers of its intended results
/// get the error each time.
#[test]
fn the_fault_of_a_dropped_communicator_is_told_once() {
    on(NEWEST, || {
        let comm = alone()?;
        let stream = comm.device().stream()?;
        let mut x = comm.device().zeros::<f32>(8)?;
        let raw = comm_of(&comm)?;
        cuda().hold(handle(&stream)?);
        comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
        set_async_error(raw, ncclResult_t::ncclSystemError);
        assert_error!(comm.sync(&stream), NcclFailed, "ncclSystemError");
        drop(comm);
        cuda().release(handle(&stream)?);
        assert_error!(stream.sync(), NcclFailed, "ncclSystemError");
        stream.sync()?;
        assert_error!(x.to_vec(), NcclFailed, "ncclSystemError");
        assert_error!(x.to_vec(), NcclFailed, "ncclSystemError");
        Ok(())
    });
}

#[test]
fn the_fault_of_one_communicator_does_not_end_another_on_its_stream() {
    on(NEWEST, || {
        let (at_fault, well) = (alone()?, alone()?);
        let (mut x, mut y) = (at_fault.device().zeros::<f32>(8)?, well.device().zeros::<f32>(8)?);
        hold(well.stream())?;
        at_fault.on(well.stream()).all_reduce_in_place(&mut x, Sum)?;
        well.all_reduce_in_place(&mut y, Sum)?;
        set_async_error(comm_of(&at_fault)?, ncclResult_t::ncclSystemError);
        assert_error!(at_fault.sync(well.stream()), NcclFailed, "ncclSystemError");
        cuda().release(handle(well.stream())?);
        clear();
        // Its results may depend on the failed work, so it gets the error and ends regularly.
        assert_error!(well.finish(), NcclFailed, "ncclSystemError");
        assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (0, 1));
        Ok(())
    });
}
