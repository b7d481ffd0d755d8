//! Puts, signals and waits, also on older releases.

use std::ffi::c_int;
use std::sync::Barrier;

use fake_nccl::{Call, Value};
use nccl_sys::Function::{
    ncclCommAbort, ncclCommGetAsyncError, ncclCommInitRankConfig, ncclCommQueryProperties,
    ncclPutSignal, ncclSignal, ncclWaitSignal,
};
use nccl_sys::{ncclConfig_t, ncclResult_t};
use typed_nccl::{
    CommConfig, Communicator, Cuda, Error, LocalOnly, Result, Scoped, Seat, SignalSlot, Signals,
    Sum,
};

use crate::common::{Wire, alone, assert_silent, calls, clear, count, handle, line, says};
use crate::scenario::{NEWEST, cuda, nccl, on, release};
use crate::windows::{configured, fails_on_one_rank, said};

/// The arguments of a wait: how many, from which rank, which signal, in which context.
fn awaited(call: &Call) -> Vec<[i32; 4]> {
    let Value::List(descriptions) = call.argument("signalDescs") else { panic!("a list") };
    let numbers = |value: &Value| {
        let Value::Bytes(bytes) = value else { panic!("a struct") };
        let mut words = bytes.chunks_exact(4).map(|word| word.try_into().expect("four bytes"));
        std::array::from_fn(|_| i32::from_ne_bytes(words.next().expect("four numbers")))
    };
    descriptions.iter().map(numbers).collect()
}

#[test]
fn puts_and_signals() {
    on(NEWEST, || {
        nccl().set_rma(true);
        Cuda::spmd(3, |place| {
            let mut comm = configured(place)?;
            let (left, right) = (comm.ring(-1), comm.ring(1));
            let (mine, other) = (comm.window::<f64>(100)?, comm.window::<f64>(100)?);
            let slot = comm.signal_in(1, 2)?;
            let wire = Wire::of(&comm)?;
            comm.put_signal(mine.slice(10..25), right, other.at(40))?;
            comm.put_signal(&other, left, mine.at(0).raising(slot))?;
            comm.signal(left)?;
            comm.signal_slot(right, slot)?;
            let calls = wire.calls();
            let (l, r, end) = (left.index(), right.index(), wire.end());
            let put = |call: &Call| call.pointer("peerWin");
            let (of_other, of_mine) = (put(&calls[0]), put(&calls[1]));
            let (from, whole) = (mine.user_ptr().addr() + 80, other.user_ptr().addr());
            let expected = [
                format!(
                    "ncclPutSignal localbuff={from:#x} count=15 datatype=8 peer={r} \
                     peerWin={of_other:#x} peerWinOffset=320 sigIdx=0 ctx=0 flags=0 {end}"
                ),
                format!(
                    "ncclPutSignal localbuff={whole:#x} count=100 datatype=8 peer={l} \
                     peerWin={of_mine:#x} peerWinOffset=0 sigIdx=2 ctx=1 flags=0 {end}"
                ),
                format!("ncclSignal peer={l} sigIdx=0 ctx=0 flags=0 {end}"),
                format!("ncclSignal peer={r} sigIdx=2 ctx=1 flags=0 {end}"),
            ];
            assert_eq!(calls.iter().map(line).collect::<Vec<_>>(), expected);

            // A window is named by this rank's own handle of it.
            comm.close(other)?;
            comm.close(mine)?;
            let closed: Vec<_> = wire.calls().iter().map(|call| call.pointer("win")).collect();
            assert_eq!(closed, [of_other, of_mine]);
            // The first signal was never awaited; the other slot is not awaited anywhere.
            let error = comm.finish().expect_err("signals are left");
            says(&error, &["did not await all signals on World: 1 from rank", "; 1 from rank"]);
            says(&error, &["raised at tests/doubles/one_sided.rs:", "the communicator has ended"]);
            assert!(!error.to_string().contains("context 1"), "{error}");
            Ok(())
        })
        .map(drop)
    });
}

