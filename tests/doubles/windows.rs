//! Windows, puts, signals and waits; what older releases have of them.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::Barrier;

use fake_cuda::Code;
use fake_nccl::{Call, Value};
use nccl_sys::Function::{
    ncclCommAbort, ncclCommDeregister, ncclCommInitRankConfig, ncclCommQueryProperties,
    ncclCommRegister, ncclCommWindowDeregister, ncclCommWindowRegister, ncclGetCftDeviceLeInfo,
    ncclGetMultimemDeviceLeInfo, ncclGetMultimemDevicePointer, ncclGetPeerDeviceLeInfo,
    ncclPutSignal, ncclSignal, ncclWaitSignal,
};
use nccl_sys::{ncclConfig_t, ncclResult_t};
use typed_nccl::{
    AnyDevice, CftCounted, CommConfig, Communicator, Cuda, Error, GinOnly, LocalOnly, Place,
    Result, Seat, Signals, Sum, SymmetricStrict, TeamOf, tag,
};

use crate::common::{
    Wire, address, alone, assert_silent, calls, clear, connect, count, handle, line, says, until,
};
use crate::scenario::{NEWEST, cuda, nccl, on, release};

/// Two contexts of three signals.
fn configured<T>(place: Place<Cuda<T>>) -> Result<Communicator<Cuda<T>>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().contexts(2).signals(3).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// What the calls of a function said of an argument.
fn said(calls: &[Call], name: &str) -> Vec<i128> {
    calls.iter().map(|call| call.int(name)).collect()
}

/// What a wait waits for: how many, from whom, which signal, in which context.
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
fn registration_names_the_memory_and_its_kind() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let wire = Wire::of(&comm)?;
            let window = comm.window::<f32>(1000)?;
            let buffer = comm.device().nccl_zeros::<f32>(10)?;
            let start = address(comm.stream(), &buffer)?;
            let local = comm.register_window_as(buffer, LocalOnly)?;
            let buffer = comm.device().nccl_zeros::<u8>(3 << 20)?;
            let strict = comm.register_window_as(buffer, SymmetricStrict)?;
            let all = wire.calls().into_iter();
            let calls: Vec<_> = all.filter(|c| c.function == ncclCommWindowRegister).collect();
            assert!(calls.iter().all(|call| call.pointer("comm") as u64 == wire.comm));
            assert_eq!(said(&calls, "size"), [4000, 40, 3 << 20]);
            assert_eq!(said(&calls, "winFlags"), [1, 0, 3]);
            let memory: Vec<_> = calls.iter().map(|call| call.pointer("buff")).collect();
            assert_eq!(memory[0], window.user_ptr().addr());
            assert_eq!((memory[1] as u64, memory[1]), (start, local.user_ptr().addr()));
            assert_eq!(memory[2], strict.user_ptr().addr());
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn closing_deregisters_on_every_rank() {
    on(NEWEST, || {
        Cuda::spmd(3, |place| {
            let mut comm = place.init()?;
            let (first, second) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
            let start = second.user_ptr().addr() as u64;
            let wire = Wire::of(&comm)?;
            let mut buffer = comm.close(second)?;
            let deregistered: Vec<_> = wire.calls();
            let functions: Vec<_> = deregistered.iter().map(|call| call.function).collect();
            assert_eq!(functions, [ncclCommWindowDeregister]);
            assert_eq!(deregistered[0].pointer("comm") as u64, wire.comm);
            // The memory goes on.
            assert_eq!(address(comm.stream(), &buffer)?, start);
            comm.all_reduce_in_place(&mut buffer, Sum)?;
            comm.barrier()?;
            drop(first);
            assert_eq!(nccl().live().windows, 3, "kept until the communicator ends");
            comm.barrier()?;
            comm.finish()
        })?;
        assert_eq!((count(ncclCommWindowDeregister), nccl().live().windows), (3, 0));
        Ok(())
    });
}

