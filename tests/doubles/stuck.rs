//! Threads held up by NCCL, and the process's end despite them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use nccl_sys::Function::{
    ncclAllReduce, ncclBroadcast, ncclCommAbort, ncclCommDestroy, ncclCommInitRankConfig,
    ncclCommRevoke, ncclSend, ncclSignal,
};
use nccl_sys::ncclResult_t;
use typed_nccl::{Communicator, Cuda, Error, Result, Seat, Sum, tag};

use crate::common::{LONG, calls, connect, connect_for, count, handle, says, until};
use crate::scenario::{NEWEST, cuda, nccl, on, on_saying, release};

tag!(Columns);

/// Two communicators whose first operations come in opposite orders: each rank's thread stays
/// inside NCCL with its first call.
#[test]
fn opposite_first_operations_are_told_and_freed() {
    on(NEWEST, || {
        nccl().set_stuck(ncclAllReduce, true);
        let together = Barrier::new(2);
        let errors = Cuda::spmd(2, |place| {
            let mut rows = connect_for(place, 3000)?;
            let columns = rows.within(LONG).split::<Columns>(0, 0)?;
            let mut x = rows.device().zeros::<f32>(8)?;
            // The first one is given up when the other is inside too.
            together.wait();
            let (called, line) = match rows.rank().index() {
                0 => (rows.all_reduce_in_place(&mut x, Sum), line!()),
                _ => (columns.all_reduce_in_place(&mut x, Sum), line!()),
            };
            let error = called.expect_err("it is freed, and gets its error");
            until("the other is told", || rows.health().is_err() && columns.health().is_err());
            Ok::<_, Error>((line, error))
        })?;
        for (line, error) in &errors {
            assert!(matches!(error, Error::Timeout(_)), "{error}");
            let place = format!("tests/doubles/stuck.rs:{line}");
            says(error, &["timeout: all_reduce", "its thread is inside NCCL", &place]);
        }
        // The last one may be given up after the other was freed.
        let names_both = |(_, error): &(u32, Error)| {
            let text = error.to_string();
            let places = errors.iter().map(|(line, _)| format!("tests/doubles/stuck.rs:{line}"));
            let words = ["also inside NCCL: ", "World", "Columns"].map(str::to_owned);
            words.into_iter().chain(places).all(|word| text.contains(&word))
        };
        assert!(errors.iter().any(names_both), "{errors:#?}");
        // Each is revoked before it is aborted, and gets no other call.
        until("all end", || count(ncclCommAbort) == 4);
        let revoked = calls(ncclCommRevoke);
        assert_eq!((revoked.len(), count(ncclCommDestroy)), (2, 0));
        for revoked in revoked {
            let log = nccl().log();
            let of = |call: &&fake_nccl::Call| {
                call.arguments.iter().any(|(_, value)| *value == *revoked.argument("comm"))
            };
            let names: Vec<_> = log.iter().filter(of).map(|call| call.function.name()).collect();
            assert_eq!(
                names[names.len() - 3..],
                ["ncclCommRevoke", "ncclAllReduce", "ncclCommAbort"]
            );
        }
        Ok(())
    });
}