#[test]
fn waits_are_one_call() {
    on(NEWEST, || {
        nccl().set_rma(true);
        Cuda::spmd(3, |place| {
            let mut comm = configured(place)?;
            let (left, right) = (comm.ring(-1), comm.ring(1));
            let _window = comm.window::<f64>(4)?;
            let slot = comm.signal_in(1, 2)?;
            let wire = Wire::of(&comm)?;
            let mut all = Signals::new();
            all.expect(left).expect(right).expect(left).expect_in(left, slot, 5);
            let read: Vec<_> = all.iter().map(|(p, s, n)| (p, s.context(), s.index(), n)).collect();
            assert_eq!(read, [(left, 0, 0, 2), (right, 0, 0, 1), (left, 1, 2, 5)]);
            comm.wait_signals(&all)?;
            comm.wait_signal(right)?;
            comm.wait_signals(&Signals::new())?;
            let waits = wire.calls();
            let lines: Vec<_> = waits.iter().map(line).collect();
            assert!(waits.iter().all(|call| call.function == ncclWaitSignal), "{lines:?}");
            assert_eq!(said(&waits, "nDesc"), [3, 1]);
            let (l, r) = (left.index() as i32, right.index() as i32);
            assert_eq!(awaited(&waits[0]), [[2, l, 0, 0], [1, r, 0, 0], [5, l, 2, 1]]);
            assert_eq!(awaited(&waits[1]), [[1, r, 0, 0]]);
            assert!(waits.iter().all(|call| call.pointer("stream") as u64 == wire.stream));
            assert!(waits.iter().all(|call| call.pointer("comm") as u64 == wire.comm));

            // In a group, consecutive waits.
            let mut x = comm.device().zeros::<f32>(4)?;
            let (mut one, mut other) = (Signals::new(), Signals::new());
            one.expect(left);
            other.expect(right);
            wire.calls();
            comm.group(|g| {
                g.wait_signals(&one)?;
                g.wait_signals(&other)?;
                g.signal(left)?;
                g.wait_signals(&one)?;
                g.all_reduce_in_place(&mut x, Sum)
            })?;
            let calls = wire.calls();
            let names: Vec<_> = calls.iter().map(|call| call.function.name()).collect();
            let wait = "ncclWaitSignal";
            // One-sided operations come first, in order; a single call needs no group.
            assert_eq!(names, [wait, "ncclSignal", wait, "ncclAllReduce"]);
            assert_eq!(awaited(&calls[0]), [[1, l, 0, 0], [1, r, 0, 0]]);
            // No rank raises these signals, so it cannot finish.
            comm.barrier()?;
            comm.abort();
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// Up to 2.30 a communicator's first one-sided call is collective: the first symmetric window makes
/// it.
#[test]
fn the_first_window_of_some_releases_sets_up_signals() {
    for (version, warm) in [("2.29.7", 1), ("2.30.7", 1), ("2.31.2", 0), ("2.32.3", 0)] {
        on(release(version), || {
            nccl().set_rma(true);
            Cuda::spmd(2, |place| {
                let mut comm = place.init()?;
                let rank = comm.rank().index() as i128;
                let wire = Wire::of(&comm)?;
                let buffer = comm.device().nccl_zeros::<f32>(4)?;
                let _local = comm.register_window_as(buffer, LocalOnly)?;
                assert!(wire.calls().iter().all(|call| call.function != ncclSignal));
                let first = comm.window::<f32>(4)?;
                let calls = wire.calls();
                let named = |function| {
                    let calls = calls.iter().filter(|call| call.function == function);
                    calls.cloned().collect::<Vec<_>>()
                };
                let (signals, waits) = (named(ncclSignal), named(ncclWaitSignal));
                assert_eq!((signals.len(), waits.len()), (warm, warm));
                for (signal, wait) in signals.iter().zip(&waits) {
                    let slot = [signal.int("peer"), signal.int("sigIdx"), signal.int("ctx")];
                    assert_eq!(slot, [rank, 0, 0]);
                    assert_eq!(awaited(wait), [[1, rank as i32, 0, 0]]);
                    assert_eq!(signal.pointer("stream"), wait.pointer("stream"));
                    // Not after the program's own work.
                    assert_ne!(signal.pointer("stream") as u64, wire.stream);
                    let at = |call: &Call| calls.iter().position(|other| other == call);
                    assert!(at(signal) < at(wait));
                }
                let _second = comm.window::<f32>(4)?;
                assert!(wire.calls().iter().all(|call| call.function != ncclSignal));
                comm.put_signal(first.slice(0..2), comm.ring(1), first.at(2))?;
                comm.wait_signal(comm.ring(1))?;
                comm.finish()
            })
            .map(drop)
        });
    }
}

/// A field of the configuration from 2.31 on. Earlier, connecting makes the first signal on every
/// rank.
#[test]
fn signals_before_the_first_window() {
    for (version, warm) in [("2.29.7", 1), ("2.30.7", 1), ("2.31.2", 0), ("2.32.3", 0)] {
        on(release(version), || {
            nccl().set_rma(true);
            Cuda::spmd(2, |place| {
                let (seat, device) = place.into_parts();
                let config = CommConfig::builder().early_signals(true).build();
                let comm = Communicator::builder().seat(seat).device(device);
                let mut comm = comm.config(config.clone()).build().connect()?;
                comm.barrier()?;
                assert_eq!((count(ncclSignal), count(ncclWaitSignal)), (2 * warm, 2 * warm));
                let made = calls(ncclCommInitRankConfig);
                let eager =
                    |call: &Call| call.field::<ncclConfig_t, c_int>("config", "rmaEagerInit");
                assert!(made.iter().all(|call| eager(call) == 1));
                comm.barrier()?;
                comm.signal(comm.ring(1))?;
                comm.wait_signal(comm.ring(1))?;
                // The window sets up nothing more.
                comm.barrier()?;
                let before = count(ncclSignal);
                comm.barrier()?;
                let _window = comm.window::<f32>(8)?;
                comm.barrier()?;
                assert_eq!(count(ncclSignal), before);
                comm.finish()
            })
            .map(drop)
        });
    }
    on(release("2.28.9"), || {
        let config = CommConfig::builder().early_signals(true).build();
        let comm = Communicator::builder().seat(Seat::local(1).remove(0)).device(Cuda::any(0)?);
        let outcome = comm.config(config).build().connect();
        let needs = "signals before the first window (ncclSignal) needs NCCL 2.29.";
        assert_error!(outcome, Unsupported, needs);
        Ok(())
    });
}

#[test]
fn releases_without_one_sided_operations() {
    on(release("2.28.9"), || {
        nccl().set_rma(true);
        let mut comm = alone()?;
        let window = comm.window::<f32>(8)?;
        clear();
        let needs =
            |what: &str| format!("{what} (ncclPutSignal) needs NCCL 2.29.2; 2.28.9 is loaded");
        let outcomes = [
            ("put_signal", comm.put_signal(window.slice(0..4), 0, window.at(4))),
            ("signal", comm.signal(0)),
            ("wait_signal", comm.wait_signal(0)),
        ];
        for (what, outcome) in outcomes {
            let error = assert_error!(outcome, Unsupported, needs(what), "TYPED_NCCL_LIB");
            assert!(error.is_refusal());
        }
        let mut x = comm.device().zeros::<f32>(4)?;
        clear();
        let outcome = comm.group(|g| {
            g.all_reduce_in_place(&mut x, Sum)?;
            g.signal(0)
        });
        assert_error!(outcome, Unsupported, needs("signal"));
        assert_silent("what a release does not have");
        comm.health()?;
        comm.finish()
    });
}

#[test]
fn machines_without_one_sided_operations() {
    for version in ["2.29.7", "2.32.3"] {
        on(release(version), || {
            let mut comm = alone()?;
            let window = comm.window::<f32>(8)?;
            clear();
            let needs = "put_signal needs GPUs that reach each other's memory, or a network";
            let outcome = comm.put_signal(window.slice(0..4), 0, window.at(4));
            assert_error!(outcome, Unsupported, needs, "this communicator has neither");
            assert_error!(comm.wait_signal(0), Unsupported, "this communicator has neither");
            assert_eq!((count(ncclPutSignal), count(ncclWaitSignal)), (0, 0));
            assert_eq!(cuda().called(), [""; 0]);
            comm.health()?;
            comm.finish()
        });
    }
}

/// One rank fails between the ranks' agreements: the other does not wait for it.
#[test]
fn setting_up_signals_fails_on_one_rank() {
    on(release("2.30.7"), || {
        nccl().set_rma(true);
        fails_on_one_rank(ncclSignal, ncclResult_t::ncclSystemError)?;
        fails_on_one_rank(ncclWaitSignal, ncclResult_t::ncclInternalError)?;
        fails_on_one_rank(ncclCommQueryProperties, ncclResult_t::ncclUnhandledCudaError)
    });
}

/// Rank 1 waits for a signal of each of two slots, and for another one of the second. An abort
/// cannot free a stream that waits for a signal, so rank 0 raises signals when it ends. Returns the
/// resulting NCCL calls.
fn raised_at_its_end(
    end: impl Fn(Communicator<Cuda<Scoped<'_>>>, SignalSlot) -> Result<Vec<Call>> + Sync,
) -> Result<Vec<Call>> {
    nccl().set_rma(true);
    let together = Barrier::new(2);
    let calls = Cuda::spmd(2, |place| {
        let mut comm = configured(place)?;
        let _window = comm.window::<f64>(4)?;
        let slot = comm.signal_in(1, 2)?;
        if comm.rank().index() == 0 {
            together.wait();
            let calls = end(comm, slot)?;
            together.wait();
            return Ok(calls);
        }
        let mut due = Signals::new();
        due.expect(0_usize).expect_in(0_usize, slot, 2);
        comm.wait_signals(&due)?;
        together.wait();
        together.wait();
        let error = comm.wait_signal(0).expect_err("rank 0 is gone");
        assert!(matches!(error, Error::PeerFailed(_)), "{error}");
        Ok::<_, Error>(Vec::new())
    })?;
    Ok(calls.concat())
}

#[test]
fn a_rank_that_aborts_raises_what_others_wait_for() {
    on(NEWEST, || {
        let calls = raised_at_its_end(|comm, _| {
            comm.signal(1)?;
            clear();
            comm.abort();
            Ok(nccl().log())
        })?;
        let asks = ncclCommGetAsyncError;
        let calls: Vec<_> = calls.into_iter().filter(|call| call.function != asks).collect();
        let names: Vec<_> = calls.iter().map(|call| call.function.name()).collect();
        assert_eq!(names, ["ncclSignal", "ncclSignal", "ncclCommAbort"]);
        assert_eq!(said(&calls[..2], "peer"), [1, 1]);
        assert_eq!(said(&calls[..2], "sigIdx"), [2, 2]);
        assert_eq!(said(&calls[..2], "ctx"), [1, 1]);
        Ok(())
    });
}

/// Its enqueued signals may never run, so it raises all that others wait for, not only the rest.
#[test]
fn a_rank_that_aborts_raises_what_is_still_on_its_way() {
    on(NEWEST, || {
        let calls = raised_at_its_end(|comm, slot| {
            let stream = handle(comm.stream())?;
            cuda().hold(stream);
            comm.signal(1)?;
            comm.signal_slot(1, slot)?;
            clear();
            comm.abort();
            let calls = nccl().log();
            cuda().release(stream);
            let is_held = |call: &Call| call.pointer("stream") as u64 == stream;
            assert!(calls.iter().all(|call| call.function != ncclSignal || !is_held(call)));
            Ok(calls)
        })?;
        let (raised, others): (Vec<_>, Vec<_>) =
            calls.iter().partition(|call| call.function == ncclSignal);
        let slot = |call: &&Call| [call.int("peer"), call.int("ctx"), call.int("sigIdx")];
        let mut slots: Vec<_> = raised.iter().map(slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, [[1, 0, 0], [1, 1, 2], [1, 1, 2]]);
        assert_eq!(others.iter().filter(|call| call.function == ncclCommAbort).count(), 1);
        Ok(())
    });
}

/// A program that waits for each signal on a new stream.
#[test]
fn streams_of_waits_do_not_add_up() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let mut comm = alone()?;
        let window = comm.window::<f64>(4)?;
        let step = || {
            let stream = comm.device().stream()?;
            comm.on(&stream).signal(0)?;
            comm.on(&stream).wait_signal(0)
        };
        (0..50).try_for_each(|_| step())?;
        let most = cuda().live();
        (0..100).try_for_each(|_| step())?;
        let live = cuda().live();
        assert_eq!((live.streams, live.events), (most.streams, most.events));
        drop(window);
        comm.finish()
    });
}