#[test]
fn without_windows() {
    on(NEWEST, || {
        nccl().set_windows(false);
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let needs = "a window needs GPUs that reach each other's memory, or a network";
            let found = "NCCL registered none on this communicator";
            let outcome = comm.window::<f32>(8);
            assert_error!(outcome, Unsupported, needs, found);
            let mut x = comm.device().zeros::<f32>(8)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn a_registration_that_fails() {
    on(NEWEST, || {
        nccl().fail(ncclCommWindowRegister, ncclResult_t::ncclSystemError);
        let failed = Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let error = comm.window::<f32>(8).expect_err("one of the two");
            let failed = matches!(error, Error::NcclFailed(_));
            match failed {
                true => says(&error, &["ncclCommWindowRegister", "ncclSystemError"]),
                false => assert!(matches!(error, Error::PeerFailed(_)), "{error}"),
            }
            assert!(comm.health().is_err());
            Ok::<_, Error>(failed)
        })?;
        assert_eq!(failed.iter().filter(|failed| **failed).count(), 1);
        assert_eq!((count(ncclCommAbort), nccl().live().communicators), (2, 0));
        Ok(())
    });
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
            // Nobody awaited the first signal; the other one nobody awaits anywhere.
            let error = comm.finish().expect_err("signals are left");
            says(&error, &["did not await all signals on World: 1 from rank", "; 1 from rank"]);
            says(&error, &["raised at tests/doubles/windows.rs:", "the communicator has ended"]);
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

            // In a group, those that follow each other.
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
            // What is one-sided comes first, in order; one call needs no group.
            assert_eq!(names, [wait, "ncclSignal", wait, "ncclAllReduce"]);
            assert_eq!(awaited(&calls[0]), [[1, l, 0, 0], [1, r, 0, 0]]);
            // Nobody raises what these waits are for, so it cannot finish.
            comm.barrier()?;
            comm.abort();
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// Up to 2.30 the first one-sided call of a communicator is collective: the first symmetric window
/// makes it.
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
                    // Not behind the program's own work.
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

/// A field of the configuration from 2.31 on; before, connecting makes the first signal on every rank.
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

#[test]
fn kinds_that_a_release_does_not_have() {
    on(release("2.28.9"), || {
        let mut comm = alone()?;
        let buffer = comm.device().nccl_zeros::<f32>(8)?;
        let outcome = comm.register_window_as(buffer, SymmetricStrict);
        assert_error!(outcome, Unsupported, "a strictly ordered window needs NCCL 2.29.7");
        let buffer = comm.device().nccl_zeros::<f32>(8)?;
        let outcome = comm.register_window_as(buffer, GinOnly);
        assert_error!(outcome, Unsupported, "a window of this kind needs NCCL 2.32.3; 2.28.9");
        assert_eq!(count(ncclCommWindowRegister), 0);
        comm.finish()
    });
}

/// What only kernels use: they are given handles.
#[test]
fn kernels_are_given_handles() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let buffer = |comm: &Communicator<Cuda<AnyDevice>>| comm.device().nccl_zeros::<f32>(64);
        let gin = comm.register_window_as(buffer(&comm)?, GinOnly)?;
        let counted = comm.register_window_as(buffer(&comm)?, CftCounted);
        assert_error!(counted, Unsupported, "a `CftCounted` window needs hardware", "`Symmetric`");
        assert_eq!(count(ncclCommWindowRegister), 1);
        nccl().set_counted(true);
        let counted = comm.register_window_as(buffer(&comm)?, CftCounted)?;
        let plain = comm.window::<f32>(64)?;
        assert_eq!(said(&calls(ncclCommWindowRegister), "winFlags"), [4, 8, 1]);
        let handle = |found: Result<Option<NonNull<c_void>>>| {
            Ok::<_, Error>(found?.expect("NCCL has one").addr().get())
        };
        let handles = [
            handle(comm.window_handle(&gin))?,
            handle(comm.window_handle(&counted))?,
            handle(comm.window_handle(&plain))?,
        ];

        // The double has no endpoints.
        assert_eq!(comm.endpoint_at(counted.at(3), 0)?, None);
        let team = comm.team(TeamOf::Counted)?.expect("there is one");
        assert_eq!((team.rank, team.size, team.first), (0, 1, 0));
        assert_eq!(comm.endpoint_in(counted.at(4), team, 0)?, None);
        assert_eq!(comm.multicast_endpoint(counted.at(5))?, None);
        let [peer] = &calls(ncclGetPeerDeviceLeInfo)[..] else { panic!("one call") };
        assert_eq!((peer.pointer("window"), peer.int("offset")), (handles[1], 12));
        let [member] = &calls(ncclGetCftDeviceLeInfo)[..] else { panic!("one call") };
        assert_eq!((member.int("offset"), member.int("peerCft")), (16, 0));
        let [all] = &calls(ncclGetMultimemDeviceLeInfo)[..] else { panic!("one call") };
        assert_eq!(all.int("offset"), 20);
        let outcome = comm.endpoint_at(counted.at(65), 0);
        assert_error!(outcome, BadRange, "the range 65..65 reaches past a buffer of 64");
        assert_error!(comm.endpoint_at(counted.at(0), 1), NoSuchRank, "endpoint_at");
        assert_error!(comm.endpoint_in(counted.at(0), team, 1), BadRange, "1..2");
        for of in [TeamOf::Rail, TeamOf::CountedLsa, TeamOf::CountedMulticast] {
            assert!(comm.team(of)?.is_some_and(|team| team.size == 1));
        }
        // Nor multicast.
        assert_eq!(comm.multimem_ptr_in(&plain, NonNull::dangling())?, None);
        assert_eq!(count(ncclGetMultimemDevicePointer), 1);

        // A communicator's handles are its own.
        let theirs = alone()?;
        assert_error!(theirs.window_handle(&gin), WrongCommunicator, "a window of World#");
        theirs.finish()?;
        clear();
        comm.close(plain)?;
        comm.close(counted)?;
        comm.close(gin)?;
        let closed: Vec<_> =
            calls(ncclCommWindowDeregister).iter().map(|call| call.pointer("win")).collect();
        assert_eq!(closed, [handles[2], handles[1], handles[0]]);
        comm.finish()
    });
    on(release("2.30.7"), || {
        let mut comm = alone()?;
        let window = comm.window::<f32>(64)?;
        assert!(comm.window_handle(&window)?.is_some());
        assert_eq!(comm.team(TeamOf::Counted)?, None);
        assert!(comm.team(TeamOf::Rail)?.is_some());
        let needs = "an endpoint of a window (ncclGetPeerDeviceLeInfo) needs NCCL 2.";
        assert_error!(comm.endpoint_at(window.at(0), 0), Unsupported, needs);
        comm.health()?;
        comm.finish()
    });
}