/// Its deadline is far off, but its communicator is poisoned.
#[test]
fn a_thread_that_connects_to_a_rank_that_left_is_freed() {
    on(NEWEST, || {
        static INSIDE: AtomicBool = AtomicBool::new(false);
        nccl().before(|function| {
            if function == ncclAllReduce {
                INSIDE.store(true, Relaxed);
            }
        });
        nccl().set_stuck(ncclAllReduce, true);
        Cuda::spmd(2, |place| {
            let comm = connect(place, 600_000)?;
            if comm.rank().index() == 1 {
                until("rank 0 is inside", || INSIDE.load(Relaxed));
                comm.abort_because("it has seen enough");
                return Ok(());
            }
            let mut x = comm.device().zeros::<f32>(8)?;
            let error = comm.all_reduce_in_place(&mut x, Sum).expect_err("it is freed");
            assert!(matches!(error, Error::PeerFailed(_)), "{error}");
            says(&error, &["rank 1 left", "it has seen enough"]);
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// Its own deadline is far off; the reason why it never returns is known earlier.
#[test]
fn a_thread_that_connects_to_a_rank_that_finishes_is_told_and_freed() {
    on(NEWEST, || {
        nccl().set_stuck(ncclSend, true);
        Cuda::spmd(2, |place| {
            let comm = connect(place, 600_000)?;
            if comm.rank().index() == 1 {
                let error = comm.finish().expect_err("what it was sent is never received");
                says(&error, &["rank 0 left", "send of 8 f32 to 1"]);
                return Ok(());
            }
            let x = comm.device().zeros::<f32>(8)?;
            let error = comm.send(&x, 1).expect_err("it is freed");
            assert!(matches!(error, Error::PeerFailed(_)), "{error}");
            says(&error, &["transfer #0 (send of 8 f32 to 1", "rank 1 left", "finish"]);
            Ok::<_, Error>(())
        })?;
        Ok(())
    });
}

/// Releases that connect in the first operation and cannot free a thread: the ranks connect when
/// they are made.
#[test]
fn ranks_of_some_releases_connect_when_they_are_made() {
    let connects = ["2.22.3", "2.27.7"].map(|version| (version, 2, 2));
    let not = [("2.21.5", 2, 0), ("2.28.9", 2, 0), ("2.32.3", 2, 0), ("2.26.5", 1, 0)];
    for (version, ranks, times) in connects.into_iter().chain(not) {
        on(release(version), || {
            Cuda::spmd(ranks, |place| connect(place, 20_000)?.finish())?;
            let [reduced, broadcast] = [ncclAllReduce, ncclBroadcast].map(calls);
            assert_eq!((reduced.len(), broadcast.len()), (times, times));
            let one = |call: &fake_nccl::Call| call.int("count") == 1;
            assert!(reduced.iter().chain(&broadcast).all(one));
            Ok(())
        });
    }
}

#[test]
fn a_rank_that_does_not_connect() {
    on(release("2.27.7"), || {
        nccl().fail(ncclBroadcast, ncclResult_t::ncclSystemError);
        let failed = Cuda::spmd(2, |place| {
            Ok::<_, Error>(match connect(place, 20_000) {
                Err(Error::NcclFailed(_)) => true,
                Err(error) => {
                    assert!(matches!(error, Error::PeerFailed(_)), "{error}");
                    false
                }
                // The double's ranks do not wait for each other.
                Ok(comm) => {
                    until("the other tells", || comm.health().is_err());
                    false
                }
            })
        })?;
        assert_eq!(failed.iter().filter(|failed| **failed).count(), 1);
        until("both end", || nccl().live().communicators == 0);
        assert_eq!(nccl().live().allocations, 0);
        Ok(())
    });
}

/// While a revocation is running, the communicator does not end.
#[test]
fn an_end_waits_for_a_revocation() {
    // The rank's thread may miss a state that lasts a moment only.
    static BEGUN: AtomicBool = AtomicBool::new(false);
    static BUSY: AtomicBool = AtomicBool::new(false);
    on(NEWEST, || {
        nccl().before(|function| match function {
            ncclAllReduce => until("it is revoked", || BEGUN.load(Relaxed)),
            ncclCommRevoke => {
                BUSY.store(true, Relaxed);
                BEGUN.store(true, Relaxed);
                thread::sleep(Duration::from_millis(500));
                BUSY.store(false, Relaxed);
            }
            ncclCommAbort => assert!(!BUSY.load(Relaxed), "NCCL would free what it revokes"),
            _ => {}
        });
        let comm = Seat::local(1).remove(0);
        let comm = connect_alone(comm, 3000)?;
        let mut x = comm.device().zeros::<f32>(8)?;
        // NCCL may report success.
        let _ = comm.all_reduce_in_place(&mut x, Sum);
        assert!(matches!(comm.health(), Err(Error::Timeout(_))));
        drop(comm);
        assert_eq!(calls(ncclCommRevoke).len(), 1);
        assert_eq!(calls(ncclCommAbort).len(), 1);
        Ok(())
    });
}

fn connect_alone(
    seat: Seat,
    milliseconds: u64,
) -> Result<Communicator<Cuda<typed_nccl::AnyDevice>>> {
    let config = typed_nccl::CommConfig::builder().deadline(Duration::from_millis(milliseconds));
    let comm = Communicator::builder().seat(seat).device(Cuda::any(0)?).config(config.build());
    comm.build().connect()
}

/// Runs after the library's own exit handler, like the destructors of CUDA and NCCL.
fn at_the_end(work: extern "C" fn()) {
    // SAFETY: the function takes nothing, stays and does not unwind.
    assert_eq!(unsafe { libc::atexit(work) }, 0);
}

/// Like the destructors of CUDA's driver if a stream never ends.
extern "C" fn never_returns() {
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// Releases without `ncclCommRevoke`.
#[test]
fn a_thread_that_cannot_be_freed_is_named_and_does_not_keep_the_process() {
    let words = [
        "typed-nccl: a thread has been inside NCCL 2.27.7 for ",
        "which does not let it go (2.28.7 and later can be told to): rank 0 of World with all_reduce of 8 f32, Sum, at tests/doubles/stuck.rs:",
        "typed-nccl: the process ends without the destructors of NCCL and CUDA, which would not return: inside NCCL: rank 0 of World with all_reduce",
    ];
    on_saying(release("2.27.7"), &words, || {
        at_the_end(never_returns);
        static INSIDE: AtomicBool = AtomicBool::new(false);
        nccl().before(|function| {
            if function == ncclAllReduce {
                INSIDE.store(true, Relaxed);
            }
        });
        nccl().set_stuck(ncclAllReduce, true);
        let seat = Seat::local(1).remove(0);
        let comm = connect_alone(seat, 3000)?;
        let asks = comm.abort_handle();
        thread::spawn(move || {
            let mut x = comm.device().zeros::<f32>(8)?;
            comm.all_reduce_in_place(&mut x, Sum)
        });
        until("it is inside", || INSIDE.load(Relaxed));
        asks.abort("the program ends");
        thread::sleep(Duration::from_secs(5));
        Ok(())
    });
}

/// A stream that nothing frees any more.
#[test]
fn a_stream_that_waits_for_ever_does_not_keep_the_process() {
    let words = ["typed-nccl: the process ends without the destructors of NCCL and CUDA"];
    on_saying(NEWEST, &words, || {
        at_the_end(never_returns);
        let seat = Seat::local(1).remove(0);
        let comm = connect_alone(seat, 20_000)?;
        cuda().hold(handle(comm.stream())?);
        let mut x = comm.device().zeros::<f32>(8)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        drop(comm.abort());
        Ok(())
    });
}

/// The stream of rank 1.
static HELD: AtomicU64 = AtomicU64::new(0);

/// A destructor that waits for the stream.
extern "C" fn waits_for_the_stream() {
    until("the stream is free", || HELD.load(Relaxed) == 0);
    println!("the destructors ran");
}

/// Rank 0 refuses its put and leaves, and the program ends at once: the reaper raises the signals
/// it owes.
#[test]
fn signals_that_are_owed_are_raised_before_the_process_ends() {
    on_saying(NEWEST, &["the destructors ran"], || {
        at_the_end(waits_for_the_stream);
        nccl().set_rma(true);
        nccl().before(|function| {
            if function == ncclSignal {
                cuda().release(HELD.swap(0, Relaxed));
            }
        });
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 600_000)?;
            let window = comm.window::<f64>(4)?;
            if comm.rank().index() == 1 {
                let stream = handle(comm.stream())?;
                cuda().hold(stream);
                HELD.store(stream, Relaxed);
                comm.wait_signal(0)?;
                together.wait();
                // It ends without checking.
                std::mem::forget(comm);
                return Ok(());
            }
            together.wait();
            comm.put_signal(window.slice(0..2), 1, window.at(3)).expect_err("past the end");
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// How many calls have begun, and how many have returned.
static CALLS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// A destructor that frees what the calls use.
extern "C" fn no_call_is_under_way() {
    let [begun, returned] = [0, 1].map(|at| CALLS[at].load(Relaxed));
    thread::sleep(Duration::from_millis(300));
    let later = CALLS[0].load(Relaxed);
    println!("{} of {begun} calls under way, {} began later", begun - returned, later - begun);
}

/// Another thread continues when `main` returns.
#[test]
fn the_end_of_the_process_waits_for_calls_and_lets_none_begin() {
    on_saying(NEWEST, &["0 of ", " calls under way, 0 began later"], || {
        at_the_end(no_call_is_under_way);
        nccl().before(|function| {
            if function == ncclAllReduce {
                CALLS[0].fetch_add(1, Relaxed);
                // Longer than the exit handler waits for work to end by itself.
                thread::sleep(Duration::from_millis(1500));
                CALLS[1].fetch_add(1, Relaxed);
            }
        });
        let comm = connect_alone(Seat::local(1).remove(0), 600_000)?;
        thread::spawn(move || {
            let mut x = comm.device().zeros::<f32>(8)?;
            loop {
                comm.all_reduce_in_place(&mut x, Sum)?;
                comm.sync(comm.stream())?;
            }
            #[expect(unreachable_code, reason = "it says which error the thread ends with")]
            Ok::<_, Error>(())
        });
        until("a call is under way", || CALLS[0].load(Relaxed) == 1);
        Ok(())
    });
}

/// Another thread makes communicators when `main` returns.
#[test]
fn the_end_of_the_process_lets_no_communicator_be_made() {
    on_saying(NEWEST, &["0 of ", " calls under way, 0 began later"], || {
        at_the_end(no_call_is_under_way);
        nccl().before(|function| {
            if function == ncclCommInitRankConfig {
                CALLS[0].fetch_add(1, Relaxed);
                thread::sleep(Duration::from_millis(50));
                CALLS[1].fetch_add(1, Relaxed);
            }
        });
        thread::spawn(|| {
            loop {
                // Existing ones learn that the process ends, and the next one is refused.
                let _ = connect_alone(Seat::local(1).remove(0), 600_000);
            }
        });
        until("a call is under way", || CALLS[0].load(Relaxed) == 1);
        Ok(())
    });
}