tag!(Also);

/// Each communicator has a registration of its own, and keeps the memory for it.
#[test]
fn one_memory_in_windows_of_two_communicators() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let mut comm = alone()?;
        let mut other = comm.split::<Also>(0, 0)?;
        let window = comm.window::<f64>(100)?;
        let shared = window.also_in(&mut other)?;
        let registered = calls(ncclCommWindowRegister);
        let [first, second] = &registered[..] else { panic!("{registered:?}") };
        assert_eq!(first.pointer("buff"), second.pointer("buff"));
        assert_ne!(first.pointer("comm"), second.pointer("comm"));
        let start = window.user_ptr().addr();
        clear();
        comm.put_signal(window.slice(0..10), 0, window.at(10))?;
        other.put_signal(shared.of(&window)?.slice(20..30), 0, shared.at(30))?;
        let puts = calls(ncclPutSignal);
        let at = |put: &Call| (put.pointer("localbuff") - start, put.int("peerWinOffset"));
        assert_eq!((at(&puts[0]), at(&puts[1])), ((0, 80), (160, 240)));
        let [theirs, ours] = [&puts[1], &puts[0]].map(|put| put.pointer("peerWin"));
        assert_ne!(ours, theirs);
        comm.wait_signal(0)?;
        other.wait_signal(0)?;

        // The memory of the one that is closed stays the other's.
        drop(comm.close(window)?);
        let [closed] = &calls(ncclCommWindowDeregister)[..] else { panic!("one call") };
        assert_eq!(closed.pointer("win"), ours);
        let given = |comm: &Communicator<Cuda<AnyDevice>>| {
            let buffer = comm.device().nccl_zeros::<f64>(100)?;
            address(comm.stream(), &buffer)
        };
        assert_ne!(given(&comm)? as usize, start, "it is in a window still");
        other.close_shared(shared)?;
        assert_eq!(calls(ncclCommWindowDeregister)[1].pointer("win"), theirs);
        other.finish()?;
        comm.finish()?;
        assert_eq!(nccl().live().windows, 0);
        Ok(())
    });
}

#[test]
fn releases_without_windows() {
    on(release("2.26.5"), || {
        let mut comm = alone()?;
        let outcome = comm.window::<f32>(8);
        assert_error!(outcome, Unsupported, "a window (ncclCommWindowRegister) needs NCCL 2.27.");
        comm.health()?;
        comm.finish()
    });
}

#[test]
fn registered_buffers() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let x = comm.device().nccl_zeros::<i32>(50)?;
        let start = address(comm.stream(), &x)?;
        let registered = comm.register_buffer(&x)?;
        let calls = calls(ncclCommRegister);
        let [call] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!((call.pointer("buff") as u64, call.int("size")), (start, 200));
        // The memory stays until it is deregistered.
        drop(x);
        let given = |comm: &Communicator<Cuda<AnyDevice>>| {
            let y = comm.device().nccl_zeros::<i32>(50)?;
            address(comm.stream(), &y)
        };
        assert_ne!(given(&comm)?, start);
        let handle = registered.handle().expect("NCCL keeps one");
        comm.deregister_buffer(registered)?;
        let calls = crate::common::calls(ncclCommDeregister);
        assert_eq!(calls.iter().map(|c| c.pointer("handle") as u64).collect::<Vec<_>>(), [handle]);

        assert_eq!((count(ncclCommRegister), count(ncclCommDeregister)), (1, 1));
        comm.finish()
    });
}

/// One rank fails between the ranks' agreements: the other does not wait for it.
#[test]
fn setting_up_signals_fails_on_one_rank() {
    on(release("2.30.7"), || {
        for (function, failure) in [
            (ncclSignal, ncclResult_t::ncclSystemError),
            (ncclWaitSignal, ncclResult_t::ncclInternalError),
            (ncclCommQueryProperties, ncclResult_t::ncclUnhandledCudaError),
        ] {
            clear();
            nccl().set_rma(true);
            nccl().fail(function, failure);
            let failed = Cuda::spmd(2, |place| {
                let mut comm = connect(place, 10_000)?;
                let error = comm.window::<f32>(8).expect_err("one of the two");
                let failed = matches!(error, Error::NcclFailed(_));
                match failed {
                    true => says(&error, &[function.name(), failure.name().expect("declared")]),
                    false => assert!(matches!(error, Error::PeerFailed(_)), "{error}"),
                }
                assert!(comm.health().is_err());
                Ok::<_, Error>(failed)
            })?;
            assert_eq!(failed.iter().filter(|failed| **failed).count(), 1);
            assert_eq!((count(ncclCommAbort), nccl().live().communicators), (2, 0));
        }
        Ok(())
    });
}

/// A stream that waits for a signal cannot be freed by an abort.
#[test]
fn a_rank_that_aborts_raises_what_others_wait_for() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = configured(place)?;
            let _window = comm.window::<f64>(4)?;
            let slot = comm.signal_in(1, 2)?;
            if comm.rank().index() == 1 {
                let mut due = Signals::new();
                due.expect(0_usize).expect_in(0_usize, slot, 2);
                comm.wait_signals(&due)?;
                together.wait();
                together.wait();
                let error = comm.wait_signal(0).expect_err("rank 0 is gone");
                assert!(matches!(error, Error::PeerFailed(_)), "{error}");
                return Ok(());
            }
            together.wait();
            comm.signal(1)?;
            clear();
            comm.abort();
            let mut calls = nccl().log();
            calls.retain(|call| call.function != nccl_sys::Function::ncclCommGetAsyncError);
            let names: Vec<_> = calls.iter().map(|call| call.function.name()).collect();
            together.wait();
            assert_eq!(names, ["ncclSignal", "ncclSignal", "ncclCommAbort"]);
            assert_eq!(said(&calls[..2], "peer"), [1, 1]);
            assert_eq!(said(&calls[..2], "sigIdx"), [2, 2]);
            assert_eq!(said(&calls[..2], "ctx"), [1, 1]);
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// What it has enqueued may never be done: it raises all that others wait for, not only the rest.
#[test]
fn a_rank_that_aborts_raises_what_is_still_on_its_way() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = configured(place)?;
            let _window = comm.window::<f64>(4)?;
            let slot = comm.signal_in(1, 2)?;
            if comm.rank().index() == 1 {
                let mut due = Signals::new();
                due.expect(0_usize).expect_in(0_usize, slot, 2);
                comm.wait_signals(&due)?;
                together.wait();
                together.wait();
                return Ok(());
            }
            together.wait();
            let stream = handle(comm.stream())?;
            cuda().hold(stream);
            comm.signal(1)?;
            comm.signal_slot(1, slot)?;
            clear();
            comm.abort();
            let raised = calls(ncclSignal);
            let aborted = count(ncclCommAbort);
            cuda().release(stream);
            together.wait();
            let slot = |call: &Call| [call.int("peer"), call.int("ctx"), call.int("sigIdx")];
            let mut slots: Vec<_> = raised.iter().map(slot).collect();
            slots.sort_unstable();
            assert_eq!(slots, [[1, 0, 0], [1, 1, 2], [1, 1, 2]]);
            assert!(raised.iter().all(|call| call.pointer("stream") as u64 != stream));
            assert_eq!(aborted, 1);
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// What was booked is not called: the ranks are no longer in step.
#[test]
fn a_failure_before_a_call_of_nccls_is_the_end() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 20_000)?;
            let window = comm.window::<f64>(4)?;
            let peer = comm.ring(1);
            comm.put_signal(window.slice(0..2), peer, window.at(2))?;
            comm.wait_signal(peer)?;
            comm.sync(comm.stream())?;
            together.wait();
            if comm.rank().index() == 0 {
                let other = comm.device().stream()?;
                // One stream's one-sided operations come after another's, by an event.
                cuda().fail("cuEventRecord", Code::UNKNOWN);
                let failed = comm.on(&other).signal(peer);
                assert_error!(failed, CudaFailed, "recording an event on cuda:0");
                assert_error!(comm.health(), CudaFailed, "recording an event");
                assert_error!(comm.signal(peer), CudaFailed, "recording an event");
                return Ok(());
            }
            until("rank 0 tells", || comm.health().is_err());
            says(&comm.health().expect_err("told"), &["rank 0 left", "recording an event"]);
            Ok::<_, Error>(())
        })
        .map(drop)
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
